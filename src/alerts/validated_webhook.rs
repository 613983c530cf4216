//! Validates `spec.webhooks`.

use std::collections::HashSet;

use super::NotificationPolicy;
use crate::{
    api::{Webhook, limits},
    spec_error::{SpecError, at_most, invalid},
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
        at_most("spec.webhooks", webhooks.len(), limits::WEBHOOKS)?;
        let mut names = HashSet::new();
        let mut validated = Vec::with_capacity(webhooks.len());
        for (index, webhook) in webhooks.iter().enumerate() {
            if !names.insert(webhook.name.as_str()) {
                return Err(invalid(
                    format!("spec.webhooks[{index}].name"),
                    format!("{:?} is already used", webhook.name),
                ));
            }
            validated.push(Self { policy: NotificationPolicy::new(index, webhook)?, webhook: webhook.clone() });
        }
        Ok(validated)
    }
}
