//! The part of a webhook's spec that is needed to read its Secrets.

use ring::digest::{SHA256, digest};

use crate::api::{SecretKeySource, SecretSource, Webhook, WebhookFormat};

/// Where a webhook's URL, headers, keys and certificates are read from. The rest of the spec is only in the
/// [`NotificationPolicy`](super::NotificationPolicy), because its patterns alone may take 16 KiB.
#[derive(Debug, PartialEq, Eq)]
pub struct EndpointSpec {
    pub format: WebhookFormat,
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
    pub(super) fn new(webhook: &Webhook, wrong: Option<String>) -> Self {
        let mut hash = [0; 32];
        let json = serde_json::to_vec(webhook).unwrap_or_default();
        hash.copy_from_slice(digest(&SHA256, &json).as_ref());
        Self {
            format: webhook.format,
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
        let Self { format, url_from, signing_key_from, headers_from, ca_from, wrong, hash: _ } = self;
        (format, url_from) == (&other.format, &other.url_from)
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
    use super::*;
    use crate::{
        alerts::testing::webhook,
        api::{GoDuration, Match},
    };

    #[test]
    fn changes_with_every_field_of_the_webhook() {
        let spec = webhook(WebhookFormat::Slack);
        let new = |webhook: &Webhook| EndpointSpec::new(webhook, None);
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
        spec.headers_from = serde_json::from_value(serde_json::json!({"secretRef": {"name": "a"}})).unwrap();
        let url = spec.url_from.secret_key_ref.name.clone();
        let spec = EndpointSpec::new(&spec, None);
        assert_eq!(spec.secret_names().collect::<Vec<_>>(), ["a", url.as_str()]);
    }
}
