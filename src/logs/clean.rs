//! Makes text of bytes: valid, without anything that moves a terminal's cursor or reorders what is read,
//! masked, and within bounds.
//!
//! The order matters. Control characters go before anything is masked, so that none can hide a
//! credential; what may have lost its key to a cut is left out after masking, so that it still tells the
//! rules what follows it; and only then is the text cut to its bounds, so that no cut makes a credential
//! unrecognisable.

use super::{LogPolicy, escapes::scrub, redact::Mask};

/// The longest head of a cut text that is left out because its line lost its beginning, in bytes. No
/// credential is longer, so that none can reach from before the cut to behind it.
const MARGIN: usize = 8 * 1024;

/// What became of a log's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// The end of the text: valid, masked, at most the policy's lines and bytes, without blank lines at
    /// its end.
    pub text: String,
    /// Whether earlier lines, or the beginning of the first one, are left out.
    pub shortened: bool,
    /// Whether some of the bytes were no UTF-8, and stand as U+FFFD.
    pub lossy: bool,
}

/// Cleans the end of a log. `cut` says that the bytes may begin in the middle of a line: what was cut
/// off may have been the key of the first value, so that the first line is left out; of one that is longer
/// than 8 KiB, or all there is, only a quarter of everything and at most those 8 KiB.
#[must_use]
pub fn clean(raw: &[u8], cut: bool, policy: &LogPolicy) -> Cleaned {
    let margin = if cut { margin(raw) } else { 0 };
    let (head, rest) = raw.split_at(margin);
    let mut text = String::from_utf8_lossy(head).into_owned();
    let mark = text.len();
    text.push_str(&String::from_utf8_lossy(rest));
    let lossy = std::str::from_utf8(rest).is_err();

    let (text, mark) = scrub(&text, mark);
    let from = if cut { first_whole(&text, mark) } else { 0 };
    let masked = mask(policy, cut).apply(&text, from);
    let (text, shortened) = last_lines(&collapse(&masked), policy);
    Cleaned { text, shortened: shortened || cut, lossy }
}

/// Cleans a text that is shown on one line, such as a state's message: masked, and cut at its end to
/// `limit` bytes. Without a policy, credentials are masked.
#[must_use]
pub fn clean_text(text: &str, policy: Option<&LogPolicy>, limit: usize) -> String {
    let (text, _) = scrub(text, 0);
    let masked = policy.map_or(Mask { credentials: true, patterns: &[], cut: false }, |policy| mask(policy, false));
    let mut line = String::with_capacity(text.len());
    for word in masked.apply(&text, 0).split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.len() > limit {
        let room = limit.saturating_sub('…'.len_utf8());
        line.truncate(line.floor_char_boundary(room));
        if limit >= '…'.len_utf8() {
            line.push('…');
        }
    }
    line
}

fn mask(policy: &LogPolicy, cut: bool) -> Mask<'_> {
    Mask { credentials: policy.redact, patterns: &policy.redact_patterns, cut }
}

/// How much of a cut text's head is not to be shown at most: up to a character's beginning.
fn margin(raw: &[u8]) -> usize {
    let margin = (raw.len() / 4).min(MARGIN);
    let tail = raw.get(margin..).unwrap_or_default();
    margin + tail.iter().take(3).take_while(|&&byte| byte & 0b1100_0000 == 0b1000_0000).count()
}

/// Where a cut text begins to be shown: after its first line, or where that is longer than the margin or
/// all there is, behind `mark` and the word that it is in.
fn first_whole(text: &str, mark: usize) -> usize {
    let head = text.get(..text.floor_char_boundary(MARGIN.max(mark))).unwrap_or_default();
    if let Some(end) = head.find('\n')
        && text.get(end..).is_some_and(|rest| !rest.trim().is_empty())
    {
        return end + 1;
    }
    let rest = text.get(mark..).unwrap_or_default();
    let blank = rest.char_indices().take(mark).find(|(_, letter)| letter.is_whitespace());
    mark + blank.map_or(0, |(at, letter)| at + letter.len_utf8())
}

/// Lets a carriage return overwrite its line, as on a terminal: of a progress bar the last state stays.
fn collapse(text: &str) -> String {
    if !text.contains('\r') {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        shown.push_str(line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or_default());
        shown.push_str(end);
    }
    shown
}

/// The last lines within the policy's bounds, and whether there were more.
fn last_lines(text: &str, policy: &LogPolicy) -> (String, bool) {
    let text = text.trim_end();
    let lines = usize::try_from(policy.tail_lines).unwrap_or(usize::MAX).max(1);
    let bytes = usize::try_from(policy.max_bytes).unwrap_or(usize::MAX);
    let by_lines = text.rmatch_indices('\n').nth(lines - 1).map_or(0, |(at, _)| at + 1);
    let by_bytes = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    let from = by_lines.max(by_bytes);
    (text.get(from..).unwrap_or_default().to_owned(), from > 0)
}

#[cfg(test)]
mod tests;
