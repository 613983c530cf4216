//! The format of a webhook whose templates are wrong. It keeps its place, and is sent nothing.

use jiff::Timestamp;

use super::super::{
    receiver::Receiver,
    request::{RenderError, Request},
};
use crate::alerts::{Alert, Notification};

pub(in crate::alerts::formats) struct Unusable;

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
