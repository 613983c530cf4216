//! `-n`: the namespaces to look at, by name or by the patterns that `spec.pods.namespaces` takes.

use crate::glob::Glob;

/// The namespaces to look at; without any, all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Namespaces(Vec<Wanted>);

/// A name or a pattern.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    text: String,
    glob: Glob,
    /// Whether a pod of such a namespace was seen.
    seen: bool,
}

/// Why a text names no namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--namespace: {0:?} {1}")]
pub(super) struct NamespaceError(String, crate::glob::GlobError);

impl Namespaces {
    /// Reads what was given: each value may hold several names and patterns.
    pub(super) fn new(given: &[String]) -> Result<Self, NamespaceError> {
        let mut wanted: Vec<Wanted> = Vec::new();
        for text in given.iter().flat_map(|value| parts(value)).map(str::trim).filter(|text| !text.is_empty()) {
            if wanted.iter().all(|known| known.text != text) {
                let glob = Glob::new(text).map_err(|error| NamespaceError(text.to_owned(), error))?;
                wanted.push(Wanted { text: text.to_owned(), glob, seen: false });
            }
        }
        Ok(Self(wanted))
    }

    /// The names, if there are some and no patterns: then no other namespace need be read.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let all = !self.0.is_empty() && self.0.iter().all(Wanted::is_name);
        all.then(|| self.0.iter().map(|wanted| wanted.text.clone()).collect())
    }

    /// The name, if there is one and nothing else.
    pub(super) fn single(&self) -> Option<&str> {
        match self.0.as_slice() {
            [one] if one.is_name() => Some(&one.text),
            _ => None,
        }
    }

    /// Whether this namespace is to be looked at. Remembers that it was seen.
    pub(super) fn selects(&mut self, namespace: &str) -> bool {
        let mut selected = self.0.is_empty();
        for wanted in &mut self.0 {
            if wanted.matches(namespace) {
                wanted.seen = true;
                selected = true;
            }
        }
        selected
    }

    /// Those of which no pod was seen.
    pub(super) fn unseen(&self) -> impl Iterator<Item = &Wanted> {
        self.0.iter().filter(|wanted| !wanted.seen)
    }

    /// Where was looked, as the end of a sentence.
    pub(super) fn place(&self) -> String {
        let texts = || self.0.iter().map(|wanted| wanted.text.as_str()).collect::<Vec<_>>().join(", ");
        match (self.single(), self.0.is_empty()) {
            (_, true) => String::new(),
            (Some(name), _) => format!(" in {name} namespace"),
            (None, _) => format!(" in namespaces {}", texts()),
        }
    }
}

impl Wanted {
    /// Whether it stands for one namespace only.
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

/// The parts between commas that stand outside of `{…}`.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut open = false;
    text.split(move |c| {
        open = c == '{' || open && c != '}';
        c == ',' && !open
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaces(given: &[&str]) -> Result<Namespaces, String> {
        let given: Vec<_> = given.iter().map(|&text| text.to_owned()).collect();
        Namespaces::new(&given).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_patterns_are_separated_by_commas_or_given_one_by_one() {
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
    fn what_was_not_seen_is_known() {
        let mut namespaces = namespaces(&["shop", "team-*", "{ml,bank}"]).unwrap();
        assert!(namespaces.selects("team-a") && namespaces.selects("bank") && !namespaces.selects("kube-system"));
        assert_eq!(namespaces.unseen().map(Wanted::text).collect::<Vec<_>>(), ["shop"]);
        assert!(Namespaces::default().selects("kube-system"));
    }

    #[test]
    fn a_mistake_is_named() {
        assert_eq!(
            namespaces(&["shop,Cart"]).unwrap_err(),
            "--namespace: \"Cart\" holds 'C', which is in no namespace's name"
        );
    }
}
