//! Matches a text from one position on with a pattern, which is written as a regular expression.
//!
//! No automata are compiled: those of all rules took 25 MiB. The parsed expression is interpreted, which suffices
//! because a pattern is tried only where its needle was found. It differs from a regular expression in two ways.
//! Repetitions such as `\d{4,8}` take all they can and give nothing back, and a run of a class fails if it is longer
//! than its bound; `*?` and its like take as few as the rest of the pattern allows. And `\b` is the end of a word, `$`
//! that of a line, perhaps after blanks.
//!
//! Names in braces stand for pieces, such as `{value}`. A group is the value to mask.

use std::{ops::Range, sync::OnceLock};

use regex_syntax::{
    ParserBuilder,
    hir::{self, Hir, HirKind, Look},
};

use super::text::{BLANK, ends_word, run};

/// The pieces of patterns. One may contain those below it.
const PIECES: &[(&str, &str)] = &[
    // What announces a value in a sentence, and a value at the end of a line or of a part of a sentence.
    (
        "{stated}",
        r#"(?:(?:is|was):? *|(?:created|generated|issued|rotated|renewed|now|set|added|received)[\w .@-]{0,64}: +|(?:for|of) [^:="'\n]{0,64}: +|(?:for|of) [^\n]{0,64}? (?:is|was|to|now):? +)?"#,
    ),
    ("{last}", r#"(?:{value}(?:["']|$)|([^\s"'`]+?)[.,;][ \n])"#),
    ("{argument}", r#"{gap}(?:"[^"\n]*"|'[^'\n]*'){gap},"#),
    ("{quoted}", r#"{gap}(?:"([^"\n]+)"|'([^'\n]+)')"#),
    ("{value}", r#"(?:"([^"\n]*)|'([^'\n]*)|`([^`\n]*)|([^\s"'`]+))"#),
    // The place after a colon, but for `::` and `://`.
    ("{colon}", r"(?:{blanks}()|()[^:/]|()/[^/]|()$)"),
    // A quote that is encoded for a URL, for HTML or as Unicode.
    ("{encoded}", r"(?:%22|%27|%5C%22|&quot;|&#34;|&#39;|&#x27;|\\u0022|\\x22)"),
    // The rest of a tag, and its content. Without an end, it is the description of an option: --password <password>  the password
    ("{tag}", r"(?: (?:[^>\n</]|/[^>\n<])*)?>([^<\n]+)<"),
    ("{quote}", r#"(?:\\*["'`])?"#),
    ("{blanks}", r"[ \t\r]+"),
    ("{gap}", r"[ \t\r]*"),
];

/// The longest run that is examined if something must follow, in bytes.
pub(super) const MAX_RUN: usize = 1024;

/// A pattern, which is parsed when it is first needed. A wrong one matches nothing.
#[derive(Debug)]
pub(super) struct Pattern {
    text: &'static str,
    parsed: OnceLock<Option<Parsed>>,
}

#[derive(Debug)]
struct Parsed {
    nodes: Box<[Node]>,
    /// The bytes with which a match may begin, after blanks if the pattern begins with them. This rules most positions out.
    first: Class,
}

#[derive(Debug)]
enum Node {
    Text(Box<[u8]>),
    One(Class),
    Run { class: Class, min: usize, max: usize, is_lazy: bool },
    Any(Box<[Box<[Node]>]>),
    Repeated { nodes: Box<[Node]>, min: u32, max: u32 },
    Value(Box<[Node]>),
    WordEnd,
    LineEnd,
}

/// Bytes: those of ASCII as bits, and whether all others belong to the class.
#[derive(Clone, Copy, Debug)]
struct Class {
    ascii: u128,
    others: bool,
}

/// The result of a match.
#[derive(Debug, Default)]
pub(super) struct Match {
    pub end: Option<usize>,
    pub value: Option<Range<usize>>,
    /// Where the text ended before the pattern, if it did.
    pub cut: Option<usize>,
}

impl Match {
    /// The value, if the whole pattern matches.
    pub(super) fn complete(self) -> Option<Range<usize>> {
        self.end.and(self.value)
    }
}

impl Pattern {
    pub(super) const fn new(text: &'static str) -> Self {
        Self { text, parsed: OnceLock::new() }
    }

    /// Absent if the pattern contains what is not supported.
    fn parsed(&self) -> Option<&Parsed> {
        self.parsed.get_or_init(|| Parsed::new(self.text)).as_ref()
    }

    #[cfg(test)]
    pub(super) fn is_right(&self) -> bool {
        self.parsed().is_some()
    }

    /// Whether a match may begin with a byte, perhaps after blanks.
    pub(super) fn may_begin_with(&self, byte: u8) -> bool {
        self.parsed().is_some_and(|parsed| parsed.first.has(byte))
    }

    /// Matches the pattern from a position on, if asked without regard to the case of its texts.
    pub(super) fn match_at(&self, bytes: &[u8], at: usize, ignores_case: bool) -> Match {
        let Some(Parsed { nodes, first }) = self.parsed() else { return Match::default() };
        let blanks = if begins_with_blanks(nodes) { run(bytes, at, BLANK, MAX_RUN) } else { 0 };
        if bytes.get(at + blanks).is_some_and(|&byte| !first.has(byte)) {
            return Match::default();
        }
        let mut search = Search { bytes, ignores_case, found: Match::default() };
        search.found.end = search.follow(at, &Rest { nodes, value: None, next: None });
        search.found
    }

    /// The value in a text that the pattern matches from a position on, without regard to the case of its texts.
    pub(super) fn value(&self, text: &str, at: usize) -> Option<Range<usize>> {
        self.match_at(text.as_bytes(), at, true).complete()
    }

    /// For a pattern that is a run of ASCII bytes: how many precede a position, if these are neither too few nor too many.
    pub(super) fn length_before(&self, bytes: &[u8]) -> Option<usize> {
        let [Node::Run { class, min, max, .. }] = &*self.parsed()?.nodes else { return Some(0) };
        let length = bytes.iter().rev().take(max.saturating_add(1)).take_while(|&&byte| class.has(byte)).count();
        (*min..=*max).contains(&length).then_some(length)
    }
}

impl Parsed {
    fn new(text: &str) -> Option<Self> {
        let whole = PIECES.iter().fold(text.to_owned(), |whole, (name, piece)| whole.replace(name, piece));
        let hir = ParserBuilder::new().unicode(false).utf8(false).build().parse(&whole).ok()?;
        let nodes = nodes(&hir)?;
        let mut first = Class { ascii: 0, others: false };
        if !add_first(nodes.get(usize::from(begins_with_blanks(&nodes))..)?, &mut first) {
            first = Class { ascii: u128::MAX, others: true };
        }
        Some(Self { nodes, first })
    }
}

fn nodes(hir: &Hir) -> Option<Box<[Node]>> {
    match hir.kind() {
        HirKind::Empty => Some(Box::default()),
        HirKind::Concat(parts) => parts.iter().map(node).collect(),
        _ => Some([node(hir)?].into()),
    }
}

fn node(hir: &Hir) -> Option<Node> {
    Some(match hir.kind() {
        HirKind::Literal(text) => Node::Text(text.0.clone()),
        HirKind::Class(_) => Node::One(Class::of(hir)?),
        HirKind::Capture(group) => Node::Value(nodes(&group.sub)?),
        HirKind::Alternation(all) => Node::Any(all.iter().map(nodes).collect::<Option<_>>()?),
        HirKind::Repetition(repeated) => match (repeated.min, repeated.max, Class::of(&repeated.sub)) {
            (0, Some(1), _) => Node::Any([nodes(&repeated.sub)?, Box::default()].into()),
            (min, max, Some(class)) => {
                let max = max.map_or(usize::MAX, |max| max as usize);
                Node::Run { class, min: min as usize, max, is_lazy: !repeated.greedy }
            }
            (min, max, None) => Node::Repeated { nodes: nodes(&repeated.sub)?, min, max: max.unwrap_or(u32::MAX) },
        },
        HirKind::Look(Look::WordAscii) => Node::WordEnd,
        HirKind::Look(Look::End) => Node::LineEnd,
        HirKind::Empty | HirKind::Look(_) | HirKind::Concat(_) => return None,
    })
}

fn begins_with_blanks(nodes: &[Node]) -> bool {
    matches!(nodes.first(), Some(Node::Run { class: Class { ascii: BLANK, others: false }, .. }))
}

/// Adds the bytes with which a match of nodes may begin. Returns whether it is never empty.
fn add_first(nodes: &[Node], first: &mut Class) -> bool {
    nodes.iter().any(|node| match node {
        Node::Text(text) => {
            let byte = text.first().copied().unwrap_or_default();
            first.add(Class::of_bytes(byte.to_ascii_lowercase(), byte.to_ascii_lowercase()));
            first.add(Class::of_bytes(byte.to_ascii_uppercase(), byte.to_ascii_uppercase()));
            true
        }
        Node::One(class) => {
            first.add(*class);
            true
        }
        Node::Run { class, min, .. } => {
            first.add(*class);
            *min > 0
        }
        Node::Any(all) => all.iter().filter(|nodes| !add_first(nodes, first)).count() == 0,
        Node::Repeated { nodes, min, .. } => add_first(nodes, first) && *min > 0,
        Node::Value(nodes) => add_first(nodes, first),
        Node::WordEnd | Node::LineEnd => false,
    })
}

impl Class {
    fn of_bytes(from: u8, to: u8) -> Self {
        let bits = (from..=to.min(127)).fold(0, |bits, byte| bits | 1 << byte);
        Self { ascii: bits, others: to > 127 }
    }

    /// The class of a single byte. Bytes beyond ASCII belong to it if the last one does, or if it is only one of them.
    fn of(hir: &Hir) -> Option<Self> {
        let mut all = Self { ascii: 0, others: false };
        match hir.kind() {
            HirKind::Literal(text) if text.0.len() == 1 => all.add(Self::of_bytes(text.0[0], text.0[0])),
            HirKind::Class(hir::Class::Bytes(class)) => {
                class.ranges().iter().for_each(|range| all.add(Self::of_bytes(range.start(), range.end())));
            }
            _ => return None,
        }
        Some(all)
    }

    fn add(&mut self, other: Self) {
        self.ascii |= other.ascii;
        self.others |= other.others;
    }

    fn has(&self, byte: u8) -> bool {
        if byte < 128 { self.ascii & (1 << byte) != 0 } else { self.others }
    }
}

/// The nodes that follow, the value that ends after them, with its start, and what follows then.
struct Rest<'a> {
    nodes: &'a [Node],
    value: Option<usize>,
    next: Option<&'a Rest<'a>>,
}

struct Search<'a> {
    bytes: &'a [u8],
    ignores_case: bool,
    found: Match,
}

impl Search<'_> {
    /// Where the match ends, if the rest matches from this position on.
    fn follow(&mut self, mut at: usize, rest: &Rest<'_>) -> Option<usize> {
        for (index, node) in rest.nodes.iter().enumerate() {
            let after = Rest { nodes: rest.nodes.get(index + 1..)?, ..*rest };
            match node {
                Node::Text(text) => at += self.text(at, text)?,
                Node::One(class) => {
                    self.note_end(at);
                    self.bytes.get(at).filter(|&&byte| class.has(byte))?;
                    at += 1;
                }
                Node::Run { class, min, max, is_lazy: true } => {
                    let length = self.length(at, class, (*max).min(MAX_RUN));
                    return (at + *min..=at + length).find_map(|end| self.follow_nodes(end, after.nodes, &after));
                }
                Node::Run { class, min, max, is_lazy: false } => {
                    let is_last = after.nodes.is_empty() && after.next.is_none();
                    let longest = if is_last { usize::MAX } else { MAX_RUN };
                    let length = self.length(at, class, max.saturating_add(1).min(longest));
                    at += length;
                    if length < *min {
                        self.note_end(at);
                    }
                    if !(*min..=*max).contains(&length) {
                        return None;
                    }
                }
                Node::Any(all) => {
                    return all.iter().find_map(|nodes| {
                        self.follow_nodes(at, nodes, &Rest { nodes, value: None, next: Some(&after) })
                    });
                }
                Node::Repeated { nodes, min, max } => {
                    let once = Rest { nodes, value: None, next: None };
                    let mut count = 0;
                    while count < *max
                        && let Some(end) = self.follow(at, &once).filter(|&end| end > at)
                    {
                        (at, count) = (end, count + 1);
                    }
                    if count < *min {
                        return None;
                    }
                }
                Node::Value(nodes) => {
                    return self.follow(at, &Rest { nodes, value: Some(at), next: Some(&after) });
                }
                Node::WordEnd if !ends_word(self.bytes, at) => return None,
                Node::LineEnd if !self.ends_line(at) => return None,
                Node::WordEnd | Node::LineEnd => {}
            }
        }
        if let Some(start) = rest.value {
            self.found.value = Some(start..at);
        }
        rest.next.map_or(Some(at), |next| self.follow(at, next))
    }

    /// Where the match ends that begins with nodes. Most positions are ruled out by the first byte.
    fn follow_nodes(&mut self, at: usize, nodes: &[Node], rest: &Rest<'_>) -> Option<usize> {
        let may_begin = match (self.bytes.get(at), nodes.first()) {
            (Some(byte), Some(Node::Text(text))) => text.first().is_none_or(|first| first.eq_ignore_ascii_case(byte)),
            (Some(&byte), Some(Node::One(class))) => class.has(byte),
            _ => true,
        };
        if may_begin { self.follow(at, rest) } else { None }
    }

    fn text(&mut self, at: usize, text: &[u8]) -> Option<usize> {
        let found = self.bytes.get(at..at + text.len()).unwrap_or_default();
        let is_equal = if self.ignores_case { found.eq_ignore_ascii_case(text) } else { found == text };
        if !is_equal {
            self.note_end(at);
        }
        is_equal.then_some(text.len())
    }

    fn length(&self, at: usize, class: &Class, limit: usize) -> usize {
        let bytes = self.bytes.get(at..).unwrap_or_default();
        bytes.iter().take(limit).take_while(|&&byte| class.has(byte)).count()
    }

    fn ends_line(&self, at: usize) -> bool {
        let at = at + run(self.bytes, at, BLANK, MAX_RUN);
        self.bytes.get(at).is_none_or(|&byte| byte == b'\n')
    }

    /// Notes if the text ends at a position, perhaps with a line break.
    fn note_end(&mut self, at: usize) {
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.len() <= 8 && rest.trim_ascii().is_empty() {
            self.found.cut = Some(at);
        }
    }
}
