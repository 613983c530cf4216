//! The book of a fault run: what was true of the pods, what the receivers got, and whether the two agree. Pure, so that its
//! rules are tested by values.
//!
//! Each problem is that of one owner, so names of owners identify incidents. A page of the book is one receiver: a URL.

mod history;
mod page;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub use history::{Entry, Span, check_history};
use page::Page;

/// How long after a change of the truth a message may still describe the state before it, not counting the time in which the
/// operator could not know.
pub const SLACK: Duration = Duration::from_secs(20);

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The pod of this owner has a problem from now on.
    Broke(String),
    /// The pod of this owner is healthy, or is gone.
    Mended(String),
    /// The operator may not see or tell the truth from now on. These times may overlap.
    BlindFrom(&'static str),
    /// The end of a time in which the operator was blind.
    SeesAgain(&'static str),
    /// A webhook sends to this page from now on.
    Opened(String, Style),
    /// No webhook sends to this page any more.
    Left(String),
    /// A receiver got a message.
    Sent(String, Message),
    /// The stored state went back to that of an earlier time.
    Restored(Duration),
    /// The object with all stored state was deleted.
    Deleted,
    /// An earlier version may lead from now on, for which every receiver is a new one.
    Downgraded,
}

/// How a format reports what lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A message is about one incident.
    Single,
    /// A message has some news, and may also name what lasts.
    Grouped,
    /// What lasts is sent again all the time.
    Repeated,
}

/// A message as a receiver reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: String,
    pub firing: BTreeSet<String>,
    pub resolved: BTreeSet<String>,
    pub answer: Answer,
}

/// What the operator may know about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Accepted,
    Refused,
    /// The receiver got the message, but its answer was lost.
    Lost,
}

/// What is wrong according to the book.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What must never happen.
    pub wrong: Vec<String>,
    /// What must still happen before all is quiet.
    pub missing: Vec<String>,
    /// How many messages were accepted, and how many of these repeated an ID.
    pub accepted: usize,
    pub repeated: usize,
}

/// What is true of a pod.
#[derive(Debug, Clone, Copy, Default)]
struct Truth {
    is_broken: bool,
    /// Since when, by the clock that stands still while the operator is blind.
    since: Duration,
    at: Duration,
}

/// The clock that stands still while the operator is blind.
#[derive(Debug, Default)]
struct SightedClock {
    blind: BTreeMap<&'static str, usize>,
    last: Duration,
    sighted: Duration,
}

impl SightedClock {
    fn is_blind(&self) -> bool {
        self.blind.values().any(|count| *count > 0)
    }

    fn advance(&mut self, at: Duration) -> Duration {
        if !self.is_blind() {
            self.sighted += at.saturating_sub(self.last);
        }
        self.last = at;
        self.sighted
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::BlindFrom(why) => *self.blind.entry(why).or_default() += 1,
            Event::SeesAgain(why) => {
                let count = self.blind.entry(why).or_default();
                *count = count.saturating_sub(1);
            }
            _ => {}
        }
    }
}

/// Compares what the receivers got with the truth. The events are in the order of their times, and `now` is not before them.
pub fn check(events: &[(Duration, Event)], now: Duration) -> Findings {
    let mut findings = Findings::default();
    let mut clock = SightedClock::default();
    let mut truth: BTreeMap<&str, Truth> = BTreeMap::new();
    let mut pages: BTreeMap<&str, Page> = BTreeMap::new();
    // Ends are due of everything that was sent about an object that is deleted.
    let mut deleted = None;
    for (at, event) in events {
        let sighted = clock.advance(*at);
        clock.apply(event);
        match event {
            Event::Broke(name) => drop(truth.insert(name, Truth { is_broken: true, since: sighted, at: *at })),
            Event::Mended(name) => drop(truth.insert(name, Truth { is_broken: false, since: sighted, at: *at })),
            Event::BlindFrom(_) | Event::SeesAgain(_) => {}
            Event::Opened(page, style) => drop(pages.insert(page, Page::new(*style))),
            Event::Left(page) => {
                if let Some(page) = pages.get_mut(page.as_str()) {
                    page.left = Some(sighted);
                }
            }
            Event::Restored(backup) => pages.values_mut().for_each(|page| page.forgive(*backup)),
            Event::Downgraded => pages.values_mut().for_each(Page::may_repeat),
            Event::Deleted => {
                deleted = Some(sighted);
                pages.values_mut().for_each(Page::forget);
            }
            Event::Sent(name, message) => {
                let at_page =
                    |what: String| format!("{:.1} s, {name}, message {}: {what}", at.as_secs_f64(), message.id);
                let Some(page) = pages.get_mut(name.as_str()) else {
                    findings.wrong.push(at_page("no webhook has ever sent here".to_owned()));
                    continue;
                };
                let is_recent = |since: Duration| sighted.saturating_sub(since) <= SLACK;
                let mut wrong = Vec::new();
                for firing in &message.firing {
                    match truth.get(firing.as_str()) {
                        None => wrong.push(format!("{firing} never had a problem")),
                        Some(own) if !own.is_broken && !is_recent(own.since) => {
                            wrong.push(format!("false start: {firing} has no problem since long"));
                        }
                        Some(_) => {}
                    }
                }
                // A receiver that is left is sent the ends of what may last.
                let may_leave = page.left.or(deleted).is_some_and(|left| sighted.saturating_sub(left) <= 4 * SLACK);
                for resolved in &message.resolved {
                    let own = truth.get(resolved.as_str()).copied().unwrap_or_default();
                    if own.is_broken && !is_recent(own.since) && !may_leave {
                        wrong.push(format!("false end: {resolved} lasts"));
                    }
                }
                let is_farewell = may_leave && message.firing.is_empty();
                if page.left.is_some_and(|left| !is_recent(left)) && !is_farewell {
                    wrong.push("the webhook has left this receiver".to_owned());
                }
                let changed = |name: &str| truth.get(name).map_or(Duration::ZERO, |own| own.at);
                page.enter(*at, message, changed, &mut wrong);
                findings.wrong.extend(wrong.into_iter().map(at_page));
                findings.accepted += usize::from(message.answer == Answer::Accepted);
            }
        }
    }
    let sighted = clock.advance(now);
    let lasting = truth.iter().filter(|(_, own)| own.is_broken && sighted.saturating_sub(own.since) > SLACK);
    let lasting: BTreeSet<&str> = lasting.map(|(name, _)| *name).collect();
    let healthy = truth.iter().filter(|(_, own)| !own.is_broken).map(|(name, _)| *name).collect();
    for (name, page) in &pages {
        findings.repeated += page.repeated;
        if page.left.is_none() {
            findings.missing.extend(page.missing(&lasting, &healthy).into_iter().map(|what| format!("{name}: {what}")));
        }
    }
    findings
}
