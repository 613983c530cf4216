//! One compiled template, and rendering it within bounds of time and memory. Each value is written so that it cannot end the
//! place in which it stands.

use std::{io, sync::OnceLock};

use minijinja::{
    Environment, Error, ErrorKind, OutputSpanKind, State, UndefinedBehavior, Value,
    machinery::{Token, tokenize},
    value::ValueKind,
};

use super::super::receiver::RenderError;
use crate::alerts::sanitize;

/// What a template is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A body of JSON: each value is one JSON value.
    Json,
    /// A body of a form, or a query.
    Form,
    /// One segment of a path.
    Path,
    /// A body of plain text, or the value of a header.
    Text,
}

impl Place {
    /// The beginning of the name of such a template.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Json => "json ",
            Self::Form => "form ",
            Self::Path => "path ",
            Self::Text => "text ",
        }
    }

    pub fn of_template(name: &str) -> Self {
        let places = [Self::Json, Self::Form, Self::Path];
        places.into_iter().find(|place| name.starts_with(place.prefix())).unwrap_or(Self::Text)
    }

    /// The encoded text.
    pub fn encode(self, text: &str) -> String {
        match self {
            Self::Json => serde_json::Value::from(text).to_string(),
            Self::Form => encoded(text),
            Self::Path => encoded(text).replace('+', "%20"),
            Self::Text => text.to_owned(),
        }
    }

    /// The encoded value. Only JSON can express lists, maps and what is absent.
    pub fn encode_value(self, value: &Value) -> Result<String, Error> {
        let fails = |text: &'static str| Error::new(ErrorKind::InvalidOperation, text);
        if self == Self::Json {
            return serde_json::to_string(value).map_err(|_| fails("this value cannot be written as JSON"));
        }
        match value.kind() {
            ValueKind::String | ValueKind::Number => Ok(self.encode(&value.to_string())),
            ValueKind::Bool => Ok(if value.is_true() { "true" } else { "false" }.to_owned()),
            _ => Err(fails("only a text or a number can stand here, not a list, a map or none")),
        }
    }
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// How much of an error is shown, in UTF-16 code units.
const DETAIL: usize = 160;

pub(super) struct Template {
    environment: Environment<'static>,
    place: Place,
    /// Such as `body` or `resolved.path`.
    field: String,
    source: String,
    /// The longest result, in bytes.
    limit: usize,
}

/// What a template may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// One for each instruction, and for each 64 bytes that are written or made. It bounds time and memory, so that a spec
    /// of one tenant cannot stall the operator for others.
    pub fuel: u64,
    /// The longest result, in bytes.
    pub length: usize,
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// If it has a syntax error, or something that templates may not contain.
    pub fn new(place: Place, field: &str, source: &str, bounds: Bounds) -> Result<Self, RenderError> {
        if let Some((at, problem)) = refused(source) {
            return Err(RenderError::new(field, Some(position(source, at)), problem));
        }
        let mut template = Self {
            environment: base().clone(),
            place,
            field: field.to_owned(),
            source: source.to_owned(),
            limit: bounds.length,
        };
        template.environment.set_fuel(Some(bounds.fuel));
        let added = template.environment.add_template_owned(place.prefix(), template.source.clone());
        added.map_err(|error| template.error(&error))?;
        Ok(template)
    }

    /// Checks that all names are known, also where an example is not rendered.
    pub fn check_names(&self, known: &Value) -> Result<(), RenderError> {
        let compiled = self.compiled()?;
        let mut names: Vec<String> = compiled.undeclared_variables(true).into_iter().collect();
        names.sort_unstable();
        for name in names {
            let mut value = known.clone();
            for part in name.split('.') {
                if !matches!(value.kind(), ValueKind::Map) {
                    break;
                }
                value = value.get_attr(part).unwrap_or_default();
                if value.is_undefined() {
                    let at = find_name(&self.source, &name).map(|at| position(&self.source, at));
                    let name = sanitize::single_line(&name, 64);
                    return Err(RenderError::new(&self.field, at, format!("there is no {name}")));
                }
            }
        }
        Ok(())
    }

    pub fn render(&self, values: &Value) -> Result<String, RenderError> {
        let mut result = Bounded { bytes: Vec::new(), limit: self.limit };
        self.compiled()?.render_captured_to(values.clone(), &mut result).map_err(|error| self.error(&error))?;
        Ok(String::from_utf8_lossy(&result.bytes).into_owned())
    }

    /// An error about the result at this offset, with the place in the template that has written it.
    pub fn error_at(&self, values: &Value, offset: usize, problem: &str) -> RenderError {
        let spans = self.compiled().ok().and_then(|compiled| compiled.render_with_spans(values.clone()).ok());
        let span = spans.iter().flat_map(|(_, spans)| spans).rfind(|span| span.output_range().start <= offset);
        let at = span.map(|span| match span.kind() {
            OutputSpanKind::Raw => span.source_range().start + (offset - span.output_range().start),
            _ => span.source_range().start,
        });
        RenderError::new(&self.field, at.map(|at| position(&self.source, at)), problem)
    }

    fn compiled(&self) -> Result<minijinja::Template<'_, '_>, RenderError> {
        self.environment.get_template(self.place.prefix()).map_err(|error| self.error(&error))
    }

    fn error(&self, error: &Error) -> RenderError {
        match error.kind() {
            ErrorKind::OutOfFuel => RenderError::too_much(&self.field, "it takes too long"),
            ErrorKind::WriteFailure => {
                RenderError::too_much(&self.field, format!("it makes more than {} bytes", self.limit))
            }
            kind => {
                let at = error.range().map(|range| position(&self.source, range.start));
                let detail = sanitize::single_line(error.detail().unwrap_or_default(), DETAIL);
                let at = at.or(error.line().map(|line| (line, 1)));
                RenderError { detail, ..RenderError::new(&self.field, at, kind.to_string()) }
            }
        }
    }
}

/// The language, without functions, tests and other templates, and with the filters of this list.
fn base() -> &'static Environment<'static> {
    static BASE: OnceLock<Environment<'static>> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut base = Environment::empty();
        base.set_undefined_behavior(UndefinedBehavior::Strict);
        // Errors name their place.
        base.set_debug(true);
        base.set_auto_escape_callback(|name| minijinja::AutoEscape::Custom(Place::of_template(name).prefix().into()));
        base.set_formatter(write);
        base.add_filter("upper", |text: String| text.to_uppercase());
        base.add_filter("lower", |text: String| text.to_lowercase());
        base.add_filter("truncate", |text: String, limit: usize| sanitize::truncate(&text, limit));
        base.add_filter("length", length);
        base.add_filter("first", |list: Vec<Value>| list.first().cloned().unwrap_or_else(|| Value::from("")));
        base.add_filter("join", join);
        base
    })
}

/// Writes a value so that it cannot end the place in which it stands. A text that a template has captured with `set` is
/// written already.
fn write(out: &mut minijinja::Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(captured) if value.is_safe() => captured.to_owned(),
        _ => Place::of_template(state.name()).encode_value(value)?,
    };
    Ok(out.write_str(&written)?)
}

fn length(value: Value) -> Result<usize, Error> {
    let characters = value.as_str().map(|text| text.chars().count());
    characters.or(value.len()).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "this value has no length"))
}

/// How long a joined text may be, in bytes.
const JOINED: usize = 64 * 1024;

fn join(list: Vec<Value>, separator: Option<String>) -> Result<String, Error> {
    let separator = separator.unwrap_or_default();
    let mut joined = String::new();
    for (index, value) in list.iter().enumerate() {
        if index > 0 {
            joined.push_str(&separator);
        }
        joined.push_str(&value.to_string());
        if joined.len() > JOINED {
            return Err(Error::from(ErrorKind::OutOfFuel));
        }
    }
    Ok(joined)
}

struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::Error::other("too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The blocks of a template. All others, such as `include`, `macro` and `autoescape`, are refused: they read other templates, or
/// change how values are escaped.
const BLOCKS: [&str; 10] = ["if", "elif", "else", "endif", "for", "endfor", "set", "endset", "with", "endwith"];

/// The first thing that a template may not contain: its offset, and what it is. What is no template at all is left to the
/// compiler.
fn refused(source: &str) -> Option<(usize, String)> {
    let mut block = None;
    for token in tokenize(source, false, Default::default()) {
        let (token, span) = token.ok()?;
        let at = span.start_offset as usize;
        match (token, block.take()) {
            (Token::Mul, _) => return Some((at, "* is not available: texts cannot be repeated".to_owned())),
            (Token::BlockStart, _) => block = Some(at),
            (Token::Ident(word), Some(at)) if !BLOCKS.contains(&word) => {
                let word: String = word.chars().take(32).collect();
                return Some((at, format!("the block {word:?} is not available")));
            }
            _ => {}
        }
    }
    None
}

/// The line and the column of an offset, from 1.
fn position(source: &str, offset: usize) -> (usize, usize) {
    let before = source.get(..offset).unwrap_or(source);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Where a variable is first used.
fn find_name(source: &str, name: &str) -> Option<usize> {
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
            ("a * b {# * #} {{ \"*\" }} {{ '\\'*' }}{% raw %}{{ a * b }}{% endraw %}", None),
            ("{% if a %}{%- for x in y -%}{% endfor %}{%else%}{% endif %}", None),
            ("{% set a = 1 %}{% set b %}{% endset %}{% with %}{% endwith %}", None),
            ("{{ {'a': {'b': 1}} }} * {{ a }}", None),
            ("{{ {'a': {'b': 1}} * 2 }}", Some((19, "* is not available: texts cannot be repeated"))),
            ("{{ 'x' * 9 }}", Some((7, "* is not available: texts cannot be repeated"))),
            ("{% set a = 'x'*9 %}", Some((14, "* is not available: texts cannot be repeated"))),
            ("ab{% include 'x' %}", Some((2, "the block \"include\" is not available"))),
            ("{%-\n autoescape false %}", Some((0, "the block \"autoescape\" is not available"))),
            ("{%+ do a %}", Some((0, "the block \"do\" is not available"))),
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
