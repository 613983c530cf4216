//! Plays the transcripts of tests/fixtures/alerts.txt, which explains its grammar.

use std::{collections::BTreeMap, fs, time::Duration};

use super::{Simulation, rendered_text, webhook};
use orchestr::{
    alerts::NotificationPolicy,
    api::{AlertPhase, Match, Severity, WebhookFormat},
};

#[test]
fn receivers_are_sent_what_the_transcripts_say() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/alerts.txt")).unwrap();
    let mut wrong = Vec::new();
    for transcript in text.split("\n## ").skip(1) {
        let (title, lines) = transcript.split_once('\n').unwrap();
        let lines: Vec<&str> = lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let given = |word: &str| lines.iter().find_map(|line| line.strip_prefix(word));
        let format = |name: &str| WebhookFormat::ALL.into_iter().find(|format| format!("{format:?}") == name).unwrap();
        let formats = match given("for ") {
            Some("all") => WebhookFormat::ALL.to_vec(),
            names => names.unwrap_or("Slack").split(' ').map(format).collect(),
        };
        for format in formats {
            for each in given("each ").unwrap_or_default().split(" | ") {
                // Shown if an assertion of the simulation itself fails.
                println!("{title}: {format:?} {each}");
                let mut transcript = Transcript { sim: Simulation::new(format), compared: 0 };
                for line in &lines {
                    if let Err(found) = transcript.line(&line.replace('$', each)) {
                        wrong.push(format!("{title}: {format:?} {each}\n    {line}\n    {found}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

struct Transcript {
    sim: Simulation,
    /// The messages that were compared.
    compared: usize,
}

impl Transcript {
    /// Runs a line. An error says what was found instead.
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (command, expected) = line.split_once(' ').unwrap_or((line, ""));
        let new = self.compared;
        let said = self.sim.said(new);
        let found = match command {
            "for" | "each" => return Ok(()),
            "with" => {
                self.set(expected);
                return Ok(());
            }
            "do" => {
                self.sim.play(&repeated(expected));
                return Ok(());
            }
            "is" => return self.check_state(expected),
            "text" => {
                let text = rendered_text(self.sim.sent.last().unwrap(), self.sim.policy.format);
                return if text.contains(expected) { Ok(()) } else { Err(text) };
            }
            "skip" => expected.to_owned(),
            "book" => self.sim.book(new),
            "said" => said,
            "words" => said.replace(" | ", " "),
            "any" => {
                let mut words: Vec<&str> = said.split([' ', '|']).filter(|word| !word.is_empty()).collect();
                words.sort_unstable();
                words.join(" ")
            }
            _ => panic!("an unknown line: {line}"),
        };
        self.compared = self.sim.book.len();
        if found == expected || found.is_empty() && expected == "nothing" { Ok(()) } else { Err(found) }
    }

    fn set(&mut self, settings: &str) {
        let mut matches = None;
        for (name, value) in settings.split(' ').map(|setting| setting.split_once('=').unwrap()) {
            let seconds = || Duration::from_secs(value.parse().unwrap());
            let values = || Some(value.split(',').map(str::to_owned).collect());
            let policy = &mut self.sim.policy;
            match name {
                "max_incidents" => policy.pacing.max_incidents = value.parse().unwrap(),
                "after" => policy.after = seconds(),
                "repeat_every" => policy.repeat_every = seconds(),
                "unstored" => self.sim.is_unstored = value == "true",
                "reasons" => matches = Some(Match { reasons: values(), ..Match::default() }),
                "teams" => matches = Some(Match { teams: values(), ..Match::default() }),
                "severities" if value == "Critical" => {
                    matches = Some(Match { severities: Some(vec![Severity::Critical]), ..Match::default() });
                }
                _ => panic!("an unknown setting: {name}={value}"),
            }
            if let Some(matches) = matches.take() {
                let spec = orchestr::api::Webhook { match_: Some(matches), ..webhook(self.sim.policy.format) };
                self.sim.policy = NotificationPolicy::new(0, &spec).unwrap();
            }
        }
    }

    fn check_state(&self, expected: &str) -> Result<(), String> {
        let state = self.state();
        for condition in expected.split(' ') {
            let at = condition.find(['=', '>', '<']).unwrap();
            let (name, value) = (&condition[..at], &condition[at + 1..]);
            let found = &state[name];
            let number = |text: &str| text.parse::<i64>().unwrap();
            let holds = match condition.as_bytes()[at] {
                b'=' => found == value,
                b'>' => number(found) > number(value),
                _ => number(found) < number(value),
            };
            if !holds {
                return Err(format!("{name} is {found}"));
            }
        }
        Ok(())
    }

    fn state(&self) -> BTreeMap<&'static str, String> {
        fn or_none(value: Option<impl std::fmt::Debug>) -> String {
            value.map_or("none".to_owned(), |value| format!("{value:?}"))
        }
        let sim = &self.sim;
        let (stored, first, storm) = (&sim.stored, sim.stored.alerts.first(), sim.stored.storm.as_ref());
        let muted = stored.muted.clone().unwrap_or_default();
        let phase = |alert: &orchestr::api::AlertStatus| -> AlertPhase { alert.phase };
        BTreeMap::from([
            ("sent", sim.sent.len().to_string()),
            ("messages", sim.book.len().to_string()),
            ("attempts", sim.attempts.len().to_string()),
            ("ids", sim.ids().len().to_string()),
            ("kind", or_none(sim.sent.last().map(|message| message.kind))),
            ("pending", or_none(stored.pending.as_ref().map(|pending| pending.kind))),
            ("waits", stored.next_attempt.is_some().to_string()),
            ("refusal", or_none(stored.last_refusal.as_ref())),
            ("stopped", stored.stopped.to_string()),
            ("failures", stored.failures.to_string()),
            ("dropped", stored.dropped.to_string()),
            // Due, and in no message.
            ("unsent", sim.due_unsent.len().to_string()),
            // The first alert.
            ("phase", or_none(first.map(phase))),
            ("returns", or_none(first.map(|alert| alert.returns))),
            ("severity", or_none(first.and_then(|alert| alert.severity))),
            ("team", first.map_or(String::new(), |alert| alert.team.to_string())),
            ("firing", sim.firing().to_string()),
            // The storm that the receiver was last sent, and the stored one.
            ("storm", sim.storm.to_string()),
            ("storm_phase", or_none(storm.map(phase))),
            ("overflow", or_none(storm.and_then(|storm| storm.overflow.as_ref()).map(|overflow| overflow.count))),
            // What is held back, and what has ended meanwhile: as stored, and together with what messages said.
            ("holds", stored.muted.is_some().to_string()),
            ("muted", muted.count.to_string()),
            ("listed", muted.incidents.len().to_string()),
            ("unlisted", muted.unlisted.to_string()),
            ("ended", muted.ended.to_string()),
            ("unlisted_ended", muted.unlisted_ended.to_string()),
            ("counted", sim.ended_while_muted().to_string()),
        ])
    }
}

/// A script in which `2*(-1 20s)` is written out.
fn repeated(script: &str) -> String {
    let Some((before, after)) = script.split_once("*(") else { return script.to_owned() };
    let (words, rest) = after.split_once(')').unwrap();
    let (before, times) = before.rsplit_once(' ').unwrap_or(("", before));
    format!("{before} {}{}", format!("{words} ").repeat(times.parse().unwrap()), repeated(rest))
}
