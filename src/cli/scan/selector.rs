//! `-l`: label selectors in kubectl's notation.

use std::collections::BTreeSet;

use kube::core::{Expression, Selector};

/// Why a text is not a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a label requirement such as app=cart, app!=cart, app in (cart,shop), app or !app")]
pub(super) struct SelectorError(String);

/// Reads a selector, such as `app=cart,tier in (web,api),!canary`.
pub(super) fn selector(text: &str) -> Result<Selector, SelectorError> {
    requirements(text).map(str::trim).filter(|requirement| !requirement.is_empty()).map(requirement).collect()
}

/// The parts between commas that stand outside of parentheses.
fn requirements(text: &str) -> impl Iterator<Item = &str> {
    let mut open = false;
    text.split(move |c| {
        open = c == '(' || open && c != ')';
        c == ',' && !open
    })
}

fn requirement(text: &str) -> Result<Expression, SelectorError> {
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
    fn reads_what_kubectl_reads() {
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
            assert_eq!(selector(text), Ok(expected.into_iter().collect()), "{text}");
        }
    }

    #[test]
    fn the_part_that_is_wrong_is_named() {
        for (text, wrong) in [
            ("app=cart,tier on (web)", "tier on (web)"),
            ("a b", "a b"),
            ("=cart", "=cart"),
            ("!", "!"),
            ("tier in web)", "tier in web)"),
            ("cores>2", "cores>2"),
            ("app=a=b", "app=a=b"),
        ] {
            assert_eq!(selector(text), Err(SelectorError(wrong.to_owned())), "{text}");
        }
    }
}
