//! Validates `spec.webhooks`.

use std::{collections::HashSet, sync::Arc};

use super::{EndpointSpec, NotificationPolicy};
use crate::{
    api::{Webhook, limits},
    spec_error::{SpecError, at_most, in_force, invalid},
};

/// One entry of `spec.webhooks`. What may be large is shared by its clones.
#[derive(Clone, Debug)]
pub struct ValidatedWebhook {
    pub policy: NotificationPolicy,
    pub endpoint: Arc<EndpointSpec>,
}

impl ValidatedWebhook {
    /// Validates all entries. One that is wrong cannot be used, but keeps its place, because its receiver may have been sent
    /// alerts; `wrong` names it. Of two with the same name, the first is used.
    pub fn validate_all(webhooks: &[Webhook], wrong: &mut Vec<SpecError>) -> Vec<Self> {
        in_force(at_most("spec.webhooks", webhooks.len(), limits::WEBHOOKS), wrong);
        let mut names = HashSet::new();
        let mut validated = Vec::with_capacity(webhooks.len().min(limits::WEBHOOKS));
        for (index, webhook) in webhooks.iter().take(limits::WEBHOOKS).enumerate() {
            if !names.insert(webhook.name.as_str()) {
                let problem = format!("{:?} is already used", webhook.name);
                wrong.push(invalid(format!("spec.webhooks[{index}].name"), problem));
                continue;
            }
            match Self::new(index, webhook) {
                Ok((webhook, error)) => {
                    validated.push(webhook);
                    wrong.extend(error);
                }
                Err(error) => wrong.push(error),
            }
        }
        validated
    }

    fn new(index: usize, webhook: &Webhook) -> Result<(Self, Option<SpecError>), SpecError> {
        let (policy, error) = match NotificationPolicy::new(index, webhook) {
            Ok(policy) => (policy, None),
            Err(error) => {
                let defaults = Webhook {
                    after: None,
                    repeat_every: None,
                    timeout: None,
                    match_: None,
                    mentions: None,
                    ..webhook.clone()
                };
                (NotificationPolicy::new(index, &defaults)?, Some(error))
            }
        };
        let endpoint = EndpointSpec::new(webhook, error.as_ref().map(ToString::to_string));
        Ok((Self { policy, endpoint: Arc::new(endpoint) }, error))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::webhook, *};
    use crate::api::WebhookFormat;

    #[test]
    fn validates_each_webhook_and_rejects_a_name_that_is_used_twice() {
        let named = |names: &[&str]| -> Vec<Webhook> {
            let webhook = |name: &&str| Webhook { name: (*name).to_owned(), ..webhook(WebhookFormat::Slack) };
            names.iter().map(webhook).collect()
        };
        let validate = |names: &[&str]| {
            let mut wrong = Vec::new();
            let validated = ValidatedWebhook::validate_all(&named(names), &mut wrong);
            let names: Vec<_> = validated.into_iter().map(|webhook| webhook.policy.name).collect();
            (names.join(" "), wrong.first().map(ToString::to_string).unwrap_or_default())
        };
        assert_eq!(validate(&[]), (String::new(), String::new()));
        assert_eq!(validate(&["ops", "dev"]), ("ops dev".to_owned(), String::new()));
        let error = "spec.webhooks[2].name: \"ops\" is already used";
        assert_eq!(validate(&["ops", "dev", "ops"]), ("ops dev".to_owned(), error.to_owned()));
        let many = "spec.webhooks: may have at most 10 items, not 11".to_owned();
        assert_eq!(validate(&["x"; 11]), ("x".to_owned(), many));
    }

    #[test]
    fn a_wrong_webhook_keeps_its_place_and_cannot_be_used() {
        let mut webhooks = [webhook(WebhookFormat::Slack), webhook(WebhookFormat::Slack)];
        webhooks[0].name = "wrong".to_owned();
        webhooks[0].match_ = serde_json::from_value(serde_json::json!({"namespaces": ["[z-a]"]})).unwrap();
        let mut wrong = Vec::new();
        let validated = ValidatedWebhook::validate_all(&webhooks, &mut wrong);
        let error = r#"spec.webhooks[0].match.namespaces[0]: "[z-a]" contains the range z-a, which is backwards"#;
        assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), [error]);
        assert_eq!(validated[0].policy.name, "wrong");
        assert_eq!(validated[0].endpoint.wrong.as_deref(), Some(error));
        assert_eq!(validated[1].endpoint.wrong, None);
    }
}
