//! Validates `spec.webhooks`.

use std::{collections::HashSet, sync::Arc};

use super::{EndpointSpec, NotificationPolicy};
use crate::{
    api::{Webhook, limits},
    spec_error::{SpecError, at_most, invalid},
};

/// One entry of `spec.webhooks`. What may be large is shared by its clones.
#[derive(Clone, Debug)]
pub struct ValidatedWebhook {
    pub policy: NotificationPolicy,
    pub endpoint: Arc<EndpointSpec>,
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
            validated.push(Self {
                policy: NotificationPolicy::new(index, webhook)?,
                endpoint: Arc::new(EndpointSpec::new(webhook)),
            });
        }
        Ok(validated)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::simulation::webhook, *};
    use crate::api::WebhookFormat;

    #[test]
    fn validates_each_webhook_and_rejects_a_name_that_is_used_twice() {
        let named = |names: &[&str]| -> Vec<Webhook> {
            let webhook = |name: &&str| Webhook { name: (*name).to_owned(), ..webhook(WebhookFormat::Slack) };
            names.iter().map(webhook).collect()
        };
        let validate = |names: &[&str]| {
            let validated = ValidatedWebhook::validate_all(&named(names)).map_err(|error| error.to_string())?;
            Ok(validated.into_iter().map(|webhook| webhook.policy.name).collect::<Vec<_>>())
        };
        assert_eq!(validate(&[]), Ok(vec![]));
        assert_eq!(validate(&["ops", "dev"]), Ok(vec!["ops".to_owned(), "dev".to_owned()]));
        let error = "spec.webhooks[2].name: \"ops\" is already used";
        assert_eq!(validate(&["ops", "dev", "ops"]), Err(error.to_owned()));
        assert_eq!(validate(&["x"; 11]), Err("spec.webhooks: may have at most 10 items, not 11".to_owned()));
    }
}
