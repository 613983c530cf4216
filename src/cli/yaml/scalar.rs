//! What a scalar means.

use granit_parser::{ScalarStyle, Tag};
use serde::de::Visitor;

use super::YamlError;

/// Visits a scalar as text, unless it is a plain one that kubectl writes for another value.
pub(super) fn visit<'de, V: Visitor<'de>>(
    text: String,
    style: ScalarStyle,
    tag: Option<&Tag>,
    visitor: V,
) -> Result<V::Value, YamlError> {
    let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
    match text.as_str() {
        _ if is_text => visitor.visit_string(text),
        "" | "~" | "null" | "Null" | "NULL" => visitor.visit_unit(),
        "true" | "True" | "TRUE" => visitor.visit_bool(true),
        "false" | "False" | "FALSE" => visitor.visit_bool(false),
        _ => match number(&text) {
            Some(Number::Unsigned(number)) => visitor.visit_u64(number),
            Some(Number::Signed(number)) => visitor.visit_i64(number),
            Some(Number::Float(number)) => visitor.visit_f64(number),
            None => visitor.visit_string(text),
        },
    }
}

enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

/// A number as JSON has it. Others, such as `0x1f`, `.5` and `12e400`, are text.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let has_leading_zero = digits.starts_with('0') && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) || has_leading_zero {
        return None;
    }
    let float = || text.parse().ok().filter(|float: &f64| float.is_finite()).map(Number::Float);
    text.parse().map(Number::Unsigned).or_else(|_| text.parse().map(Number::Signed)).ok().or_else(float)
}
