//! Checks that every link between pages leads somewhere, and that every page can be found.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{Event, Tag, TagEnd};

use super::pages::{Page, pages, root};

/// The first page of the documentation.
const INDEX: &str = "docs/README.md";

/// The targets of the links and images of a page, except those on other hosts.
fn targets(page: &Page) -> Vec<String> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.into_string()),
        _ => None,
    };
    page.events()
        .filter_map(target)
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(page: &Page) -> BTreeSet<String> {
    let (mut anchors, mut heading) = (BTreeSet::new(), None::<String>);
    for event in page.events() {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap());
                let numbered = (1..).map(|number| format!("{anchor}-{number}"));
                let unused = std::iter::once(anchor.clone()).chain(numbered).find(|anchor| !anchors.contains(anchor));
                anchors.extend(unused);
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = |character: &char| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_');
    heading
        .to_lowercase()
        .chars()
        .filter(kept)
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

/// The path of a link's target relative to the root of the repository.
fn resolve(page: &str, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for component in Path::new(page).parent().unwrap().join(target).components() {
        match component {
            Component::ParentDir => assert!(path.pop(), "{page}: {target} is outside of the repository"),
            Component::Normal(part) => path.push(part),
            _ => {}
        }
    }
    path
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(page))).collect();
    let (mut wrong, mut links) = (Vec::new(), 0);
    for page in &pages {
        for target in targets(page) {
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { PathBuf::from(&page.path) } else { resolve(&page.path, file) };
            let exists = root().join(&path).exists();
            let has_anchor = || anchors.get(path.to_str().unwrap()).is_some_and(|anchors| anchors.contains(anchor));
            if !exists || (!anchor.is_empty() && !has_anchor()) {
                wrong.push(format!("{}: {target}", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "these links lead nowhere: {wrong:#?}");
    assert!(links > 100, "{links}");
}

#[test]
fn every_page_can_be_reached_from_the_index() {
    let pages = pages();
    let by_path: BTreeMap<PathBuf, &Page> = pages.iter().map(|page| (PathBuf::from(&page.path), page)).collect();
    let mut reached = BTreeSet::from([PathBuf::from(INDEX)]);
    let mut open: Vec<PathBuf> = reached.iter().cloned().collect();
    while let Some(page) = open.pop().and_then(|path| by_path.get(&path)) {
        // The README links to most pages. Readers of the index must not depend on it.
        for target in targets(page).iter().filter(|_| page.path != "README.md") {
            let file = target.split('#').next().unwrap();
            let path = resolve(&page.path, file);
            if !file.is_empty() && by_path.contains_key(&path) && reached.insert(path.clone()) {
                open.push(path);
            }
        }
    }
    let lost: Vec<&str> =
        pages.iter().map(|page| page.path.as_str()).filter(|path| !reached.contains(Path::new(path))).collect();
    assert!(lost.is_empty(), "no link leads from {INDEX} to {lost:?}");
}

#[test]
fn anchors_are_those_of_github() {
    let text = "# `orchestr scan`\n## What it needs, and why\n## What it needs, and why\n".to_owned();
    let page = Page { path: "page.md".to_owned(), text };
    let expected = ["orchestr-scan", "what-it-needs-and-why", "what-it-needs-and-why-1"];
    assert_eq!(anchors(&page), expected.map(str::to_owned).into());
}
