//! JSON and YAML.

use serde::Serialize;

use super::{
    document::{Document, Section, StatusPart, Unchecked},
    explanation::Explanation,
    groups::{Groups, groups},
    timeline::Timeline,
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
    Explanation(&'a Explanation),
    History(&'a Timeline),
}

/// A cluster that was checked, or the reason why it was not.
#[derive(Serialize)]
#[serde(untagged)]
enum Cluster<'a> {
    Section(&'a Section),
    Error { context: &'a str, error: &'a str },
}

/// The document as a value. Of the status of an object, that is the history: kubectl prints the rest.
fn value(document: &Document) -> Json<'_> {
    let groups = document.by.map(|by| groups(by, document));
    match (document.clusters.as_slice(), &document.explanation) {
        (_, Some(explanation)) => Json::Explanation(explanation),
        ([Ok(Section { status: StatusPart { history: Some(history), .. }, .. })], _) => Json::History(history),
        ([Ok(section)], _) if !document.is_named => Json::One { section, groups },
        (clusters, _) => {
            let clusters = clusters.iter().map(|cluster| match cluster {
                Ok(section) => Cluster::Section(section),
                Err(Unchecked { context, why }) => Cluster::Error { context, error: why },
            });
            Json::Several { clusters: clusters.collect(), groups }
        }
    }
}

pub(super) fn json(document: &Document) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(&value(document))? + "\n")
}

pub(super) fn yaml(document: &Document) -> Result<String, String> {
    serde_yaml::to_string(&value(document)).map_err(|error| error.to_string())
}
