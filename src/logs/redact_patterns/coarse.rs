//! Makes the classes of a pattern smaller.
//!
//! In UTF-8, `\w` takes 18 KiB once compiled, and a repetition contains it again and again. A class that is coarse outside of
//! ASCII takes a few hundred bytes.

use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition};

/// A class with more ranges outside of ASCII becomes coarse.
const MAX_RANGES: usize = 4;
/// The first character outside of ASCII.
const FIRST: char = '\u{80}';

/// The pattern with coarse classes. They are the same within ASCII. Beyond, digits and white space match nothing, and any
/// other class everything, because it is safer to mask too much than too little.
pub(super) fn with_coarse_classes(pattern: Hir) -> Hir {
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
