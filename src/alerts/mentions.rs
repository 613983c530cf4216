//! Whom a message mentions.

use crate::{
    api::{Severity, Webhook, limits},
    spec_error::{SpecError, at_most, invalid},
};

use super::{formats::receiver, sanitize};

/// A webhook's validated `mentions`, as the markup of its format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mentions(Vec<(Severity, Vec<String>)>);

impl Mentions {
    /// Validates the mentions of the webhook at `index` of `spec.webhooks`.
    pub(super) fn new(index: usize, webhook: &Webhook) -> Result<Self, SpecError> {
        let Some(mentions) = &webhook.mentions else { return Ok(Self::default()) };
        let field = format!("spec.webhooks[{index}].mentions");
        let Some(markup) = receiver(webhook.format).mention_markup() else {
            return Err(invalid(field, "is only for the format Slack"));
        };
        let lists = [
            (Severity::Critical, &mentions.critical),
            (Severity::Warning, &mentions.warning),
            (Severity::Info, &mentions.info),
        ];
        let mut validated = Vec::new();
        for (severity, list) in lists {
            let Some(list) = list else { continue };
            let field = format!("{field}.{}", severity.as_str());
            at_most(&field, list.len(), limits::MENTIONS)?;
            let markup = list.iter().enumerate().map(|(index, mention)| {
                let shown = sanitize::single_line(mention, 32);
                let problem = || format!("{shown:?} is not @here, @channel, or the ID of a user or a user group");
                markup(mention).ok_or_else(|| invalid(format!("{field}[{index}]"), problem()))
            });
            validated.push((severity, markup.collect::<Result<_, _>>()?));
        }
        Ok(Self(validated))
    }

    /// The mentions for alerts of these severities, each once.
    pub(super) fn of(&self, severities: &[Severity]) -> Vec<String> {
        let mut mentions: Vec<String> = Vec::new();
        let wanted = self.0.iter().filter(|(severity, _)| severities.contains(severity));
        for mention in wanted.flat_map(|(_, mentions)| mentions) {
            if !mentions.contains(mention) {
                mentions.push(mention.clone());
            }
        }
        mentions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        alerts::testing::webhook,
        api::{self, WebhookFormat},
    };

    fn mentions(format: WebhookFormat, critical: &[&str], warning: &[&str]) -> Result<Mentions, String> {
        let list = |list: &[&str]| Some(list.iter().map(|mention| (*mention).to_owned()).collect());
        let mentions = api::Mentions { critical: list(critical), warning: list(warning), info: None };
        let webhook = Webhook { mentions: Some(mentions), ..webhook(format) };
        Mentions::new(2, &webhook).map_err(|error| error.to_string())
    }

    #[test]
    fn mentions_users_groups_and_the_channel_once() {
        let mentions =
            mentions(WebhookFormat::Slack, &["@here", "U012AB3CD", "S0614TZR7"], &["@channel", "@here", "W1"]);
        let mentions = mentions.unwrap();
        assert_eq!(mentions.of(&[Severity::Critical]), ["<!here>", "<@U012AB3CD>", "<!subteam^S0614TZR7>"]);
        assert_eq!(mentions.of(&[Severity::Info]), [""; 0]);
        let both = ["<!here>", "<@U012AB3CD>", "<!subteam^S0614TZR7>", "<!channel>", "<@W1>"];
        assert_eq!(mentions.of(&[Severity::Warning, Severity::Critical, Severity::Critical]), both);
    }

    #[test]
    fn refuses_anything_but_ids() {
        let long = format!("U{}", "A".repeat(32));
        for mention in
            ["", "U", "here", "@everyone", "<!here>", "u012", "U01>", "U01|x", "C012AB3CD", "@alice", "U 1", &long]
        {
            let refused = mentions(WebhookFormat::Slack, &["@here", mention], &[]);
            let error = refused.unwrap_err();
            assert!(error.starts_with("spec.webhooks[2].mentions.critical[1]: "), "{error}");
        }
        let many = mentions(WebhookFormat::Slack, &[], &["@here"; 6]);
        assert_eq!(many, Err("spec.webhooks[2].mentions.warning: may have at most 5 items, not 6".to_owned()));
        let teams = mentions(WebhookFormat::Teams, &["@here"], &[]);
        assert_eq!(teams, Err("spec.webhooks[2].mentions: is only for the format Slack".to_owned()));
    }
}
