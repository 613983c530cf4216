//! What one receiver knows of each incident.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Answer, Message, Style};

#[derive(Debug)]
pub(super) struct Page {
    style: Style,
    /// When the webhook left it, by the clock that stands still while the operator is blind.
    pub left: Option<Duration>,
    /// How many messages that were accepted came again.
    pub repeated: usize,
    accepted: BTreeSet<String>,
    alerts: BTreeMap<String, Alert>,
}

#[derive(Debug, Default)]
struct Alert {
    phase: Phase,
    /// When it changed last.
    at: Duration,
    /// The stored state does not contain it any more, so it may be sent once more, or its end may not be sent.
    is_forgotten: bool,
    /// It may be sent once more, with another ID.
    may_repeat: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Phase {
    #[default]
    None,
    /// The answer to its start, with this ID, was lost.
    Starting(String),
    /// Its start was accepted.
    Open,
    /// The answer to its end, with this ID, was lost.
    Ending(String),
    /// Its end, with this ID, was accepted.
    Ended(String),
}

impl Page {
    pub fn new(style: Style) -> Self {
        Self { style, left: None, repeated: 0, accepted: BTreeSet::new(), alerts: BTreeMap::new() }
    }

    /// The stored state is that of an earlier time.
    pub fn forgive(&mut self, backup: Duration) {
        // A message is stored before it is sent, and its outcome shortly after.
        let stored = backup.saturating_sub(Duration::from_secs(2));
        for alert in self.alerts.values_mut().filter(|alert| alert.at >= stored) {
            (alert.is_forgotten, alert.may_repeat) = (true, true);
        }
    }

    /// The receiver may be sent once more what lasts.
    pub fn may_repeat(&mut self) {
        self.alerts.values_mut().for_each(|alert| alert.may_repeat = true);
    }

    /// The stored state is gone. Another object knows nothing of these alerts.
    pub fn forget(&mut self) {
        for alert in self.alerts.values_mut().filter(|alert| !matches!(alert.phase, Phase::None | Phase::Ended(_))) {
            *alert = Alert { is_forgotten: true, may_repeat: true, ..Alert::default() };
        }
    }

    /// Enters a message, and adds what is wrong about it. `changed` is when the truth about an incident changed last.
    pub fn enter(
        &mut self,
        at: Duration,
        message: &Message,
        changed: impl Fn(&str) -> Duration,
        wrong: &mut Vec<String>,
    ) {
        if message.answer == Answer::Refused {
            return;
        }
        // Documented: an answer may be lost with the leader that waited for it, so whatever was sent may come again by its ID.
        let is_repetition = self.accepted.contains(&message.id);
        self.repeated += usize::from(is_repetition);
        let is_open = |page: &Self, name: &String| page.alerts.get(name).is_some_and(|own| own.phase == Phase::Open);
        let has_news = !message.resolved.is_empty() || message.firing.iter().any(|name| !is_open(self, name));
        let may_repeat = |name: &String| self.alerts.get(name).is_some_and(|own| own.may_repeat);
        if !has_news && !is_repetition && self.style != Style::Repeated && !message.firing.iter().any(may_repeat) {
            wrong.push(format!("started twice: {:?}", message.firing));
        }
        for name in &message.firing {
            let own = self.alerts.entry(name.clone()).or_default();
            let phase = match (&own.phase, message.answer) {
                (Phase::Open, _) => {
                    own.is_forgotten &= is_repetition;
                    own.may_repeat &= is_repetition;
                    continue;
                }
                // Documented: it may be sent again if it has ended meanwhile, and returned.
                (Phase::Starting(id), _)
                    if *id != message.id
                        && self.style != Style::Repeated
                        && !own.may_repeat
                        && changed(name) < own.at =>
                {
                    wrong.push(format!("{name} was sent as {id}, which may have been accepted"));
                    Phase::Open
                }
                (_, Answer::Accepted) => Phase::Open,
                _ => Phase::Starting(message.id.clone()),
            };
            *own = Alert { phase, at, ..Alert::default() };
        }
        for name in &message.resolved {
            let own = self.alerts.entry(name.clone()).or_default();
            let phase = match (&own.phase, message.answer) {
                (Phase::Ended(id), _) if *id == message.id => continue,
                (Phase::Ended(id), _) if self.style != Style::Repeated && !own.may_repeat => {
                    wrong.push(format!("ended twice: {name}, first by {id}"));
                    continue;
                }
                (_, Answer::Accepted) => Phase::Ended(message.id.clone()),
                _ => Phase::Ending(message.id.clone()),
            };
            *own = Alert { phase, at, ..Alert::default() };
        }
        if message.answer == Answer::Accepted {
            self.accepted.insert(message.id.clone());
        }
    }

    /// What the receiver must still get.
    pub fn missing(&self, lasting: &BTreeSet<&str>, healthy: &BTreeSet<&str>) -> Vec<String> {
        let is_open = |name: &&&str| self.alerts.get(**name).is_some_and(|own| own.phase == Phase::Open);
        let lost = lasting.iter().filter(|name| !is_open(name)).map(|name| format!("lost: {name} lasts"));
        let without_end = self.alerts.iter().filter(|(name, own)| {
            let is_over = matches!(own.phase, Phase::None | Phase::Ended(_)) || own.is_forgotten;
            healthy.contains(name.as_str()) && !is_over
        });
        lost.chain(without_end.map(|(name, own)| format!("no end: {name} is over, but {:?}", own.phase))).collect()
    }
}
