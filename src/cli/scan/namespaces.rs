//! `-n`: the namespaces to check, as names or as patterns in the syntax of `spec.pods.namespaces`.

use crate::glob::Glob;

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
}
