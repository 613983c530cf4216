//! Finds tokens by their format, independently of a key.

mod shapes;
mod unknown;

use std::ops::Range;

use base64::Engine as _;
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind, Look},
};

pub(super) use self::unknown::find_in_word;
use super::{
    bytes::{self, ALNUM, BASE64, EQUALS, is_at, run, run_before, starts_word},
    encoded::CODEC,
    words::Words,
};

/// The longest run within a token that is examined if something must follow, in bytes.
const MAX_RUN: usize = 1024;

/// How far from an AWS access key ID its secret is searched, in bytes.
const AWS_REACH: usize = 256;

/// The endings of files. What precedes them is a name: `key-….png`.
static FILES: Words = Words::new(
    "avi bin bmp bz2 class conf cpp crt css csv deb dll doc docx exe gif go gz html ico jar java jpeg jpg js json lock log \
     map md mjs mov mp3 mp4 pdf php png ppt py rb rpm rs scss so svg tar tgz ts tsx txt war webp whl woff woff2 xls xlsx \
     xml xz yaml yml zip zst",
);

/// The format of a token, but for its prefix.
pub(super) struct Shape {
    prefix: &'static str,
    /// What precedes the prefix. Otherwise a word begins with it.
    before: Option<Run>,
    after: Box<[Part]>,
    /// Whether the prefix stays, as that of a URL.
    keeps_prefix: bool,
}

/// A part of a token.
enum Part {
    Run(Run),
    Text(Box<[u8]>),
    /// A word ends here.
    End,
}

/// All following bytes of a class of ASCII bytes. Their number must be within the bounds.
struct Run {
    class: u128,
    min: usize,
    max: usize,
}

/// Where a token ends.
enum End {
    Here(usize),
    /// The text ends within the token.
    Cut,
}

/// Every shape, with its prefix to search for. None if a shape is not a sequence of runs and texts.
pub(super) fn shapes() -> Option<Vec<(&'static str, Shape)>> {
    let prefixed = shapes::PREFIXED.iter().map(|&(prefixes, after)| ("", prefixes, after, false));
    let paths = shapes::PATHS.iter().map(|&(prefixes, after)| ("", prefixes, after, true));
    let around = shapes::AROUND.iter().map(|&(before, middles, after)| (before, middles, after, false));
    let rows = prefixed.chain(paths).chain(around);
    let shapes = rows.flat_map(|(before, prefixes, after, keeps_prefix)| {
        prefixes.split('|').map(move |prefix| {
            let before = parts(before)?.pop().and_then(|part| if let Part::Run(run) = part { Some(run) } else { None });
            Some((prefix, Shape { prefix, before, after: parts(after)?.into(), keeps_prefix }))
        })
    });
    shapes.collect()
}

/// The parts of a regular expression.
fn parts(pattern: &str) -> Option<Vec<Part>> {
    let hir = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).ok()?;
    match hir.kind() {
        HirKind::Empty => Some(Vec::new()),
        HirKind::Concat(parts) => parts.iter().map(part).collect(),
        _ => Some(vec![part(&hir)?]),
    }
}

fn part(hir: &Hir) -> Option<Part> {
    match hir.kind() {
        HirKind::Literal(text) => Some(Part::Text(text.0.clone())),
        HirKind::Class(_) => Some(Part::Run(Run { class: class(hir)?, min: 1, max: 1 })),
        HirKind::Repetition(repeated) => {
            let (min, max) = (repeated.min as usize, repeated.max.map_or(usize::MAX, |max| max as usize));
            Some(Part::Run(Run { class: class(&repeated.sub)?, min, max }))
        }
        HirKind::Look(Look::WordAscii) => Some(Part::End),
        _ => None,
    }
}

/// The ASCII bytes of a class, as bits.
fn class(hir: &Hir) -> Option<u128> {
    let ranges = match hir.kind() {
        HirKind::Literal(text) if text.0.len() == 1 => vec![(text.0[0], text.0[0])],
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().map(|range| (range.start(), range.end())).collect()
        }
        _ => return None,
    };
    let bits = ranges.into_iter().flat_map(|(from, to)| from..=to.min(127)).map(|byte| 1 << byte);
    Some(bits.fold(0, |class, bit| class | bit))
}

impl Run {
    fn has(&self, byte: u8) -> bool {
        byte < 128 && self.class & (1 << byte) != 0
    }

    fn length(&self, bytes: impl Iterator<Item = u8>, limit: usize) -> usize {
        bytes.take(limit).take_while(|&byte| self.has(byte)).count()
    }
}

/// The token of a shape whose prefix was found, without regard to case, at a range.
pub(super) fn find(text: &str, prefix: Range<usize>, shape: &Shape, ranges: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    if text.get(prefix.clone()) != Some(shape.prefix) {
        return;
    }
    let head = match &shape.before {
        None if starts_word(bytes, prefix.start) => 0,
        None => return,
        Some(run) => {
            let head = run.length(bytes.iter().take(prefix.start).rev().copied(), run.max + 1);
            if !(run.min..=run.max).contains(&head) {
                return;
            }
            head
        }
    };
    let Some(end) = shape.end(bytes, prefix.end) else { return };
    let start = prefix.start - head;
    let token = text.get(start..end).unwrap_or_default();
    if (shape.prefix == "eyJ" && is_other_json(token)) || (!shape.keeps_prefix && is_file(text, start..end)) {
        return;
    }
    if matches!(shape.prefix, "AKIA" | "ASIA") {
        aws_secrets(bytes, start..end, ranges);
    }
    // The address of a bot: bot123456789:AA…
    let bot = if head > 0 && text.get(..start).is_some_and(|head| head.ends_with("bot")) { "bot".len() } else { 0 };
    ranges.push(if shape.keeps_prefix { prefix.end..end } else { start - bot..end });
}

/// Whether a token ends with the ending of a file, or one follows it.
fn is_file(text: &str, token: Range<usize>) -> bool {
    let end = token.end + run(text.as_bytes(), token.end, ALNUM | bytes::DOT, 16);
    let ending = text.get(token.start..end).and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    ending.is_some_and(|ending| FILES.contains_lower(ending))
}

impl Shape {
    /// Where a token ends whose prefix ends at a position. At the end of the text, it may have lost its own end: then eight
    /// bytes of it must be there, with a digit among them, and the prefix must leave no doubt.
    fn end(&self, bytes: &[u8], at: usize) -> Option<usize> {
        match self.match_parts(bytes, at)? {
            End::Here(end) => Some(end),
            End::Cut => {
                let rest = bytes.get(at..)?.trim_ascii_end();
                let certain = self.prefix.contains(['_', '-', '.']) || matches!(self.prefix, "eyJ" | "AIza");
                (certain && rest.len() >= 8 && rest.iter().any(u8::is_ascii_digit)).then_some(at + rest.len())
            }
        }
    }

    fn match_parts(&self, bytes: &[u8], mut at: usize) -> Option<End> {
        let text_ends = |at: usize| bytes.get(at..).is_some_and(|rest| rest.len() <= 8 && rest.trim_ascii().is_empty());
        for (index, part) in self.after.iter().enumerate() {
            match part {
                Part::Run(run) => {
                    let limit = if index + 1 == self.after.len() { usize::MAX } else { MAX_RUN };
                    let length = run.length(bytes.get(at..)?.iter().copied(), limit);
                    at += length;
                    if length < run.min && text_ends(at) {
                        return Some(End::Cut);
                    }
                    if !(run.min..=run.max).contains(&length) {
                        return None;
                    }
                }
                Part::Text(_) if text_ends(at) => return Some(End::Cut),
                Part::Text(text) if bytes.get(at..)?.starts_with(text) => at += text.len(),
                Part::End if bytes::ends_word(bytes, at) => {}
                Part::Text(_) | Part::End => return None,
            }
        }
        Some(End::Here(at))
    }
}

/// Whether a word in base64 is JSON, but no part of a JSON web token: the cursor of a list, a source map.
fn is_other_json(word: &str) -> bool {
    if word.contains('.') {
        return false;
    }
    let head = word.get(..word.len().min(64) / 4 * 4).unwrap_or_default();
    let Some(decoded) = CODEC.decode(head).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { return false };
    let Some((name, _)) = decoded.strip_prefix("{\"").and_then(|rest| rest.split_once('"')) else { return false };
    decoded.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && !["alg", "typ", "kid", "enc", "cty", "jku", "x5t", "sub", "iss", "aud", "exp", "iat", "jti"].contains(&name)
}

/// The secrets that stand near an AWS access key ID: 40 characters of base64 that are no SHA-1.
fn aws_secrets(bytes: &[u8], id: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let mut at = id.start.saturating_sub(AWS_REACH);
    at += run(bytes, at, BASE64, AWS_REACH);
    let to = (id.end + AWS_REACH).min(bytes.len());
    while at < to {
        let length = run(bytes, at, BASE64, MAX_RUN);
        let word = bytes.get(at..at + length).unwrap_or_default();
        let is_hash = word.iter().all(u8::is_ascii_hexdigit);
        if length == 40 && !is_hash && !is_at(bytes, at + length, EQUALS) && run_before(bytes, at, ALNUM, 1) == 0 {
            ranges.push(at..at + length);
        }
        at += length.max(1);
    }
}
