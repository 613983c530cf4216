//! The outcomes as a JUnit report: one test case for each target.

use std::{
    io::{self, Write},
    time::Duration,
};

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event},
};

use super::{
    outcome::{End, Outcome},
    text,
};
use crate::cli::printable::xml_text;

/// Writes the report. `namespace` is the class of the test cases.
pub(super) fn write(out: &mut impl Write, outcomes: &[Outcome], namespace: &str) -> io::Result<()> {
    let failures = outcomes.iter().filter(|outcome| outcome.failure().is_some()).count();
    let skipped = outcomes.iter().filter(|outcome| outcome.end == End::Unfinished).count();
    let took = outcomes.iter().map(|outcome| outcome.took).max().unwrap_or_default();
    let mut xml = Writer::new_with_indent(&mut *out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let totals = [
        ("tests", outcomes.len().to_string()),
        ("failures", failures.to_string()),
        ("errors", "0".to_owned()),
        ("skipped", skipped.to_string()),
        ("time", seconds(took)),
    ];
    let suites = start("testsuites", [("name", "orchestr wait".to_owned())].iter().chain(&totals[..3]));
    xml.write_event(Event::Start(suites))?;
    let suite = start("testsuite", [("name", "orchestr wait".to_owned())].iter().chain(&totals));
    xml.write_event(Event::Start(suite))?;
    for outcome in outcomes {
        write_case(&mut xml, outcome, namespace)?;
    }
    xml.write_event(Event::End(BytesEnd::new("testsuite")))?;
    xml.write_event(Event::End(BytesEnd::new("testsuites")))?;
    writeln!(out)
}

fn write_case<W: Write>(xml: &mut Writer<W>, outcome: &Outcome, namespace: &str) -> io::Result<()> {
    let attributes =
        [("classname", namespace.to_owned()), ("name", outcome.target.clone()), ("time", seconds(outcome.took))];
    let case = start("testcase", &attributes);
    let (element, body) = match (outcome.failure(), &outcome.end) {
        (Some(failure), _) => {
            let attributes = [("type", failure.code), ("message", failure.message)];
            (start("failure", &attributes), Some(plain(outcome)?))
        }
        (None, End::Unfinished) => {
            let attributes = [("message", format!("another target failed before: {}", outcome.what))];
            (start("skipped", &attributes), None)
        }
        (None, _) => return xml.write_event(Event::Empty(case)),
    };
    xml.write_event(Event::Start(case))?;
    match body {
        Some(body) => {
            let end = element.to_end().into_owned();
            xml.write_event(Event::Start(element))?;
            xml.write_event(Event::Text(BytesText::new(&body)))?;
            xml.write_event(Event::End(end))?;
        }
        None => xml.write_event(Event::Empty(element))?,
    }
    xml.write_event(Event::End(BytesEnd::new("testcase")))
}

fn start<'a>(
    name: &'static str,
    attributes: impl IntoIterator<Item = &'a (&'static str, String)>,
) -> BytesStart<'static> {
    let mut element = BytesStart::new(name);
    for (key, value) in attributes {
        element.push_attribute((*key, xml_text(value).as_str()));
    }
    element
}

fn plain(outcome: &Outcome) -> io::Result<String> {
    let mut out = anstream::StripStream::new(Vec::new());
    text::write(&mut out, std::slice::from_ref(outcome))?;
    Ok(xml_text(&String::from_utf8_lossy(&out.into_inner())))
}

fn seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quick_xml::Reader;

    use super::{
        super::{decide::Failure, outcome::Detail},
        *,
    };

    fn outcome(text: &str, end: End) -> Outcome {
        Outcome {
            target: format!("deployment/{text}"),
            end,
            what: text.to_owned(),
            took: Duration::from_millis(4200),
            details: vec![Detail {
                pod: text.to_owned(),
                alike: 1,
                status: "Error".to_owned(),
                code: "ExitCode".to_owned(),
                message: text.to_owned(),
                evidence: vec![text.to_owned()],
                log_title: Some("log of app".to_owned()),
                log: vec![text.to_owned()],
            }],
            more: 0,
        }
    }

    fn failed(text: &str) -> End {
        End::Failed(Failure { code: text.to_owned(), message: text.to_owned() })
    }

    fn written(outcomes: &[Outcome]) -> String {
        let mut out = Vec::new();
        write(&mut out, outcomes, "shop").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn has_a_test_case_for_each_target() {
        let outcomes = [outcome("a", End::Done), outcome("b", End::Unfinished), outcome("c", failed("no"))];
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
            let written = written(&[outcome(&text, failed(&text)), outcome(&text, End::TimedOut)]);
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
