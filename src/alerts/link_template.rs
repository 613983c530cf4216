//! Links in messages, whose URLs contain the names of an incident.

use super::{Incident, sanitize};
use crate::{
    api::{Link, is_link, limits},
    spec_error::{SpecError, entries, invalid, short_enough},
};

const PLACEHOLDERS: [&str; 7] = ["namespace", "owner", "ownerKind", "container", "pod", "cluster", "incident"];

/// A validated entry of `spec.links`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTemplate {
    pub name: String,
    /// The URL in parts: a text, and the placeholder that follows it. None follows the last one.
    parts: Vec<(String, Option<&'static str>)>,
}

fn value<'a>(placeholder: &str, incident: &'a Incident, cluster: &'a str) -> &'a str {
    match placeholder {
        "namespace" => &incident.namespace,
        "owner" => &incident.owner.name,
        "ownerKind" => &incident.owner.kind,
        "container" => &incident.container,
        "pod" => incident.texts.example_pods.first().map_or("", String::as_str),
        "cluster" => cluster,
        _ => &incident.key,
    }
}

impl LinkTemplate {
    /// Validates `spec.links`. Messages lack a link that is wrong; `wrong` names it.
    pub fn validate_all(links: &[Link], wrong: &mut Vec<SpecError>) -> Vec<Self> {
        let new = |index, link: &Link, _: &mut _| Self::new(index, link);
        entries("spec.links", links, limits::LINKS, |link| &link.name, new, wrong)
    }

    fn new(index: usize, Link { name, url }: &Link) -> Result<Self, SpecError> {
        let field = |field: &str| format!("spec.links[{index}].{field}");
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '.');
        if name.trim().is_empty() || !name.chars().all(is_name) {
            return Err(invalid(field("name"), "must be letters, digits, spaces, - and ."));
        }
        short_enough(&field("name"), name, limits::LINK_NAME_LENGTH)?;
        short_enough(&field("url"), url, limits::LINK_URL_LENGTH)?;
        let parts = parse(url).map_err(|problem| invalid(field("url"), problem))?;
        Ok(Self { name: name.clone(), parts })
    }

    /// The URL for an incident; absent if it is too long.
    pub(super) fn expand(&self, incident: &Incident, cluster: &str) -> Option<String> {
        let mut url = String::new();
        for (text, placeholder) in &self.parts {
            url.push_str(text);
            url.extend(placeholder.map(|placeholder| encode(value(placeholder, incident, cluster))));
        }
        is_link(&url).then_some(url)
    }
}

/// Splits a URL at its placeholders.
fn parse(url: &str) -> Result<Vec<(String, Option<&'static str>)>, String> {
    let mut parts = Vec::new();
    let mut rest = url;
    // The host must be in the text before the first placeholder: names must not decide where a link leads.
    let (host, _) = url.split_once('{').unwrap_or((url, ""));
    let after_scheme = host.split_once("://").map_or("", |(_, after)| after);
    if host != url && !after_scheme.contains(['/', '?', '#']) {
        return Err("the first placeholder must follow the host and a /".to_owned());
    }
    while let Some((text, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or("lacks a } after a {")?;
        let placeholder = PLACEHOLDERS.into_iter().find(|known| *known == name).ok_or_else(|| {
            let known = PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ");
            format!("{:?} is not one of the placeholders {known}", format!("{{{}}}", sanitize::single_line(name, 32)))
        })?;
        parts.push((text.to_owned(), Some(placeholder)));
        rest = after;
    }
    parts.push((rest.to_owned(), None));
    let example = parts.iter().flat_map(|(text, placeholder)| [text.as_str(), placeholder.map_or("", |_| "x")]);
    let example: String = example.collect();
    if is_link(&example) { Ok(parts) } else { Err("must be an http or https URL without credentials".to_owned()) }
}

/// Percent-encodes everything that has a meaning in a URL.
fn encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{alerts::Texts, api::Owner};

    fn validate(links: &[(&str, &str)]) -> Result<Vec<LinkTemplate>, String> {
        let link = |(name, url): &(&str, &str)| Link { name: (*name).to_owned(), url: (*url).to_owned() };
        let links: Vec<_> = links.iter().map(link).collect();
        let mut wrong = Vec::new();
        let links = LinkTemplate::validate_all(&links, &mut wrong);
        wrong.first().map_or(Ok(links), |error| Err(error.to_string()))
    }

    fn expand(url: &str, incident: &Incident) -> Option<String> {
        validate(&[("Logs", url)]).unwrap()[0].expand(incident, "prod eu")
    }

    fn incident() -> Incident {
        let example_pods = vec!["cart-5d9f-a".to_owned(), "cart-5d9f-b".to_owned()];
        Incident {
            key: "0123456789abcdef".into(),
            namespace: "shop".into(),
            owner: Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() }.into(),
            container: "app".into(),
            texts: Texts { example_pods, ..Texts::default() }.into(),
            ..Incident::default()
        }
    }

    #[test]
    fn replaces_all_placeholders() {
        let all = "https://g.example/{cluster}/{namespace}/{ownerKind}/{owner}?c={container}&p={pod}#{incident}";
        let expected = "https://g.example/prod%20eu/shop/Deployment/cart?c=app&p=cart-5d9f-a#0123456789abcdef";
        assert_eq!(expand(all, &incident()).as_deref(), Some(expected));
        assert_eq!(expand("http://g.example", &incident()).as_deref(), Some("http://g.example"));
        let gone = Incident { texts: Texts::default().into(), container: "".into(), ..incident() };
        assert_eq!(
            expand("https://g.example/?c={container}&p={pod}", &gone).as_deref(),
            Some("https://g.example/?c=&p=")
        );
    }

    #[test]
    fn names_the_field_of_an_invalid_link() {
        let known = "{namespace}, {owner}, {ownerKind}, {container}, {pod}, {cluster}, {incident}";
        let no_url = "must be an http or https URL without credentials";
        let host = "the first placeholder must follow the host and a /";
        for (link, expected) in [
            (("Logs", "https://g.example/{node}"), format!("url: \"{{node}}\" is not one of the placeholders {known}")),
            (("Logs", "https://g.example/{owner"), "url: lacks a } after a {".to_owned()),
            (("Logs", "https://g.example/owner}"), format!("url: {no_url}")),
            (("Logs", "javascript:alert(1)"), format!("url: {no_url}")),
            (("Logs", "https://user:pass@g.example/"), format!("url: {no_url}")),
            (("Logs", "https://g.example/<x>"), format!("url: {no_url}")),
            (("Logs", "https://{namespace}.example/"), format!("url: {host}")),
            (("Logs", "https://g.example{owner}/"), format!("url: {host}")),
            (("Logs", "{owner}"), format!("url: {host}")),
            (("*Logs*", "https://g.example/"), "name: must be letters, digits, spaces, - and .".to_owned()),
            ((" ", "https://g.example/"), "name: must be letters, digits, spaces, - and .".to_owned()),
        ] {
            assert_eq!(validate(&[link]), Err(format!("spec.links[0].{expected}")), "{link:?}");
        }
        let twice = validate(&[("Logs", "https://a.example"), ("Logs", "https://b.example")]);
        assert_eq!(twice, Err("spec.links[1].name: \"Logs\" is already used".to_owned()));
        let six = validate(&["A", "B", "C", "D", "E", "F"].map(|name| (name, "https://a.example")));
        assert_eq!(six, Err("spec.links: may have at most 5 items, not 6".to_owned()));
        let long = format!("https://a.example/{}", "x".repeat(300));
        assert!(
            validate(&[("Logs", long.as_str())]).unwrap_err().starts_with("spec.links[0].url: may have at most 256")
        );
    }

    #[test]
    fn leaves_out_a_link_that_becomes_too_long() {
        let long = Incident { namespace: "%".repeat(200).into(), ..incident() };
        assert_eq!(expand("https://g.example/{namespace}", &long), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hostile_names_stay_within_their_part_of_the_url(name in "\\PC{0,30}|[a-z/?#&@:<>|`\n.%-]{0,30}") {
            let hostile = Incident { namespace: name.as_str().into(), ..incident() };
            if let Some(url) = expand("https://g.example/a/{namespace}?b=c", &hostile) {
                let parsed = url::Url::parse(&url).unwrap();
                prop_assert_eq!(parsed.host_str(), Some("g.example"));
                prop_assert_eq!(parsed.query(), Some("b=c"));
                prop_assert!(is_link(&url) && parsed.fragment().is_none());
            }
        }
    }
}
