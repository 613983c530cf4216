//! A simulation of two tenants, of which one does what it can.

use proptest::prelude::*;

use super::*;

const LIMITS: StoreLimits = StoreLimits {
    tail_bytes: 64 * 1024,
    end_bytes: 64 * 1024,
    reads: QueueLimits { running: 4, waiting: 60, waiting_per_namespace: 40 },
    redactions: QueueLimits { running: 2, waiting: 60, waiting_per_namespace: 40 },
};

/// What the hostile tenant does in one turn.
#[derive(Clone, Debug)]
enum Act {
    /// Its objects ask for these pods under a policy of the object's own.
    Ask { pods: std::ops::Range<u128>, policies: std::ops::Range<u32>, life: i32 },
    /// One of its reads hangs until this act.
    Release,
}

fn act() -> impl Strategy<Value = Act> {
    let ask = (0..300_u128, 1..60_u128, 1..980_u32, 1..20_u32, 0..3_i32).prop_map(|(pod, pods, first, count, life)| {
        Act::Ask { pods: pod..pod + pods, policies: first..first + count, life }
    });
    prop_oneof![6 => ask, 1 => Just(Act::Release)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]
    /// Whatever one tenant asks for, also of the other's pods, the other's logs are read within a few turns and stay, each
    /// log is read a bounded number of times, and all bounds hold.
    #[test]
    fn another_tenants_logs_are_read_soon_and_stay(
        acts in prop::collection::vec(act(), 1..60),
        begins in 0..30_usize,
        hangs in any::<bool>(),
    ) {
        const OWN: std::ops::Range<u128> = 0..4;
        let (mut store, start) = (TailStore::new(LIMITS), Instant::now());
        let other = asker("other", "cluster");
        let own_policy = policy(20, 4096);
        let log = |read: &LogRead| result(&"a log\n".repeat(read.need.lines()), read, None);
        let mut under_way = Vec::new();
        let mut asked_for = 0;
        let mut reads: HashMap<ContainerInstance, usize> = HashMap::new();
        for (turn, act) in acts.iter().cycle().take(begins + 60).enumerate() {
            let now = start + Duration::from_millis(100) * u32::try_from(turn).unwrap_or(0);
            match act {
                Act::Ask { pods, policies, life } => {
                    for (pod, lines) in pods.clone().zip(policies.clone().cycle()) {
                        let policy = policy(lines, 256 + 60 * lines);
                        let name = format!("object-{lines}");
                        store.ask(&request_for(pod, *life, &policy), &asker("hostile", &name), now);
                    }
                }
                Act::Release => under_way.clear(),
            }
            if turn >= begins {
                asked_for += 1;
                for pod in OWN {
                    store.ask(&request_for(pod, 0, &own_policy), &other, now);
                }
            }
            // As many reads end as may run concurrently.
            for _ in 0..LIMITS.reads.running {
                let Some((read, (), permit)) = store.next_read(now, |_| Some(())) else { break };
                *reads.entry(read.instance.clone()).or_default() += 1;
                let is_others = u128::from(read.instance.uid) >= OWN.end;
                if hangs && is_others && under_way.len() < 8 {
                    under_way.push((read, permit));
                    continue;
                }
                store.read_ended(&read.instance, log(&read), now);
            }
            for _ in 0..LIMITS.redactions.running {
                if let Some(redaction) = store.next_redaction() {
                    store.redacted(redaction.run());
                }
            }
            prop_assert!(store.tails.total() <= LIMITS.tail_bytes && store.ends.total() <= LIMITS.end_bytes);
            prop_assert!(store.reads.waiting() <= 60 && store.redactions.waiting() <= 60);
            if asked_for > 20 {
                for pod in OWN {
                    let tail = store.get(&request_for(pod, 0, &own_policy), &other.namespace);
                    prop_assert!(
                        tail.as_ref().is_some_and(|tail| tail.text.lines().count() == 20),
                        "pod {pod}, {asked_for} turns after: {tail:?}"
                    );
                }
            }
        }
        for (instance, count) in reads {
            // The first read, a deeper one, and one for the other tenant, but none again within these nine seconds.
            prop_assert!(count <= 3, "{count} reads of {instance:?}");
        }
    }
}

#[test]
fn ten_thousand_pods_with_twenty_containers_ask_at_once() {
    let (mut store, now, policy) = (TailStore::default(), Instant::now(), policy(20, 4096));
    let limits = StoreLimits::default();
    let mut is_cut = 0;
    for container in 0..200_000 {
        let request = request_for(container, 0, &policy);
        is_cut += usize::from(!store.ask(&request, &asker("hostile", "cluster"), now).is_lacking);
        assert!(text(&store, &request).is_none_or(|text| text.is_empty()));
    }
    assert_eq!(store.reads.waiting(), limits.reads.waiting_per_namespace);
    assert_eq!(is_cut, 200_000 - limits.reads.waiting_per_namespace);
    assert!(store.lives.len() <= limits.tail_bytes / OVERHEAD, "{}", store.lives.len());
    assert!(store.tails.total() <= limits.tail_bytes);
    let own = request_for(1_000_000, 0, &policy);
    assert!(store.ask(&own, &asker("other", "cluster"), now).is_lacking);
    let order: Vec<_> = (0..2).filter_map(|_| store.next_read(now, |_| Some(()))).map(|(read, ..)| read).collect();
    assert!(order.iter().any(|read| read.instance == own.read.instance), "one of the first two");
}

#[test]
fn a_container_that_restarts_a_lot_keeps_its_recent_logs() {
    let (mut store, start, policy) = (TailStore::default(), Instant::now(), policy(20, 4096));
    let (hostile, other) = (asker("hostile", "cluster"), asker("other", "cluster"));
    let own = request_for(2, 0, &policy);
    let mut reads = 0;
    for second in 0..1000_u16 {
        let now = start + Duration::from_secs(second.into());
        store.ask(&request_for(1, second.into(), &policy), &hostile, now);
        store.ask(&own, &other, now);
        reads += run(&mut store, now, |read| result(&"a log\n".repeat(20), read, None));
        if second % 60 == 0 {
            store.sweep();
        }
        assert!(store.lives.len() <= 200, "{}", store.lives.len());
        assert!(store.get(&own, &other.namespace).is_some_and(|tail| !tail.text.is_empty()));
    }
    assert_eq!(reads, 1001, "once each");
}
