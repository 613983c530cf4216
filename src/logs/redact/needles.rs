//! Finds every occurrence of many short texts in a text, without regard to the case of ASCII letters.
//!
//! Needles are looked up by their last three bytes. Unlike the states of an automaton, such a lookup does not depend on the
//! one before it, so the processor works on several positions at the same time. The crate `aho-corasick`, which the tests
//! compare this with, takes twice as long for a text about credentials, except with a table of a megabyte.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range, slice};

/// The ASCII characters of needles have classes of their own, unless there are more than 62. The other ones have class 0, and
/// all further bytes have the last class.
const CLASSES: usize = 1 << CLASS_BITS;
const CLASS_BITS: usize = 6;

/// How many pairs of classes there are, and how many triples.
const PAIRS: usize = CLASSES * CLASSES;
const TRIPLES: usize = PAIRS * CLASSES;

/// A set of needles.
pub(super) struct Needles {
    needles: Vec<&'static str>,
    classes: [u8; 256],
    /// By the classes of two bytes: those of the third bytes with which a needle may end, as bits.
    thirds: Vec<u64>,
    /// By the classes of two bytes: the index of the list of the first bit. The lists of the other bits follow.
    first: Vec<u16>,
    /// Where each list begins in `candidates`. The next one begins where it ends.
    lists: Vec<u16>,
    /// Indexes of needles. In a list, longer needles are first, and others keep their order.
    candidates: Vec<u16>,
}

impl Needles {
    /// None if a needle is empty, or if there are too many.
    pub(super) fn new(needles: Vec<&'static str>) -> Option<Self> {
        let classes = classes(&needles);
        let mut order: Vec<(u16, &str)> = (0..=u16::MAX).zip(needles.iter().copied()).collect();
        order.sort_by_key(|(_, needle)| Reverse(needle.len()));
        // By the classes of the last three bytes. Any bytes may precede a shorter needle.
        let mut found = BTreeMap::<usize, Vec<u16>>::new();
        for (index, needle) in order {
            let mut end = needle.bytes().rev().map(|byte| class(&classes, byte));
            let (last, second, first) = (end.next()?, end.next(), end.next());
            let range = |class: Option<usize>| class.map_or(0..CLASSES, |class| class..class + 1);
            for first in range(first) {
                for second in range(second) {
                    found.entry(first * PAIRS + second * CLASSES + last).or_default().push(index);
                }
            }
        }
        let (mut thirds, mut first) = (vec![0; PAIRS], vec![0; PAIRS]);
        let (mut lists, mut candidates) = (vec![0], Vec::new());
        for (triple, indexes) in found {
            let (third, first) = (thirds.get_mut(triple / CLASSES)?, first.get_mut(triple / CLASSES)?);
            if *third == 0 {
                *first = u16::try_from(lists.len() - 1).ok()?;
            }
            *third |= 1 << (triple % CLASSES);
            candidates.extend(indexes);
            lists.push(u16::try_from(candidates.len()).ok()?);
        }
        (needles.len() <= usize::from(u16::MAX)).then_some(Self { needles, classes, thirds, first, lists, candidates })
    }

    /// All occurrences, also those that overlap: the index of the needle, and its range. They are sorted by their ends,
    /// then by their starts, and then by the indexes.
    pub(super) fn find<'a>(&'a self, text: &'a str) -> Matches<'a> {
        Matches { needles: self, bytes: text.as_bytes(), end: 0, triple: 0, candidates: [].iter() }
    }

    /// The needles that may end with bytes of these classes, if `thirds` has the bit of the last one.
    fn candidates(&self, triple: usize) -> Option<&[u16]> {
        let (pair, third) = (triple / CLASSES, triple % CLASSES);
        let before = self.thirds.get(pair)? & ((1 << third) - 1);
        let list = usize::from(*self.first.get(pair)?) + before.count_ones() as usize;
        let (from, to) = (self.lists.get(list)?, self.lists.get(list + 1)?);
        self.candidates.get(usize::from(*from)..usize::from(*to))
    }
}

fn class(classes: &[u8; 256], byte: u8) -> usize {
    usize::from(classes[usize::from(byte)])
}

/// The classes of bytes. Both cases of a letter have the same one.
fn classes(needles: &[&str]) -> [u8; 256] {
    let last = CLASSES as u8 - 1;
    let mut classes = [0; 256];
    classes[128..].fill(last);
    let mut next = 0;
    for byte in needles.iter().flat_map(|needle| needle.bytes()) {
        let (lower, upper) = (byte.to_ascii_lowercase(), byte.to_ascii_uppercase());
        if classes[usize::from(lower)] == 0 {
            classes[usize::from(lower)] = 1 + next;
            classes[usize::from(upper)] = 1 + next;
            next = (next + 1) % (last - 1);
        }
    }
    classes
}

/// An iterator over occurrences.
pub(super) struct Matches<'a> {
    needles: &'a Needles,
    bytes: &'a [u8],
    /// Where the candidates end.
    end: usize,
    /// The classes of the three bytes before that.
    triple: usize,
    candidates: slice::Iter<'a, u16>,
}

impl<'a> Matches<'a> {
    /// Moves to the next position at which a needle may end.
    fn advance(&mut self) -> Option<&'a [u16]> {
        let needles = self.needles;
        let mut triple = self.triple;
        for (offset, &byte) in self.bytes.get(self.end..)?.iter().enumerate() {
            triple = (triple * CLASSES + class(&needles.classes, byte)) % TRIPLES;
            let thirds = needles.thirds.get(triple / CLASSES).copied().unwrap_or_default();
            if thirds & (1 << (triple % CLASSES)) != 0 {
                self.end += offset + 1;
                self.triple = triple;
                return needles.candidates(triple);
            }
        }
        None
    }
}

impl Iterator for Matches<'_> {
    type Item = (usize, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            for &index in self.candidates.by_ref() {
                let index = usize::from(index);
                let needle = self.needles.needles.get(index).copied().unwrap_or_default();
                let Some(start) = self.end.checked_sub(needle.len()) else { continue };
                let found = self.bytes.get(start..self.end).unwrap_or_default();
                if found.iter().zip(needle.as_bytes()).all(|(found, byte)| found.eq_ignore_ascii_case(byte)) {
                    return Some((index, start..self.end));
                }
            }
            self.candidates = self.advance()?.iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use aho_corasick::{AhoCorasick, MatchKind};
    use proptest::prelude::*;

    use super::*;
    use crate::logs::redact::{search, tests::corpus};

    type Found = Vec<(usize, Range<usize>)>;

    fn automaton(needles: &[&str]) -> AhoCorasick {
        AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::Standard).build(needles).unwrap()
    }

    fn expected(automaton: &AhoCorasick, text: &str) -> Found {
        automaton.find_overlapping_iter(text).map(|found| (found.pattern().as_usize(), found.range())).collect()
    }

    fn found(needles: &[&'static str], text: &str) -> Found {
        Needles::new(needles.to_vec()).unwrap().find(text).collect()
    }

    #[test]
    fn finds_overlapping_needles_in_the_order_of_their_ends() {
        let needles = ["b", "ab", "aab", "abc", "Ab", "é"];
        let expected = [(2, 1..4), (1, 2..4), (4, 2..4), (0, 3..4), (3, 2..5), (5, 5..7)];
        assert_eq!(found(&needles, "xAABCé"), expected);
        assert_eq!(found(&[], "text"), []);
        assert!(Needles::new(vec!["a", ""]).is_none());
    }

    #[test]
    fn finds_the_needles_of_the_rules_as_an_automaton_does() {
        let needles: Vec<&str> = search::needles().map(|(needle, _)| needle).collect();
        let mut text = [corpus::SECRETS, corpus::INNOCENT].concat();
        text.push_str(&needles.concat());
        text.push_str(&needles.join("x").to_uppercase());
        assert_eq!(found(&needles, &text), expected(&automaton(&needles), &text));
    }

    /// More needles end with different bytes than there are classes.
    const NEEDLES: &str = "a b : é ab ba aa :a a: éa aé éé aba bab aab abb a:b :: :a: abab baba aaaa aaab bbba abé éab AB Aé \
                           c!d e\"f g#h i$j k%l m&n o'p q(r s)t u*v w+x y,z 0-1 2.3 4/5 6;7 8<9 a=b >a ?a @a [a \\a ]a ^a _a \
                           `a {a |a }a ~a";

    static BOTH: LazyLock<(Needles, AhoCorasick)> = LazyLock::new(|| {
        let needles: Vec<_> = NEEDLES.split(' ').collect();
        (Needles::new(needles.clone()).unwrap(), automaton(&needles))
    });

    proptest! {
        #[test]
        fn finds_any_needles_as_an_automaton_does(
            text in prop::collection::vec(prop_oneof![2 => "[abABé:]", 1 => "[ -~]", 1 => ".{0,4}"], 0..60),
        ) {
            let text = text.concat();
            let found: Found = BOTH.0.find(&text).collect();
            prop_assert_eq!(found, expected(&BOTH.1, &text));
        }
    }
}
