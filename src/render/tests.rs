use super::{
    document::{
        By,
        tests::{document, out_of_memory},
    },
    github, groups, html, junit, markdown, text,
};

#[test]
fn each_format_says_if_a_problem_may_be_older() {
    for (at_latest, age, table_age) in [(false, "60m", "60m "), (true, "at least 60m", "60m+")] {
        let mut section = out_of_memory(None, "cart", "killed", "");
        section.as_of = Some(section.now);
        section.incidents[0].since_at_latest = at_latest;
        section.pods[0].since_at_latest = at_latest;
        let json = serde_json::to_value(&section).unwrap();
        let said = ["incidents", "problematicPods"].map(|list| json[list][0].get("sinceAtLatest").is_some());
        assert_eq!(said, [at_latest; 2]);
        let document = document("", vec![Ok(section)]);
        let layout = text::Layout { width: 80, log_lines: 0 };
        let (status, pods) = (text::write(&document, layout), text::pods_with_logs(&document, layout));
        for (format, out) in [
            ("html", html::page(&document)),
            ("markdown", markdown::write(&document)),
            ("junit", junit::write(&document).unwrap()),
            ("github", github::write(&document)),
            ("text of a status", status),
            ("text of pods", pods),
        ] {
            assert!(out.contains(age) && out.contains("at least ") == at_latest, "{format}: {out}");
        }
        let table = groups::table(By::Owner, &document, None);
        assert!(table.contains(table_age), "{table}");
    }
}
