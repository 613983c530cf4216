//! JSON and YAML.

use serde::Serialize;

use super::{
    document::{Document, Section, Unchecked},
    groups::{By, Groups, groups},
};

/// The document. That of a single cluster has the fields of the status of an object.
#[derive(Serialize)]
#[serde(untagged)]
enum Json<'a> {
    One {
        #[serde(flatten)]
        section: &'a Section,
        #[serde(flatten)]
        groups: Option<Groups>,
    },
    Several {
        clusters: Vec<Cluster<'a>>,
        #[serde(flatten)]
        groups: Option<Groups>,
    },
}

/// A cluster that was checked, or the reason why it was not.
#[derive(Serialize)]
#[serde(untagged)]
enum Cluster<'a> {
    Section(&'a Section),
    Error { context: &'a str, error: &'a str },
}

/// The document, with groups if that is wanted, as a value for [`json`] and [`yaml`].
pub(crate) fn document(document: &Document, by: Option<By>) -> impl Serialize {
    let groups = by.map(|by| groups(by, document));
    match document.clusters.as_slice() {
        [Ok(section)] if !document.is_named => Json::One { section, groups },
        clusters => {
            let clusters = clusters.iter().map(|cluster| match cluster {
                Ok(section) => Cluster::Section(section),
                Err(Unchecked { context, why }) => Cluster::Error { context, error: why },
            });
            Json::Several { clusters: clusters.collect(), groups }
        }
    }
}

pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

pub(crate) fn yaml(value: &impl Serialize) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|error| error.to_string())
}
