mod history;
mod several_clusters;

use std::{collections::BTreeSet, fs, path::Path};

use html5ever::{ParseOpts, parse_document, tendril::TendrilSink};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use maud::html;
use proptest::{collection::vec, prelude::*};
use serde_json::json;

use crate::api::{CommonCause, ContainerIssue, Incident, LogSource, Owner, PodProblem, Revision};

use super::{
    super::document::tests::section,
    fit::PAGE_LIMIT,
    text::{log_text, shortened},
    *,
};

/// Each element that the page may contain, with its attributes.
const ELEMENTS: [(&str, &[&str]); 42] = [
    ("a", &["href"]),
    ("article", &["class"]),
    ("b", &[]),
    ("bdi", &[]),
    ("body", &[]),
    ("br", &[]),
    ("code", &[]),
    ("defs", &[]),
    ("details", &["class", "open"]),
    ("footer", &[]),
    ("h1", &[]),
    ("h2", &["id"]),
    ("h3", &["id"]),
    ("h4", &["id"]),
    ("head", &[]),
    ("header", &["class"]),
    ("html", &["lang"]),
    ("li", &[]),
    ("main", &[]),
    ("meta", &["charset", "content", "http-equiv", "name"]),
    ("p", &["class"]),
    ("path", &["class", "d"]),
    ("pattern", &["height", "id", "patternUnits", "width"]),
    ("pre", &["class", "dir"]),
    ("rect", &["class", "fill", "height", "width", "x", "y"]),
    ("samp", &[]),
    ("section", &["class"]),
    ("small", &[]),
    ("strong", &["class"]),
    ("style", &[]),
    ("summary", &[]),
    ("svg", &["aria-label", "class", "role", "viewBox"]),
    ("table", &[]),
    ("tbody", &[]),
    ("td", &["class"]),
    ("text", &["text-anchor", "x", "y"]),
    ("th", &["scope"]),
    ("thead", &[]),
    ("time", &["datetime"]),
    ("title", &[]),
    ("tr", &[]),
    ("ul", &[]),
];

fn at(time: &str) -> Time {
    Time(format!("2026-03-01T{time}Z").parse().unwrap())
}

fn incident(namespace: &str, name: &str, pods: i64) -> Incident {
    let incident = json!({
        "key": "0123456789abcdef", "kind": "Crash", "namespace": namespace, "owner": {"kind": "Deployment", "name": name},
        "container": "app", "reason": "CrashLoopBackOff", "cause": "ExitCode", "pods": pods, "of": pods,
        "message": "app exited with code 1, 12 s after its start; 7 restarts", "since": "2026-03-01T11:30:00Z",
    });
    serde_json::from_value(incident).unwrap()
}

fn pod(namespace: &str, owner: &str, name: &str, logs: &str) -> PodProblem {
    let pod = json!({
        "name": name, "namespace": namespace, "status": "CrashLoopBackOff", "kind": "Crash", "reason": "Error",
        "cause": "ExitCode", "message": "container app exited with code 1, 7 restarts", "phase": "Running", "node": "node-7",
        "evidence": ["BackOff ×41, last 11:58:10Z: Back-off restarting failed container app"],
        "owner": {"kind": "Deployment", "name": owner}, "since": "2026-03-01T11:30:00Z", "containerIssues": [],
    });
    let pod: PodProblem = serde_json::from_value(pod).unwrap();
    PodProblem { container_issues: vec![container("app", logs)], ..pod }
}

fn container(name: &str, logs: &str) -> ContainerIssue {
    let issue = json!({
        "name": name, "type": "App", "state": "Waiting", "reason": "CrashLoopBackOff", "ready": false, "restarts": 7,
        "logs": logs, "logSource": "Previous",
    });
    serde_json::from_value(issue).unwrap()
}

fn report(incidents: &[Incident], pods: &[PodProblem]) -> Section {
    section(None, incidents.to_vec(), pods.to_vec())
}

fn render(section: &Section) -> String {
    page(&Document::of(section.clone(), String::new()))
}

/// An element with its attributes, and the text in it.
#[derive(Clone, Debug)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
}

/// The elements of a page, which must be valid.
fn elements(page: &str) -> Vec<Element> {
    let dom = parse_document(RcDom::default(), ParseOpts::default()).one(page);
    assert_eq!(*dom.errors.borrow(), Vec::<std::borrow::Cow<'static, str>>::new());
    let mut found = Vec::new();
    collect(&dom.document, &mut found);
    found
}

fn collect(node: &Handle, found: &mut Vec<Element>) -> String {
    let place = found.len();
    if let NodeData::Element { name, attrs, .. } = &node.data {
        let attributes = attrs.borrow().iter().map(|own| (own.name.local.to_string(), own.value.to_string())).collect();
        found.push(Element { name: name.local.to_string(), attributes, text: String::new() });
    }
    let mut text = match &node.data {
        NodeData::Text { contents } => contents.borrow().to_string(),
        NodeData::Comment { .. } => panic!("a comment"),
        _ => String::new(),
    };
    node.children.borrow().iter().for_each(|child| text += &collect(child, found));
    if let NodeData::Element { .. } = node.data {
        found[place].text.clone_from(&text);
    }
    text
}

fn texts<'a>(elements: &'a [Element], name: &str) -> Vec<&'a str> {
    elements.iter().filter(|element| element.name == name).map(|element| element.text.as_str()).collect()
}

/// The texts that come from a cluster.
fn texts_of(elements: &[Element]) -> BTreeSet<&str> {
    texts(elements, "bdi").into_iter().collect()
}

/// Asserts that the page consists of our own markup.
#[track_caller]
fn assert_own_markup(elements: &[Element]) {
    for Element { name, attributes, .. } in elements {
        let known = ELEMENTS.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("element {name}"));
        for (attribute, value) in attributes {
            assert!(known.1.contains(&attribute.as_str()), "attribute {attribute} of {name}");
            let is_own = match (name.as_str(), attribute.as_str()) {
                ("a", _) => value.starts_with("#w") || value.starts_with("#c"),
                (_, "http-equiv") => value == "Content-Security-Policy",
                (_, "class") => value.bytes().all(|byte| byte.is_ascii_lowercase()),
                _ => value.len() < 200,
            };
            assert!(is_own, "{name} {attribute}={value:?}");
        }
    }
}

fn is_invisible(c: char) -> bool {
    c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text that might be taken for markup, and any other.
fn hostile() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        Just("</pre></samp></code></bdi></title></style></details></section></main></table>".to_owned()),
        Just("<script>alert(1)</script><img src=x onerror=alert(1)>".to_owned()),
        Just("\" onmouseover=\"alert(1)\" '".to_owned()),
        Just("<!-- ]]> --> <![CDATA[ <?php &lt; &#60; &amp".to_owned()),
        Just("\u{202e}\u{2066}\0\u{1b}[31m\r\n\t\u{85}\u{2028}".to_owned()),
        Just("\n".to_owned()),
        "\\PC{0,20}",
        any::<String>(),
    ];
    vec(parts, 0..6).prop_map(|parts| parts.concat())
}

fn hostile_pod() -> impl Strategy<Value = PodProblem> {
    vec(hostile(), 13).prop_map(|texts| {
        let own = |index: usize| texts[index].clone();
        let mut pod = pod(&own(0), &own(1), &own(2), &own(3));
        (pod.status, pod.reason, pod.message, pod.node) = (own(4), own(5), own(6), own(7));
        pod.evidence = vec![own(8)];
        pod.owner = Some(Owner { kind: own(9), name: own(1) });
        let issue = &mut pod.container_issues[0];
        (issue.name, issue.reason, issue.log_note) = (own(10), own(11), own(12));
        pod
    })
}

fn hostile_incident() -> impl Strategy<Value = Incident> {
    vec(hostile(), 8).prop_map(|texts| {
        let own = |index: usize| texts[index].clone();
        let mut incident = incident(&own(0), &own(1), 3);
        (incident.owner.kind, incident.reason, incident.message, incident.container) = (own(2), own(3), own(4), own(5));
        incident.revision = Some(Revision { name: own(6), healthy_before: 7, changes: vec![own(7)] });
        incident.controllers = vec![Owner { kind: own(6), name: own(7) }];
        incident
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn texts_from_a_cluster_cannot_become_markup(
        pod in hostile_pod(), incident in hostile_incident(), other in vec(hostile(), 6),
    ) {
        let causes = vec![CommonCause {
            kind: other[0].clone(), name: other[1].clone(), owners: 3, pods: 9, since: at("11:00:00"), since_at_latest: false,
            message: other[2].clone(),
        }];
        let (incidents, pods) = ([incident.clone()], [pod.clone()]);
        let page = render(&Section {
            summary: other[3].clone(),
            subject: other[4].clone(),
            not_seen: vec![other[5].clone()],
            common_causes: causes,
            ..report(&incidents, &pods)
        });
        let elements = elements(&page);
        assert_own_markup(&elements);
        let shown: BTreeSet<&str> = texts(&elements, "bdi").into_iter().collect();
        let Revision { name, changes, .. } = incident.revision.as_ref().unwrap();
        let issue = &pod.container_issues[0];
        for text in [
            &other[0], &other[1], &other[2], &other[4], &other[5], &incident.owner.kind, &incident.reason, &incident.message,
            name, &changes[0], &pod.name, &pod.status, &pod.reason, &pod.message, &pod.evidence[0], &issue.name,
        ] {
            let is_shown = shown.contains(shortened(text).as_str());
            prop_assert!(is_shown || (*text == pod.reason && pod.reason == pod.status), "{text:?}");
        }
        let logs = texts(&elements, "samp");
        if issue.logs.is_empty() {
            prop_assert!(logs.is_empty());
        } else {
            prop_assert_eq!(logs, [log_text(&issue.logs)]);
        }
        // A command has a name that a shell would interpret only if it is not shown at all.
        for command in texts(&elements, "code") {
            prop_assert!(command.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" -.\n".contains(&byte)), "{command}");
        }
        prop_assert!(!page.contains(is_invisible));
    }

    #[test]
    fn sizes_are_never_smaller_than_the_markup(log in hostile()) {
        let rendered = html! { (text::log_text(&log)) }.into_string();
        prop_assert!(rendered.len() <= text::log_size(&log), "{rendered:?}");
    }
}

/// This many pods with logs of 4 KiB in this many workloads. Markup grows the most if it is escaped.
fn many(workloads: usize, pods: usize, line: &str) -> (Vec<Incident>, Vec<PodProblem>) {
    let log = line.repeat(4096 / line.len());
    let name = |index: usize| format!("service-{index}");
    let incidents = (0..workloads).map(|index| incident("shop", &name(index), (pods / workloads) as i64)).collect();
    let pods = (0..pods).map(|index| {
        let owner = name(index % workloads);
        pod("shop", &owner, &format!("{owner}-5d9f7c6b84-{index}"), &log)
    });
    (incidents, pods.collect())
}

#[test]
fn shows_500_pods_with_logs_in_less_than_1_mb() {
    for (workloads, line) in
        [(1, "INFO a line\n"), (50, "INFO a line\n"), (500, "INFO a line\n"), (1, "<\"&\">"), (50, "\u{1b}\t\n")]
    {
        let (incidents, pods) = many(workloads, 500, line);
        let page = render(&report(&incidents, &pods));
        assert!(page.len() < PAGE_LIMIT, "{workloads} workloads: {} bytes", page.len());
        assert!(page.len() > PAGE_LIMIT * 9 / 10, "{workloads} workloads waste room: {} bytes", page.len());
        let elements = elements(&page);
        let logs = texts(&elements, "samp");
        assert_eq!(logs.len(), 500, "{workloads} workloads");
        assert!(logs.iter().all(|log| log.len() > 40), "{:?}", logs[0]);
        assert!(page.contains("bytes of 500 logs are shown."));
    }
}

#[test]
fn counts_what_is_left_out() {
    for (workloads, pods, sentences) in [
        (1, 5000, &["Only 500 of 5000 pods with problems are shown in detail.", "4500 more pods with problems"][..]),
        (5000, 5000, &["Only 500 of 5000 pods", "This page leaves out 4500 workloads with problems."]),
    ] {
        let (incidents, all) = many(workloads, pods, "a line\n");
        let page = render(&report(&incidents, &all));
        assert!(page.len() < PAGE_LIMIT, "{} bytes", page.len());
        for sentence in sentences {
            assert!(page.contains(sentence), "{sentence:?} of {workloads} workloads");
        }
        let details =
            elements(&page).into_iter().filter(|element| element.name == "details" && element.text.contains("node-7"));
        assert_eq!(details.count(), 500);
    }
}

#[test]
fn long_texts_and_many_of_them_do_not_make_the_page_larger() {
    let long = "<\"&\">".repeat(1_000);
    let incidents: Vec<_> = (0..600)
        .map(|index| {
            let mut incident = incident(&long, &format!("{index}{long}"), 1);
            (incident.reason, incident.message) = (long.clone(), long.clone());
            let changes = vec![long.clone(); 99];
            incident.revision = Some(Revision { name: long.clone(), healthy_before: 1, changes });
            incident
        })
        .collect();
    let pods: Vec<_> = (0..600)
        .map(|index| {
            let mut pod = pod(&long, &format!("{index}{long}"), &long, &long);
            pod.evidence = vec![long.clone(); 99];
            pod.container_issues = vec![container(&long, &long); 99];
            pod
        })
        .collect();
    let causes = vec![
        CommonCause {
            kind: long.clone(),
            name: long.clone(),
            owners: 1,
            pods: 1,
            since: at("11:00:00"),
            since_at_latest: false,
            message: long.clone()
        };
        99
    ];
    let not_seen = vec![long.clone(); 99];
    let page = render(&Section { common_causes: causes, not_seen, summary: long, ..report(&incidents, &pods) });
    assert!(page.len() < PAGE_LIMIT, "{} bytes", page.len());
    for sentence in ["and 79 more limits", "leaves out 79 common causes.", "workloads with problems."] {
        assert!(page.contains(sentence), "{sentence}");
    }
    assert_own_markup(&elements(&page));
}

#[test]
fn every_workload_has_a_pod_before_any_has_more() {
    let (mut incidents, mut pods) = many(1, 600, "a line\n");
    for index in 0..9 {
        let name = format!("late-{index}");
        incidents.push(incident("shop", &name, 1));
        pods.push(pod("shop", &name, &format!("{name}-0"), "a line\n"));
    }
    let page = render(&report(&incidents, &pods));
    for index in 0..9 {
        assert!(page.contains(&format!("late-{index}-0</bdi>")), "{index}");
    }
    assert!(page.contains("Only 500 of 609 pods"), "{page}");
}

#[test]
fn a_page_without_problems_has_no_tables() {
    let page = render(&Section {
        verdict: Verdict::Healthy,
        headline: "No problems: 9 pods".to_owned(),
        as_of: None,
        ..report(&[], &[])
    });
    let elements = elements(&page);
    assert_own_markup(&elements);
    assert_eq!(texts(&elements, "table").len() + texts(&elements, "h2").len(), 0);
    assert_eq!(texts(&elements, "h1"), ["No problems: 9 pods"]);
    assert_eq!(texts(&elements, "header")[0], "No problems: 9 podsshop/cart, never checked");
}

#[test]
fn says_that_logs_were_not_read() {
    let (incidents, mut pods) = many(1, 3, "a line\n");
    let says = |pods: &[PodProblem]| render(&report(&incidents, pods)).contains("Logs were not read.");
    assert!(!says(&pods));
    pods.iter_mut().for_each(|pod| pod.container_issues[0].log_source = None);
    assert!(says(&pods));
    pods.iter_mut().for_each(|pod| pod.container_issues.clear());
    assert!(!says(&pods));
}

#[test]
fn shows_why_a_log_is_absent_or_shortened() {
    let incidents = [incident("shop", "cart", 4)];
    let pods: Vec<_> = [
        (LogSource::Unavailable, "", "the kubelet does not respond"),
        (LogSource::Current, "", ""),
        (LogSource::TerminationMessage, "panic\n", ""),
        (LogSource::Previous, "one\ntwo\n", "the first 3 lines were cut"),
    ]
    .into_iter()
    .enumerate()
    .map(|(index, (source, logs, note))| {
        let mut pod = pod("shop", "cart", &format!("cart-{index}"), logs);
        let issue = &mut pod.container_issues[0];
        (issue.log_source, issue.log_note) = (Some(source), note.to_owned());
        pod
    })
    .collect();
    let page = render(&report(&incidents, &pods));
    let elements = elements(&page);
    let all = texts(&elements, "body")[0];
    for part in [
        "no log: the kubelet does not respond",
        "log of appIt is empty.",
        "termination message of apppanic\n",
        "log of the previous run of app (the first 3 lines were cut)one\ntwo\n",
    ] {
        assert!(all.contains(part), "{part:?} is missing from:\n{all}");
    }
}

#[test]
fn commands_name_the_pod_and_the_log_that_explains_it() {
    let incidents = [incident("shop", "cart", 1)];
    let page = render(&report(&incidents, &[pod("shop", "cart", "cart-5d9f-a", "a line\n")]));
    assert_eq!(
        texts(&elements(&page), "code"),
        [
            "kubectl describe deployment -n shop cart",
            "kubectl describe pod -n shop cart-5d9f-a\nkubectl logs -n shop cart-5d9f-a -c app --previous",
        ]
    );
}

#[test]
fn only_the_style_sheet_is_not_escaped_and_it_loads_nothing() {
    for forbidden in ["<", "url(", "@import", "image-set"] {
        assert!(!STYLE.contains(forbidden), "{forbidden}");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render/html");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|own| own == "rs") && !path.ends_with("tests.rs"));
    let uses: Vec<_> = sources
        .flat_map(|path| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.contains("PreEscaped"))
        .map(|line| line.trim().to_owned())
        .collect();
    assert_eq!(uses, ["use maud::{DOCTYPE, Markup, PreEscaped, html};", "style { (PreEscaped(STYLE)) }"]);
}
