//! `-o junit`: a test report in JUnit's XML with one failed test for each incident.

use std::io;

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
    writer::ElementWriter,
};

use crate::{
    api::{Incident, Owner},
    cli::printable::xml_text,
};

use super::{
    counted,
    incidents::{Entry, entries, lines, logs},
    scanned::{Report, Results, Scanned, Unscanned, older},
};

/// The most incidents of a cluster that are listed.
const MOST: usize = 1000;

type Xml = Writer<Vec<u8>>;

/// The document.
pub(super) fn document(results: &Results) -> io::Result<Vec<u8>> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.create_element("testsuites").with_attribute(("name", "orchestr scan")).write_inner_content(|xml| {
        for cluster in &results.clusters {
            match cluster {
                Ok(scanned) => suite(xml, &Scanned::report(scanned))?,
                Err(unscanned) => unscanned_suite(xml, unscanned)?,
            }
        }
        Ok(())
    })?;
    let mut document = xml.into_inner();
    document.push(b'\n');
    Ok(document)
}

fn suite(xml: &mut Xml, report: &Report) -> io::Result<()> {
    let entries = entries(report);
    let more = entries.len().saturating_sub(MOST);
    let failures = entries.len() - more + usize::from(more > 0);
    let errors = usize::from(report.unreadable_pods > 0);
    let left_out = report.older_problematic_pods.filter(|pods| *pods > 0);
    // A report without tests is an error to some tools.
    let is_healthy = failures + errors == 0 && left_out.is_none();
    let tests = failures + errors + usize::from(is_healthy) + usize::from(left_out.is_some());
    let name = report.context.as_deref().unwrap_or("pods");
    let timestamp = report.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let suite = suite_element(xml, name, tests, failures, errors).with_attribute(("timestamp", timestamp.as_str()));
    suite.write_inner_content(|xml| {
        entries.iter().take(MOST).try_for_each(|entry| failure(xml, entry))?;
        if more > 0 {
            let message = format!("and {more} more incidents");
            case(xml, "", &message).write_inner_content(|xml| outcome(xml, "failure", "More", &message, ""))?;
        }
        if errors > 0 {
            let message = format!("{} cannot be decoded", counted(report.unreadable_pods, "pod"));
            case(xml, "", "all pods can be decoded")
                .write_inner_content(|xml| outcome(xml, "error", "Undecodable", &message, ""))?;
        }
        if let Some(pods) = left_out {
            case(xml, "", "older problems").write_inner_content(|xml| {
                xml.create_element("skipped").with_attribute(("message", older(pods as u64).as_str())).write_empty()?;
                Ok(())
            })?;
        }
        if is_healthy {
            case(xml, "", &format!("{} without a problem", counted(report.watched_pods, "pod"))).write_empty()?;
        }
        Ok(())
    })?;
    Ok(())
}

fn unscanned_suite(xml: &mut Xml, Unscanned { context, why }: &Unscanned) -> io::Result<()> {
    suite_element(xml, context, 1, 0, 1).write_inner_content(|xml| {
        case(xml, "", "the cluster can be scanned")
            .write_inner_content(|xml| outcome(xml, "error", "Unscanned", &why.to_string(), ""))?;
        Ok(())
    })?;
    Ok(())
}

/// The name of the test is the same as long as the incident lasts, so that tools recognise it.
fn failure(xml: &mut Xml, entry: &Entry<'_>) -> io::Result<()> {
    let Incident { namespace, owner: Owner { kind, name }, container, kind: problem, reason, .. } = entry.incident;
    let container = if container.is_empty() { String::new() } else { format!(" {container}") };
    let name = format!("{name} ({kind}){container}: {problem}");
    case(xml, namespace, &name)
        .write_inner_content(|xml| outcome(xml, "failure", reason, &entry.incident.message, &details(entry)))?;
    Ok(())
}

fn details(entry: &Entry<'_>) -> String {
    let mut text = format!("{}: {}\n", entry.extent(), entry.message());
    if !entry.cause().is_empty() {
        text += &format!("cause: {}\n", entry.cause());
    }
    if let Some(pod) = entry.example {
        for evidence in &pod.evidence {
            text += &format!("evidence: {evidence}\n");
        }
        for (heading, log) in logs(pod) {
            text += &format!("{heading}:\n");
            lines(log).for_each(|line| text += &format!("{line}\n"));
        }
    }
    text
}

fn suite_element<'x>(
    xml: &'x mut Xml,
    name: &str,
    tests: usize,
    failures: usize,
    errors: usize,
) -> ElementWriter<'x, Vec<u8>> {
    xml.create_element("testsuite").with_attribute(("name", xml_text(name).as_str())).with_attributes([
        ("tests", tests.to_string().as_str()),
        ("failures", failures.to_string().as_str()),
        ("errors", errors.to_string().as_str()),
    ])
}

fn case<'x>(xml: &'x mut Xml, class: &str, name: &str) -> ElementWriter<'x, Vec<u8>> {
    let class = if class.is_empty() { "orchestr" } else { class };
    xml.create_element("testcase")
        .with_attribute(("classname", xml_text(class).as_str()))
        .with_attribute(("name", xml_text(name).as_str()))
}

fn outcome(xml: &mut Xml, element: &str, kind: &str, message: &str, details: &str) -> io::Result<()> {
    xml.create_element(element)
        .with_attribute(("type", xml_text(kind).as_str()))
        .with_attribute(("message", xml_text(message).as_str()))
        .write_text_content(BytesText::new(&xml_text(details)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quick_xml::{Reader, events::BytesStart};
    use serde_json::json;

    use super::*;

    fn report(name: &str, message: &str, log: &str) -> Report {
        let owner = json!({"kind": "Deployment", "name": name});
        let incident = json!({
            "key": "5f0c2a915f0c2a91", "kind": "Crash", "namespace": "shop", "owner": owner, "container": "app",
            "reason": "OOMKilled", "cause": "OutOfMemory", "message": message, "pods": 3, "since": "2026-03-01T11:00:00Z",
            "examplePods": ["cart-a"],
        });
        let pod = json!({
            "name": "cart-a", "namespace": "shop", "status": "CrashLoopBackOff", "kind": "Crash", "reason": "OOMKilled",
            "owner": owner, "since": "2026-03-01T11:00:00Z", "evidence": ["BackOff ×7"],
            "containerIssues": [{
                "name": "app", "type": "App", "state": "Waiting", "ready": false, "restarts": 7, "logs": log,
                "logSource": "Previous",
            }],
        });
        let (incident, pod) = (serde_json::from_value(incident).unwrap(), serde_json::from_value(pod).unwrap());
        Report::for_tests(Some("eu"), vec![incident], vec![pod])
    }

    fn render(report: &Report) -> String {
        let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
        suite(&mut xml, report).unwrap();
        String::from_utf8(xml.into_inner()).unwrap()
    }

    #[test]
    fn fails_a_test_for_each_incident() {
        assert_eq!(
            render(&report("cart", "app was \"killed\" & <gone>", "one\n\ttwo\n")),
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
        let mut many = report("cart", "killed", "");
        let one = many.incidents[0].clone();
        many.incidents = vec![one; MOST + 7];
        let text = render(&many);
        assert!(
            text.starts_with("<testsuite name=\"eu\" tests=\"1001\" failures=\"1001\" errors=\"0\""),
            "{}",
            &text[..200]
        );
        assert_eq!(text.matches("<testcase ").count(), 1001);
        assert!(text.contains("<failure type=\"More\" message=\"and 7 more incidents\">"));
    }

    #[test]
    fn passes_a_test_if_there_is_no_incident() {
        let text = render(&Report::for_tests(None, Vec::new(), Vec::new()));
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
            let text = render(&report(&name, &message, &log));
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
}
