//! Compiles a pattern.

use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_syntax::{
    ast::{self, Ast, ClassSet, ClassSetBinaryOp, ClassSetItem, Flag, FlagsItemKind, Visitor},
    hir::{Hir, translate::TranslatorBuilder},
};

use super::{MAX_BYTES, Search, coarse};

/// A pattern that is larger than this once compiled gets coarse classes, so that `\w{8,64}` fits.
const MAX_EXACT_BYTES: usize = 32 * 1024;

/// How deep groups, alternatives and repetitions may nest.
const NEST_LIMIT: u32 = 32;
/// How many wide sets a pattern that ignores case may contain in brackets, such as `\S` in `(?i)[\S]`. regex-syntax looks
/// up the other cases of each character in a set, one after the other, which takes 7 ms for all of Unicode.
const MAX_WIDE_SETS: usize = 2;
/// How many characters a range may contain and not be wide.
const WIDE_RANGE: u32 = 8 * 1024;

/// Why a text cannot be used as a pattern, as the end of a sentence that begins with the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("is not a regular expression: {0}")]
    Syntax(String),
    #[error("is too large once compiled")]
    TooLarge,
    #[error("is too slow to compile: in brackets, (?i) allows only two sets such as \\S, \\D and [^a]")]
    TooSlow,
    #[error("matches the empty text")]
    MatchesEmpty,
}

/// A compiled pattern: a nondeterministic automaton over bytes. Unlike a deterministic one, it never grows.
#[derive(Debug)]
pub(super) struct Automaton {
    pub(super) nfa: NFA,
    /// The bytes with which a match can begin.
    pub(super) first: Box<[bool; 256]>,
}

impl Automaton {
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        let hir = parse(pattern)?;
        let nfa = match compile(&hir, MAX_EXACT_BYTES) {
            Err(PatternError::TooLarge) => compile(&coarse::with_coarse_classes(hir), MAX_BYTES),
            result => result,
        };
        Self::of(nfa?)
    }

    /// With exact classes, whatever their size.
    #[cfg(test)]
    pub(super) fn exact(pattern: &str) -> Result<Self, PatternError> {
        Self::of(compile(&parse(pattern)?, MAX_BYTES)?)
    }

    /// With coarse classes, whatever its size.
    #[cfg(test)]
    pub(super) fn coarse(pattern: &str) -> Result<Self, PatternError> {
        Self::of(compile(&coarse::with_coarse_classes(parse(pattern)?), MAX_BYTES)?)
    }

    fn of(nfa: NFA) -> Result<Self, PatternError> {
        let first = Box::new(first_bytes(&nfa));
        let automaton = Self { nfa, first };
        // An empty match would insert a mask between any two characters.
        if ["", "a"].iter().any(|text| Search::new(&automaton, text, u64::MAX).matches_empty()) {
            return Err(PatternError::MatchesEmpty);
        }
        Ok(automaton)
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.first) + self.nfa.memory_usage()
    }
}

fn parse(pattern: &str) -> Result<Hir, PatternError> {
    let ast = ast::parse::ParserBuilder::new()
        .nest_limit(NEST_LIMIT)
        .build()
        .parse(pattern)
        .map_err(|error| PatternError::Syntax(last_line(&error)))?;
    if ast::visit(&ast, WideSets::default()).unwrap_or(usize::MAX) > MAX_WIDE_SETS {
        return Err(PatternError::TooSlow);
    }
    TranslatorBuilder::new().build().translate(pattern, &ast).map_err(|error| PatternError::Syntax(last_line(&error)))
}

fn compile(hir: &Hir, max_bytes: usize) -> Result<NFA, PatternError> {
    let config = Config::new().nfa_size_limit(Some(max_bytes)).which_captures(WhichCaptures::None);
    Compiler::new().configure(config).build_from_hir(hir).map_err(|error| match error.size_limit() {
        Some(_) => PatternError::TooLarge,
        None => PatternError::Syntax(last_line(&error)),
    })
}

/// The bytes that lead on from the states that are reached without one. Assertions count as true.
fn first_bytes(nfa: &NFA) -> [bool; 256] {
    let mut first = [false; 256];
    let mut seen = vec![false; nfa.states().len()];
    let mut stack = vec![nfa.start_anchored()];
    while let Some(id) = stack.pop() {
        if seen.get_mut(id.as_usize()).is_none_or(|seen| std::mem::replace(seen, true)) {
            continue;
        }
        let mut allow = |from: u8, to: u8| (from..=to).for_each(|byte| first[usize::from(byte)] = true);
        match nfa.state(id) {
            State::ByteRange { trans } => allow(trans.start, trans.end),
            State::Sparse(sparse) => sparse.transitions.iter().for_each(|trans| allow(trans.start, trans.end)),
            State::Dense(_) => allow(u8::MIN, u8::MAX),
            State::Look { next, .. } | State::Capture { next, .. } => stack.push(*next),
            State::Union { alternates } => stack.extend(alternates),
            State::BinaryUnion { alt1, alt2 } => stack.extend([alt1, alt2]),
            State::Fail | State::Match { .. } => {}
        }
    }
    first
}

/// Counts the sets in brackets that are slow to fold; 0 if the pattern does not ignore case.
#[derive(Debug, Default)]
struct WideSets {
    ignores_case: bool,
    count: usize,
}

impl WideSets {
    fn see_flags(&mut self, flags: &ast::Flags) {
        let is_case = |item: &ast::FlagsItem| item.kind == FlagsItemKind::Flag(Flag::CaseInsensitive);
        self.ignores_case |= flags.items.iter().any(is_case);
    }
}

impl Visitor for WideSets {
    type Output = usize;
    type Err = ();

    fn finish(self) -> Result<usize, ()> {
        Ok(if self.ignores_case { self.count } else { 0 })
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), ()> {
        match ast {
            Ast::Flags(flags) => self.see_flags(&flags.flags),
            Ast::Group(group) => group.flags().into_iter().for_each(|flags| self.see_flags(flags)),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), ()> {
        let is_wide = match item {
            ClassSetItem::Perl(class) => class.negated,
            ClassSetItem::Ascii(class) => class.negated,
            ClassSetItem::Range(range) => u32::from(range.end.c) - u32::from(range.start.c) > WIDE_RANGE,
            ClassSetItem::Bracketed(class) => class.negated || matches!(class.kind, ClassSet::BinaryOp(_)),
            ClassSetItem::Unicode(_) => true,
            ClassSetItem::Empty(_) | ClassSetItem::Literal(_) | ClassSetItem::Union(_) => false,
        };
        self.count += usize::from(is_wide);
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), ()> {
        self.count += 1;
        Ok(())
    }
}

/// The last line of an error, which contains the message; the lines before it draw the pattern and a caret.
fn last_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
