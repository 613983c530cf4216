//! Who is responsible for pods and how severe their problems are, as annotations of the pods or of their namespace say.

use arcstr::ArcStr;
use url::Url;

use super::{Incident, Severity};

/// How severe a problem is: critical, warning or info.
pub const SEVERITY_ANNOTATION: &str = "kopf.dev/severity";
/// The team that is responsible.
pub const TEAM_ANNOTATION: &str = "kopf.dev/team";
/// The URL of a runbook.
pub const RUNBOOK_ANNOTATION: &str = "kopf.dev/runbook";
/// The URL of a dashboard.
pub const DASHBOARD_ANNOTATION: &str = "kopf.dev/dashboard";

const ANNOTATIONS: [&str; 4] = [SEVERITY_ANNOTATION, TEAM_ANNOTATION, RUNBOOK_ANNOTATION, DASHBOARD_ANNOTATION];

/// The longest name of a team, in bytes: that of a label's value.
pub(crate) const TEAM_LENGTH: usize = 63;
/// The longest URL, in bytes of JSON. The API server writes `&` as `\u0026`, and Slack's format as `&amp;`, so without this a
/// link could take six times as much of a status or message as it seems to.
const LINK_LENGTH: usize = 512;

/// The annotations of a pod or of a namespace. Its owners write them, so they are never trusted: they decide neither where
/// alerts are sent nor whether a pod has a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    pub severity: Option<Severity>,
    /// Empty if unknown, like the URLs.
    pub team: ArcStr,
    pub runbook: ArcStr,
    pub dashboard: ArcStr,
    /// Which of [`ANNOTATIONS`] have a value that is not valid.
    invalid: [bool; 4],
}

impl Ownership {
    /// Whether an annotation with this name is used.
    #[must_use]
    pub(crate) fn has_annotation(name: &str) -> bool {
        ANNOTATIONS.contains(&name)
    }

    /// Takes the value of an annotation; `None` if it is not a text. An empty value is the same as none.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) {
        let Some(index) = ANNOTATIONS.iter().position(|known| *known == name) else { return };
        let is_valid = match (value, name) {
            (Some(""), _) => true,
            (Some(value), SEVERITY_ANNOTATION) => {
                self.severity = Severity::from_name(value);
                self.severity.is_some()
            }
            (Some(value), TEAM_ANNOTATION) => keep(&mut self.team, value, is_team(value)),
            (Some(value), RUNBOOK_ANNOTATION) => keep(&mut self.runbook, value, is_link(value)),
            (Some(value), _) => keep(&mut self.dashboard, value, is_link(value)),
            (None, _) => false,
        };
        self.invalid[index] = !is_valid;
    }

    /// What a status lists of an incident. Anybody may have edited it, so it is checked like annotations.
    pub(crate) fn listed(incident: &Incident) -> Self {
        let texts = [&incident.team, &incident.runbook, &incident.dashboard];
        let names = [TEAM_ANNOTATION, RUNBOOK_ANNOTATION, DASHBOARD_ANNOTATION];
        let mut ownership = Self::default();
        names.into_iter().zip(texts).for_each(|(name, text)| ownership.set(name, Some(text)));
        Self { severity: incident.severity, invalid: Default::default(), ..ownership }
    }

    /// Nothing if no annotation was set.
    pub(crate) fn non_empty(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// These values of a pod, and those of its namespace for what it lacks.
    #[must_use]
    pub(crate) fn or(pod: Option<&Self>, namespace: Option<&Self>) -> Self {
        let (Some(pod), Some(namespace)) = (pod, namespace) else {
            return pod.or(namespace).cloned().unwrap_or_default();
        };
        let text = |text: &ArcStr, other: &ArcStr| if text.is_empty() { other.clone() } else { text.clone() };
        Self {
            severity: pod.severity.or(namespace.severity),
            team: text(&pod.team, &namespace.team),
            runbook: text(&pod.runbook, &namespace.runbook),
            dashboard: text(&pod.dashboard, &namespace.dashboard),
            invalid: pod.invalid,
        }
    }

    /// The names of the annotations that are ignored because their values are not valid.
    pub(crate) fn invalid(&self) -> impl Iterator<Item = &'static str> {
        ANNOTATIONS.into_iter().zip(self.invalid).filter_map(|(name, is_invalid)| is_invalid.then_some(name))
    }
}

fn keep(text: &mut ArcStr, value: &str, is_valid: bool) -> bool {
    *text = if is_valid { value.into() } else { ArcStr::new() };
    is_valid
}

/// Whether a text is the name of a team: it has the syntax of a label's value, because it becomes one in Alertmanager.
fn is_team(text: &str) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= TEAM_LENGTH
        && bytes.iter().all(is_inner)
        && ends.into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}

/// Whether a text is a URL that a message may show as a link: http or https, without credentials, and only characters
/// that RFC 3986 allows, so that it cannot end the markup around it. Of these, JSON escapes only `&`.
pub(crate) fn is_link(text: &str) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(byte);
    let size = |byte: u8| if byte == b'&' { r"\u0026".len() } else { 1 };
    if text.bytes().map(size).sum::<usize>() > LINK_LENGTH || !text.as_bytes().iter().all(is_allowed) {
        return false;
    }
    // `Url` would also accept `https:host`, which browsers open but people do not recognize.
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    let is_plain = |url: &Url| url.username().is_empty() && url.password().is_none() && url.host().is_some();
    is_web && Url::parse(text).is_ok_and(|url| is_plain(&url) && !authority(text).contains('@'))
}

/// The part of a URL between the slashes and the path.
fn authority(url: &str) -> &str {
    let rest = url.split_once("//").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARKUP: [char; 9] = ['<', '>', '|', '`', '"', '\\', '{', '}', ' '];

    fn of(annotations: &[(&str, &str)]) -> Ownership {
        let mut ownership = Ownership::default();
        annotations.iter().for_each(|(name, value)| ownership.set(name, Some(value)));
        ownership
    }

    #[test]
    fn reads_valid_values() {
        let ownership = of(&[
            (SEVERITY_ANNOTATION, "critical"),
            (TEAM_ANNOTATION, "checkout-eu.1_A"),
            (RUNBOOK_ANNOTATION, "https://runbooks.example/cart?step=1#top"),
            (DASHBOARD_ANNOTATION, "http://grafana.example:3000/d/a%20b(c)"),
            ("kopf.dev/other", "x"),
        ]);
        assert_eq!(ownership.severity, Some(Severity::Critical));
        assert_eq!(ownership.team, "checkout-eu.1_A");
        assert_eq!(ownership.runbook, "https://runbooks.example/cart?step=1#top");
        assert_eq!(ownership.dashboard, "http://grafana.example:3000/d/a%20b(c)");
        assert_eq!(ownership.invalid().count(), 0);
    }

    #[test]
    fn ignores_and_names_invalid_values() {
        let long_team = "t".repeat(64);
        let long_url = format!("https://example.com/{}", "x".repeat(512));
        let escaped_url = format!("https://example.com/?{}", "&".repeat(82));
        for (name, values) in [
            (SEVERITY_ANNOTATION, ["Critical", "page", " warning", "critical\n", "0"].as_slice()),
            (TEAM_ANNOTATION, &["-a", "a-", "a b", "<!channel>", "@here", "té", "a\u{0}", "\u{fffd}", &long_team]),
            (
                RUNBOOK_ANNOTATION,
                &[
                    "runbook",
                    "//example.com/x",
                    "javascript:alert(1)",
                    "file:///etc/passwd",
                    "https:example.com",
                    "https://",
                    "https://user@example.com/",
                    "https://user:password@example.com/",
                    "https://@example.com/",
                    "https://example.com/a b",
                    "https://example.com/a\nb",
                    "https://example.com/|click",
                    "https://example.com/>click",
                    "https://example.com/`x`",
                    "https://example.com\\@evil.example",
                    "https://example.com/\u{202e}x",
                    &long_url,
                    &escaped_url,
                ],
            ),
        ] {
            for value in values {
                let ownership = of(&[(name, value)]);
                assert_eq!(ownership.invalid().collect::<Vec<_>>(), [name], "{value:?}");
                let empty = Ownership { invalid: ownership.invalid, ..Ownership::default() };
                assert_eq!(ownership, empty, "{value:?}");
            }
        }
        let mut number = Ownership::default();
        number.set(TEAM_ANNOTATION, None);
        assert_eq!(number.invalid().collect::<Vec<_>>(), [TEAM_ANNOTATION]);
    }

    #[test]
    fn a_link_is_measured_as_the_api_server_writes_it() {
        // 21 bytes and 81 times 6 are 507 of 512.
        let url = format!("https://example.com/?{}", "&".repeat(81));
        assert_eq!(of(&[(RUNBOOK_ANNOTATION, &format!("{url}xxxxx"))]).invalid().count(), 0);
        for longer in [format!("{url}xxxxxx"), format!("{url}&")] {
            let ownership = of(&[(RUNBOOK_ANNOTATION, &longer)]);
            assert_eq!((ownership.runbook.as_str(), ownership.invalid().count()), ("", 1), "{longer}");
        }
        let dashboard = "https://grafana.example/d/cart?orgId=1&var-namespace=shop&var-owner=cart&from=now-1h&to=now";
        assert_eq!(of(&[(DASHBOARD_ANNOTATION, dashboard)]).dashboard, dashboard);
    }

    #[test]
    fn an_empty_value_is_the_same_as_none() {
        for name in ANNOTATIONS {
            assert_eq!(of(&[(name, "")]).non_empty(), None, "{name}");
        }
    }

    #[test]
    fn the_last_of_two_values_counts() {
        let ownership = of(&[(TEAM_ANNOTATION, "a"), (TEAM_ANNOTATION, "!")]);
        assert_eq!((ownership.team.as_str(), ownership.invalid().count()), ("", 1));
        let ownership = of(&[(TEAM_ANNOTATION, "!"), (TEAM_ANNOTATION, "a")]);
        assert_eq!((ownership.team.as_str(), ownership.invalid().count()), ("a", 0));
    }

    #[test]
    fn a_namespace_completes_what_a_pod_lacks_or_has_invalid() {
        let pod = of(&[(TEAM_ANNOTATION, "cart"), (SEVERITY_ANNOTATION, "page")]);
        let namespace = of(&[(TEAM_ANNOTATION, "shop"), (SEVERITY_ANNOTATION, "info"), (RUNBOOK_ANNOTATION, "none")]);
        let both = Ownership::or(Some(&pod), Some(&namespace));
        assert_eq!((both.severity, both.team.as_str()), (Some(Severity::Info), "cart"));
        assert_eq!(both.invalid().collect::<Vec<_>>(), [SEVERITY_ANNOTATION]);
        assert_eq!(Ownership::or(None, Some(&namespace)), namespace);
        assert_eq!(Ownership::or(Some(&pod), None), pod);
        assert_eq!(Ownership::or(None, None), Ownership::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_kept_is_bounded_and_has_no_markup(name in prop::sample::select(&ANNOTATIONS[..]), value in "\\PC*|https?://[ -~]{0,40}|[a-z@.-]{0,70}") {
            let ownership = of(&[(name, &value)]);
            prop_assert!(ownership.team.len() <= TEAM_LENGTH);
            for text in [&ownership.team, &ownership.runbook, &ownership.dashboard] {
                prop_assert!(text.replace('&', "\\u0026").len() <= LINK_LENGTH);
                prop_assert!(!text.contains(MARKUP));
                prop_assert!(text.chars().all(|c| c.is_ascii_graphic()));
            }
            let is_set = ownership.severity.is_some()
                || [&ownership.team, &ownership.runbook, &ownership.dashboard].into_iter().any(|text| !text.is_empty());
            prop_assert_eq!(is_set, !value.is_empty() && ownership.invalid().count() == 0);
        }
    }
}
