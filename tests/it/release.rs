//! Checks that files that users copy from have the version of the package, and that the image describes itself like it.
//! `deploy/release/check` checks the files of a release.

use std::{fs, path::Path};

use regex::Regex;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn all_files_name_the_version_of_the_package() {
    let image = Regex::new(r"\borchestr:([0-9][0-9A-Za-z.+-]*[0-9A-Za-z])").unwrap();
    let tag = Regex::new(r"newTag: ([^},\s]+)").unwrap();
    let default = Regex::new(r"(?m)^ARG VERSION=(.*)$").unwrap();
    for (path, pattern) in [
        ("Dockerfile", &default),
        ("Dockerfile", &image),
        ("README.md", &image),
        ("docs/first-steps.md", &image),
        ("deploy/base/deployment.yaml", &image),
        ("deploy/kustomization.yaml", &tag),
    ] {
        let text = read(path);
        let versions: Vec<&str> = pattern.captures_iter(&text).map(|found| found.get(1).unwrap().as_str()).collect();
        assert!(!versions.is_empty(), "{path} does not name a version");
        assert!(versions.iter().all(|version| *version == env!("CARGO_PKG_VERSION")), "{path}: {versions:?}");
    }
}

#[test]
fn the_labels_of_the_image_describe_the_package() {
    let dockerfile = read("Dockerfile");
    for (label, value) in [
        ("title", env!("CARGO_PKG_NAME")),
        ("description", env!("CARGO_PKG_DESCRIPTION")),
        ("licenses", env!("CARGO_PKG_LICENSE")),
    ] {
        let label = format!(r#"org.opencontainers.image.{label}="{value}""#);
        assert!(dockerfile.contains(&label), "the Dockerfile lacks {label}");
    }
}
