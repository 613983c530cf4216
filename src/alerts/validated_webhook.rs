//! Validates `spec.webhooks`.

use std::collections::HashSet;

use super::NotificationPolicy;
use crate::{
    api::{Webhook, limits},
    spec_error::SpecError,
};

/// One entry of `spec.webhooks`.
#[derive(Clone, Debug)]
pub struct ValidatedWebhook {
    pub policy: NotificationPolicy,
    /// The entry as written in the spec, which names the Secrets.
    pub webhook: Webhook,
}

impl ValidatedWebhook {
    /// Validates all entries.
    ///
    /// # Errors
    /// If there are too many, two have the same name, or a value is invalid.
    pub fn validate_all(webhooks: &[Webhook]) -> Result<Vec<Self>, SpecError> {
        let invalid = |field: String, problem: String| Err(SpecError::Invalid { field, problem });
        if webhooks.len() > limits::WEBHOOKS {
            let problem = format!("may hold {}, not {}", limits::WEBHOOKS, webhooks.len());
            return invalid("spec.webhooks".to_owned(), problem);
        }
        let mut names = HashSet::new();
        let mut validated = Vec::with_capacity(webhooks.len());
        for (index, webhook) in webhooks.iter().enumerate() {
            if !names.insert(webhook.name.as_str()) {
                return invalid(format!("spec.webhooks[{index}].name"), format!("{:?} is taken", webhook.name));
            }
            validated.push(Self { policy: NotificationPolicy::new(index, webhook)?, webhook: webhook.clone() });
        }
        Ok(validated)
    }
}
