//! Pods from what `kubectl get pods -o json` or `-o yaml` printed: a list, a single pod, or several of
//! either one after the other. Objects are judged as they are read: a file may be larger than memory.

use std::io::{self, BufRead, Read};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, error::Category, value::RawValue};

use super::{
    object::{Object, is_nameless_pod, look},
    tally::Tally,
};

/// Why a file can't be read as pods. What stood in it is never told: pods hold secrets.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is empty")]
    Empty,
    #[error("it is UTF-16: save it as UTF-8")]
    Utf16,
    #[error("it ends within line {0}: was the command that wrote it cut off?")]
    CutOff(u64),
    #[error("line {0} is not {1}")]
    Syntax(u64, &'static str),
    #[error("it holds {0} rather than pods: `kubectl get pods -A -o json` prints them")]
    NotPods(String),
}

/// The fields of a single object that are kept; its metadata may also be a list's.
const FIELDS: [&str; 4] = ["kind", "metadata", "spec", "status"];
/// How deep YAML may nest; pods come to about a dozen.
const DEPTH: usize = 64;
/// How much a YAML document may repeat by aliases, in nodes; kubectl writes none.
const ALIASED: usize = 100_000;

/// Reads pods into the tally; `progress` is called after each object.
pub(super) fn read(input: impl BufRead, tally: &mut Tally, progress: &mut dyn FnMut(u64)) -> Result<(), FileError> {
    let mut input = input;
    let mut reading = Reading { tally, progress, documents: 0, wrong: None };
    match beginning(&mut input)? {
        None => return Err(FileError::Empty),
        Some(b'{' | b'[') => json(&mut input, &mut reading)?,
        Some(_) => yaml(input, &mut reading)?,
    }
    let Reading { tally, documents, wrong, .. } = reading;
    match (wrong, &tally.stranger_kind) {
        (Some(wrong), _) => Err(FileError::NotPods(wrong)),
        (None, Some(kind)) if tally.objects() == tally.strangers => Err(FileError::NotPods(format!("a {kind}"))),
        (None, _) if documents == 0 => Err(FileError::Empty),
        _ => Ok(()),
    }
}

/// The first byte that is neither a byte-order mark nor white space, left in place.
fn beginning(input: &mut impl BufRead) -> Result<Option<u8>, FileError> {
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

struct Reading<'a> {
    tally: &'a mut Tally,
    progress: &'a mut dyn FnMut(u64),
    documents: u64,
    /// What a document was instead of pods.
    wrong: Option<String>,
}

fn json(input: &mut impl BufRead, reading: &mut Reading<'_>) -> Result<(), FileError> {
    while skip_white_space(input)?.is_some() {
        let mut deserializer = serde_json::Deserializer::from_reader(&mut *input);
        Document::<Box<RawValue>>::of(reading).deserialize(&mut deserializer).map_err(|error| {
            let line = error.line() as u64;
            match error.classify() {
                Category::Io => FileError::Io(error.into()),
                Category::Eof => FileError::CutOff(line),
                Category::Syntax => FileError::Syntax(line, "JSON"),
                Category::Data => FileError::NotPods("JSON of another shape".to_owned()),
            }
        })?;
    }
    Ok(())
}

fn yaml(input: impl BufRead, reading: &mut Reading<'_>) -> Result<(), FileError> {
    let mut documents = Documents::new(input);
    while documents.next()? {
        let before = documents.lines;
        let options = serde_yaml::options! {
            budget: serde_yaml::budget! {
                // A cluster's pods may be millions of lines, read one by one. What can be made to grow
                // without being written out, by nesting and by aliases, stays bounded.
                max_reader_input_bytes: None,
                max_events: usize::MAX,
                max_nodes: usize::MAX,
                max_total_scalar_bytes: usize::MAX,
                max_depth: DEPTH,
            },
            alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: ALIASED },
            with_snippet: false,
        };
        serde_yaml::with_deserializer_from_reader_with_options(&mut documents, options, |deserializer| {
            Document::<Value>::of(reading).deserialize(deserializer)
        })
        .map_err(|error| match error {
            serde_yaml::Error::IOError { cause } => FileError::Io(cause),
            error => FileError::Syntax(before + error.location().map_or(1, |location| location.line()), "YAML"),
        })?;
    }
    Ok(())
}

/// The documents of a YAML stream, one after the other: between lines that begin with `---`, which no
/// other line of YAML may.
struct Documents<R> {
    input: R,
    line: Vec<u8>,
    /// How much of the line was given out.
    given: usize,
    /// How many lines ended before the present one.
    lines: u64,
    separated: bool,
}

impl<R: BufRead> Documents<R> {
    fn new(input: R) -> Self {
        Self { input, line: Vec::new(), given: 0, lines: 0, separated: false }
    }

    /// Goes to the next document that holds more than comments; false where there is none.
    fn next(&mut self) -> io::Result<bool> {
        loop {
            self.separated = false;
            let content = self.line[self.given..].trim_ascii();
            if !content.is_empty() && !content.starts_with(b"#") {
                return Ok(true);
            }
            if !self.read_line()? {
                return Ok(false);
            }
        }
    }

    fn read_line(&mut self) -> io::Result<bool> {
        self.lines += u64::from(!self.line.is_empty());
        self.line.clear();
        self.given = 0;
        self.input.read_until(b'\n', &mut self.line)?;
        if let Some(rest) = self.line.strip_prefix(b"---")
            && rest.first().is_none_or(u8::is_ascii_whitespace)
        {
            self.separated = true;
            self.given = 3;
        }
        Ok(!self.line.is_empty())
    }
}

impl<R: BufRead> Read for Documents<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.line.len() && !self.separated {
            if !self.read_line()? {
                return Ok(0);
            }
        }
        if self.separated {
            return Ok(0);
        }
        let rest = &self.line[self.given..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

/// One document: a list of objects, or one object.
struct Document<'r, 'a, O> {
    reading: &'r mut Reading<'a>,
    object: std::marker::PhantomData<O>,
}

impl<'r, 'a, O> Document<'r, 'a, O> {
    fn of(reading: &'r mut Reading<'a>) -> Self {
        Self { reading, object: std::marker::PhantomData }
    }

    fn is(self, what: &str) {
        self.reading.wrong.get_or_insert(what.to_owned());
    }
}

impl<'de, O: Object> DeserializeSeed<'de> for Document<'_, '_, O> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.reading.documents += 1;
        deserializer.deserialize_any(self)
    }
}

impl<'de, O: Object> Visitor<'de> for Document<'_, '_, O> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pods")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields: Vec<(&'static str, O)> = Vec::new();
        let mut is_list = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                map.next_value_seed(Items::<O>(Document::of(self.reading)))?;
            } else if let Some(field) = FIELDS.into_iter().find(|field| *field == key) {
                fields.push((field, map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let kind = fields.iter().find(|(field, _)| *field == "kind").and_then(|(_, kind)| kind.decode::<String>().ok());
        match (is_list, kind) {
            // The API gives a list's items without a kind of their own: the list's tells.
            (true, Some(kind)) if kind != "List" && kind != "PodList" => self.is(&format!("a {kind}")),
            (true, _) => {}
            (false, Some(kind)) if kind == "List" || kind == "PodList" => {}
            (false, None) => self.is("something else"),
            (false, Some(_)) => {
                let object = O::with_fields(fields).map_err(serde::de::Error::custom)?;
                if is_nameless_pod(&object) {
                    self.is("a Pod without a name");
                    return Ok(());
                }
                look(self.reading.tally, &object);
                (self.reading.progress)(self.reading.tally.objects());
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Items::<O>(self).visit_seq(seq)
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.is("text");
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.is("text");
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.is("a number");
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.is("a number");
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.is("a number");
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.is("nothing");
        Ok(())
    }
}

/// A list's objects.
struct Items<'r, 'a, O>(Document<'r, 'a, O>);

impl<'de, O: Object> DeserializeSeed<'de> for Items<'_, '_, O> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, O: Object> Visitor<'de> for Items<'_, '_, O> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of pods")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Reading { tally, progress, .. } = self.0.reading;
        while let Some(object) = seq.next_element::<O>()? {
            look(tally, &object);
            progress(tally.objects());
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::{
        cli::scan::{namespaces::Namespaces, selector::LabelSelector, tally::Filter},
        diagnosis::Thresholds,
    };

    fn scan_bytes(bytes: &[u8]) -> Result<Tally, String> {
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let mut tally = Tally::new(Thresholds::default(), now, Filter::default());
        // A small buffer: whatever is split across two reads is seen as well.
        let input = io::BufReader::with_capacity(7, bytes);
        read(input, &mut tally, &mut |_| {}).map_err(|error| error.to_string())?;
        tally.settle_jobs();
        Ok(tally)
    }

    /// How many pods, how many of them troubled, how many unreadable, how many no pods.
    fn scan(text: &str) -> Result<(u64, usize, u64, u64), String> {
        scan_bytes(text.as_bytes()).map(|tally| (tally.pods, tally.troubled.len(), tally.unreadable, tally.strangers))
    }

    const WELL: &str = r#"{"kind":"Pod","metadata":{"name":"well","namespace":"shop"},
        "status":{"phase":"Succeeded"}}"#;
    const ILL: &str = r#"{"kind":"Pod","metadata":{"name":"ill","namespace":"shop"},
        "spec":{"containers":[{"name":"app"}]},"status":{"phase":"Failed","reason":"Evicted"}}"#;
    const WELL_YAML: &str = "kind: Pod\nmetadata:\n  name: well\nstatus:\n  phase: Succeeded\n";
    const ILL_YAML: &str =
        "kind: Pod\nmetadata:\n  name: ill\nstatus:\n  phase: Failed\n  message: |\n    --- no\n    # end\n";

    #[test]
    fn every_form_that_kubectl_prints_is_read() {
        let list = format!(r#"{{"apiVersion":"v1","items":[{WELL},{ILL}],"kind":"List","metadata":{{}}}}"#);
        let untyped = list.replace(r#""kind":"Pod","#, "").replace("\"List\"", "\"PodList\"");
        let item = |yaml: &str| format!("- {}", yaml.trim_end().replace('\n', "\n  ") + "\n");
        let yaml_list = format!("apiVersion: v1\nitems:\n{}{}kind: List\n", item(WELL_YAML), item(ILL_YAML));
        for (form, text) in [
            ("list", list.clone()),
            ("with a byte-order mark", format!("\u{feff}\n {list}")),
            ("the API's own list", untyped),
            ("array", format!("[{WELL},{ILL}]")),
            ("one after the other", format!("{WELL}{ILL}")),
            ("lines", format!("{}\n{}\n", WELL.replace('\n', ""), ILL.replace('\n', ""))),
            ("YAML list", yaml_list.clone()),
            ("indented YAML list", yaml_list.replace("\n  ", "\n    ").replace("- kind", "  - kind")),
            ("YAML documents", format!("{WELL_YAML}---\n{ILL_YAML}")),
            ("YAML documents with marks around", format!("# pods\n---\n{WELL_YAML}--- # next\n---\n{ILL_YAML}---\n")),
            ("YAML with line ends of Windows", format!("{WELL_YAML}---\n{ILL_YAML}").replace('\n', "\r\n")),
            ("YAML lists one after the other", format!("items:\n{}---\nitems:\n{}", item(WELL_YAML), item(ILL_YAML))),
        ] {
            assert_eq!(scan(&text), Ok((2, 1, 0, 0)), "{form}:\n{text}");
        }
        assert_eq!(scan(ILL), Ok((1, 1, 0, 0)));
        assert_eq!(scan(ILL_YAML), Ok((1, 1, 0, 0)));
    }

    #[test]
    fn an_empty_list_is_read() {
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
    fn a_pod_that_cannot_be_decoded_spoils_no_other() {
        let bad = r#"{"kind":"Pod","metadata":{"name":"bad","namespace":"shop"},"status":{"phase":{"a":"hunter2"}}}"#;
        let tally = scan_bytes(format!(r#"{{"items":[{bad},7,{ILL}]}}"#).as_bytes()).unwrap();
        assert_eq!((tally.pods, tally.troubled.len(), tally.unreadable), (1, 1, 2));
        assert_eq!(tally.unreadable_names, ["shop/bad", "/"]);
        let yaml = format!("items:\n- kind: Pod\n  metadata: {{name: bad}}\n  status: {{phase: []}}\n- {ILL}\n");
        assert_eq!(scan(&yaml), Ok((1, 1, 1, 0)));
    }

    #[test]
    fn a_pod_of_a_list_without_a_name_is_not_decoded() {
        assert_eq!(scan(&format!(r#"[{{"kind":"Pod"}},{WELL}]"#)), Ok((1, 0, 1, 0)));
    }

    #[test]
    fn pods_outside_the_selection_are_passed_over_also_where_they_cannot_be_decoded() {
        let bad = r#"{"kind":"Pod","metadata":{"name":"bad","namespace":"ml","labels":{"app":"train"}},"status":{"phase":[]}}"#;
        let text = format!(r#"{{"items":[{bad},{WELL},{{"kind":"Service"}}]}}"#);
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
            let mut tally = Tally::new(Thresholds::default(), "2026-03-01T12:00:00Z".parse().unwrap(), filter);
            read(text.as_bytes(), &mut tally, &mut |_| {}).unwrap();
            assert_eq!((tally.pods, tally.unreadable), expected, "{namespaces} {labels}");
        }
    }

    #[test]
    fn a_job_in_the_file_tells_of_its_pods() {
        let pod = ILL.replace(
            r#""name":"ill","#,
            r#""name":"ill","ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"sums","uid":"u1","controller":true}],"#,
        );
        let job = |kind: &str, status: &str| {
            format!(
                r#"{{"kind":"Job","metadata":{{"uid":"u1"}},"status":{{"conditions":[{{"type":"{kind}","status":"{status}"}}]}}}}"#
            )
        };
        let troubled = |job: String| scan(&format!("[{pod},{job}]")).map(|(_, troubled, _, _)| troubled);
        assert_eq!(troubled(job("Complete", "True")), Ok(0));
        assert_eq!(troubled(job("Complete", "False")), Ok(1));
        assert_eq!(troubled(job("Failed", "True")), Ok(1));
        assert_eq!(troubled(job("Complete", "True").replace("u1", "u2")), Ok(1));
    }

    #[test]
    fn what_is_no_list_of_pods_is_named() {
        let not = |what: &str| format!("it holds {what} rather than pods: `kubectl get pods -A -o json` prints them");
        for (text, told) in [
            ("", "it is empty".to_owned()),
            (" \n", "it is empty".to_owned()),
            ("# nothing\n---\n", "it is empty".to_owned()),
            (r#"{"kind":"Deployment","metadata":{}}"#, not("a Deployment")),
            (r#"{"kind":"DeploymentList","items":[{"metadata":{}}]}"#, not("a DeploymentList")),
            (r#"{"kind":"List","items":[{"kind":"Secret","data":{"a":"hunter2"}}]}"#, not("a Secret")),
            (r#"{"password":"hunter2"}"#, not("something else")),
            (r#"{"items":"hunter2"}"#, not("JSON of another shape")),
            ("kind: Service\n", not("a Service")),
            ("NAMESPACE NAME READY\nshop cart 1/1\n", not("text")),
            ("42", not("a number")),
            (r#"{"kind":"Pod"}"#, not("a Pod without a name")),
            (
                r#"{"kind":"Pod","metadata":{"namespace":"shop"},"status":{"phase":"Failed"}}"#,
                not("a Pod without a name"),
            ),
            ("kind: Pod\nmetadata: {name: ''}\n", not("a Pod without a name")),
            (r#"{"items":[{"kind":"Pod""#, "it ends within line 1: was the command that wrote it cut off?".to_owned()),
            ("{\"items\":\n[hunter2]}", "line 2 is not JSON".to_owned()),
            ("{} hunter2", "line 1 is not JSON".to_owned()),
            ("kind: Pod\nmetadata:\n  name: 'hunter2\n", "line 4 is not YAML".to_owned()),
            ("kind: Pod\n---\nkind: Pod\na: b: hunter2\n", "line 4 is not YAML".to_owned()),
        ] {
            assert_eq!(scan(text), Err(told), "{text}");
        }
        assert_eq!(scan_bytes(b"\xff\xfe{\0").map(|_| ()), Err("it is UTF-16: save it as UTF-8".to_owned()));
    }

    #[test]
    fn aliases_and_nesting_do_not_multiply_what_was_written() {
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
