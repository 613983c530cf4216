//! `-l`: label selectors in kubectl's syntax.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector, SelectorExt};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a label requirement such as app=cart, app!=cart, app in (cart,shop), app, !app or cores>2")]
pub(super) struct SelectorError(String);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    /// A requirement that kube can evaluate.
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

    pub(super) fn matches<'l>(&self, labels: impl IntoIterator<Item = (&'l str, &'l str)>) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let labels: BTreeMap<String, String> =
            labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let number = |key: &str| labels.get(key).and_then(|value| value.parse::<i64>().ok());
        self.0.iter().all(|requirement| match requirement {
            Requirement::Set(expression) => Selector::from(expression.clone()).matches(&labels),
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
            let labels: BTreeMap<_, _> = cores.map(|cores| ("cores", cores)).into_iter().collect();
            assert_eq!(LabelSelector::new(text).unwrap().matches(labels), matches, "{text} {cores:?}");
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
