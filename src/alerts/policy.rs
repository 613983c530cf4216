//! The validated spec of a webhook.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    Incident,
    formats::{CustomFormat, Pacing, Receiver, receiver},
    link_template::LinkTemplate,
    matcher::Matcher,
    memory::Seen,
    sanitize,
    times::later,
};
use crate::{
    api::{GoDuration, Severity, Webhook, WebhookFormat, limits},
    backoff::doubled,
    spec_error::{SpecError, at_most, duration, invalid},
};

/// A validated webhook: defaults applied, durations parsed, patterns compiled.
#[derive(Clone, Debug)]
pub struct NotificationPolicy {
    pub name: String,
    pub format: WebhookFormat,
    /// The format if a spec describes it, unless that is wrong.
    pub custom: Option<Arc<CustomFormat>>,
    /// How long a problem must last before it is sent.
    pub after: Duration,
    /// How often a lasting incident is sent again; zero: never.
    pub repeat_every: Duration,
    pub send_resolved: bool,
    /// The limit for one request.
    pub timeout: Duration,
    /// The links in messages; those of the whole object.
    pub links: Arc<[LinkTemplate]>,
    pub(super) mentions: Mentions,
    /// The intervals and limits of the format.
    pub pacing: Pacing,
    /// Whether the object or the webhook is about one namespace, so that others need no space for their alerts.
    pub is_of_one_namespace: bool,
    /// Shared by the clones, because the namespaces alone may take 16 KiB.
    matcher: Arc<Matcher>,
}

/// The clock of a pod's node may be ahead of ours. The age of an incident that begins more than this in the future is
/// unknown, so it is sent immediately.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

impl NotificationPolicy {
    /// Validates the webhook at `index` of `spec.webhooks`.
    ///
    /// # Errors
    /// If a value is invalid.
    pub fn new(index: usize, webhook: &Webhook) -> Result<Self, SpecError> {
        let field = |name: &str| format!("spec.webhooks[{index}].{name}");
        let read = |name: &str, value: &Option<GoDuration>, range, default: u64| {
            duration(&field(name), value.as_ref(), &range, Duration::from_secs(default))
        };
        let timeout = read("timeout", &webhook.timeout, limits::TIMEOUT, 10)?;
        let namespaces = webhook.match_.as_ref().and_then(|wanted| wanted.namespaces.as_deref()).unwrap_or_default();
        Ok(Self {
            name: webhook.name.clone(),
            format: webhook.format,
            custom: None,
            after: read("after", &webhook.after, limits::AFTER, 30)?,
            repeat_every: read("repeatEvery", &webhook.repeat_every, limits::REPEAT_EVERY, 4 * 60 * 60)?,
            send_resolved: webhook.send_resolved.unwrap_or(true),
            timeout,
            links: Arc::default(),
            mentions: Mentions::new(index, webhook)?,
            pacing: webhook.custom.as_ref().map_or_else(|| receiver(webhook.format).pacing(), CustomFormat::pacing_of),
            is_of_one_namespace: is_one_namespace(namespaces),
            matcher: Arc::new(Matcher::of_webhook(&field("match"), webhook.match_.clone().unwrap_or_default())?),
        })
    }

    pub(super) fn receiver(&self) -> &dyn Receiver {
        match &self.custom {
            Some(custom) => &**custom,
            None => receiver(self.format),
        }
    }

    /// Whether both have the same patterns in memory.
    #[cfg(test)]
    pub(crate) fn shares_patterns_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.matcher, &other.matcher)
    }

    /// Whether the receiver is sent an incident. A webhook that matched what the incident was earlier continues to match,
    /// because the incident is the same.
    #[must_use]
    pub(super) fn matches(&self, incident: &Incident, earlier: &[Seen]) -> bool {
        incident.is_of_spec
            || self.matching_reason(incident, earlier).is_some()
                && self.matching_severity(incident, earlier).is_some()
                && self.matching_team(incident, earlier).is_some()
    }

    /// The severity that matches: the current one if possible, otherwise an earlier one.
    pub(super) fn matching_severity(&self, incident: &Incident, earlier: &[Seen]) -> Option<Severity> {
        let mut known = [incident.severity].into_iter().chain(earlier.iter().filter_map(|seen| seen.severity));
        known.find(|severity| self.matcher.matches_severity(*severity))
    }

    /// The team that matches: the current one if possible, otherwise an earlier one. It is empty if it is unknown.
    pub(super) fn matching_team<'a>(&self, incident: &'a Incident, earlier: &'a [Seen]) -> Option<&'a str> {
        let mut known = [&incident.team].into_iter().chain(earlier.iter().map(|seen| &seen.team));
        known.find(|team| self.matcher.matches_team(team)).map(|team| team.as_str())
    }

    /// The reason that matches: the current one if possible, otherwise an earlier one.
    pub(super) fn matching_reason<'a>(&self, incident: &'a Incident, earlier: &'a [Seen]) -> Option<&'a str> {
        let mut known = [&incident.reason].into_iter().chain(earlier.iter().map(|seen| &seen.reason));
        let matching = known.find(|reason| self.matcher.matches_reason(incident.kind, reason));
        matching.filter(|_| self.matches_namespace(incident)).map(|reason| reason.as_str())
    }

    pub(super) fn matches_namespace(&self, incident: &Incident) -> bool {
        incident.is_of_spec || self.matcher.matches_namespace(&incident.namespace)
    }

    /// When an incident is old enough to be sent; `None`: never.
    pub(super) fn due_at(&self, incident: &Incident, now: Timestamp) -> Option<Timestamp> {
        if later(now, CLOCK_SKEW).is_some_and(|limit| incident.since > limit) {
            return Some(now);
        }
        later(incident.since, incident.tolerated.saturating_add(self.after))
    }

    /// How long an alert keeps firing after its incident is gone, if the incident has returned that many times before.
    pub(super) fn keep_firing_for(&self, returns: i64) -> Duration {
        let doublings = u32::try_from(returns.clamp(0, 16)).unwrap_or(16);
        doubled(self.pacing.keep_firing_for, doublings, self.pacing.max_keep_firing_for)
    }
}

/// A webhook's validated `mentions`, as the markup of its format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mentions(Vec<(Severity, Vec<String>)>);

impl Mentions {
    /// Validates the mentions of the webhook at `index` of `spec.webhooks`.
    pub(super) fn new(index: usize, webhook: &Webhook) -> Result<Self, SpecError> {
        let Some(mentions) = &webhook.mentions else { return Ok(Self::default()) };
        let field = format!("spec.webhooks[{index}].mentions");
        let Some(markup) = receiver(webhook.format).mention_markup() else {
            let formats = WebhookFormat::ALL.into_iter().filter(|format| receiver(*format).mention_markup().is_some());
            let formats: Vec<_> = formats.map(WebhookFormat::as_str).collect();
            return Err(invalid(field, format!("is only for the format {}", formats.join(" or "))));
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
                markup(mention).map_err(|problem| invalid(format!("{field}[{index}]"), format!("{shown:?} {problem}")))
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

/// Whether these patterns are the name of one namespace.
pub(crate) fn is_one_namespace(patterns: &[String]) -> bool {
    let is_name = |pattern: &String| pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    patterns.first().is_some_and(|first| is_name(first) && patterns.iter().all(|pattern| pattern == first))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api;

    fn webhook_of(format: WebhookFormat) -> Webhook {
        let url = json!({"secretKeyRef": {"name": "s", "key": "url"}});
        serde_json::from_value(json!({"name": "ops", "format": format, "urlFrom": url})).unwrap()
    }

    fn webhook() -> Webhook {
        webhook_of(WebhookFormat::Slack)
    }

    #[test]
    fn has_the_documented_defaults() {
        let policy = NotificationPolicy::new(0, &webhook()).unwrap();
        assert_eq!(policy.after, Duration::from_secs(30));
        assert_eq!(policy.repeat_every, Duration::from_secs(14_400));
        assert_eq!(policy.timeout, Duration::from_secs(10));
        assert!(policy.send_resolved);
    }

    fn policy(matching: serde_json::Value) -> Result<NotificationPolicy, String> {
        let match_ = Some(serde_json::from_value(matching).unwrap());
        NotificationPolicy::new(0, &Webhook { match_, ..webhook() }).map_err(|error| error.to_string())
    }

    #[test]
    fn names_the_field_of_an_invalid_value() {
        let of = |webhook| NotificationPolicy::new(3, &webhook).unwrap_err().to_string();
        let timeout = of(Webhook { timeout: Some(GoDuration::from("1h")), ..webhook() });
        assert_eq!(timeout, "spec.webhooks[3].timeout: must be from 1s to 1m, not 1h");
        let after = of(Webhook { after: Some(GoDuration::from("soon")), ..webhook() });
        assert!(after.starts_with("spec.webhooks[3].after: "), "{after}");
        let namespaces = policy(json!({"namespaces": ["["]})).unwrap_err();
        assert!(namespaces.starts_with("spec.webhooks[0].match.namespaces[0]: "), "{namespaces}");
        let teams = policy(json!({"teams": ["web", "a*b*"]})).unwrap_err();
        assert_eq!(teams, r#"spec.webhooks[0].match.teams[1]: "a*b*" is not the name of a team with at most one *"#);
    }

    #[test]
    fn matches_reasons_with_their_synonyms_and_teams_by_name_and_pattern() {
        let reason = |reason: &str| Incident { reason: reason.into(), ..Incident::default() };
        let team = |team: &str| Incident { team: team.into(), ..Incident::default() };
        let of_spec = |is_of_spec| Incident { namespace: "ops".into(), is_of_spec, ..Incident::default() };
        let narrow =
            json!({"namespaces": ["shop"], "reasons": ["Image"], "teams": ["web"], "severities": ["critical"]});
        for (matching, incident, expected) in [
            (json!({"reasons": ["ErrImagePull"]}), reason("ErrImagePull"), true),
            (json!({"reasons": ["ErrImagePull"]}), reason("ImagePullBackOff"), true),
            (json!({"reasons": ["ErrImagePull"]}), reason("OOMKilled"), false),
            (json!({"reasons": ["ImagePullBackOff"]}), reason("ErrImagePull"), true),
            (json!({"reasons": ["ImagePullBackOff"]}), reason("OOMKilled"), false),
            (json!({"teams": ["web", "Shop_*"]}), team("web"), true),
            (json!({"teams": ["web", "Shop_*"]}), team("web2"), false),
            (json!({"teams": ["web", "Shop_*"]}), team("Shop_eu.1"), true),
            (json!({"teams": ["web", "Shop_*"]}), team("shop_eu"), false),
            (json!({"teams": ["web", "Shop_*"]}), team(""), false),
            (json!({"teams": ["*"]}), team("web"), true),
            (json!({"teams": ["*"]}), team(""), false),
            // Every webhook is sent an incident about the spec.
            (narrow.clone(), of_spec(true), true),
            (narrow, of_spec(false), false),
        ] {
            let policy = policy(matching.clone()).unwrap();
            assert_eq!(policy.matches(&incident, &[]), expected, "{matching}: {incident:?}");
        }
    }

    #[test]
    fn keeps_returning_incidents_firing_longer_up_to_a_limit() {
        let policy = NotificationPolicy::new(0, &webhook()).unwrap();
        let seconds: Vec<_> = [0, 1, 2, 5, i64::MAX].map(|returns| policy.keep_firing_for(returns).as_secs()).into();
        assert_eq!(seconds, [30, 60, 120, 300, 300]);
        let slow = NotificationPolicy { after: Duration::from_secs(3_600), ..policy };
        assert_eq!(slow.keep_firing_for(0).as_secs(), 30, "`after` delays the start only");
    }

    #[test]
    fn counts_after_from_when_the_incident_became_a_problem() {
        let policy = NotificationPolicy::new(0, &webhook()).unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut incident = Incident { since: at(1000), tolerated: Duration::from_secs(60), ..Incident::default() };
        assert_eq!(policy.due_at(&incident, at(1060)), Some(at(1090)));
        incident.tolerated = Duration::ZERO;
        assert_eq!(policy.due_at(&incident, at(1060)), Some(at(1030)));
        // A clock may be a minute ahead. Beyond that, the incident's age is unknown.
        for (since, due) in [(1_120, 1_150), (1_121, 1_060)] {
            incident.since = at(since);
            assert_eq!(policy.due_at(&incident, at(1_060)), Some(at(due)), "{since}");
        }
    }

    #[test]
    fn recognizes_the_name_of_one_namespace() {
        let is_one = |patterns: &[&str]| {
            is_one_namespace(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>())
        };
        assert!(is_one(&["shop"]) && is_one(&["team-1", "team-1"]));
        for patterns in [&[][..], &["*"], &["shop", "payments"], &["shop-*"], &["sho?"], &["{a,b}"], &["[ab]"]] {
            assert!(!is_one(patterns), "{patterns:?}");
        }
    }

    fn mentions(format: WebhookFormat, critical: &[&str], warning: &[&str]) -> Result<Mentions, String> {
        let list = |list: &[&str]| Some(list.iter().map(|mention| (*mention).to_owned()).collect());
        let mentions = api::Mentions { critical: list(critical), warning: list(warning), info: None };
        let webhook = Webhook { mentions: Some(mentions), ..webhook_of(format) };
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
