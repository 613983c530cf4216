//! How a value is written where it stands in a custom request, so that it cannot end the place that it stands in.

use minijinja::{Error, ErrorKind, Value, value::ValueKind};

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
