//! Requests that a spec describes with templates: `format: Custom`.
//!
//! A template can reach the values of one message and nothing else: it has neither functions nor other templates. Each value
//! is encoded for the place in which it stands. Fuel and a bounded writer limit the time and the memory that it takes.
//! Before a template is used, it is tried with examples that contain as little and as much as possible.

mod examples;
mod template;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use minijinja::Value;
use serde::de::IgnoredAny;

pub(in crate::alerts) use self::examples::{end, example};
use self::{
    examples::examples,
    template::{Bounds, Place, Template},
    values::{is_end, values},
};
use super::{
    facts::{Layout, shrink_to_fit},
    markup::Markup,
    message_text,
    receiver::{Pacing, Receiver, RenderError, Request},
};
use crate::{
    alerts::{Alert, Notification, headers::headers as parse_headers},
    api::{CustomContentType, CustomPer, CustomRequest, HttpMethod, ResolvedRequest, limits},
};

/// The default of `maxBytes`, which most receivers of texts accept.
const MAX_BYTES: usize = 4_000;
/// What a message takes at most beside the names of its incidents: the headline, the totals and the sender, with three bytes for
/// each character. Usually it is a tenth of that, so a small message leaves half of its space to it. What does not fit is sent in
/// parts.
const REST: usize = 5_000;
const SHARED: Layout = Layout { detailed: 20, logs: 1_500, message: 500, facts: 0 };
const SINGLE: Layout = Layout { detailed: 1, logs: 4_000, message: 1_000, facts: 0 };

/// The bullet of a line, its line break, and the marks of code.
const MARKUP: usize = 24;

/// How much a body and each other part may take: instructions of the template engine, and bytes.
const BODY: Bounds = Bounds { fuel: 20_000, length: 256 * 1024 };
const PART: Bounds = Bounds { fuel: 1_000, length: 2_048 };

/// The format of one webhook.
pub struct CustomFormat {
    spec: CustomRequest,
    max_bytes: usize,
    /// The body's.
    place: Place,
    firing: Parts,
    resolved: Parts,
}

struct Parts {
    method: Method,
    path: Option<Template>,
    query: Option<Template>,
    headers: Vec<(HeaderName, Template)>,
    body: Template,
}

impl PartialEq for CustomFormat {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Eq for CustomFormat {}

impl fmt::Debug for CustomFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl CustomFormat {
    /// Compiles the templates, and tries them with examples.
    ///
    /// # Errors
    /// If a template cannot be compiled or rendered, or its result cannot be sent.
    pub fn new(spec: &CustomRequest) -> Result<Self, RenderError> {
        let place = match spec.content_type.unwrap_or_default() {
            CustomContentType::Json => Place::Json,
            CustomContentType::Form => Place::Form,
            CustomContentType::Text => Place::Text,
        };
        let max = spec.max_bytes.unwrap_or(i32::try_from(MAX_BYTES).unwrap_or_default());
        let max_bytes = limits::CUSTOM_MAX_BYTES.contains(&max).then(|| usize::try_from(max).ok()).flatten();
        let (least, most) = (limits::CUSTOM_MAX_BYTES.start(), limits::CUSTOM_MAX_BYTES.end());
        let outside = || RenderError::new("maxBytes", None, format!("must be from {least} to {most}, not {max}"));
        let format = Self {
            spec: spec.clone(),
            max_bytes: max_bytes.ok_or_else(outside)?,
            place,
            firing: Parts::new(spec, place, &ResolvedRequest::default())?,
            resolved: Parts::new(spec, place, &spec.resolved.clone().unwrap_or_default())?,
        };
        format.try_out()?;
        Ok(format)
    }

    /// Renders a message, with as much in it as `maxBytes` allows.
    ///
    /// # Errors
    /// If a template fails for this message.
    pub fn render(&self, notification: &Notification) -> Result<Request, RenderError> {
        let parts = self.parts(notification);
        let render = |layout| parts.render(&values(notification, layout, self.is_single()), self.place);
        let measure = |rendered: &Result<Request, RenderError>| match rendered {
            Ok(request) => request.body.len(),
            Err(error) if error.is_too_much => usize::MAX,
            Err(_) => 0,
        };
        let request = shrink_to_fit(notification, self.full(), self.max_bytes, render, measure)?;
        if request.body.len() > self.max_bytes {
            let problem =
                format!("the body has {} bytes, more than maxBytes, although it has only names", request.body.len());
            return Err(RenderError::too_much("body", problem));
        }
        Ok(request)
    }

    /// What the pacing of a webhook is, also if its templates are wrong.
    pub fn pacing_of(spec: &CustomRequest) -> Pacing {
        match spec.per.unwrap_or_default() {
            CustomPer::Message => Pacing::GROUPED,
            CustomPer::Incident => Pacing::SINGLE,
        }
    }

    fn is_single(&self) -> bool {
        self.spec.per == Some(CustomPer::Incident)
    }

    fn full(&self) -> Layout {
        Layout { facts: self.max_bytes, ..if self.is_single() { SINGLE } else { SHARED } }
    }

    fn try_out(&self) -> Result<(), RenderError> {
        let examples = examples(self.is_single());
        for (index, message) in examples.iter().enumerate() {
            for layout in [self.full(), Layout::NAMES_ONLY] {
                let values = values(message, layout, self.is_single());
                let parts = self.parts(message);
                if index == 0 || is_end(message) {
                    parts.templates().try_for_each(|template| template.check_names(&values))?;
                }
                let length = parts.render(&values, self.place)?.body.len();
                if index == 0 && layout == Layout::NAMES_ONLY && length > self.max_bytes {
                    let problem = format!("the smallest body has {length} bytes, more than maxBytes");
                    return Err(RenderError::new("body", None, problem));
                }
            }
        }
        Ok(())
    }

    fn parts(&self, notification: &Notification) -> &Parts {
        if is_end(notification) { &self.resolved } else { &self.firing }
    }
}

impl Parts {
    /// `own` is what differs from the spec: nothing, or the request at the end.
    fn new(spec: &CustomRequest, place: Place, own: &ResolvedRequest) -> Result<Self, RenderError> {
        let template = |name: &str, place, own: &Option<String>, shared: &str, limit, bounds| {
            let field = if own.is_some() { format!("resolved.{name}") } else { name.to_owned() };
            let source = own.as_deref().unwrap_or(shared);
            check_length(&field, source, limit)?;
            Template::new(place, &field, source.trim_end(), bounds).map(|template| (template, source.is_empty()))
        };
        let part = |name: &str, place, own: &Option<String>, shared: &Option<String>| {
            let shared = shared.as_deref().unwrap_or_default();
            let template = template(name, place, own, shared, limits::CUSTOM_PATH_LENGTH, PART)?;
            Ok(Some(template).filter(|(_, is_empty)| !is_empty).map(|(template, _)| template))
        };
        let mut headers: Vec<(HeaderName, Template)> = Vec::new();
        for (name, value) in spec.headers.iter().flatten() {
            let field = format!("headers.{}", name.chars().take(limits::CUSTOM_HEADER_NAME_LENGTH).collect::<String>());
            check_length(&field, value, limits::CUSTOM_PATH_LENGTH)?;
            let wrong = |problem: String| RenderError::new(&field, None, problem);
            let header =
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("is not a header's name".to_owned()))?;
            if header != http::header::CONTENT_TYPE {
                parse_headers([(name.as_str(), b"x".as_slice())]).map_err(wrong)?;
            }
            if headers.iter().any(|(known, _)| *known == header) || headers.len() == limits::CUSTOM_HEADERS {
                return Err(wrong(format!("is there twice, or there are more than {}", limits::CUSTOM_HEADERS)));
            }
            headers.push((header, Template::new(Place::Text, &field, value, PART)?));
        }
        let method = match own.method.or(spec.method).unwrap_or_default() {
            HttpMethod::Post => Method::POST,
            HttpMethod::Put => Method::PUT,
        };
        Ok(Self {
            method,
            path: part("path", Place::Path, &own.path, &spec.path)?,
            query: part("query", Place::Form, &own.query, &spec.query)?,
            headers,
            body: template("body", place, &own.body, &spec.body, limits::CUSTOM_BODY_LENGTH, BODY)?.0,
        })
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        let headers = self.headers.iter().map(|(_, template)| template);
        self.path.iter().chain(&self.query).chain(headers).chain([&self.body])
    }

    fn render(&self, values: &Value, place: Place) -> Result<Request, RenderError> {
        let url_part = |template: &Option<Template>, check: fn(&str) -> Option<usize>| {
            let Some(template) = template else { return Ok(String::new()) };
            let rendered = template.render(values)?;
            match check(&rendered) {
                Some(at) => Err(template.error_at(values, at, "this cannot stand in a URL")),
                None => Ok(rendered),
            }
        };
        let mut headers = HeaderMap::new();
        for (name, template) in &self.headers {
            let value = template.render(values)?;
            let Ok(header) = HeaderValue::from_bytes(value.trim().as_bytes()) else {
                let at = value.find(char::is_control).unwrap_or_default();
                return Err(template.error_at(values, at, "this cannot be sent as a header: it has line breaks"));
            };
            headers.insert(name.clone(), header);
        }
        let body = self.body.render(values)?;
        if place == Place::Json
            && let Err(error) = serde_json::from_str::<IgnoredAny>(&body)
        {
            let at = offset(&body, error.line(), error.column());
            return Err(self.body.error_at(values, at, "the body is not JSON here"));
        }
        let content_type = headers.remove(http::header::CONTENT_TYPE).unwrap_or_else(|| {
            HeaderValue::from_static(match place {
                Place::Json => "application/json",
                Place::Form => "application/x-www-form-urlencoded",
                Place::Path | Place::Text => "text/plain; charset=utf-8",
            })
        });
        Ok(Request {
            method: self.method.clone(),
            path: url_part(&self.path, wrong_in_path)?,
            query: url_part(&self.query, wrong_in_query)?,
            headers,
            content_type,
            body: body.into_bytes(),
        })
    }
}

fn check_length(field: &str, source: &str, limit: usize) -> Result<(), RenderError> {
    let length = source.chars().count();
    let problem = || format!("may have at most {limit} characters, not {length}");
    if length > limit { Err(RenderError::new(field, None, problem())) } else { Ok(()) }
}

/// The offset of a line and a column, both from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len().saturating_sub(1))
}

/// The offset of what may not stand in a path. Segments such as `..` would lead out of the URL's own path.
fn wrong_in_path(path: &str) -> Option<usize> {
    let mut at = 0;
    for segment in path.split('/') {
        if matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..") {
            return Some(at);
        }
        at += segment.len() + 1;
    }
    path.find(|c: char| !c.is_ascii_alphanumeric() && !"-._~!$&'()+,;=:@/%".contains(c))
}

fn wrong_in_query(query: &str) -> Option<usize> {
    query.find(|c: char| !c.is_ascii_alphanumeric() && !"-._~!$&'()*+,;=:@/%?".contains(c))
}

impl Receiver for CustomFormat {
    fn pacing(&self) -> Pacing {
        Self::pacing_of(&self.spec)
    }

    fn names_budget(&self) -> usize {
        if self.is_single() { 0 } else { self.max_bytes - REST.min(self.max_bytes / 2) }
    }

    /// The size of the incident's line, as the body's place encodes it.
    fn min_size(&self, alert: &Alert, now: Timestamp) -> usize {
        if self.is_single() {
            return 1;
        }
        let line = Markup::PLAIN.join(&message_text::summary_line(alert, now));
        self.place.encode(&line).len() + message_text::LINE_GROWTH + MARKUP
    }

    fn request(&self, notification: &Notification, _key: &str) -> Result<Request, RenderError> {
        self.render(notification)
    }
}

/// The format of a webhook whose templates are wrong. It keeps its place, and is sent nothing.
pub(super) struct Unusable;

impl Receiver for Unusable {
    fn names_budget(&self) -> usize {
        0
    }

    fn min_size(&self, _alert: &Alert, _now: Timestamp) -> usize {
        1
    }

    fn request(&self, _notification: &Notification, _key: &str) -> Result<Request, RenderError> {
        Err(RenderError::new("body", None, "the templates of the webhook cannot be used"))
    }
}
