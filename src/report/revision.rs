//! Words what changed in the pod template of a revision that fails.

use std::sync::Arc;

use crate::{
    api::Revision,
    diagnosis::{ChangeDetail, NameList, TemplateChange, TemplateChanges},
    logs::{Masking, clean_text},
};

use super::{truncate, wire::count};

/// The most lines, the longest line, and the longest value in a line, in bytes.
const LINES: usize = 8;
const LINE_LIMIT: usize = 320;
const VALUE_LIMIT: usize = 128;
/// How much of a value is compared after masking, in bytes.
const COMPARED_LIMIT: usize = 8 * 1024;

/// A revision that fails while an earlier one is healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailingRevision {
    /// The name of the ReplicaSet or ControllerRevision.
    pub name: String,
    /// How many pods of earlier revisions are healthy.
    pub healthy_before: u64,
    pub comparison: Comparison,
}

/// The comparison of a revision's pod template with the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Comparison {
    /// The templates are not read yet, cannot be read, or are gone.
    #[default]
    Unknown,
    /// The names of the two revisions, the earlier one first.
    TooLarge,
    Compared(Arc<TemplateChanges>),
}

impl FailingRevision {
    /// The revision as the status lists it. Values are masked before they are cut, so that no cut makes a credential
    /// unrecognizable.
    pub(super) fn show(&self, masking: Option<&Masking<'_>>) -> Revision {
        Revision {
            name: truncate::name(&self.name).to_owned(),
            healthy_before: count(self.healthy_before),
            changes: self.comparison.lines(masking),
        }
    }
}

impl Comparison {
    /// What changed, a line for each difference.
    pub(crate) fn lines(&self, masking: Option<&Masking<'_>>) -> Vec<String> {
        let TemplateChanges { changes, more, .. } = match self {
            Self::Unknown => return Vec::new(),
            Self::TooLarge => return vec!["the pod template is too large to be compared".to_owned()],
            Self::Compared(changes) => &**changes,
        };
        if changes.is_empty() {
            return vec!["images, commands, arguments, environment, limits and probes are unchanged".to_owned()];
        }
        let total = changes.len().saturating_add(*more);
        // If they do not fit, the last line counts the others.
        let shown = if total > LINES { LINES - 1 } else { LINES };
        let mut lines: Vec<_> = changes.iter().take(shown).map(|change| line(change, masking)).collect();
        if total > lines.len() {
            lines.push(format!("and {} more changes", total - lines.len()));
        }
        lines
    }
}

fn line(change: &TemplateChange, masking: Option<&Masking<'_>>) -> String {
    let subject = clean_text(&change.subject, masking, VALUE_LIMIT);
    let detail = match &change.detail {
        ChangeDetail::Added => "added".to_owned(),
        ChangeDetail::Removed => "removed".to_owned(),
        ChangeDetail::Changed => "changed".to_owned(),
        ChangeDetail::Names { added, removed, changed } => {
            let groups = [("+", added), ("-", removed), ("changed ", changed)];
            let groups = groups.into_iter().filter(|(_, names)| !names.is_empty());
            groups.map(|(sign, names)| list(sign, names)).collect::<Vec<_>>().join(", ")
        }
        ChangeDetail::Values { before, after } => {
            let [masked_before, masked_after] = [before, after].map(|value| clean_text(value, masking, COMPARED_LIMIT));
            match different_words(&masked_before, &masked_after) {
                Some([before, after]) => format!("{before} → {after}"),
                None => "changed in parts that are not shown".to_owned(),
            }
        }
    };
    truncate::with_ellipsis(&format!("{subject}: {detail}"), LINE_LIMIT).into_owned()
}

/// Names with a sign before each, or before the first of several that changed.
fn list(sign: &str, list: &NameList) -> String {
    let separator = if sign.len() == 1 { format!(", {sign}") } else { ", ".to_owned() };
    let shown: Vec<_> = list.names.iter().map(|name| plain(name)).collect();
    let more = if list.more == 0 { String::new() } else { format!(" and {} more", list.more) };
    format!("{sign}{}{more}", shown.join(&separator))
}

/// A name without characters that hide or reorder others.
fn plain(name: &str) -> String {
    truncate::condition_message(&truncate::with_ellipsis(name, 64))
}

/// Both texts without the words that they begin and end with alike, but with the word before the difference. Absent if
/// they are equal.
fn different_words(before: &str, after: &str) -> Option<[String; 2]> {
    if before == after {
        return None;
    }
    let [before, after] = [before, after].map(|text| text.split(' ').collect::<Vec<_>>());
    let alike = before.iter().zip(&after).take_while(|(before, after)| before == after).count();
    let from = alike.saturating_sub(1);
    let rest = before.len().min(after.len()) - alike;
    let end =
        before.iter().rev().zip(after.iter().rev()).take(rest).take_while(|(before, after)| before == after).count();
    Some([&before, &after].map(|words| {
        let shown = words[from..words.len() - end].join(" ");
        let before = if from > 0 { "… " } else { "" };
        let after = if end > 0 { " …" } else { "" };
        match shown.is_empty() {
            true => "none".to_owned(),
            false => truncate::with_ellipsis(&format!("{before}{shown}{after}"), VALUE_LIMIT).into_owned(),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(before: &str, after: &str) -> String {
        let [before, after] = [before, after].map(str::to_owned);
        let subject = "args of app".to_owned();
        line(&TemplateChange { subject, detail: ChangeDetail::Values { before, after } }, None)
    }

    #[test]
    fn shows_the_words_that_differ() {
        for (before, after, shown) in [
            ("shop/cart:1.4.2", "shop/cart:1.42", "shop/cart:1.4.2 → shop/cart:1.42"),
            ("", "serve", "none → serve"),
            ("1Gi", "", "1Gi → none"),
            ("serve --port 80 -v", "serve --port 8080 -v", "… --port 80 … → … --port 8080 …"),
            ("serve -v", "serve -v -v", "… -v → … -v -v"),
            ("serve", "serve -v", "serve → serve -v"),
            ("a a", "a", "a a → a"),
        ] {
            assert_eq!(values(before, after), format!("args of app: {shown}"));
        }
    }

    #[test]
    fn masks_credentials_before_values_are_compared_and_cut() {
        let line = values("serve --password hunter2 -v", "serve --password swordfish -v");
        assert_eq!(line, "args of app: changed in parts that are not shown");
        let long = "x".repeat(2 * VALUE_LIMIT);
        let line = values("a", &format!("{long} --password=hunter2{long}"));
        assert!(!line.contains("hunter2") && line.len() <= LINE_LIMIT, "{line}");
        let line = values("--port=1 --password=hunter2", "--port=2 --password=swordfish");
        assert!(
            line.starts_with("args of app: --port=1") && !line.contains("hunter2") && !line.contains("fish"),
            "{line}"
        );
    }

    #[test]
    fn names_variables_and_counts_the_rest() {
        let names = |names: &[&str], more| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            NameList { names, more }
        };
        let env = |added, removed, changed| {
            let detail = ChangeDetail::Names { added, removed, changed };
            line(&TemplateChange { subject: "env of app".to_owned(), detail }, None)
        };
        let none = NameList::default;
        let shown = env(names(&["FEATURE_X"], 0), names(&["OLD", "PASSWORD"], 3), names(&["DB_URL", "API_TOKEN"], 0));
        assert_eq!(shown, "env of app: +FEATURE_X, -OLD, -PASSWORD and 3 more, changed DB_URL, API_TOKEN");
        assert_eq!(env(none(), names(&["V\u{202e}\n"], 0), none()), "env of app: -V ");
        let long = || names(&["é".repeat(120).as_str(); 6], usize::MAX);
        assert!(env(long(), long(), long()).len() <= LINE_LIMIT);
    }

    #[test]
    fn counts_the_changes_that_do_not_fit() {
        let changes = |count: usize, more: usize| -> Vec<String> {
            let change = TemplateChange { subject: "container x".to_owned(), detail: ChangeDetail::Added };
            let changes = TemplateChanges { changes: vec![change; count], more, ..TemplateChanges::default() };
            Comparison::Compared(changes.into()).lines(None)
        };
        assert_eq!(changes(1, 0), ["container x: added"]);
        assert_eq!(changes(LINES, 0), ["container x: added"; LINES]);
        assert_eq!((changes(LINES, 1).len(), &*changes(LINES, 1)[LINES - 1]), (LINES, "and 2 more changes"));
        assert!(changes(0, 0)[0].ends_with("unchanged") && Comparison::Unknown.lines(None).is_empty());
    }
}
