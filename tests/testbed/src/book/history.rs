//! Compares the history in a status with the truth.

use std::{collections::BTreeMap, time::Duration};

use super::{Event, SLACK, SightedClock};

/// An incident that has ended, according to a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub ended: Duration,
}

/// A time in which the pods were not watched, according to a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub from: Duration,
    pub until: Duration,
    pub reason: String,
}

/// A problem that is over.
#[derive(Debug)]
struct Past {
    ended: Duration,
    /// How long the operator could see it.
    seen: Duration,
    /// The status that should have it may have been lost since.
    is_forgotten: bool,
}

/// The shortest interruption that is recorded is a minute long. Its beginning is when a watch failed.
const SHORTEST: Duration = Duration::from_secs(50);

/// Returns what is wrong with a history. `omitted` says whether it was cut.
pub fn check_history(events: &[(Duration, Event)], entries: &[Entry], spans: &[Span], omitted: bool) -> Vec<String> {
    let (mut past, mut blind) = (BTreeMap::<&str, Vec<Past>>::new(), Vec::<(Duration, Duration)>::new());
    let (mut broken, mut clock) = (BTreeMap::new(), SightedClock::default());
    let mut last = Duration::ZERO;
    for (at, event) in events {
        if clock.is_blind() {
            match blind.last_mut() {
                // Several faults may interrupt the same watch, before it is complete again.
                Some((_, until)) if last.saturating_sub(*until) <= SLACK => *until = *at,
                _ => blind.push((last, *at)),
            }
        }
        last = *at;
        let sighted = clock.advance(*at);
        clock.apply(event);
        match event {
            Event::Broke(name) => drop(broken.insert(name.as_str(), sighted)),
            Event::Mended(name) => {
                if let Some(since) = broken.remove(name.as_str()) {
                    let own = Past { ended: *at, seen: sighted - since, is_forgotten: false };
                    past.entry(name).or_default().push(own);
                }
            }
            Event::Restored(_) | Event::Deleted => {
                past.values_mut().flatten().for_each(|own| own.is_forgotten = true);
                // What the restored state has is not known to the book.
                broken.values_mut().for_each(|since| *since = sighted);
            }
            _ => {}
        }
    }
    let none = Vec::new();
    let mut wrong = Vec::new();
    for entry in entries {
        let own = past.get(entry.name.as_str()).unwrap_or(&none);
        // Times of the API are whole seconds.
        if !own.iter().any(|past| past.ended <= entry.ended + Duration::from_secs(1)) {
            wrong.push(format!("the history says that {} has ended, which it had not: {entry:?} {own:?}", entry.name));
        }
    }
    for (name, own) in &past {
        let count = entries.iter().filter(|entry| entry.name == **name).count();
        let expected = own.iter().filter(|past| past.seen > SLACK && !past.is_forgotten).count();
        if count > own.len() {
            wrong.push(format!("the history has {name} {count} times, which has ended {} times", own.len()));
        }
        // One that returns soon may be the same incident.
        if count == 0 && expected > 0 && !broken.contains_key(name) && !omitted {
            wrong.push(format!("the history lacks {name}, which has ended: {own:?}"));
        }
    }
    for span in spans {
        let overlaps = |(from, until): &&(Duration, Duration)| *from < span.until && span.from < *until + SLACK;
        let longest = blind.iter().filter(overlaps).map(|(from, until)| *until - *from).max();
        if longest.is_none_or(|longest| longest < SHORTEST) {
            wrong.push(format!("nothing kept the operator from watching in {span:?}"));
        }
    }
    wrong
}
