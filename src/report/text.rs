//! The words of conditions, and bounds on anyone's.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap, fmt::Write as _};

use super::{CONDITION_MESSAGE_LIMIT, incidents::Group};

/// The longest text that names or classifies something, in bytes. Names of Kubernetes objects have at
/// most 253; what kubelets and owner references say may be longer.
const NAME_LIMIT: usize = 253;

/// How many reasons a message tells apart.
const REASONS: usize = 5;
/// How long one of them may be in it, in bytes.
const REASON_LIMIT: usize = 64;
/// How many owners a message names for each reason: as many as find room.
const OWNERS: [usize; 3] = [3, 1, 0];

/// A name within bounds.
pub(super) fn name(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_LIMIT)]
}

/// The beginning of a text, with an ellipsis where more follows: at most `limit` bytes, which must hold
/// the ellipsis.
pub(super) fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len()));
    Cow::Owned(format!("{}{ELLIPSIS}", &text[..end]))
}

/// A condition's message: one line within bounds, without characters that hide or reorder others.
pub(super) fn message(text: &str) -> String {
    let visible: String = shortened(text, CONDITION_MESSAGE_LIMIT)
        .chars()
        .filter(|character| !is_bidi_control(*character))
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    visible
}

fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Of an object that watches.
pub(super) fn watching(watched: u64, unreadable: Option<&(u64, String)>) -> String {
    let watching = format!("watching {}", pods(watched));
    match unreadable {
        None | Some((0, _)) => watching,
        Some((1, pod)) => format!("{watching}; 1 pod could not be read: {pod}"),
        Some((count, pod)) => format!("{watching}; {count} pods could not be read, one of them: {pod}"),
    }
}

/// Where no pod has a problem.
pub(super) fn healthy(watched: u64) -> String {
    match watched {
        0 => "no pods to watch".to_owned(),
        1 => "the 1 pod is healthy".to_owned(),
        _ => format!("all {} are healthy", pods(watched)),
    }
}

/// Where some have: the most frequent reasons, with the owners of most of the pods.
pub(super) fn unhealthy(groups: &[Group<'_>], problematic: usize, watched: u64) -> String {
    let mut reasons = BTreeMap::<&str, BTreeMap<(&str, &str), usize>>::new();
    for group in groups {
        let owners = reasons.entry(group.identity.reason).or_default();
        *owners.entry((group.identity.namespace, group.identity.owner_name)).or_default() += group.pods;
    }
    let mut reasons: Vec<_> = reasons.into_iter().map(|(reason, owners)| Reason::new(reason, owners)).collect();
    // Stable: those that are equal stay in the order of their names.
    reasons.sort_by_key(|reason| Reverse(reason.pods));

    let render = |owners| {
        let shown: Vec<String> = reasons.iter().take(REASONS).map(|reason| reason.to_text(owners)).collect();
        let mut text = format!("{problematic} of {}: {}", pods(watched), shown.join(", "));
        match reasons.len() - shown.len() {
            0 => {}
            1 => text.push_str(" and 1 more reason"),
            more => _ = write!(text, " and {more} more reasons"),
        }
        text
    };
    OWNERS.map(render).into_iter().find(|text| text.len() <= CONDITION_MESSAGE_LIMIT).unwrap_or_else(|| render(0))
}

/// A message without the number of pods that are watched, by which alone two may differ.
pub(super) fn without_count(message: &str, watched: i64) -> String {
    let watched = u64::try_from(watched).unwrap_or_default();
    message.replacen(&pods(watched), "", 1)
}

fn pods(count: u64) -> String {
    format!("{count} pod{}", if count == 1 { "" } else { "s" })
}

struct Reason<'a> {
    name: &'a str,
    pods: usize,
    /// Those with the most pods first.
    owners: Vec<(&'a str, &'a str)>,
}

impl<'a> Reason<'a> {
    fn new(name: &'a str, owners: BTreeMap<(&'a str, &'a str), usize>) -> Self {
        let mut owners: Vec<_> = owners.into_iter().collect();
        owners.sort_by_key(|(_, pods)| Reverse(*pods));
        Self {
            name,
            pods: owners.iter().map(|(_, pods)| pods).sum(),
            owners: owners.into_iter().map(|(owner, _)| owner).collect(),
        }
    }

    fn to_text(&self, owners: usize) -> String {
        let text = format!("{} {}", self.pods, shortened(self.name, REASON_LIMIT));
        if owners == 0 {
            return text;
        }
        let shown: Vec<String> =
            self.owners.iter().take(owners).map(|(namespace, name)| format!("{namespace}/{name}")).collect();
        match self.owners.len() - shown.len() {
            0 => format!("{text} ({})", shown.join(", ")),
            more => format!("{text} ({} and {more} more)", shown.join(", ")),
        }
    }
}
