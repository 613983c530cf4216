//! Compiles a pattern, and searches a text for it.

use std::ops::Range;

use regex_automata::{
    Input,
    hybrid::{self, dfa, regex::Regex},
    nfa::thompson::{
        self, Compiler, NFA, WhichCaptures,
        pikevm::{self, PikeVM},
    },
};
use regex_syntax::{
    ast::{self, ClassSet, ClassSetItem, Visitor},
    hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition, translate::TranslatorBuilder},
};

/// The most bytes of one compiled pattern.
pub(super) const MAX_BYTES: usize = 128 * 1024;
/// A pattern that is larger than this once compiled gets coarse classes, so that `\w{8,64}` fits.
const MAX_EXACT_BYTES: usize = 32 * 1024;
/// How many times larger the automaton may be that searches for the start of a match, backwards.
const BACKWARDS: usize = 4;

/// How deep groups, alternatives and repetitions may nest.
const NEST_LIMIT: u32 = 32;
/// How many wide sets a pattern that ignores case may contain in brackets, such as `\S` in `(?i)[\S]`. regex-syntax looks
/// up the other cases of each character in a set, one after the other, which takes 7 ms for all of Unicode.
const MAX_WIDE_SETS: usize = 2;
/// How many characters a range may contain and not be wide.
const WIDE_RANGE: u32 = 8 * 1024;

/// The memory for the states that a search has reached, in bytes. It is freed after each text.
const CACHE_BYTES: usize = 512 * 1024;
/// A search is given up if this memory was filled so often, and each state was used for fewer bytes of the text than this.
const MOST_FILLED: usize = 3;
const LEAST_BYTES_PER_STATE: usize = 10;
/// The most states times bytes that the slower engine may search instead, which takes a fifth of a second at worst.
const MAX_SLOW: usize = 32 * 1024 * 1024;

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

/// A compiled pattern, for two engines of regex-automata. The faster one builds the states that it reaches. It stops if these
/// become too many, or at the first byte beyond ASCII if the pattern contains `\b`, which is that of Unicode.
#[derive(Debug)]
pub(super) struct Automaton {
    fast: Regex,
    slow: PikeVM,
}

/// A search would take too long.
#[derive(Debug)]
pub(super) struct TooSlow;

/// The search of one pattern in one text.
pub(super) struct Search<'a> {
    automaton: &'a Automaton,
    text: &'a str,
    fast: hybrid::regex::Cache,
    /// Made when it is needed.
    slow: Option<pikevm::Cache>,
}

impl Automaton {
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        let hir = parse(pattern)?;
        match Self::of(&hir, MAX_EXACT_BYTES) {
            Err(PatternError::TooLarge) => Self::of(&with_coarse_classes(hir), MAX_BYTES),
            result => result,
        }
    }

    /// With exact classes, whatever their size.
    #[cfg(test)]
    pub(super) fn exact(pattern: &str) -> Result<Self, PatternError> {
        Self::of(&parse(pattern)?, MAX_BYTES)
    }

    /// With coarse classes, whatever its size.
    #[cfg(test)]
    pub(super) fn coarse(pattern: &str) -> Result<Self, PatternError> {
        Self::of(&with_coarse_classes(parse(pattern)?), MAX_BYTES)
    }

    fn of(hir: &Hir, max_bytes: usize) -> Result<Self, PatternError> {
        let forward = thompson::Config::new().which_captures(WhichCaptures::Implicit);
        let forward = compile(hir, forward, max_bytes)?;
        let backward = thompson::Config::new().which_captures(WhichCaptures::None).reverse(true);
        let backward = compile(hir, backward, BACKWARDS * max_bytes)?;
        let config = dfa::Config::new()
            .unicode_word_boundary(true)
            .cache_capacity(CACHE_BYTES)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(MOST_FILLED))
            .minimum_bytes_per_state(Some(LEAST_BYTES_PER_STATE));
        // A match is searched backwards from its end, for its longest form.
        let backwards = config.clone().match_kind(regex_automata::MatchKind::All);
        let dfa = |config, nfa| dfa::Builder::new().configure(config).build_from_nfa(nfa).map_err(syntax);
        let fast = Regex::builder().build_from_dfas(dfa(config, forward.clone())?, dfa(backwards, backward)?);
        Ok(Self { fast, slow: PikeVM::new_from_nfa(forward).map_err(syntax)? })
    }

    /// The size that is limited: that of the automaton that searches forwards.
    pub(super) fn bytes(&self) -> usize {
        self.slow.get_nfa().memory_usage()
    }

    /// The memory that it takes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.fast.forward().memory_usage() + self.fast.reverse().memory_usage()
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(automaton: &'a Automaton, text: &'a str) -> Self {
        Self { automaton, text, fast: automaton.fast.create_cache(), slow: None }
    }

    /// Whether a search may take long, so that the clock must be read after each.
    pub(super) fn is_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// The first match that starts at a position or later.
    pub(super) fn next(&mut self, from: usize) -> Result<Option<Range<usize>>, TooSlow> {
        let input = Input::new(self.text).range(from..);
        if let Ok(found) = self.automaton.fast.try_search(&mut self.fast, &input) {
            return Ok(found.map(|found| found.range()));
        }
        let slow = &self.automaton.slow;
        if slow.get_nfa().states().len() * (self.text.len() - from) > MAX_SLOW {
            return Err(TooSlow);
        }
        let cache = self.slow.get_or_insert_with(|| slow.create_cache());
        Ok(slow.find_iter(cache, input).next().map(|found| found.range()))
    }
}

fn parse(pattern: &str) -> Result<Hir, PatternError> {
    let ast = ast::parse::ParserBuilder::new().nest_limit(NEST_LIMIT).build().parse(pattern).map_err(syntax)?;
    let ignores_case = || {
        pattern.split("(?").skip(1).any(|rest| rest.split([':', ')']).next().is_some_and(|flags| flags.contains('i')))
    };
    if ast::visit(&ast, WideSets(0)).unwrap_or(usize::MAX) > MAX_WIDE_SETS && ignores_case() {
        return Err(PatternError::TooSlow);
    }
    let hir = TranslatorBuilder::new().build().translate(pattern, &ast).map_err(syntax)?;
    // An empty match would insert a mask between any two characters.
    if hir.properties().minimum_len() == Some(0) { Err(PatternError::MatchesEmpty) } else { Ok(hir) }
}

fn compile(hir: &Hir, config: thompson::Config, max_bytes: usize) -> Result<NFA, PatternError> {
    let compiled = Compiler::new().configure(config.nfa_size_limit(Some(max_bytes))).build_from_hir(hir);
    compiled.map_err(|error| if error.size_limit().is_some() { PatternError::TooLarge } else { syntax(error) })
}

/// The last line of an error, which contains the message; the lines before it draw the pattern and a caret.
fn syntax(error: impl std::error::Error) -> PatternError {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    PatternError::Syntax(last.strip_prefix("error: ").unwrap_or(last).to_owned())
}

/// A class with more ranges outside of ASCII becomes coarse.
const MAX_RANGES: usize = 4;
/// The first character outside of ASCII.
const FIRST: char = '\u{80}';

/// The pattern with coarse classes, which are smaller: in UTF-8, `\w` takes 18 KiB once compiled, and a repetition contains
/// it again and again. They are the same within ASCII. Beyond, digits and white space match nothing, and any
/// other class everything, because it is safer to mask too much than too little.
fn with_coarse_classes(pattern: Hir) -> Hir {
    match pattern.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Hir::class(Class::Unicode(coarse(class))),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
            Hir::repetition(Repetition { min, max, greedy, sub: Box::new(with_coarse_classes(*sub)) })
        }
        HirKind::Capture(Capture { index, name, sub }) => {
            Hir::capture(Capture { index, name, sub: Box::new(with_coarse_classes(*sub)) })
        }
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(with_coarse_classes).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(with_coarse_classes).collect()),
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Look(look) => Hir::look(look),
    }
}

fn coarse(class: ClassUnicode) -> ClassUnicode {
    let others = || class.iter().filter(|range| !range.end().is_ascii());
    if others().count() <= MAX_RANGES {
        return class;
    }
    let ascii = class.iter().filter(|range| range.start().is_ascii());
    let ascii = ascii.map(|range| ClassUnicodeRange::new(range.start(), range.end().min('\x7f')));
    let mut firsts = others().map(|range| range.start().max(FIRST));
    let is_digits_or_space = firsts.all(|first| first.is_numeric() || first.is_whitespace());
    let rest = (!is_digits_or_space).then(|| ClassUnicodeRange::new(FIRST, char::MAX));
    ClassUnicode::new(ascii.chain(rest))
}

/// Counts the sets in brackets that are slow to fold.
struct WideSets(usize);

impl Visitor for WideSets {
    type Output = usize;
    type Err = ();

    fn finish(self) -> Result<usize, ()> {
        Ok(self.0)
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
        self.0 += usize::from(is_wide);
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ast::ClassSetBinaryOp) -> Result<(), ()> {
        self.0 += 1;
        Ok(())
    }
}
