//! Checks and tests the alerting rules with promtool.

use std::fs;

use orchestr_testbed::promtool;

use super::documents::repository;

#[tokio::test]
async fn the_rules_pass_their_tests() {
    let rules = repository("deploy/monitoring/rules.yaml").display().to_string();
    let checked = promtool(&["check", "rules", "--lint=all", "--lint-fatal", &rules], "").await.unwrap();
    assert!(checked.success, "{}", checked.text);
    let tests = fs::read_to_string(repository("tests/fixtures/monitoring/rules_test.yaml")).unwrap();
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    fs::write(file.path(), tests.replace("[RULES]", &format!("[{rules}]"))).unwrap();
    let tested = promtool(&["test", "rules", &file.path().display().to_string()], "").await.unwrap();
    assert!(tested.success, "{}", tested.text);
    // A rule that never fires fails its tests.
    let broken = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let text = fs::read_to_string(&rules).unwrap();
    fs::write(broken.path(), text.replace("(orchestr_failing_webhooks) > 0", "(orchestr_failing_webhooks) > 9"))
        .unwrap();
    let broken_rules = broken.path().display().to_string();
    fs::write(file.path(), tests.replace("[RULES]", &format!("[{broken_rules}]"))).unwrap();
    assert!(!promtool(&["test", "rules", &file.path().display().to_string()], "").await.unwrap().success);
}
