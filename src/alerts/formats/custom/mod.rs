//! Requests that a spec describes with templates: `format: Custom`.
//!
//! A template can reach the values of one message and nothing else: it has neither functions nor other templates. Each value
//! is encoded for the place in which it stands. Fuel and a bounded writer limit the time and the memory that it takes.
//! Before a template is used, it is tried with examples that contain as little and as much as possible.

mod escape;
mod examples;
mod format;
mod source;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod unusable;
mod values;

pub(in crate::alerts) use examples::{end, example};
pub use format::CustomFormat;
pub(super) use unusable::Unusable;
