//! Which pods to check: `-n`, the namespaces as names or as patterns in the syntax of `spec.pods.namespaces`, and `-l`, a label
//! selector in kubectl's syntax.

use std::collections::BTreeSet;

use kube::core::Expression;

use crate::{
    glob::Glob,
    pods::{Pod, matches},
};

/// Which pods to check.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) namespaces: Namespaces,
    pub(super) selector: LabelSelector,
}

impl Filter {
    /// Whether to check a pod. Marks the names and patterns of namespaces that match it.
    pub(super) fn selects(&mut self, pod: &Pod) -> bool {
        self.namespaces.selects(&pod.namespace) && self.selector.matches(&pod.labels)
    }
}

/// The namespaces to check. Empty: all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Namespaces(Vec<NamespacePattern>);

/// A name or a pattern.
#[derive(Clone, Debug)]
pub(super) struct NamespacePattern {
    text: String,
    glob: Glob,
    /// Whether a pod of a matching namespace was read.
    matched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--namespace: {0:?} {1}")]
pub(super) struct NamespaceError(String, crate::glob::GlobError);

impl Namespaces {
    /// Parses the values of the flag, each of which may contain several names and patterns.
    pub(super) fn new(given: &[String]) -> Result<Self, NamespaceError> {
        let mut wanted: Vec<NamespacePattern> = Vec::new();
        for text in given.iter().flat_map(|value| parts(value)).map(str::trim).filter(|text| !text.is_empty()) {
            if wanted.iter().all(|known| known.text != text) {
                let glob = Glob::new(text).map_err(|error| NamespaceError(text.to_owned(), error))?;
                wanted.push(NamespacePattern { text: text.to_owned(), glob, matched: false });
            }
        }
        Ok(Self(wanted))
    }

    /// The names, if names and no patterns were given: then only these namespaces need to be read.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let all = !self.0.is_empty() && self.0.iter().all(NamespacePattern::is_name);
        all.then(|| self.0.iter().map(|wanted| wanted.text.clone()).collect())
    }

    /// The name, if one name and nothing else was given.
    pub(super) fn single(&self) -> Option<&str> {
        match self.0.as_slice() {
            [one] if one.is_name() => Some(&one.text),
            _ => None,
        }
    }

    /// Whether to check the pods of this namespace. Marks the patterns that match it.
    pub(super) fn selects(&mut self, namespace: &str) -> bool {
        let mut selected = self.0.is_empty();
        for wanted in &mut self.0 {
            if wanted.matches(namespace) {
                wanted.matched = true;
                selected = true;
            }
        }
        selected
    }

    /// The names and patterns that matched the namespace of no pod so far.
    pub(super) fn unmatched(&self) -> impl Iterator<Item = &NamespacePattern> {
        self.0.iter().filter(|wanted| !wanted.matched)
    }

    /// The namespaces as the end of a sentence.
    pub(super) fn place(&self) -> String {
        let texts = || self.0.iter().map(|wanted| wanted.text.as_str()).collect::<Vec<_>>().join(", ");
        match (self.single(), self.0.is_empty()) {
            (_, true) => String::new(),
            (Some(name), _) => format!(" in {name} namespace"),
            (None, _) => format!(" in namespaces {}", texts()),
        }
    }
}

impl NamespacePattern {
    /// Whether it is a name: it contains no wildcard.
    pub(super) fn is_name(&self) -> bool {
        !self.text.contains(['*', '?', '[', '{'])
    }

    pub(super) fn matches(&self, namespace: &str) -> bool {
        self.glob.is_match(namespace)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Splits at the commas outside of `{…}`.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut open = false;
    text.split(move |c| {
        open = c == '{' || open && c != '}';
        c == ',' && !open
    })
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a label requirement such as app=cart, app!=cart, app in (cart,shop), app, !app or cores>2")]
pub(super) struct SelectorError(String);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    /// A requirement that a spec can have as well.
    Set(Expression),
    /// `cores>2`; the label's value must be an integer.
    Above(String, i64),
    /// `cores<2`
    Below(String, i64),
}

impl LabelSelector {
    /// Parses a selector such as `app=cart,tier in (web,api),!canary`.
    pub(super) fn new(text: &str) -> Result<Self, SelectorError> {
        let requirements = requirements(text).map(str::trim).filter(|requirement| !requirement.is_empty());
        requirements.map(requirement).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn matches<T: PartialEq<str> + AsRef<str>>(&self, labels: &[(T, T)]) -> bool {
        let number = |key: &str| labels.iter().find(|(own, _)| *own == *key)?.1.as_ref().parse::<i64>().ok();
        self.0.iter().all(|requirement| match requirement {
            Requirement::Set(expression) => matches(expression, labels),
            Requirement::Above(key, bound) => number(key).is_some_and(|number| number > *bound),
            Requirement::Below(key, bound) => number(key).is_some_and(|number| number < *bound),
        })
    }
}

/// Splits at the commas outside of parentheses.
fn requirements(text: &str) -> impl Iterator<Item = &str> {
    let mut open = false;
    text.split(move |c| {
        open = c == '(' || open && c != ')';
        c == ',' && !open
    })
}

fn requirement(text: &str) -> Result<Requirement, SelectorError> {
    for (sign, bound) in [('>', Requirement::Above as fn(_, _) -> _), ('<', Requirement::Below)] {
        if let Some((key, number)) = text.split_once(sign) {
            let number = number.trim().parse().ok().filter(|_| is_key(key.trim()));
            return number
                .map(|number| bound(key.trim().to_owned(), number))
                .ok_or_else(|| SelectorError(text.to_owned()));
        }
    }
    expression(text).map(Requirement::Set)
}

fn expression(text: &str) -> Result<Expression, SelectorError> {
    let wrong = || SelectorError(text.to_owned());
    let key = |key: &str| is_key(key.trim()).then(|| key.trim().to_owned()).ok_or_else(wrong);
    let value = |value: &str| is_value(value.trim()).then(|| value.trim().to_owned()).ok_or_else(wrong);
    if let Some(set) = text.strip_suffix(')') {
        let (head, values) = set.split_once('(').ok_or_else(wrong)?;
        let values = values.split(',').map(value).collect::<Result<BTreeSet<_>, _>>()?;
        return match head.split_whitespace().collect::<Vec<_>>()[..] {
            [name, "in"] => Ok(Expression::In(key(name)?, values)),
            [name, "notin"] => Ok(Expression::NotIn(key(name)?, values)),
            _ => Err(wrong()),
        };
    }
    if let Some((name, other)) = text.split_once("!=") {
        return Ok(Expression::NotEqual(key(name)?, value(other)?));
    }
    if let Some((name, other)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Expression::Equal(key(name)?, value(other)?));
    }
    match text.strip_prefix('!') {
        Some(name) => Ok(Expression::DoesNotExist(key(name)?)),
        None => Ok(Expression::Exists(key(text)?)),
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
}

fn is_value(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaces(given: &[&str]) -> Result<Namespaces, String> {
        let given: Vec<_> = given.iter().map(|&text| text.to_owned()).collect();
        Namespaces::new(&given).map_err(|error| error.to_string())
    }

    #[test]
    fn accepts_comma_separated_and_repeated_values() {
        for (given, names, place) in [
            (&[][..], None, ""),
            (&["shop"], Some(vec!["shop"]), " in shop namespace"),
            (&["shop,ml", " shop "], Some(vec!["shop", "ml"]), " in namespaces shop, ml"),
            (&["{shop,bank}-prod,ml"], None, " in namespaces {shop,bank}-prod, ml"),
            (&["team-*"], None, " in namespaces team-*"),
            (&[""], None, ""),
        ] {
            let namespaces = namespaces(given).unwrap();
            let names = names.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!((namespaces.names(), namespaces.place().as_str()), (names, place), "{given:?}");
        }
    }

    #[test]
    fn reports_patterns_that_matched_nothing() {
        let mut namespaces = namespaces(&["shop", "team-*", "{ml,bank}"]).unwrap();
        assert!(namespaces.selects("team-a") && namespaces.selects("bank") && !namespaces.selects("kube-system"));
        assert_eq!(namespaces.unmatched().map(NamespacePattern::text).collect::<Vec<_>>(), ["shop"]);
        assert!(Namespaces::default().selects("kube-system"));
    }

    #[test]
    fn names_an_invalid_pattern() {
        assert_eq!(
            namespaces(&["shop,Cart"]).unwrap_err(),
            "--namespace: \"Cart\" is not a glob pattern of namespaces: lower-case letters, digits, -, *, ?, [a-z], [!a-z] and {one,other}"
        );
    }

    #[test]
    fn parses_the_syntax_of_kubectl() {
        let set = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect::<BTreeSet<_>>();
        for (text, expected) in [
            ("", vec![]),
            ("app=cart", vec![Expression::Equal("app".into(), "cart".into())]),
            ("app == cart", vec![Expression::Equal("app".into(), "cart".into())]),
            ("app=", vec![Expression::Equal("app".into(), String::new())]),
            (
                "app.kubernetes.io/name!=cart",
                vec![Expression::NotEqual("app.kubernetes.io/name".into(), "cart".into())],
            ),
            (
                "tier in (web, api),!canary,team",
                vec![
                    Expression::In("tier".into(), set(&["web", "api"])),
                    Expression::DoesNotExist("canary".into()),
                    Expression::Exists("team".into()),
                ],
            ),
            ("tier notin (web)", vec![Expression::NotIn("tier".into(), set(&["web"]))]),
        ] {
            let expected = expected.into_iter().map(Requirement::Set).collect();
            assert_eq!(LabelSelector::new(text), Ok(LabelSelector(expected)), "{text}");
        }
    }

    #[test]
    fn compares_integers_like_the_api_server() {
        for (text, cores, matches) in [
            ("cores>2", Some("3"), true),
            ("cores > 2", Some("2"), false),
            ("cores<2", Some("1"), true),
            ("cores<2", Some("2"), false),
            ("cores>2", Some("many"), false),
            ("cores<2", None, false),
            ("cores>2,cores<5", Some("4"), true),
            ("cores>2,cores in (5,6)", Some("4"), false),
        ] {
            let labels: Vec<_> = cores.map(|cores| ("cores".to_owned(), cores.to_owned())).into_iter().collect();
            assert_eq!(LabelSelector::new(text).unwrap().matches(&labels), matches, "{text} {cores:?}");
        }
    }

    #[test]
    fn names_the_requirement_that_cannot_be_parsed() {
        for (text, wrong) in [
            ("app=cart,tier on (web)", "tier on (web)"),
            ("a b", "a b"),
            ("=cart", "=cart"),
            ("!", "!"),
            ("tier in web)", "tier in web)"),
            ("cores>two", "cores>two"),
            ("cores>=2", "cores>=2"),
            (">2", ">2"),
            ("app=a=b", "app=a=b"),
        ] {
            assert_eq!(LabelSelector::new(text), Err(SelectorError(wrong.to_owned())), "{text}");
        }
    }
}
