//! JUnit reports: one test for each incident that `scan` found, or for each target of `wait`.

use std::{io, time::Duration};

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
};

use crate::api::{Incident, Owner};

use super::{
    document::{Document, End, Entry, Outcome, Section, Unchecked, cause, log_lines, logs, older},
    numbers::{counted, counted_in_groups},
    safe::xml_text,
    text,
};

/// The most incidents of a cluster that are listed.
const MOST: usize = 1000;
/// The class of tests that are about no namespace.
const CLASS: &str = "orchestr";

type Attribute = (&'static str, String);

/// A suite for each cluster, or for all targets of `wait`.
pub(super) fn write(document: &Document) -> io::Result<String> {
    let (name, totals, suites) = match document.outcomes.as_slice() {
        [] => ("orchestr scan", None, document.clusters.iter().map(cluster).collect()),
        outcomes => {
            let cases = outcomes.iter().map(|own| outcome(own, &document.subject)).collect::<Vec<_>>();
            let took = outcomes.iter().map(|own| own.took).max().unwrap_or_default();
            let further = vec![("skipped", count(&cases, "skipped")), ("time", seconds(took))];
            ("orchestr wait", Some(totals(&cases)), vec![suite("orchestr wait", cases, further)])
        }
    };
    let suites = Element::new("testsuites", with_name(name, totals.into_iter().flatten()), suites);
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    suites.write(&mut xml)?;
    Ok(String::from_utf8(xml.into_inner()).map_err(io::Error::other)? + "\n")
}

fn cluster(cluster: &Result<Section, Unchecked>) -> Element {
    match cluster {
        Ok(section) => {
            let time = section.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            suite(section.context.as_deref().unwrap_or("pods"), cases(section), vec![("timestamp", time)])
        }
        Err(unchecked) => {
            let error = failure("error", "Unscanned", &unchecked.why, String::new());
            suite(&unchecked.context, vec![case(CLASS, "the cluster can be scanned", Some(error))], Vec::new())
        }
    }
}

fn outcome(outcome: &Outcome, namespace: &str) -> Element {
    let result = match (outcome.fault(), &outcome.end) {
        (Some(fault), _) => Some(failure("failure", &fault.code, &fault.message, text::plain(&text::outcome(outcome)))),
        (None, End::Unfinished) => Some(skipped(format!("another target failed before: {}", outcome.what))),
        (None, _) => None,
    };
    let mut case = case(namespace, &outcome.target, result);
    case.attributes.push(("time", seconds(outcome.took)));
    case
}

/// The tests of a cluster, one for each incident.
fn cases(section: &Section) -> Vec<Element> {
    let entries = section.entries();
    let mut cases: Vec<_> = entries.iter().take(MOST).map(incident).collect();
    let more = entries.len() - cases.len();
    if more > 0 {
        let message = format!("and {}", counted(more, "more incident"));
        cases.push(case(CLASS, &message, Some(failure("failure", "More", &message, String::new()))));
    }
    if section.unreadable_pods > 0 {
        let message = format!("{} cannot be decoded", counted_in_groups(section.unreadable_pods, "pod"));
        let error = failure("error", "Undecodable", &message, String::new());
        cases.push(case(CLASS, "all pods can be decoded", Some(error)));
    }
    if let Some(pods) = section.older_problematic_pods.filter(|pods| *pods > 0) {
        cases.push(case(CLASS, "older problems", Some(skipped(older(pods)))));
    }
    // A report without tests is an error to some tools.
    if cases.is_empty() {
        let pods = counted_in_groups(section.watched_pods, "pod");
        cases.push(case(CLASS, &format!("{pods} without a problem"), None));
    }
    cases
}

/// The name of the test is the same as long as the incident lasts, so that tools recognise it.
fn incident(entry: &Entry<'_>) -> Element {
    let Incident { namespace, owner: Owner { kind, name }, container, kind: problem, reason, message, .. } =
        entry.incident;
    let container = if container.is_empty() { String::new() } else { format!(" {container}") };
    let name = format!("{name} ({kind}){container}: {problem}");
    case(namespace, &name, Some(failure("failure", reason, message, details(entry))))
}

fn details(entry: &Entry<'_>) -> String {
    let mut text = format!("{}: {}\n", entry.extent(), entry.message());
    let cause = cause(entry.incident.cause);
    if !cause.is_empty() {
        text += &format!("cause: {cause}\n");
    }
    if let Some(pod) = entry.example {
        text.extend(pod.evidence.iter().map(|evidence| format!("evidence: {evidence}\n")));
        for (heading, log) in logs(pod) {
            text += &format!("{heading}:\n");
            text.extend(log_lines(log).map(|line| line + "\n"));
        }
    }
    text
}

fn suite(name: &str, cases: Vec<Element>, further: Vec<Attribute>) -> Element {
    let attributes = with_name(name, totals(&cases).into_iter().chain(further));
    Element::new("testsuite", attributes, cases)
}

fn case(class: &str, name: &str, result: Option<Element>) -> Element {
    let class = if class.is_empty() { CLASS } else { class };
    let attributes = vec![("classname", class.to_owned()), ("name", name.to_owned())];
    Element::new("testcase", attributes, result.into_iter().collect())
}

/// `name` is `failure`, or `error` if something could not be checked.
fn failure(name: &'static str, kind: &str, message: &str, details: String) -> Element {
    let attributes = vec![("type", kind.to_owned()), ("message", message.to_owned())];
    Element { text: Some(details), ..Element::new(name, attributes, Vec::new()) }
}

fn skipped(message: String) -> Element {
    Element::new("skipped", vec![("message", message)], Vec::new())
}

fn with_name(name: &str, others: impl IntoIterator<Item = Attribute>) -> Vec<Attribute> {
    std::iter::once(("name", name.to_owned())).chain(others).collect()
}

fn totals(cases: &[Element]) -> [Attribute; 3] {
    [("tests", cases.len().to_string()), ("failures", count(cases, "failure")), ("errors", count(cases, "error"))]
}

/// How many tests have this result.
fn count(cases: &[Element], result: &str) -> String {
    cases.iter().flat_map(|case| &case.children).filter(|own| own.name == result).count().to_string()
}

fn seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}

/// An element of the report. It contains others, or a text, or nothing.
struct Element {
    name: &'static str,
    attributes: Vec<Attribute>,
    children: Vec<Element>,
    text: Option<String>,
}

impl Element {
    fn new(name: &'static str, attributes: Vec<Attribute>, children: Vec<Element>) -> Self {
        Self { name, attributes, children, text: None }
    }

    fn write(&self, xml: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let attributes: Vec<_> = self.attributes.iter().map(|(key, value)| (*key, xml_text(value))).collect();
        let attributes = attributes.iter().map(|(key, value)| (*key, value.as_str()));
        let element = xml.create_element(self.name).with_attributes(attributes);
        match &self.text {
            Some(text) => element.write_text_content(BytesText::new(&xml_text(text)))?,
            None if self.children.is_empty() => element.write_empty()?,
            None => element.write_inner_content(|xml| self.children.iter().try_for_each(|own| own.write(xml)))?,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quick_xml::{Reader, events::BytesStart};

    use super::{
        super::document::tests::{document, failed, out_of_memory, outcome, section, waited},
        *,
    };

    /// The suite of a cluster.
    fn render(section: Section) -> String {
        let text = write(&document("", vec![Ok(section)])).unwrap();
        let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"orchestr scan\">\n  ";
        let suite = text.strip_prefix(head).and_then(|text| text.strip_suffix("\n</testsuites>\n"));
        suite.unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    fn written(all: &[Outcome]) -> String {
        write(&waited(all.to_vec())).unwrap()
    }

    #[test]
    fn fails_a_test_for_each_incident() {
        assert_eq!(
            render(out_of_memory(Some("eu"), "cart", "app was \"killed\" & <gone>", "one\n\ttwo\n")),
            "\
<testsuite name=\"eu\" tests=\"1\" failures=\"1\" errors=\"0\" timestamp=\"2026-03-01T12:00:00Z\">
    <testcase classname=\"shop\" name=\"cart (Deployment) app: Crash\">
      <failure type=\"OOMKilled\" message=\"app was &quot;killed&quot; &amp; &lt;gone&gt;\">3 pods for 60m, such as cart-a: \
app was &quot;killed&quot; &amp; &lt;gone&gt;
cause: OutOfMemory
evidence: BackOff ×7
log of the previous run of app:
one
    two
</failure>
    </testcase>
  </testsuite>"
        );
    }

    #[test]
    fn counts_the_incidents_that_it_leaves_out() {
        let with = |more: usize| {
            let mut many = out_of_memory(Some("eu"), "cart", "killed", "");
            many.incidents = vec![many.incidents[0].clone(); MOST + more];
            render(many)
        };
        assert!(with(1).contains("<failure type=\"More\" message=\"and 1 more incident\">"));
        let text = with(7);
        assert!(
            text.starts_with("<testsuite name=\"eu\" tests=\"1001\" failures=\"1001\" errors=\"0\""),
            "{}",
            &text[..200]
        );
        assert_eq!(text.matches("<testcase ").count(), 1001);
        assert!(text.contains("<failure type=\"More\" message=\"and 7 more incidents\">"));
    }

    #[test]
    fn a_test_of_no_namespace_has_a_class() {
        let mut section = out_of_memory(Some("eu"), "cart", "killed", "");
        section.incidents[0].namespace.clear();
        assert!(render(section).contains("<testcase classname=\"orchestr\" name=\"cart (Deployment) app: Crash\">"));
    }

    #[test]
    fn passes_a_test_if_there_is_no_incident() {
        let text = render(section(None, Vec::new(), Vec::new()));
        assert!(text.starts_with("<testsuite name=\"pods\" tests=\"1\" failures=\"0\" errors=\"0\""), "{text}");
        assert!(text.contains("<testcase classname=\"orchestr\" name=\"40 pods without a problem\"/>"), "{text}");
    }

    fn attribute(element: &BytesStart<'_>, name: &str) -> String {
        element
            .try_get_attribute(name)
            .unwrap()
            .unwrap()
            .normalized_value(quick_xml::XmlVersion::Implicit1_0)
            .unwrap()
            .into_owned()
    }

    /// Whether XML 1.0 allows the character.
    fn is_legal(c: char) -> bool {
        matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
    }

    proptest! {
        #[test]
        fn any_text_stays_in_its_place(name in any::<String>(), message in any::<String>(), log in any::<String>()) {
            let text = render(out_of_memory(Some("eu"), &name, &message, &log));
            prop_assert!(text.chars().all(is_legal), "{text:?}");
            let mut reader = Reader::from_str(&text);
            let mut elements = Vec::new();
            loop {
                match reader.read_event().unwrap() {
                    Event::Start(element) => {
                        let tag = element.name().as_ref().to_owned();
                        match tag.as_str() {
                            "testcase" => prop_assert_eq!(attribute(&element, "classname"), "shop"),
                            "failure" => prop_assert_eq!(attribute(&element, "type"), "OOMKilled"),
                            _ => {}
                        }
                        elements.push(tag);
                    }
                    Event::Eof => break,
                    Event::End(_) | Event::Text(_) | Event::GeneralRef(_) => {}
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert_eq!(elements, ["testsuite", "testcase", "failure"]);
        }
    }

    #[test]
    fn has_a_test_case_for_each_target() {
        let outcomes = [outcome("a", End::Done), outcome("b", End::Unfinished), outcome("c", failed("no", "no"))];
        assert_eq!(
            written(&outcomes),
            r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="orchestr wait" tests="3" failures="1" errors="0">
  <testsuite name="orchestr wait" tests="3" failures="1" errors="0" skipped="1" time="4.200">
    <testcase classname="shop" name="deployment/a" time="4.200"/>
    <testcase classname="shop" name="deployment/b" time="4.200">
      <skipped message="another target failed before: b"/>
    </testcase>
    <testcase classname="shop" name="deployment/c" time="4.200">
      <failure type="no" message="no">deployment/c failed after 4s, c: no
  c  Error  ExitCode
      c
      evidence: c
      log of app:
      | c
</failure>
    </testcase>
  </testsuite>
</testsuites>
"#
        );
    }

    proptest! {
        /// Texts of a cluster cannot add elements, and are always valid.
        #[test]
        fn is_valid_whatever_the_texts_are(text in "(?s)(.|</failure>|]]>|<!--|&|\"|\u{0}|\u{1b}|\u{fffe}|\u{ffff}){0,40}") {
            let written = written(&[outcome(&text, failed(&text, &text)), outcome(&text, End::TimedOut)]);
            prop_assert!(!written.chars().any(|c| c.is_control() && c != '\n'), "{written:?}");
            let mut reader = Reader::from_str(&written);
            let mut elements = Vec::new();
            loop {
                match reader.read_event().map_err(|error| TestCaseError::fail(format!("{error}: {written}")))? {
                    Event::Eof => break,
                    Event::Start(element) | Event::Empty(element) => {
                        for attribute in element.attributes() {
                            prop_assert!(attribute.is_ok());
                        }
                        elements.push(element.name().as_ref().to_owned());
                    }
                    Event::Comment(_) | Event::CData(_) | Event::PI(_) => prop_assert!(false, "{written}"),
                    _ => {}
                }
            }
            prop_assert_eq!(elements, ["testsuites", "testsuite", "testcase", "failure", "testcase", "failure"]);
        }
    }
}
