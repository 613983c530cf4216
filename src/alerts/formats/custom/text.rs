//! A whole message as text: plain, or in Markdown, where untrusted text is code, so that it is neither markup nor a mention.

use super::super::{
    facts::{self, Fact},
    layout::Layout,
    message_text::{self, Segment, Selection, plain},
};
use crate::alerts::{Alert, Notification};

/// The limit of the headline, in UTF-16 code units.
const HEADLINE: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Markup {
    Plain,
    Markdown,
}

impl Markup {
    fn join(self, segments: &[Segment]) -> String {
        if self == Self::Plain {
            return plain(segments);
        }
        let segment = |segment: &Segment| match segment {
            Segment::Literal(text) | Segment::Link(text) => text.clone(),
            Segment::Untrusted(text) => code(text),
        };
        segments.iter().map(segment).collect()
    }

    fn name(self, name: &str) -> String {
        if self == Self::Plain { format!("{name}:") } else { format!("**{name}:**") }
    }

    pub fn headline(self, notification: &Notification) -> String {
        let text = message_text::headline(notification, HEADLINE);
        if self == Self::Plain { text } else { code(&text) }
    }

    /// An incident in one line.
    pub fn line(self, alert: &Alert, notification: &Notification) -> String {
        format!("• {}", self.join(&message_text::summary_line(alert, notification.now)))
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { format!("`{}`", neutralized(text)) }
}

fn neutralized(text: &str) -> String {
    text.replace('`', "\u{2cb}")
}

/// The headline, the facts and the log of each incident that begins, one line for each other one, the totals and the sender.
/// A message about a single incident has no totals, because it says nothing about others.
pub(super) fn message(notification: &Notification, layout: Layout, markup: Markup, is_single: bool) -> String {
    let selection = Selection::new(notification, layout);
    let mut parts = vec![markup.headline(notification)];
    parts.extend(selection.detailed.iter().map(|alert| detailed(notification, alert, layout, markup)));
    for (title, alerts) in &selection.lists {
        let lines = alerts.iter().map(|alert| markup.line(alert, notification));
        parts.push([markup.name(title)].into_iter().chain(lines).collect::<Vec<_>>().join("\n"));
    }
    let totals = message_text::totals(notification);
    let held_back = message_text::held_back(notification).map(|text| format!("{text}."));
    let last = match is_single {
        true => held_back.into_iter().collect(),
        false => totals.iter().map(|line| markup.join(line)).collect::<Vec<_>>(),
    };
    let last = last.into_iter().chain([markup.join(&message_text::sender(notification))]);
    parts.push(last.collect::<Vec<_>>().join("\n"));
    parts.join("\n\n")
}

fn detailed(notification: &Notification, alert: &Alert, layout: Layout, markup: Markup) -> String {
    let line = |fact: &Fact<'_>| format!("{} {}", markup.name(fact.name), markup.join(&fact.value));
    let size = |fact: &Fact<'_>| line(fact).len() + 1;
    let shown = facts::facts_within(alert, notification.now, layout, size);
    let mut lines: Vec<String> = shown.iter().map(line).collect();
    let (logs, note) = facts::logs(alert, layout.logs);
    if !note.is_empty() {
        lines.push(format!("{} {}", markup.name("Log"), markup.join(&[Segment::Untrusted(note)])));
    }
    match markup {
        _ if logs.is_empty() => {}
        Markup::Plain => lines.push(format!("{}\n{logs}", markup.name("The end of the log"))),
        Markup::Markdown => lines.push(format!("```\n{}\n```", neutralized(&logs))),
    }
    lines.join("\n")
}
