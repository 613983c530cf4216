//! Generates the CustomResourceDefinition from the types of [`Orchestr`].

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::Value;

use super::Orchestr;

#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    #[error("cannot serialize the CustomResourceDefinition: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot write the CustomResourceDefinition as YAML: {0}")]
    Yaml(#[from] serde_yaml::SerializeError),
}

/// The CustomResourceDefinition as it is applied to a cluster.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    let mut crd = Orchestr::crd();
    let schemas = crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    for schema in schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()) {
        adjust(schema);
        if let Some(spec) = schema.properties.as_mut().and_then(|properties| properties.get_mut("spec")) {
            // The API server rejects every change of an object without a required field. Without this default, an
            // object that another operator created without a spec could not even lose its finalizer, nor be deleted.
            spec.default = Some(JSON(Value::Object(serde_json::Map::new())));
        }
    }
    crd
}

/// The content of `crd/orchestr.yaml`.
///
/// # Errors
/// When serialization fails.
pub fn yaml() -> Result<String, CrdError> {
    let mut value = serde_json::to_value(crd())?;
    use_integers(&mut value);
    Ok(serde_yaml::to_string(&value)?)
}

/// Removes the defaults, so that the API server does not write them into each object. Joins the lines of descriptions,
/// which `kubectl explain` would otherwise break as the source does.
fn adjust(schema: &mut JSONSchemaProps) {
    schema.default = None;
    if let Some(description) = &mut schema.description {
        *description = description.replace('\n', " ");
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        adjust(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut schema.items {
        adjust(item);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        adjust(value);
    }
}

/// Makes integers of the bounds, which are floating-point numbers in the API and would be printed as `1000.0`.
fn use_integers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(use_integers),
        Value::Object(fields) => fields.values_mut().for_each(use_integers),
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0) {
                *number = (float as i64).into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_file_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crd/orchestr.yaml");
        let file = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            file == yaml().unwrap(),
            "crd/orchestr.yaml differs from the Rust types; update it with cargo run -- crd > crd/orchestr.yaml"
        );
    }

    #[test]
    fn only_an_absent_spec_has_a_default() {
        fn defaults(value: &Value, path: &str, found: &mut Vec<String>) {
            match value {
                Value::Array(items) => items.iter().for_each(|item| defaults(item, path, found)),
                Value::Object(fields) => {
                    for (name, field) in fields {
                        if name == "default" {
                            found.push(format!("{path}: {field}"));
                        }
                        defaults(field, &format!("{path}.{name}"), found);
                    }
                }
                _ => {}
            }
        }
        let mut found = vec![];
        let schema = crd().spec.versions[0].schema.clone().unwrap().open_api_v3_schema;
        defaults(&serde_json::to_value(schema).unwrap(), "", &mut found);
        assert_eq!(found, [".properties.spec: {}"]);
    }

    /// Otherwise the API server refuses the status of an operator that is newer than the CRD.
    #[test]
    fn a_status_may_contain_names_of_a_newer_version() {
        fn search(schema: &Value, path: &str) {
            assert!(schema["enum"].is_null(), "{path} lists its values");
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                search(property, &format!("{path}.{name}"));
            }
            if schema["items"].is_object() {
                search(&schema["items"], &format!("{path}[]"));
            }
        }
        let crd = serde_json::to_value(crd()).unwrap();
        let status = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        assert!(status["properties"]["webhooks"]["items"]["properties"]["alerts"].is_object());
        search(status, "status");
    }

    /// Without a bound on each list and text of the spec, one object could contain a megabyte of patterns.
    #[test]
    fn everything_in_the_spec_is_bounded() {
        fn search(schema: &Value, path: &str) {
            match schema["type"].as_str() {
                Some("string") => {
                    assert!(schema["maxLength"].is_u64() || schema["enum"].is_array(), "{path} has no maximum length");
                }
                Some("array") => {
                    assert!(schema["maxItems"].is_u64(), "{path} has no maximum size");
                    search(&schema["items"], &format!("{path}[]"));
                }
                Some("object") => {
                    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                        search(property, &format!("{path}.{name}"));
                    }
                    if schema["additionalProperties"].is_object() {
                        assert!(schema["maxProperties"].is_u64(), "{path} has no maximum size");
                        search(&schema["additionalProperties"], &format!("{path}[]"));
                    }
                }
                Some("integer") => assert!(schema["minimum"].is_number() && schema["maximum"].is_number(), "{path}"),
                Some("boolean") => {}
                other => panic!("{path} is of type {other:?}"),
            }
        }
        let crd = serde_json::to_value(crd()).unwrap();
        search(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], "spec");
    }
}
