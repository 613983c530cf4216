//! What a template may contain, checked in its source: blocks that decide and repeat, but none that read other templates, change
//! how values are escaped, or multiply texts.

/// The blocks of a template. All others, such as `include`, `macro`, `autoescape` and `raw`, are refused.
const BLOCKS: [&str; 9] = ["if", "elif", "else", "endif", "for", "endfor", "set", "endset", "with"];
const END_WITH: &str = "endwith";

/// The first thing that a template may not contain: its offset, and what it is.
pub(super) fn refused(source: &str) -> Option<(usize, String)> {
    let mut rest = 0;
    while let Some((at, opening)) = next_opening(source, rest) {
        let inside = at + opening.len();
        rest = match opening {
            "{#" => source.get(inside..)?.find("#}").map(|length| inside + length + 2)?,
            _ => {
                let (end, multiplies) = scan(source, inside);
                if let Some(star) = multiplies {
                    return Some((star, "* is not available: texts cannot be repeated".to_owned()));
                }
                if opening == "{%" {
                    let code = source.get(inside..end).unwrap_or_default().trim_start_matches(['-', '+']).trim_start();
                    let word: String = code.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                    if !BLOCKS.contains(&word.as_str()) && word != END_WITH {
                        return Some((at, format!("the block {:?} is not available", shortened(&word))));
                    }
                }
                end
            }
        };
    }
    None
}

fn shortened(word: &str) -> String {
    word.chars().take(32).collect()
}

fn next_opening(source: &str, from: usize) -> Option<(usize, &'static str)> {
    let found = |opening: &'static str| source.get(from..)?.find(opening).map(|at| (from + at, opening));
    ["{{", "{%", "{#"].into_iter().filter_map(found).min()
}

/// The end of the code that begins at an offset, and where it multiplies. A text ends as in the language: at the same quotation
/// mark, unless a backslash precedes it.
fn scan(source: &str, from: usize) -> (usize, Option<usize>) {
    let (mut quote, mut maps) = (None, 0_usize);
    let mut chars = source.get(from..).unwrap_or_default().char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match quote {
            Some(_) if c == '\\' => _ = chars.next(),
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '{' => maps += 1,
            None if c == '}' && maps > 0 => maps -= 1,
            None if c == '*' => return (source.len(), Some(from + at)),
            None if matches!(c, '}' | '%') && chars.peek().is_some_and(|(_, next)| *next == '}') => {
                return (from + at + 2, None);
            }
            None => {}
        }
    }
    (source.len(), None)
}

/// The line and the column of an offset, from 1.
pub(super) fn position(source: &str, offset: usize) -> (usize, usize) {
    let before = source.get(..offset).unwrap_or(source);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Where a variable is first used.
pub(super) fn find_name(source: &str, name: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let is_alone = |at: &usize| {
        let (before, after) =
            (source.get(..*at).unwrap_or_default(), source.get(at + name.len()..).unwrap_or_default());
        !before.ends_with(is_word) && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    };
    let code = source.find('{').unwrap_or_default();
    source.match_indices(name).map(|(at, _)| at).filter(|at| *at >= code).find(is_alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_blocks_that_are_not_listed_and_products() {
        for (source, expected) in [
            ("{{ title }}", None),
            ("a * b {# * #} {{ \"*\" }} {{ '\\'*' }}", None),
            ("{% if a %}{%- for x in y -%}{% endfor %}{%else%}{% endif %}", None),
            ("{% set a = 1 %}{% set b %}{% endset %}{% with %}{% endwith %}", None),
            ("{{ {'a': {'b': 1}} }} * {{ a }}", None),
            ("{{ {'a': {'b': 1}} * 2 }}", Some((19, "* is not available: texts cannot be repeated"))),
            ("{{ 'x' * 9 }}", Some((7, "* is not available: texts cannot be repeated"))),
            ("{% set a = 'x'*9 %}", Some((14, "* is not available: texts cannot be repeated"))),
            ("ab{% include 'x' %}", Some((2, "the block \"include\" is not available"))),
            ("{%-\n autoescape false %}", Some((0, "the block \"autoescape\" is not available"))),
            ("{%+ raw %}", Some((0, "the block \"raw\" is not available"))),
            ("{% macro m() %}", Some((0, "the block \"macro\" is not available"))),
            ("{% extends 'x' %}", Some((0, "the block \"extends\" is not available"))),
            ("{% filter upper %}", Some((0, "the block \"filter\" is not available"))),
        ] {
            assert_eq!(refused(source), expected.map(|(at, text)| (at, text.to_owned())), "{source}");
        }
    }

    #[test]
    fn finds_names_and_positions() {
        let source = "title {{ subtitle }}\n{{ a.title }} {{ title }}";
        let at = find_name(source, "title").unwrap();
        assert_eq!(position(source, at), (2, 18));
        assert_eq!(find_name(source, "body"), None);
    }
}
