use super::*;

fn key(name: &str) -> NamespacedName {
    NamespacedName::new("shop", name)
}

/// A queue with one dirty object, and a time at which it is due.
fn with_dirty_object() -> (WorkQueue, NamespacedName, Instant) {
    let (key, start) = (key("cluster"), Instant::now());
    let mut queue = WorkQueue::new(start, Timings::default());
    queue.insert(&key);
    queue.mark_dirty(&key, start);
    (queue, key, start + Duration::from_secs(10))
}

#[test]
fn changes_during_a_write_are_due_after_it() {
    let (mut queue, key, now) = with_dirty_object();
    assert_eq!(queue.next(now).as_ref(), Some(&key));
    let permit = queue.begin_write(&key, 0, now).unwrap();
    queue.reconciled(&key, Duration::ZERO, now);
    queue.mark_dirty(&key, now);
    assert!(queue.is_writing(&key) && queue.next_due(now).is_none());
    queue.release(permit, now);
    queue.write_succeeded(&key);
    assert!(queue.next_due(now).is_some_and(|due| due > now));
}

#[test]
fn a_failed_write_is_retried_with_growing_delays() {
    let (mut queue, key, mut now) = with_dirty_object();
    for failures in 1..=5 {
        assert_eq!(queue.next(now).as_ref(), Some(&key));
        let permit = queue.begin_write(&key, 0, now).unwrap();
        queue.release(permit, now);
        let (delay, counted) = queue.write_failed(&key, now);
        assert_eq!(counted, failures);
        assert!(queue.next(now + delay / 2).is_none());
        now += delay.max(Duration::from_secs(2));
    }
    queue.forget_failures(&key);
    assert_eq!(queue.next(now).as_ref(), Some(&key));
    let permit = queue.begin_write(&key, 0, now).unwrap();
    queue.release(permit, now);
    assert_eq!(queue.write_failed(&key, now).1, 1);
}

/// A queue of which all permits of a namespace are in use, and an object that waits for one.
fn without_permits(start: Instant) -> (WorkQueue, Vec<WritePermit>, NamespacedName) {
    let mut queue = WorkQueue::new(start, Timings::default());
    let mut permits = Vec::new();
    loop {
        let key = key(&permits.len().to_string());
        queue.insert(&key);
        let Some(permit) = queue.begin_write(&key, 0, start) else { return (queue, permits, key) };
        permits.push(permit);
    }
}

#[test]
fn an_object_without_a_permit_is_reconciled_when_one_is_free() {
    let start = Instant::now();
    let (mut queue, mut permits, waiting) = without_permits(start);
    assert_eq!(queue.next(start), None);
    queue.release(permits.pop().unwrap(), start);
    assert_eq!(queue.next(start), Some(waiting));
    assert_eq!(queue.next(start), None);
}

#[test]
fn an_object_without_a_permit_is_reconciled_once_a_second() {
    let start = Instant::now();
    let (mut queue, mut permits, waiting) = without_permits(start);
    let mut reconciles = 0;
    let mut now = start;
    while now < start + Duration::from_secs(10) {
        now += Duration::from_millis(10);
        queue.mark_dirty(&waiting, now);
        if queue.next(now).is_some() {
            assert!(queue.begin_write(&waiting, 0, now).is_none());
            queue.reconciled(&waiting, Duration::from_millis(1), now);
            reconciles += 1;
        }
    }
    assert!((9..=11).contains(&reconciles), "{reconciles}");
    queue.release(permits.pop().unwrap(), now);
    assert_eq!(queue.next(now), Some(waiting.clone()));
    assert!(!queue.schedule(&waiting).unwrap().wait_for_logs(now));
    permits.extend(queue.begin_write(&waiting, 0, now));
    assert!(queue.is_writing(&waiting));
    assert!(queue.schedule(&waiting).unwrap().wait_for_logs(now), "the next status may wait for them");
}

#[test]
fn another_namespace_does_not_wait_for_large_writes() {
    let start = Instant::now();
    let mut queue = WorkQueue::new(start, Timings::default());
    for namespace in 0..6 {
        for name in 0..20 {
            let key = NamespacedName::new(format!("n{namespace}"), name.to_string());
            queue.insert(&key);
            let _permit = queue.begin_write(&key, 500 << 10, start);
        }
    }
    let other = key("cluster");
    queue.insert(&other);
    assert!(queue.begin_write(&other, 30 << 10, start).is_some());
}

#[test]
fn removed_objects_are_not_due() {
    let (mut queue, key, now) = with_dirty_object();
    queue.remove(&key);
    assert_eq!((queue.next(now), queue.next_due(now)), (None, None));
}

#[test]
fn another_namespace_waits_for_one_reconcile_at_most() {
    const COST: Duration = Duration::from_millis(20);
    let start = Instant::now();
    let mut queue = WorkQueue::new(start, Timings::default());
    for name in 0..1_000 {
        let key = NamespacedName::new("many", name.to_string());
        queue.insert(&key);
        queue.mark_dirty(&key, start);
    }
    let other = key("cluster");
    queue.insert(&other);
    let mut now = start + Duration::from_secs(1);
    for _ in 0..100 {
        queue.mark_dirty(&other, now);
        now += Duration::from_millis(30);
        let mut waited = 0;
        loop {
            let next = queue.next(now).unwrap();
            let cost = if next == other { Duration::from_millis(1) } else { COST };
            now += cost;
            queue.reconciled(&next, cost, now);
            if next == other {
                break;
            }
            queue.mark_dirty(&next, now);
            waited += 1;
        }
        assert!(waited <= 1, "{waited}");
    }
}

/// The share of the time that the objects of namespaces take if they change all the time and have nothing to write, and
/// the longest pause of an object of each.
fn simulate(namespaces: &[(&str, u32, Duration)]) -> (f64, Vec<Duration>) {
    let start = Instant::now();
    let mut queue = WorkQueue::new(start, Timings::default());
    let (mut now, mut busy, mut pauses) = (start, Duration::ZERO, vec![Duration::ZERO; namespaces.len()]);
    let mut due: BTreeSet<(Instant, usize, u32)> = BTreeSet::new();
    for (place, (_, objects, _)) in namespaces.iter().enumerate() {
        due.extend((0..*objects).map(|object| (start, place, object)));
    }
    let measured = start + Duration::from_secs(50);
    while now < start + Duration::from_secs(90) {
        let (at, place, object) = due.pop_first().unwrap();
        let (namespace, _, cost) = namespaces[place];
        now = now.max(at) + cost;
        busy += if now > measured { cost } else { Duration::ZERO };
        let until = queue.pause(namespace, cost, now).unwrap_or(now);
        pauses[place] = pauses[place].max(until - now);
        // The debounce takes 20 ms, and there is always another change.
        due.insert((until.max(now + Duration::from_millis(20)), place, object));
    }
    (busy.as_secs_f64() / 40.0, pauses)
}

#[test]
fn few_objects_do_not_pause_and_many_leave_time_to_others() {
    let micros = Duration::from_micros;
    for few in [("shop", 1, micros(1_000)), ("shop", 16, micros(100))] {
        assert_eq!(simulate(&[few]).1, [Duration::ZERO], "{few:?}");
    }
    for (objects, cost) in [(300, 500), (300, 4_000), (1_000, 1_000), (20, 20_000), (3_000, 1_000)] {
        let (share, pauses) = simulate(&[("shop", objects, micros(cost))]);
        assert!((0.14..0.45).contains(&share), "{objects} objects of {cost} µs: {share:.2}");
        assert!(pauses[0] <= LONGEST_PAUSE, "{pauses:?}");
    }
}

#[test]
fn expensive_objects_pause_only_their_own_namespace() {
    let millis = Duration::from_millis;
    let (share, pauses) = simulate(&[("greedy", 20, millis(20)), ("modest", 1, millis(1)), ("large", 20, millis(20))]);
    assert_eq!(pauses[1], Duration::ZERO);
    assert!(pauses[0] > millis(2_000) && pauses[2] > millis(2_000) && share < 0.25, "{share:.2} {pauses:?}");
}

/// Twelve namespaces take all the time that they get. In another one, an object changes every 5 s, and each of its reconciles
/// takes 50 ms: that is less than its part in the long run, so nobody waits for it.
#[test]
fn an_object_that_seldom_changes_does_not_pause_while_others_are_busy() {
    let (start, millis) = (Instant::now(), Duration::from_millis);
    let mut queue = WorkQueue::new(start, Timings::default());
    let mut pauses = Vec::new();
    for tick in 0..6_000 {
        let now = start + tick * millis(10);
        queue.pause(&format!("busy-{}", tick % 12), millis(10), now);
        if tick % 500 == 499 {
            pauses.push(queue.pause("shop", millis(50), now).map_or(Duration::ZERO, |until| until - now));
        }
    }
    assert_eq!(pauses, [Duration::ZERO; 12]);
}

#[test]
fn objects_with_a_permit_alternate_with_turns() {
    let start = Instant::now();
    let mut queue = WorkQueue::new(start, Timings::default());
    let mut permits = Vec::new();
    for index in 0..200 {
        let key = NamespacedName::new(format!("many{}", index % 20), index.to_string());
        queue.insert(&key);
        permits.extend(queue.begin_write(&key, 0, start));
    }
    permits.drain(..).for_each(|permit| queue.release(permit, start));
    let other = key("cluster");
    queue.insert(&other);
    queue.mark_dirty(&other, start);
    let now = start + Duration::from_secs(1);
    let order = [queue.next(now), queue.next(now), queue.next(now)].map(Option::unwrap);
    assert_eq!(order.iter().position(|key| *key == other), Some(1), "{order:?}");
}

#[test]
fn keeps_nothing_of_deleted_objects() {
    let mut now = Instant::now();
    let mut queue = WorkQueue::new(now, Timings::default());
    let mut permits = Vec::new();
    for object in 0..10_000 {
        let key = NamespacedName::new(format!("n{}", object % 7), object.to_string());
        queue.insert(&key);
        queue.mark_dirty(&key, now);
        now += Duration::from_millis(26);
        if object % 3 == 0
            && let Some(next) = queue.next(now)
        {
            permits.extend(queue.begin_write(&next, 100_000, now));
            queue.reconciled(&next, Duration::from_millis(5), now);
        }
        queue.remove(&key);
        if permits.len() > 20 {
            permits.drain(..).for_each(|permit| queue.release(permit, now));
        }
    }
    permits.drain(..).for_each(|permit| queue.release(permit, now));
    assert!(queue.entries.is_empty() && queue.due.is_empty() && queue.turns.is_empty());
    assert_eq!((queue.next(now), queue.next_due(now)), (None, None));
    assert!(queue.write_limiter.is_idle());
}
