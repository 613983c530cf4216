//! Helm reads no files outside of a chart's folder, so `deploy/chart/files` contains copies.

use super::repository;

/// The copies, and their originals.
const COPIES: [(&str, &str); 4] = [
    ("crd.yaml", "crd/orchestr.yaml"),
    ("dashboard.json", "deploy/monitoring/dashboard.json"),
    ("policy.yaml", "deploy/tenancy/policy.yaml"),
    ("prometheus-rule.yaml", "deploy/monitoring/prometheus-rule.yaml"),
];

/// `UPDATE_SNAPSHOTS=1` copies them.
#[test]
fn the_chart_contains_copies_of_the_crd_and_of_other_files() {
    let folder = repository("deploy/chart/files");
    for (copy, original) in COPIES {
        let (copy, original) = (format!("{folder}/{copy}"), repository(original));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::copy(&original, &copy).unwrap();
        }
        let [found, expected] = [&copy, &original].map(|path| std::fs::read_to_string(path).unwrap());
        assert!(found == expected, "{copy} differs from {original}; UPDATE_SNAPSHOTS=1 copies it");
    }
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, COPIES.map(|(copy, _)| copy));
}

#[test]
fn the_chart_has_the_version_of_the_operator() {
    let text = std::fs::read_to_string(repository("deploy/chart/Chart.yaml")).unwrap();
    let chart: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}
