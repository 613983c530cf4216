//! Reads an object from a file that kubectl wrote.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use kube::api::DynamicObject;
use serde_json::Value;

use crate::{
    api::NamespacedName,
    cli::{Failure, yaml},
};

/// The largest file that is read, in bytes: the list of some hundred objects.
const LIMIT: u64 = 64 * 1024 * 1024;

/// Reads the object of this name from a file with one object or a list of objects; `-` is standard input.
pub(super) fn read(path: &Path, wanted: &NamespacedName) -> Result<DynamicObject, Failure> {
    let is_stdin = path == Path::new("-");
    let file = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let mut text = String::new();
    let read = if is_stdin {
        io::stdin().lock().take(LIMIT + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_string(&mut text))
    };
    let size = read.map_err(|error| Failure::new(format!("cannot read {file}: {error}")))?;
    if size as u64 > LIMIT {
        return Err(Failure::new(format!("{file} has more than {} MiB", LIMIT / 1024 / 1024)));
    }
    find(&text, &file, wanted)
}

fn find(text: &str, file: &str, wanted: &NamespacedName) -> Result<DynamicObject, Failure> {
    // The parsers' own messages may quote the file.
    let document: Value = serde_json::from_str(text)
        .ok()
        .or_else(|| yaml::first_document(text.as_bytes()).ok().map(Option::unwrap_or_default))
        .ok_or_else(|| Failure::new(format!("{file} is neither JSON nor YAML")))?;
    let items = match document {
        Value::Object(mut list) if list.contains_key("items") => match list.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        object => vec![object],
    };
    let mut objects = items.into_iter().filter_map(|item| serde_json::from_value::<DynamicObject>(item).ok());
    let NamespacedName { namespace, name } = wanted;
    let is_wanted = |object: &DynamicObject| {
        let kind = object.types.as_ref().map(|types| types.kind.as_str());
        let metadata = &object.metadata;
        kind == Some("Orchestr")
            && metadata.namespace.as_ref() == Some(namespace)
            && metadata.name.as_ref() == Some(name)
    };
    objects
        .find(is_wanted)
        .ok_or_else(|| Failure::new(format!("{file} does not contain the Orchestr object {namespace}/{name}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_an_object_in_the_list_of_a_large_cluster() {
        let object = |number: usize| {
            let pods: Vec<_> =
                (0..100).map(|_| json!({"name": "p", "namespace": "n", "containerIssues": []})).collect();
            json!({
                "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": format!("o{number}"), "namespace": "ops"},
                "status": {"problematicPods": pods},
            })
        };
        let objects: Vec<_> = (0..500).map(object).collect();
        let list = serde_yaml::to_string(&json!({"apiVersion": "v1", "kind": "List", "items": objects})).unwrap();
        assert!(list.len() as u64 <= LIMIT);
        let found = find(&list, "objects.yaml", &NamespacedName::new("ops", "o499")).unwrap();
        assert_eq!(found.data["status"]["problematicPods"].as_array().unwrap().len(), 100);
    }
}
