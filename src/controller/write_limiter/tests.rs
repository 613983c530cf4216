use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const LARGE: usize = 512 << 10;

fn key(namespace: &str, name: usize) -> NamespacedName {
    NamespacedName::new(namespace, name.to_string())
}

/// Takes as many permits as one namespace may have.
fn fill(limiter: &mut WriteLimiter, namespace: &str, is_retry: bool, now: Instant) -> Vec<WritePermit> {
    std::iter::from_fn(|| limiter.acquire(&key(namespace, 0), is_retry, 0, now)).collect()
}

fn allows(limiter: &WriteLimiter, namespace: &str, bytes: usize, now: Instant) -> bool {
    matches!(limiter.writes.answer(namespace, false, bytes, now), Answer::Yes { .. })
}

/// How many writes are under way, and their bytes.
fn under_way(limiter: &WriteLimiter, namespace: &str) -> (usize, usize) {
    sum(limiter.writes.under_way().filter(|write| write.namespace.starts_with(namespace)))
}

#[test]
fn a_namespace_whose_writes_hang_leaves_permits_for_others() {
    let now = Instant::now();
    let mut limiter = WriteLimiter::default();
    let mut hanging = fill(&mut limiter, "stuck", false, now);
    assert_eq!(hanging.len(), PER_NAMESPACE);
    limiter.enqueue(key("stuck", 100), false, 0);
    assert!(allows(&limiter, "fine", 0, now));
    assert_eq!((limiter.next_waiting(now), limiter.next_at(now)), (None, None));
    limiter.release(hanging.pop().unwrap(), now);
    assert_eq!((limiter.next_at(now), limiter.next_waiting(now)), (Some(now), Some(key("stuck", 100))));
    assert_eq!(limiter.next_waiting(now), None, "each object waits once");
    hanging.into_iter().for_each(|permit| limiter.release(permit, now));
    assert!(limiter.is_idle() && limiter.writes.present.is_empty());
}

#[test]
fn retries_leave_permits_for_first_writes() {
    let now = Instant::now();
    let mut limiter = WriteLimiter::default();
    let taken = |limiter: &mut WriteLimiter, namespaces: std::ops::Range<u32>, is_retry| -> usize {
        namespaces.map(|namespace| fill(limiter, &format!("n{namespace}"), is_retry, now).len()).sum()
    };
    let retries = taken(&mut limiter, 0..100, true);
    assert_eq!(retries, RETRIES);
    limiter.enqueue(key("other", 1), true, 0);
    limiter.enqueue(key("other", 2), false, 0);
    assert_eq!(limiter.next_waiting(now), Some(key("other", 2)), "it overtakes a retry that may not write yet");
    assert_eq!(retries + taken(&mut limiter, 100..200, false), ALL);
    assert!(!allows(&limiter, "other", 0, now));
}

#[test]
fn large_writes_are_limited_in_bytes() {
    const SIZE: usize = 200 << 10;
    let now = Instant::now();
    let mut limiter = WriteLimiter::default();
    let mut permits = Vec::new();
    for namespace in 0..100 {
        let key = key(&format!("n{namespace}"), 0);
        permits.extend(std::iter::from_fn(|| limiter.acquire(&key, false, SIZE, now)));
    }
    assert_eq!((under_way(&limiter, "n0"), under_way(&limiter, "")), ((1, SIZE), (2, 2 * SIZE)));
    limiter.enqueue(key("n99", 1), false, SIZE);
    assert_eq!((limiter.next_waiting(now), limiter.next_at(now)), (None, Some(now + LONGEST)));
    assert!(allows(&limiter, "n98", SMALL, now), "a small one does not wait for large ones that may hang");
    limiter.release(permits.remove(0), now);
    assert_eq!(limiter.next_waiting(now), Some(key("n99", 1)));

    // Those that hang are not waited for, up to the limit that bounds the memory.
    let mut later = now;
    for namespace in 2..100 {
        later += LONGEST;
        permits.extend(limiter.acquire(&key(&format!("n{namespace}"), 0), false, SIZE, later));
    }
    assert_eq!(under_way(&limiter, ""), (11, 11 * SIZE));
    limiter.enqueue(key("n98", 1), false, SIZE);
    assert_eq!(limiter.next_at(later), None, "only the end of another write helps");
    permits.into_iter().for_each(|permit| limiter.release(permit, later));
    assert_eq!(limiter.next_at(later), Some(later));

    let mut limiter = WriteLimiter::default();
    assert!(limiter.acquire(&key("a", 0), false, usize::MAX, now).is_some(), "a single write is always allowed");
    assert!(limiter.acquire(&key("b", 0), false, SMALL + 1, now).is_none());
}

#[test]
fn deleted_objects_do_not_wait() {
    let mut limiter = WriteLimiter::default();
    for name in 0..1_000 {
        limiter.enqueue(key("shop", name), false, 0);
        limiter.forget(&key("shop", name));
    }
    assert!(limiter.is_idle());
}

/// The objects of a namespace, each of which changes all the time.
struct Load {
    namespace: &'static str,
    objects: usize,
    bytes: usize,
    /// How long a write takes.
    takes: Duration,
}

/// What the limits did to a namespace.
#[derive(Clone, Copy, Debug, Default)]
struct Effect {
    writes: u32,
    /// How many of its writes were under way, on average.
    under_way: f64,
    /// The longest time that an object waited for a permit.
    longest_wait: Duration,
}

/// Writes each status again a second after its last write began, for a minute, and measures from the tenth second on.
fn simulate(loads: &[Load]) -> Vec<Effect> {
    let start = Instant::now();
    let (from, end) = (start + Duration::from_secs(10), start + Duration::from_secs(70));
    let mut limiter = WriteLimiter::default();
    let mut effects = vec![Effect::default(); loads.len()];
    // When an object has something to write, those that wait with the time since when, and the writes under way.
    let objects = |load: usize| (0..loads[load].objects).map(move |name| (start, load, name));
    let mut due: Vec<(Instant, usize, usize)> = (0..loads.len()).flat_map(objects).collect();
    let mut waiting = HashMap::new();
    let mut under_way: Vec<(Instant, usize, usize, WritePermit)> = Vec::new();
    let mut now = start;
    while now < end {
        while let Some(place) = under_way.iter().position(|(ends, ..)| *ends <= now) {
            let (ends, load, name, permit) = under_way.swap_remove(place);
            let began = ends - loads[load].takes;
            due.push((began + Duration::from_secs(1), load, name));
            limiter.release(permit, now);
        }
        let mut begin = |limiter: &mut WriteLimiter, load: usize, name: usize, since: Instant| {
            let Load { namespace, bytes, takes, .. } = loads[load];
            let permit = limiter.acquire(&key(namespace, name), false, bytes, now)?;
            under_way.push((now + takes, load, name, permit));
            let effect = &mut effects[load];
            if now >= from {
                effect.writes += 1;
                effect.under_way += takes.as_secs_f64() / (end - from).as_secs_f64();
                effect.longest_wait = effect.longest_wait.max(now - since);
            }
            Some(())
        };
        while let Some(key) = limiter.next_waiting(now) {
            let (load, name, since) = waiting.remove(&key).unwrap();
            begin(&mut limiter, load, name, since).expect("an object that may write gets a permit");
        }
        for (at, load, name) in due.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>() {
            if begin(&mut limiter, load, name, at).is_none() {
                let key = key(loads[load].namespace, name);
                limiter.enqueue(key.clone(), false, loads[load].bytes);
                waiting.insert(key, (load, name, at));
            }
        }
        let ends = under_way.iter().map(|(ends, ..)| *ends);
        let next = ends.chain(due.iter().map(|(at, ..)| *at)).chain(limiter.next_at(now)).min().unwrap();
        now = now.max(next);
    }
    effects
}

fn attacker(namespace: &'static str) -> Load {
    Load { namespace, objects: 20, bytes: LARGE, takes: Duration::from_millis(150) }
}

#[test]
fn large_statuses_leave_half_of_the_server_to_others() {
    for millis in [50, 150, 600] {
        let effects = simulate(&[Load { takes: Duration::from_millis(millis), ..attacker("a") }]);
        assert!((0.4..0.7).contains(&effects[0].under_way), "{millis} ms: {effects:?}");
    }
    let many = ["a", "b", "c", "d", "e", "f"].map(attacker);
    let all: f64 = simulate(&many).iter().map(|own| own.under_way).sum();
    assert!((0.5..1.6).contains(&all), "{all}");
}

#[test]
fn namespaces_with_large_statuses_take_turns() {
    let mut loads = Vec::from(["a", "b", "c", "d", "e", "f"].map(attacker));
    loads.push(Load { objects: 1, ..attacker("modest") });
    let effects = simulate(&loads);
    let writes: Vec<u32> = effects.iter().map(|own| own.writes).collect();
    let (least, most) = (writes[..6].iter().min().unwrap(), writes[..6].iter().max().unwrap());
    assert!(most - least <= most / 10, "{writes:?}");
    assert!(effects[6].longest_wait < Duration::from_millis(1_500), "{:?}", effects[6]);
    assert!(writes[6] >= 40, "{writes:?}");
}

#[test]
fn usual_statuses_wait_for_one_write_at_most() {
    let mut loads = Vec::from(["a", "b", "c", "d"].map(attacker));
    // A status with ten pods and their logs, and twenty without.
    loads.push(Load { namespace: "one", objects: 1, bytes: 100 << 10, takes: Duration::from_millis(60) });
    loads.push(Load { namespace: "many", objects: 20, bytes: 8 << 10, takes: Duration::from_millis(20) });
    let effects = simulate(&loads);
    for effect in &effects[4..] {
        // For the write that is under way, and for one of another namespace.
        assert!(effect.longest_wait <= Duration::from_millis(300), "{effect:?}");
    }
    assert!(effects[4].writes >= 45 && effects[5].writes >= 55 * 20, "{effects:?}");
}

#[test]
fn large_hanging_writes_stop_only_their_namespace() {
    let hanging = |namespace| Load { takes: Duration::from_secs(10), ..attacker(namespace) };
    let effects = simulate(&[hanging("a"), hanging("b"), attacker("c")]);
    assert!(effects[2].writes > 60, "{effects:?}");
}

proptest! {
    /// If `next_at` promises an object, `next_waiting` returns one, and that one gets a permit: the event loop would run
    /// without a pause otherwise. The bounds hold whatever happens, and nothing waits for ever.
    #[test]
    fn keeps_its_promises(steps in prop::collection::vec((0..4_u8, 0..8_usize, 0..600_000_usize, any::<bool>()), 1..200)) {
        let mut now = Instant::now();
        let mut limiter = WriteLimiter::default();
        let mut permits: Vec<WritePermit> = Vec::new();
        let mut sizes = HashMap::new();
        for (index, (action, place, bytes, is_retry)) in steps.into_iter().enumerate() {
            let key = key(&format!("n{}", place % 3), index);
            match action {
                0 | 1 => match limiter.acquire(&key, is_retry, bytes, now) {
                    Some(permit) => permits.push(permit),
                    None => {
                        limiter.enqueue(key.clone(), is_retry, bytes);
                        sizes.insert(key, (is_retry, bytes));
                    }
                },
                2 if !permits.is_empty() => limiter.release(permits.swap_remove(place % permits.len()), now),
                _ => now += Duration::from_millis(bytes as u64 / 500),
            }
            let (promised, before) = (limiter.next_at(now) == Some(now), sizes.len());
            while let Some(key) = limiter.next_waiting(now) {
                let (is_retry, bytes) = sizes.remove(&key).unwrap();
                let permit = limiter.acquire(&key, is_retry, bytes, now);
                prop_assert!(permit.is_some());
                permits.extend(permit);
            }
            prop_assert_eq!(promised, sizes.len() < before);
            let (writes, bytes) = under_way(&limiter, "");
            prop_assert!(writes <= ALL && bytes <= ALL_BYTES + 600_000 + ALL * SMALL);
            prop_assert!(limiter.writes.under_way().filter(|write| write.is_retry).count() <= RETRIES);
            let paced = limiter.writes.present.iter().filter(|own| own.is_paced && own.busy_until() > now);
            prop_assert!(paced.count() <= PACED);
        }
        permits.drain(..).for_each(|permit| limiter.release(permit, now));
        while !sizes.is_empty() {
            let at = limiter.next_at(now);
            prop_assert!(at.is_some(), "{} wait", sizes.len());
            now = now.max(at.unwrap());
            let Some(key) = limiter.next_waiting(now) else { continue };
            let (is_retry, bytes) = sizes.remove(&key).unwrap();
            let permit = limiter.acquire(&key, is_retry, bytes, now).unwrap();
            limiter.release(permit, now);
        }
        prop_assert!(limiter.is_idle());
    }
}
