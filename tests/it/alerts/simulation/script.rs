//! The words of the tests: what happens, and what the receiver was sent.
//!
//! | word of a script | what happens |
//! |---|---|
//! | `+1`, `+1..4`, `+s0..150` | incidents begin: one, three, and those of a storm |
//! | `-1`, `x1`, `-*` | an incident ends, ends because its owner was deleted, or all of them end |
//! | `90s`, `5m`, `2h` | time passes |
//! | `1=7`, `1=`, `*=7`, `*=` | an incident, or each, has the common cause node7 from now on, or none |
//! | `1:Error` | the reason of an incident changes |
//! | `silence:1:600`, `quiet:60`, `unmute` | an owner is silenced for 600 s, quiet hours of an hour begin, all of them end |
//! | `unknown`, `known` | whether the current incidents are known |
//! | `unclear:1`, `clear` | a pod of an incident's namespace cannot be judged, all pods can be |
//! | `1!Critical`, `1!Critical@web` | the severity of an incident changes, and its team |
//! | `restart`, `forget` | the operator is restarted: only the status is known, or only the memory of incidents is lost |
//! | `wiped`, `secret`, `receiver` | the status is lost, a Secret changes, another receiver follows |
//! | `unusable`, `usable` | whether the webhook can be used |
//! | `recover` | everything works for an hour, and nothing is muted |
//! | `crash@storing`, `crash@sending`, `crash@recording` | before which step the operator crashes next |
//! | `.` | the operator runs, as it does when time passes |
//! | `Unreachable`, `Accepts`, … | how the receiver behaves from now on |

use super::{Behaviour, CrashPoint, Simulation, key};
use orchestr::{
    alerts::{Incident, IncidentMemory, Notification},
    api::{AlertPhase, AlertStatus, MessageKind, Severity, WebhookFormat, WebhookStatus},
};

const BEHAVIOURS: [Behaviour; 13] = [
    Behaviour::Accepts,
    Behaviour::Unreachable,
    Behaviour::AcceptsWithoutAnswering,
    Behaviour::Fails,
    Behaviour::AcceptsAndFails,
    Behaviour::RateLimits,
    Behaviour::RejectsDetails,
    Behaviour::RejectsAll,
    Behaviour::AnswersNotFound,
    Behaviour::AnswersUnauthorized,
    Behaviour::RefusesNaming(&[1]),
    Behaviour::RefusesNaming(&[1, 4]),
    Behaviour::Gone,
];

/// How the receiver behaves after a word.
pub(super) fn behaviour(word: &str) -> Option<Behaviour> {
    BEHAVIOURS.into_iter().find(|behaviour| format!("{behaviour:?}").replace(' ', "") == word)
}

/// The keys of `1`, `1..4`, `s3` or `s0..150`.
fn keys(text: &str) -> Vec<String> {
    let (name, numbers): (fn(u32) -> String, _) = match text.strip_prefix('s') {
        Some(numbers) => (|number| format!("storm{number:04}"), numbers),
        None => (|number| key(number.try_into().unwrap()), text),
    };
    let number = |text: &str| text.parse::<u32>().unwrap();
    let (first, end) = match numbers.split_once("..") {
        Some((first, end)) => (number(first), number(end)),
        None => (number(numbers), number(numbers) + 1),
    };
    (first..end).map(name).collect()
}

/// The word for a key.
fn name(key: &str) -> String {
    let number = key.strip_prefix("storm").map(|number| format!("s{}", number.parse::<u32>().unwrap()));
    number.or_else(|| key.strip_prefix("key").map(str::to_owned)).unwrap_or_else(|| key.to_owned())
}

/// A simulation of a script.
pub(super) fn played(format: WebhookFormat, script: &str) -> Simulation {
    let mut sim = Simulation::new(format);
    sim.play(script);
    sim
}

impl Simulation {
    pub(in crate::alerts) fn play(&mut self, script: &str) {
        script.split_whitespace().for_each(|word| self.word(word));
    }

    fn word(&mut self, word: &str) {
        let seconds = [("s", 1), ("m", 60), ("h", 3_600)].into_iter().find_map(|(unit, seconds)| {
            let number: u64 = word.strip_suffix(unit)?.parse().ok()?;
            Some(number * seconds)
        });
        if let Some(seconds) = seconds {
            self.advance(seconds);
        } else if let Some(started) = word.strip_prefix('+') {
            for key in keys(started) {
                self.deleted.remove(&key);
                self.active.entry(key).or_insert(self.now);
            }
        } else if word == "-*" {
            self.active.clear();
        } else if let Some(ended) = word.strip_prefix('-') {
            keys(ended).iter().for_each(|key| _ = self.active.remove(key));
        } else if let Some(deleted) = word.strip_prefix('x') {
            for key in keys(deleted) {
                self.active.remove(&key);
                self.deleted.insert(key);
            }
        } else if let Some((which, cause)) = word.split_once('=') {
            let keys = if which == "*" { self.active.keys().cloned().collect() } else { keys(which) };
            keys.iter().for_each(|key| _ = self.causes.remove(key));
            self.causes.extend(
                cause.parse().into_iter().flat_map(|cause: u8| keys.iter().map(move |key| (key.clone(), cause))),
            );
        } else if let Some(silence) = word.strip_prefix("silence:") {
            let (owner, seconds) = silence.split_once(':').unwrap();
            let owner = if owner == "*" { "*".to_owned() } else { keys(owner).remove(0) };
            self.silence(&owner, seconds.parse().unwrap());
        } else if let Some(minutes) = word.strip_prefix("quiet:") {
            self.begin_quiet_hours(minutes.parse().unwrap());
        } else if let Some(unclear) = word.strip_prefix("unclear:") {
            self.unclear.extend(keys(unclear));
        } else if let Some((number, ownership)) = word.split_once('!') {
            let (severity, team) = ownership.split_once('@').unwrap_or((ownership, ""));
            let severity = if severity == "Critical" { Severity::Critical } else { Severity::Warning };
            self.change(&keys(number)[0], |incident| Incident { severity, team: team.into(), ..incident });
        } else if let Some((number, reason)) = word.split_once(':') {
            self.change(&keys(number)[0], |incident| Incident { reason: reason.into(), ..incident });
        } else {
            self.rare_word(word);
        }
    }

    fn rare_word(&mut self, word: &str) {
        match word {
            "unmute" => self.remove_mutes(),
            "known" => self.incidents_known = true,
            "unknown" => self.incidents_known = false,
            "clear" => self.unclear.clear(),
            "restart" => self.restart(),
            "forget" => self.memory = IncidentMemory::default(),
            "recover" => self.recover(),
            "usable" => self.usable = true,
            "unusable" => self.usable = false,
            "." => _ = self.run(),
            "wiped" => {
                self.interrupted = None;
                (self.stored, self.last_sent) = (WebhookStatus::default(), None);
            }
            "secret" => self.config += 1,
            "receiver" => {
                self.interrupted = None;
                (self.receiver_number, self.config) = (self.receiver_number + 1, self.config + 1);
            }
            "crash@storing" => self.crash = Some(CrashPoint::Storing),
            "crash@sending" => self.crash = Some(CrashPoint::Sending),
            "crash@recording" => self.crash = Some(CrashPoint::Recording),
            _ => self.receiver = behaviour(word).unwrap_or_else(|| panic!("an unknown word: {word}")),
        }
    }

    /// Changes a current incident.
    pub(super) fn change(&mut self, key: &str, change: impl FnOnce(Incident) -> Incident) {
        let current = self.incidents().into_iter().find(|incident| incident.key == key);
        self.custom.extend(current.map(|current| (key.to_owned(), change(current))));
    }

    /// Notes an accepted message in the book, unless Alertmanager is only sent again what it has: when it was sent, whether it
    /// is a repetition, which alerts it says begin (+) or are over (-), and how many incidents a storm has.
    pub(super) fn note_in_book(&mut self, message: &Notification) {
        if message.kind == MessageKind::Resend {
            return;
        }
        let phase = |key: &str| self.stored.alerts.iter().find(|alert| alert.key == key).map(|alert| alert.phase);
        let at = self.now.duration_since("2026-07-01T10:00:00Z".parse().unwrap()).as_secs();
        let mut words = vec![at.to_string()];
        words.extend((message.kind == MessageKind::Repeat).then(|| "repeat".to_owned()));
        let started = message.started.iter().filter(|alert| phase(&alert.key) == Some(AlertPhase::Announcing));
        words.extend(started.map(|alert| format!("+{}", name(&alert.key))));
        let resolved = message.resolved.iter().filter(|alert| phase(&alert.key) == Some(AlertPhase::Resolving));
        words.extend(resolved.map(|alert| format!("-{}", name(&alert.key))));
        let is_marked = |storm: &AlertStatus| matches!(storm.phase, AlertPhase::Announcing | AlertPhase::Resolving);
        let storm = message.storm.as_ref().filter(|_| self.stored.storm.as_ref().is_some_and(is_marked));
        words.extend(storm.map(|storm| format!("storm={}", storm.count)));
        self.book.push(words.join(" "));
    }

    /// What the receiver has accepted, without the first `skip` messages.
    pub(super) fn book(&self, skip: usize) -> String {
        self.book[skip..].join(" | ")
    }

    /// The same without the times.
    pub(super) fn said(&self, skip: usize) -> String {
        let without_time = |message: &String| message.split_once(' ').map_or("", |(_, said)| said).to_owned();
        self.book[skip..].iter().map(without_time).collect::<Vec<_>>().join(" | ")
    }
}
