//! Checks that the examples in YAML can be parsed, and that those of Orchestr objects contain only fields that exist.

use orchestr::api::crd::crd;
use serde_json::{Value, json};

use super::pages::pages;

/// The fields that the schema does not have.
fn unknown(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                let any = &schema["additionalProperties"];
                match schema["properties"].get(name).or(any.is_object().then_some(any)) {
                    Some(schema) => unknown(value, schema, &path, found),
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| unknown(item, &schema["items"], &format!("{path}[]"), found))
        }
        _ => {}
    }
}

/// The schema of an Orchestr object.
fn schema() -> Value {
    let crd = serde_json::to_value(crd()).unwrap();
    let mut schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    for field in ["apiVersion", "kind"] {
        schema["properties"][field] = json!({"type": "string"});
    }
    schema["properties"]["metadata"] = json!({"additionalProperties": {"additionalProperties": {}}});
    schema
}

/// Fields of a spec that other kinds of objects do not have.
const SPEC: [&str; 6] = ["alerts", "webhooks", "thresholds", "links", "silences", "quietHours"];

/// The object that an example is about, if it is an Orchestr object or a part of one.
pub fn object(example: Value) -> Option<Value> {
    let has = |value: &Value, names: &[&str]| names.iter().any(|name| value.get(name).is_some());
    let is_ours = example["kind"] == "Orchestr" || has(&example["spec"], &SPEC);
    let is_spec = has(&example, &SPEC);
    let is_status = has(&example, &["incidents", "problematicPods", "commonCauses"]);
    match () {
        () if is_ours => Some(example),
        () if is_spec => Some(json!({"spec": example})),
        () if is_status => Some(json!({"status": example})),
        () => None,
    }
}

#[test]
fn examples_contain_only_fields_that_exist() {
    let (schema, mut wrong, mut objects) = (schema(), Vec::new(), 0);
    for page in pages() {
        for code in page.blocks().into_iter().filter(|code| code.language == "yaml") {
            for document in code.text.split("\n---\n") {
                let example: Value =
                    serde_yaml::from_str(document).unwrap_or_else(|error| panic!("{}: {error}\n{document}", page.path));
                let Some(object) = object(example) else { continue };
                objects += 1;
                unknown(&object, &schema, &page.path, &mut wrong);
            }
        }
    }
    assert!(wrong.is_empty(), "there are no such fields: {wrong:#?}");
    assert!(objects > 4, "{objects}");
}

#[test]
fn an_unknown_field_is_noticed() {
    let mut found = Vec::new();
    let spec = json!({"spec": {"pods": {"selector": {"matchLabels": {"app": "a"}}, "namespace": []}, "webhooks": [{"url": ""}]}});
    unknown(&object(spec).unwrap(), &schema(), "page", &mut found);
    assert_eq!(found, ["page.spec.pods.namespace", "page.spec.webhooks[].url"]);
    found.clear();
    unknown(&object(json!({"links": [{"uri": ""}]})).unwrap(), &schema(), "page", &mut found);
    assert_eq!(found, ["page.spec.links[].uri"]);
}
