//! Pages about several clusters.

use super::*;

fn clusters(sections: Vec<Section>, failed: Vec<Unchecked>) -> Document {
    Document {
        is_named: true,
        summary: String::new(),
        verdict: Verdict::Unhealthy,
        headline: "2 of 18 pods have problems, in 2 clusters".to_owned(),
        subject: "pods in shop namespace of 2 clusters".to_owned(),
        clusters: sections.into_iter().map(Ok).chain(failed.into_iter().map(Err)).collect(),
        ..Document::default()
    }
}

/// Those with a value of this attribute.
fn values<'a>(elements: &'a [Element], attribute: &str) -> Vec<&'a str> {
    let all = elements.iter().flat_map(|element| &element.attributes);
    all.filter(|(name, _)| name == attribute).map(|(_, value)| value.as_str()).collect()
}

/// Asserts that all links lead to one place of the page.
#[track_caller]
fn assert_links_are_unique(elements: &[Element]) {
    let ids = values(elements, "id");
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{ids:?}");
    for link in values(elements, "href") {
        assert!(ids.contains(&link.trim_start_matches('#')), "{link} leads nowhere");
    }
}

fn failed(context: &str, why: &str) -> Unchecked {
    Unchecked { context: context.to_owned(), why: why.to_owned() }
}

#[test]
fn each_cluster_has_a_section_and_failed_ones_are_named() {
    let incidents = [incident("shop", "cart", 1)];
    let pods = [pod("shop", "cart", "cart-5d9f-a", "a line\n")];
    let eu = Section { context: Some("prod-eu".to_owned()), ..report(&incidents, &pods) };
    let headline = "1 of 9 pods has a problem".to_owned();
    let us = Section { context: Some("prod us".to_owned()), headline, ..eu.clone() };
    let page = page(&clusters(vec![eu, us], vec![failed("prod-ap", "it did not respond within 4 s")]));
    let elements = elements(&page);
    assert_own_markup(&elements);
    assert_links_are_unique(&elements);
    assert_eq!(texts(&elements, "h1"), ["2 of 18 pods have problems, in 2 clusters"]);
    assert_eq!(
        texts(&elements, "h2"),
        [
            "What this page does not show",
            "Clusters",
            "prod-eu: 2 of 9 pods have problems",
            "prod us: 1 of 9 pods has a problem",
        ]
    );
    assert_eq!(texts(&elements, "h3"), ["Overview", "Workloads", "Overview", "Workloads"]);
    assert_eq!(texts(&elements, "h4"), ["shop/cart Deployment", "shop/cart Deployment"]);
    assert_eq!(texts(&elements, "li")[0], "prod-ap could not be checked: it did not respond within 4 s");
    // No command is shown for the name with a space.
    assert_eq!(
        texts(&elements, "code"),
        [
            "kubectl --context prod-eu describe deployment -n shop cart",
            "kubectl --context prod-eu describe pod -n shop cart-5d9f-a\n\
             kubectl --context prod-eu logs -n shop cart-5d9f-a -c app --previous",
        ]
    );
}

#[test]
fn clusters_share_the_room_for_500_pods() {
    for (line, sizes) in [
        ("INFO a line\n", &[(50, 250), (50, 250)][..]),
        ("<\"&\">", &[(1, 500), (300, 300), (2, 2)]),
        ("INFO a line\n", &[(1, 5); 100]),
    ] {
        let contents: Vec<_> = sizes.iter().map(|(workloads, pods)| many(*workloads, *pods, line)).collect();
        let names: Vec<_> = (0..sizes.len()).map(|index| format!("cluster-{index}")).collect();
        let reports = names.iter().zip(&contents);
        let reports =
            reports.map(|(name, (incidents, pods))| Section { context: Some(name.clone()), ..report(incidents, pods) });
        let page = page(&clusters(reports.collect(), Vec::new()));
        assert!(page.len() < PAGE_LIMIT, "{sizes:?}: {} bytes", page.len());
        assert!(page.len() > PAGE_LIMIT * 8 / 10, "{sizes:?} waste room: {} bytes", page.len());
        let elements = elements(&page);
        assert_own_markup(&elements);
        assert_links_are_unique(&elements);
        assert_eq!(texts(&elements, "samp").len(), 500, "{sizes:?}");
        let articles = texts(&elements, "article");
        for ((workloads, pods), article) in sizes.iter().zip(articles) {
            let shown = article.matches("on node-7, ").count();
            assert!(shown >= *workloads, "{workloads} workloads, but {shown} pods: {article}");
            let sentence = format!("Only {shown} of {pods} pods with problems are shown in detail.");
            assert_eq!(article.contains(&sentence), shown < *pods, "{sentence}");
            assert!(article.contains(" logs are shown."), "{article}");
        }
    }
}

#[test]
fn long_texts_and_many_clusters_do_not_make_the_page_larger() {
    let long = "<\"&\">".repeat(1_000);
    let incidents: Vec<_> = (0..50).map(|index| incident(&long, &format!("{index}{long}"), 1)).collect();
    let pods: Vec<_> = (0..50).map(|index| pod(&long, &format!("{index}{long}"), &long, &long)).collect();
    let cause = CommonCause {
        kind: long.clone(),
        name: long.clone(),
        owners: 1,
        pods: 1,
        since: at("11:00:00"),
        since_at_latest: false,
        message: long.clone(),
    };
    let causes = vec![cause; 99];
    let broken = Section {
        context: Some(long.clone()),
        summary: long.clone(),
        not_seen: vec![long.clone(); 99],
        common_causes: causes,
        ..report(&incidents, &pods)
    };
    let healthy = Section {
        context: Some("healthy".to_owned()),
        verdict: Verdict::Healthy,
        headline: "No problems: 9 pods".to_owned(),
        ..report(&[], &[])
    };
    for (healthy_ones, broken_ones, failed_ones, sentences) in [
        (
            0,
            2,
            99,
            &["leaves out 94 common causes.", "and 94 more limits", "more clusters that could not be checked"][..],
        ),
        (0, 60, 0, &["leaves out 99 common causes.", "checked clusters without room on this page"]),
        (100, 1, 0, &["leaves out 89 common causes."]),
        (1_200, 1, 100, &["leaves out 99 common causes.", "checked clusters without room on this page"]),
    ] {
        let reports = [vec![healthy.clone(); healthy_ones], vec![broken.clone(); broken_ones]].concat();
        let failures = (0..failed_ones).map(|_| failed(&long, &long)).collect();
        let page = page(&clusters(reports, failures));
        let case = format!("{healthy_ones} healthy, {broken_ones} broken, {failed_ones} failed");
        assert!(page.len() < PAGE_LIMIT, "{case}: {} bytes", page.len());
        for sentence in sentences {
            assert!(page.contains(sentence), "{case}: {sentence}");
        }
        assert!(page.contains("CrashLoopBackOff"), "{case}: a cluster with problems comes before healthy ones");
        let elements = elements(&page);
        assert_own_markup(&elements);
        assert_links_are_unique(&elements);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn names_of_clusters_cannot_become_markup(pod in hostile_pod(), incident in hostile_incident(), other in vec(hostile(), 4)) {
        let (incidents, pods) = ([incident], [pod]);
        let own = Section { context: Some(other[0].clone()), subject: other[1].clone(), ..report(&incidents, &pods) };
        let failed = failed(&other[2], &other[3]);
        let all = Document { subject: other[1].clone(), ..clusters(vec![own], vec![failed]) };
        let page = page(&all);
        let elements = elements(&page);
        assert_own_markup(&elements);
        assert_links_are_unique(&elements);
        let shown = texts_of(&elements);
        for text in &other {
            prop_assert!(shown.contains(shortened(text).as_str()), "{text:?}");
        }
        for command in texts(&elements, "code") {
            prop_assert!(
                command.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" -._:/@\n".contains(&byte)),
                "{command}"
            );
        }
        let is_invisible = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        prop_assert!(!page.contains(is_invisible));
    }
}
