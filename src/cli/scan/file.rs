//! Reads pods from the output of `kubectl get pods -o json` or `-o yaml`: a list, a single pod, or several of either one
//! after the other. Objects are checked as they are read, because a file may be larger than memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use jiff::Timestamp;
use serde::de::DeserializeSeed;
use serde_json::error::Category;

use crate::cli::{
    Failure,
    yaml::{NotYaml, YamlAsJson},
};

#[cfg(fuzzing)]
use crate::diagnosis::Thresholds;

use super::{
    collector::Collector,
    document::{Document, Reading},
    filter::Filter,
    flags::ScanFlags,
    logs::Logs,
    output::Progress,
    scanned::{Hints, Scanned},
};

/// The size of the read buffer for a file, in bytes.
const BUFFER_SIZE: usize = 256 * 1024;

/// Why a file cannot be read as pods.
///
/// No message contains text of the file, because pods contain secrets.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("{0}")]
    Io(io::Error),
    #[error("it is empty")]
    Empty,
    #[error("it is UTF-16: save it as UTF-8")]
    Utf16,
    #[error("it ends in the middle of line {0}: was the command that wrote it interrupted?")]
    Truncated(u64),
    #[error("line {0} is not {1}")]
    Syntax(u64, &'static str),
    #[error("it contains {0} instead of pods: create it with `kubectl get pods -A -o json`")]
    NotPods(String),
}

/// Scans the pods of a file.
pub(super) fn scan_file(path: &Path, flags: &ScanFlags, filter: Filter) -> Result<Scanned, Failure> {
    let now = flags.at.unwrap_or_else(Timestamp::now);
    let mut collector = Collector::of_file(flags.thresholds.thresholds(), now, filter);
    let mut progress = Progress::new();
    let is_stdin = path == Path::new("-");
    let result = if is_stdin {
        read(io::stdin().lock(), &mut collector, &mut |pods| progress.update(pods))
    } else {
        File::open(path).map_err(Into::into).and_then(|file| {
            read(BufReader::with_capacity(BUFFER_SIZE, file), &mut collector, &mut |pods| progress.update(pods))
        })
    };
    drop(progress);
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    collector.source.clone_from(&name);
    result.map_err(|error| Failure::new(format!("cannot read pods from {name}: {error}")))?;
    if let Some(wanted) = collector.filter.namespaces.unmatched().next() {
        return Err(Failure::new(format!("{name} contains no pods of namespace {:?}", wanted.text())));
    }
    collector.judge();
    flags.since.into_iter().for_each(|since| collector.leave_out_older(since));
    Ok(Scanned { context: None, collector, logs: Logs::default(), hints: Hints::new(), notes: Vec::new() })
}

/// For the fuzzer of tests/fuzz: everything between the bytes of a file and the text of each format.
#[cfg(fuzzing)]
pub fn scan_bytes(bytes: &[u8]) {
    let mut collector = Collector::of_file(Thresholds::default(), Timestamp::UNIX_EPOCH, Filter::default());
    if read(bytes, &mut collector, &mut |_| {}).is_ok() {
        write_all(collector);
    }
}

/// For the fuzzer: the same for a page of pods in protobuf.
#[cfg(fuzzing)]
pub fn scan_protobuf(bytes: &[u8]) {
    let mut collector = Collector::of_file(Thresholds::default(), Timestamp::UNIX_EPOCH, Filter::default());
    let pods = crate::pods::read_page(bytes).unwrap_or_default().into_iter().filter_map(|watched| watched.pod.ok());
    pods.for_each(|pod| collector.add_pod(*pod));
    write_all(collector);
}

#[cfg(fuzzing)]
fn write_all(mut collector: Collector) {
    use crate::render::{
        Format,
        agent::{self, Part},
        write,
    };
    collector.judge();
    let scanned = Scanned { context: None, collector, logs: Logs::default(), hints: Hints::new(), notes: Vec::new() };
    let document = super::scanned::Results::one(scanned).document();
    for format in [
        Format::Text { log_lines: 5 },
        Format::Json,
        Format::Yaml,
        Format::Html,
        Format::Markdown,
        Format::Junit,
        Format::Github,
    ] {
        assert!(write(&document, format).is_ok(), "{format:?}");
    }
    let answer =
        agent::answer(&document, &Part::Problems { after: None, is_of_file: true }, Timestamp::UNIX_EPOCH).to_string();
    assert!(answer.len() <= agent::LIMIT + 1_000, "{}", answer.len());
}

/// Reads pods into the collector; `progress` is called after each object with the number of objects.
fn read(mut input: impl BufRead, collector: &mut Collector, progress: &mut dyn FnMut(u64)) -> Result<(), FileError> {
    let mut reading = Reading { collector, progress, documents: 0, not_pods: None };
    match first_byte(&mut input)? {
        None => return Err(FileError::Empty),
        Some(b'{' | b'[') => read_documents(&mut input, "JSON", &mut reading)?,
        Some(_) => read_documents(&mut YamlAsJson::of(input), "YAML", &mut reading)?,
    }
    let Reading { collector, documents, not_pods, .. } = reading;
    match (not_pods, &collector.other_kind) {
        (Some(content), _) => Err(FileError::NotPods(content)),
        (None, Some(kind)) if collector.objects == collector.other_objects => {
            Err(FileError::NotPods(format!("a {kind}")))
        }
        (None, _) if documents == 0 => Err(FileError::Empty),
        _ => Ok(()),
    }
}

/// The first byte after a byte-order mark and white space. It is not consumed.
fn first_byte(input: &mut impl BufRead) -> Result<Option<u8>, FileError> {
    match input.fill_buf()? {
        [0xef, 0xbb, 0xbf, ..] => input.consume(3),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Err(FileError::Utf16),
        _ => {}
    }
    skip_white_space(input).map_err(Into::into)
}

fn skip_white_space(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let buffer = input.fill_buf()?;
        let Some(&first) = buffer.first() else { return Ok(None) };
        match buffer.iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(0) => return Ok(Some(first)),
            Some(white) => input.consume(white),
            None => {
                let all = buffer.len();
                input.consume(all);
            }
        }
    }
}

fn read_documents(input: &mut impl BufRead, language: &str, reading: &mut Reading<'_>) -> Result<(), FileError> {
    while let Some(first) = skip_white_space(input)? {
        let mut deserializer = serde_json::Deserializer::from_reader(&mut *input);
        let read = match first {
            b'{' | b'[' => Document(reading).deserialize(&mut deserializer),
            _ => reading.skip(first, &mut deserializer),
        };
        read.map_err(|error| {
            let line = error.line() as u64;
            match error.classify() {
                Category::Io => io::Error::from(error).into(),
                Category::Eof => FileError::Truncated(line),
                Category::Syntax => FileError::Syntax(line, "JSON"),
                Category::Data => FileError::NotPods(format!("{language} of another shape")),
            }
        })?;
    }
    Ok(())
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(NotYaml(line)) => Self::Syntax(*line, "YAML"),
            None => Self::Io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::{
        cli::scan::filter::{LabelSelector, Namespaces},
        diagnosis::Thresholds,
    };

    fn scan_bytes(bytes: &[u8]) -> Result<Collector, String> {
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let mut collector = Collector::of_file(Thresholds::default(), now, Filter::default());
        // A small buffer, so that every token is split across two reads in some test.
        let input = io::BufReader::with_capacity(7, bytes);
        read(input, &mut collector, &mut |_| {}).map_err(|error| error.to_string())?;
        collector.judge();
        Ok(collector)
    }

    /// The numbers of pods, of problems, of undecodable pods and of other objects.
    fn scan(text: &str) -> Result<(u64, usize, u64, u64), String> {
        scan_bytes(text.as_bytes())
            .map(|collector| (collector.pods, collector.problems.len(), collector.undecodable, collector.other_objects))
    }

    const HEALTHY: &str = r#"{"kind":"Pod","metadata":{"name":"healthy","namespace":"shop"},
        "status":{"phase":"Succeeded"}}"#;
    const FAILED: &str = r#"{"kind":"Pod","metadata":{"name":"failed","namespace":"shop"},
        "spec":{"containers":[{"name":"app"}]},"status":{"phase":"Failed","reason":"Evicted"}}"#;
    const HEALTHY_YAML: &str = "kind: Pod\nmetadata:\n  name: healthy\nstatus:\n  phase: Succeeded\n";
    const FAILED_YAML: &str =
        "kind: Pod\nmetadata:\n  name: failed\nstatus:\n  phase: Failed\n  message: |\n    --- no\n    # end\n";

    #[test]
    fn reads_every_form_that_kubectl_prints() {
        let list = format!(r#"{{"apiVersion":"v1","items":[{HEALTHY},{FAILED}],"kind":"List","metadata":{{}}}}"#);
        let untyped = list.replace(r#""kind":"Pod","#, "").replace("\"List\"", "\"PodList\"");
        let item = |yaml: &str| format!("- {}", yaml.trim_end().replace('\n', "\n  ") + "\n");
        let yaml_list = format!("apiVersion: v1\nitems:\n{}{}kind: List\n", item(HEALTHY_YAML), item(FAILED_YAML));
        for (form, text) in [
            ("list", list.clone()),
            ("with a byte-order mark", format!("\u{feff}\n {list}")),
            ("the API's own list", untyped),
            ("array", format!("[{HEALTHY},{FAILED}]")),
            ("one after the other", format!("{HEALTHY}{FAILED}")),
            ("lines", format!("{}\n{}\n", HEALTHY.replace('\n', ""), FAILED.replace('\n', ""))),
            ("YAML list", yaml_list.clone()),
            ("indented YAML list", yaml_list.replace("\n  ", "\n    ").replace("- kind", "  - kind")),
            ("YAML documents", format!("{HEALTHY_YAML}---\n{FAILED_YAML}")),
            (
                "YAML documents with separators around",
                format!("# pods\n---\n{HEALTHY_YAML}--- # next\n---\n{FAILED_YAML}---\n"),
            ),
            ("YAML with CRLF line ends", format!("{HEALTHY_YAML}---\n{FAILED_YAML}").replace('\n', "\r\n")),
            (
                "YAML lists one after the other",
                format!("items:\n{}---\nitems:\n{}", item(HEALTHY_YAML), item(FAILED_YAML)),
            ),
        ] {
            assert_eq!(scan(&text), Ok((2, 1, 0, 0)), "{form}:\n{text}");
        }
        assert_eq!(scan(FAILED), Ok((1, 1, 0, 0)));
        assert_eq!(scan(FAILED_YAML), Ok((1, 1, 0, 0)));
    }

    #[test]
    fn reads_an_empty_list() {
        for text in [
            r#"{"kind":"List","items":[]}"#,
            r#"{"kind":"PodList","items":null}"#,
            r#"{"kind":"PodList"}"#,
            "[]",
            "kind: List\nitems: []\n",
        ] {
            assert_eq!(scan(text), Ok((0, 0, 0, 0)), "{text}");
        }
    }

    #[test]
    fn reads_the_other_pods_when_one_cannot_be_decoded() {
        let bad = r#"{"kind":"Pod","metadata":{"name":"bad","namespace":"shop"},"status":{"phase":{"a":"hunter2"}}}"#;
        let collector = scan_bytes(format!(r#"{{"items":[{bad},7,{FAILED}]}}"#).as_bytes()).unwrap();
        assert_eq!((collector.pods, collector.problems.len(), collector.undecodable), (1, 1, 2));
        assert_eq!(collector.undecodable_names, ["shop/bad", "/"]);
        let yaml = format!("items:\n- kind: Pod\n  metadata: {{name: bad}}\n  status: {{phase: []}}\n- {FAILED}\n");
        assert_eq!(scan(&yaml), Ok((1, 1, 1, 0)));
    }

    #[test]
    fn counts_a_pod_without_a_name_as_undecodable() {
        assert_eq!(scan(&format!(r#"[{{"kind":"Pod"}},{HEALTHY}]"#)), Ok((1, 0, 1, 0)));
    }

    #[test]
    fn excludes_undecodable_pods_by_namespace_and_labels() {
        let bad = r#"{"kind":"Pod","metadata":{"name":"bad","namespace":"ml","labels":{"app":"train"}},"status":{"phase":[]}}"#;
        let text = format!(r#"{{"items":[{bad},{HEALTHY},{{"kind":"Service"}}]}}"#);
        for (namespaces, labels, expected) in [
            ("", "", (1, 1)),
            ("shop", "", (1, 0)),
            ("ml", "", (0, 1)),
            ("m*", "app=train", (0, 1)),
            ("", "app!=train", (1, 0)),
            ("bank", "", (0, 0)),
        ] {
            let filter = Filter {
                namespaces: Namespaces::new(&[namespaces.to_owned()]).unwrap(),
                selector: LabelSelector::new(labels).unwrap(),
            };
            let now = "2026-03-01T12:00:00Z".parse().unwrap();
            let mut collector = Collector::of_file(Thresholds::default(), now, filter);
            read(text.as_bytes(), &mut collector, &mut |_| {}).unwrap();
            collector.judge();
            assert_eq!((collector.pods, collector.undecodable), expected, "{namespaces} {labels}");
        }
    }

    #[test]
    fn a_job_in_the_file_decides_about_its_pods() {
        let pod = FAILED.replace(
            r#""name":"failed","#,
            r#""name":"failed","ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"sums","uid":"u1","controller":true}],"#,
        );
        let job = |kind: &str, status: &str| {
            format!(
                r#"{{"kind":"Job","metadata":{{"namespace":"shop","name":"sums","uid":"u1"}},"status":{{"conditions":[{{"type":"{kind}","status":"{status}"}}]}}}}"#
            )
        };
        let problems = |job: String| scan(&format!("[{pod},{job}]")).map(|(_, problems, _, _)| problems);
        assert_eq!(problems(job("Complete", "True")), Ok(0));
        assert_eq!(problems(job("Complete", "False")), Ok(1));
        assert_eq!(problems(job("Failed", "True")), Ok(1));
        assert_eq!(problems(job("Complete", "True").replace("u1", "u2")), Ok(1));
    }

    #[test]
    fn names_the_content_of_a_file_without_pods() {
        let not_pods =
            |what: &str| format!("it contains {what} instead of pods: create it with `kubectl get pods -A -o json`");
        for (text, message) in [
            ("", "it is empty".to_owned()),
            (" \n", "it is empty".to_owned()),
            ("# nothing\n---\n", "it is empty".to_owned()),
            (r#"{"kind":"Deployment","metadata":{}}"#, not_pods("a Deployment")),
            (r#"{"kind":"DeploymentList","items":[{"metadata":{}}]}"#, not_pods("a DeploymentList")),
            (r#"{"kind":"List","items":[{"kind":"Secret","data":{"a":"hunter2"}}]}"#, not_pods("a Secret")),
            (r#"{"password":"hunter2"}"#, not_pods("something else")),
            (r#"{"items":"hunter2"}"#, not_pods("JSON of another shape")),
            ("items: hunter2\n", not_pods("YAML of another shape")),
            ("kind: Service\n", not_pods("a Service")),
            ("NAMESPACE NAME READY\nshop cart 1/1\n", not_pods("text")),
            ("42", not_pods("a number")),
            (r#"{"kind":"Pod"}"#, not_pods("a Pod without a name")),
            (
                r#"{"kind":"Pod","metadata":{"namespace":"shop"},"status":{"phase":"Failed"}}"#,
                not_pods("a Pod without a name"),
            ),
            ("kind: Pod\nmetadata: {name: ''}\n", not_pods("a Pod without a name")),
            (
                r#"{"items":[{"kind":"Pod""#,
                "it ends in the middle of line 1: was the command that wrote it interrupted?".to_owned(),
            ),
            ("{\"items\":\n[hunter2]}", "line 2 is not JSON".to_owned()),
            ("{} hunter2", "line 1 is not JSON".to_owned()),
            ("kind: Pod\nmetadata:\n  name: 'hunter2\n", "line 4 is not YAML".to_owned()),
            ("kind: Pod\n---\nkind: Pod\na: b: hunter2\n", "line 4 is not YAML".to_owned()),
        ] {
            assert_eq!(scan(text), Err(message), "{text}");
        }
        assert_eq!(scan_bytes(b"\xff\xfe{\0").map(|_| ()), Err("it is UTF-16: save it as UTF-8".to_owned()));
    }

    #[test]
    fn pods_of_one_name_keep_the_order_of_the_file() {
        for uid in ["", r#""uid":"u","#] {
            let pod = FAILED.replace(r#""name""#, &format!(r#"{uid}"name""#));
            let text: String = (0..4).map(|number| pod.replace("Evicted", &format!("Reason{number}"))).collect();
            let problems = scan_bytes(text.as_bytes()).unwrap().problems;
            let reasons: Vec<_> = problems.iter().map(|(pod, _)| pod.reason.as_str()).collect();
            assert_eq!(reasons, ["Reason0", "Reason1", "Reason2", "Reason3"], "{uid}");
        }
    }

    #[test]
    fn bounds_aliases_and_nesting() {
        let mut bomb = "a: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..12 {
            writeln!(bomb, "b{level}: &a{level} [{}]", vec![format!("*a{}", level - 1); 9].join(",")).unwrap();
        }
        for text in [bomb, format!("items: {}", "[".repeat(100_000)), "- ".repeat(100_000)] {
            assert!(scan(&text).unwrap_err().ends_with("is not YAML"));
        }
        assert!(scan(&"[".repeat(100_000)).is_err());
        assert!(scan(&format!("{{\"items\":{}", "[".repeat(100_000))).is_err());
    }
}
