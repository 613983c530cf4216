//! A webhook of a spec that can be used.

use std::collections::HashSet;

use super::NotificationPolicy;
use crate::{
    api::{Webhook, limits},
    spec_error::SpecError,
};

/// One entry of `spec.webhooks`.
#[derive(Clone, Debug)]
pub struct ValidatedWebhook {
    /// What it asks for.
    pub policy: NotificationPolicy,
    /// As it stands in the spec: it names the Secrets.
    pub webhook: Webhook,
}

impl ValidatedWebhook {
    /// Reads `spec.webhooks`.
    ///
    /// # Errors
    /// When there are too many, two have one name, or a value can't be used.
    pub fn validate_all(webhooks: &[Webhook]) -> Result<Vec<Self>, SpecError> {
        let refuse = |field: String, problem: String| Err(SpecError::Invalid { field, problem });
        if webhooks.len() > limits::WEBHOOKS {
            let problem = format!("may hold {}, not {}", limits::WEBHOOKS, webhooks.len());
            return refuse("spec.webhooks".to_owned(), problem);
        }
        let mut names = HashSet::new();
        let mut subscribers = Vec::with_capacity(webhooks.len());
        for (index, webhook) in webhooks.iter().enumerate() {
            if !names.insert(webhook.name.as_str()) {
                return refuse(format!("spec.webhooks[{index}].name"), format!("{:?} is taken", webhook.name));
            }
            subscribers.push(Self { policy: NotificationPolicy::new(index, webhook)?, webhook: webhook.clone() });
        }
        Ok(subscribers)
    }
}
