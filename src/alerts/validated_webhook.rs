//! Validates `spec.webhooks`.

use std::sync::Arc;

use jiff::Timestamp;
use ring::digest::{SHA256, digest};

use super::{
    NotificationPolicy, RenderError, Request, Source,
    formats::{CustomFormat, end, example},
};
use crate::{
    api::{SecretKeySource, SecretSource, Webhook, WebhookFormat, limits},
    spec_error::{SpecError, entries, invalid},
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
        entries("spec.webhooks", webhooks, limits::WEBHOOKS, |webhook| &webhook.name, Self::new, wrong)
    }

    /// The request about an example problem, or about its end.
    ///
    /// # Errors
    /// If the templates of the webhook fail.
    pub fn example_request(&self, source: Source, is_end: bool, now: Timestamp) -> Result<Request, RenderError> {
        let message = example(source, &self.policy.name, now);
        self.policy.receiver().request(&if is_end { end(&message) } else { message }, "ROUTING-KEY")
    }

    fn new(index: usize, webhook: &Webhook, wrong: &mut Vec<SpecError>) -> Result<Self, SpecError> {
        let (mut policy, mut error) = match NotificationPolicy::new(index, webhook) {
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
        match custom(index, webhook) {
            Ok(custom) => policy.custom = custom.map(Arc::new),
            Err(wrong) => _ = error.get_or_insert(wrong),
        }
        let endpoint = EndpointSpec::new(webhook, policy.custom.clone(), error.as_ref().map(ToString::to_string));
        wrong.extend(error);
        Ok(Self { policy, endpoint: Arc::new(endpoint) })
    }
}

fn custom(index: usize, webhook: &Webhook) -> Result<Option<CustomFormat>, SpecError> {
    let field = format!("spec.webhooks[{index}].custom");
    match (&webhook.custom, webhook.format) {
        (None, WebhookFormat::Custom) => Err(invalid(field, "must be set, because the format is Custom")),
        (Some(_), format) if format != WebhookFormat::Custom => Err(invalid(field, "is only for the format Custom")),
        (Some(spec), _) => match CustomFormat::new(spec) {
            Ok(format) => Ok(Some(format)),
            Err(error) => Err(invalid(format!("{field}.{}", error.field), error.place_and_problem())),
        },
        (None, _) => Ok(None),
    }
}

/// Where a webhook's URL, headers, keys and certificates are read from. The rest of the spec is only in the
/// [`NotificationPolicy`](super::NotificationPolicy), because its patterns alone may take 16 KiB.
#[derive(Debug, PartialEq, Eq)]
pub struct EndpointSpec {
    pub format: WebhookFormat,
    pub custom: Option<Arc<CustomFormat>>,
    pub url_from: SecretKeySource,
    pub signing_key_from: Option<SecretKeySource>,
    pub headers_from: Option<SecretSource>,
    pub ca_from: Option<SecretKeySource>,
    /// A hash of the whole entry of `spec.webhooks`.
    pub hash: [u8; 32],
    /// Why the entry is wrong, so that nothing may be sent.
    pub wrong: Option<String>,
}

impl EndpointSpec {
    pub(super) fn new(webhook: &Webhook, custom: Option<Arc<CustomFormat>>, wrong: Option<String>) -> Self {
        let mut hash = [0; 32];
        let json = serde_json::to_vec(webhook).unwrap_or_default();
        hash.copy_from_slice(digest(&SHA256, &json).as_ref());
        Self {
            format: webhook.format,
            custom,
            url_from: webhook.url_from.clone(),
            signing_key_from: webhook.signing_key_from.clone(),
            headers_from: webhook.headers_from.clone(),
            ca_from: webhook.ca_from.clone(),
            hash,
            wrong,
        }
    }

    /// Whether it refers to the same Secrets in the same way, so that what was read for the other one can be used.
    pub fn reads_same(&self, other: &Self) -> bool {
        let Self { format, custom, url_from, signing_key_from, headers_from, ca_from, wrong, hash: _ } = self;
        (format, custom, url_from) == (&other.format, &other.custom, &other.url_from)
            && (signing_key_from, headers_from, ca_from, wrong)
                == (&other.signing_key_from, &other.headers_from, &other.ca_from, &other.wrong)
    }

    /// The distinct names of the Secrets that the webhook refers to.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        let keys = [Some(&self.url_from), self.signing_key_from.as_ref(), self.ca_from.as_ref()];
        let mut names: Vec<&str> =
            keys.into_iter().flatten().map(|source| source.secret_key_ref.name.as_str()).collect();
        names.extend(self.headers_from.iter().map(|source| source.secret_ref.name.as_str()));
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{GoDuration, Match};

    fn webhook(format: WebhookFormat) -> Webhook {
        let url = json!({"secretKeyRef": {"name": "s", "key": "url"}});
        serde_json::from_value(json!({"name": "ops", "format": format, "urlFrom": url})).unwrap()
    }

    #[test]
    fn validates_each_webhook_and_rejects_equal_names() {
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
        webhooks[0].match_ = serde_json::from_value(json!({"namespaces": ["[z-a]"]})).unwrap();
        let mut wrong = Vec::new();
        let validated = ValidatedWebhook::validate_all(&webhooks, &mut wrong);
        let error = r#"spec.webhooks[0].match.namespaces[0]: "[z-a]" contains the range z-a, which is backwards"#;
        assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), [error]);
        assert_eq!(validated[0].policy.name, "wrong");
        assert_eq!(validated[0].endpoint.wrong.as_deref(), Some(error));
        assert_eq!(validated[1].endpoint.wrong, None);
    }

    #[test]
    fn changes_with_every_field_of_the_webhook() {
        let spec = webhook(WebhookFormat::Slack);
        let new = |webhook: &Webhook| EndpointSpec::new(webhook, None, None);
        assert_eq!(new(&spec), new(&spec.clone()));
        for changed in [
            Webhook {
                match_: Some(Match { namespaces: Some(vec!["shop".to_owned()]), ..Match::default() }),
                ..spec.clone()
            },
            Webhook { after: Some(GoDuration::from("1m")), ..spec.clone() },
            Webhook { ca_from: Some(spec.url_from.clone()), ..spec.clone() },
        ] {
            assert_ne!(new(&spec), new(&changed));
        }
    }

    #[test]
    fn names_each_secret_once() {
        let mut spec = webhook(WebhookFormat::Slack);
        spec.ca_from = Some(spec.url_from.clone());
        spec.headers_from = serde_json::from_value(json!({"secretRef": {"name": "a"}})).unwrap();
        let url = spec.url_from.secret_key_ref.name.clone();
        let spec = EndpointSpec::new(&spec, None, None);
        assert_eq!(spec.secret_names().collect::<Vec<_>>(), ["a", url.as_str()]);
    }
}
