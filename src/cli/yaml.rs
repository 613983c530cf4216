//! Reads YAML that kubectl has written, of any length, as JSON.
//!
//! kubectl writes text without quotes unless its own parser would take it for something else. So `12e400`, which may be a part
//! of a hash, means text: no number can be that large. serde-saphyr, whose parser this uses, takes it for infinity, and either
//! rejects the whole file or loses the text. About one in a hundred short hashes of commits looks like that, in a label for
//! instance.

use std::io::{self, BufRead, BufReader, Read};

use granit_parser::{ErrorKind, Event, FallibleBufferedInput, InputIoError, Parser, ScalarStyle, Span, Tag};
use serde_json::{Number, Value};

/// How deep YAML may nest; pods come to about a dozen levels.
const MAX_DEPTH: usize = 64;
/// Next line, line separator and paragraph separator. For kubectl, whose YAML is 1.1, these end a line: it writes a
/// text with one in several lines, without another line break. As line breaks, they do not make the next field a part
/// of the text.
const BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// A line, beginning with 1, that is not YAML or that kubectl does not write: such as aliases, which could make a short text
/// take any amount of memory. The message contains no text of the line, because it may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0} is not YAML")]
pub(super) struct NotYaml(pub(super) u64);

/// Reads JSON, or the first document of YAML; null if there is none. The parsers' errors may quote the text, so they are not kept.
pub(super) fn json_or_yaml(text: &str) -> Option<Value> {
    let yaml = || serde_json::Deserializer::from_reader(YamlAsJson::of(text.as_bytes())).into_iter().next();
    serde_json::from_str(text).or_else(|_| yaml().unwrap_or(Ok(Value::Null))).ok()
}

/// The documents of a YAML stream as JSON, one after the other. Those that contain no more than comments are left out. A line
/// that is not YAML is an error with a [`NotYaml`].
pub(super) struct YamlAsJson<R: BufRead> {
    parser: Parser<'static, FallibleBufferedInput<Characters<R>>>,
    /// The JSON of the last event, and how much of it was read.
    json: Vec<u8>,
    consumed: usize,
    /// The collections that are open.
    open: Vec<Collection>,
}

struct Collection {
    is_mapping: bool,
    /// How many nodes of it have begun: keys and values each count.
    nodes: usize,
}

impl<R: BufRead> YamlAsJson<R> {
    pub(super) fn of(input: R) -> BufReader<Self> {
        let parser = Parser::new_from_fallible_iter(Characters { input, line: String::new(), consumed: 0 });
        BufReader::new(Self { parser, json: Vec::new(), consumed: 0, open: Vec::new() })
    }

    /// Adds the JSON of an event. Absent if kubectl writes no such event.
    fn add(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::StreamEnd | Event::Comment(..) => {}
            Event::DocumentEnd => self.json.push(b'\n'),
            // An empty document.
            Event::Scalar(..) if span.is_empty() && self.open.is_empty() => {}
            Event::Scalar(text, style, _, tag) => {
                let is_key = self.begin_node();
                let value =
                    if is_key { Value::String(text.into_owned()) } else { scalar(&text, style, tag.as_deref()) };
                serde_json::to_writer(&mut self.json, &value).ok()?;
            }
            Event::SequenceStart(..) => self.begin(b'[', false)?,
            Event::MappingStart(..) => self.begin(b'{', true)?,
            Event::SequenceEnd => self.end(b']'),
            Event::MappingEnd => self.end(b'}'),
            _ => return None,
        }
        Some(())
    }

    fn begin(&mut self, bracket: u8, is_mapping: bool) -> Option<()> {
        let is_key = self.begin_node();
        self.json.push(bracket);
        self.open.push(Collection { is_mapping, nodes: 0 });
        (!is_key && self.open.len() <= MAX_DEPTH).then_some(())
    }

    fn end(&mut self, bracket: u8) {
        self.open.pop();
        self.json.push(bracket);
    }

    /// Separates a node from the one before. Returns whether it is a key.
    fn begin_node(&mut self) -> bool {
        let Some(Collection { is_mapping, nodes }) = self.open.last_mut() else { return false };
        let is_key = *is_mapping && nodes.is_multiple_of(2);
        match (*nodes, *is_mapping && !is_key) {
            (0, _) => {}
            (_, true) => self.json.push(b':'),
            (_, false) => self.json.push(b','),
        }
        *nodes += 1;
        is_key
    }
}

impl<R: BufRead> Read for YamlAsJson<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.consumed == self.json.len() {
            self.json.clear();
            self.consumed = 0;
            let Some(next) = self.parser.next_event() else { return Ok(0) };
            let (event, span) = next.map_err(|error| match error.kind() {
                // The parser keeps the error itself.
                ErrorKind::InputIo { error } => {
                    let kind = error.io_error().map_or(io::ErrorKind::Other, io::Error::kind);
                    io::Error::new(kind, error.message().to_owned())
                }
                _ => io::Error::other(NotYaml(error.marker().line() as u64)),
            })?;
            self.add(event, span).ok_or_else(|| io::Error::other(NotYaml(span.start.line() as u64)))?;
        }
        let count = self.json.get(self.consumed..).unwrap_or_default().read(buffer)?;
        self.consumed += count;
        Ok(count)
    }
}

/// A scalar is text, unless it is a plain one that kubectl writes for another value. Numbers are those of JSON; others, such as
/// `0x1f`, `.5` and `12e400`, are text.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
    match text {
        _ if is_text => text.into(),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ => serde_json::from_str::<Number>(text).map_or_else(|_| text.into(), Value::Number),
    }
}

/// The characters of the input, which is read a line at a time.
struct Characters<R> {
    input: R,
    line: String,
    /// How many bytes of `line` were returned.
    consumed: usize,
}

impl<R: BufRead> Characters<R> {
    fn read_line(&mut self) -> Result<(), ErrorKind> {
        let mut line = std::mem::take(&mut self.line).into_bytes();
        line.clear();
        self.consumed = 0;
        let read = self.input.read_until(b'\n', &mut line);
        read.map_err(|error| ErrorKind::InputIo { error: InputIoError::from_io(error) })?;
        let line = String::from_utf8(line);
        self.line = line.map_err(|_| ErrorKind::InputDecoding { message: "it is not UTF-8".to_owned() })?;
        Ok(())
    }
}

impl<R: BufRead> Iterator for Characters<R> {
    type Item = Result<char, ErrorKind>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.consumed == self.line.len()
            && let Err(error) = self.read_line()
        {
            return Some(Err(error));
        }
        let character = self.line.get(self.consumed..)?.chars().next()?;
        self.consumed += character.len_utf8();
        Some(Ok(if BREAKS.contains(&character) { '\n' } else { character }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The documents of an input, or the error.
    fn read_from(input: impl BufRead) -> Result<Vec<Value>, String> {
        let documents = serde_json::Deserializer::from_reader(YamlAsJson::of(input)).into_iter();
        documents.collect::<Result<_, _>>().map_err(|error| io::Error::from(error).to_string())
    }

    /// The same of a text, which is read some bytes at a time.
    fn read(text: &str) -> Result<Vec<Value>, String> {
        read_from(BufReader::with_capacity(7, text.as_bytes()))
    }

    #[test]
    fn scalars_mean_what_kubectl_means() {
        for (text, value) in [
            // Texts that kubectl writes without quotes, because its own parser takes them for no number.
            ("12e400", json!("12e400")),
            ("1234e567890123456", json!("1234e567890123456")),
            ("-1e999", json!("-1e999")),
            ("+1e999", json!("+1e999")),
            ("1.5e999", json!("1.5e999")),
            ("1.e999", json!("1.e999")),
            (".5e999", json!(".5e999")),
            ("1e4_00", json!("1e4_00")),
            ("0xg", json!("0xg")),
            ("=", json!("=")),
            ("<<", json!("<<")),
            ("5f0c2a915f0c2a91", json!("5f0c2a915f0c2a91")),
            // Texts that it quotes.
            ("\"12e300\"", json!("12e300")),
            ("'0123'", json!("0123")),
            ("\"y\"", json!("y")),
            ("\"\"", json!("")),
            ("!!str 12", json!("12")),
            ("|-\n  12\n  13", json!("12\n13")),
            // Other values.
            ("12", json!(12)),
            ("-12", json!(-12)),
            ("0", json!(0)),
            ("-0.5", json!(-0.5)),
            ("18446744073709551615", json!(u64::MAX)),
            ("1e3", json!(1000.0)),
            ("true", json!(true)),
            ("null", json!(null)),
            ("~", json!(null)),
            ("", json!(null)),
            ("{}", json!({})),
            ("[]", json!([])),
        ] {
            assert_eq!(read(&format!("key: {text}\n")), Ok(vec![json!({"key": value})]), "{text}");
            assert_eq!(read(&format!("- {text}\n")), Ok(vec![json!([value])]), "{text}");
        }
        assert_eq!(read("12e400: 1\n1: 2\n"), Ok(vec![json!({"12e400": 1, "1": 2})]));
    }

    #[test]
    fn reads_one_document_after_the_other() {
        let text =
            "# pods\n---\na: 1 # one\n--- # next\n\n---\n- b\n-  c: [d, {e: f}]\n   g: >\n    --- no\n---x: 1\n---\n";
        let expected = vec![json!({"a": 1}), json!(["b", {"c": ["d", {"e": "f"}], "g": "--- no\n"}])];
        assert_eq!(read(&text.replace("---x: 1\n", "")), Ok(expected));
        assert_eq!(
            read(text),
            Err("line 11 is not YAML".to_owned()),
            "the key is no separator, and a mapping no element"
        );
        assert_eq!(read("# nothing\n\n"), Ok(vec![]));
    }

    #[test]
    fn reads_json_or_the_first_document_of_yaml() {
        for (text, value) in [
            ("{\"a\": [1]}", Some(json!({"a": [1]}))),
            ("# comment\n---\na: [1]\n---\nb: 2\n", Some(json!({"a": [1]}))),
            ("# nothing\n", Some(json!(null))),
            ("a: b: c\n", None),
        ] {
            assert_eq!(json_or_yaml(text), value, "{text}");
        }
    }

    #[test]
    fn rejects_what_kubectl_does_not_write() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(MAX_DEPTH)).is_ok());
        for (text, line) in [
            (nested(MAX_DEPTH + 1).as_str(), 1),
            ("a: &a [x]\nb: *a\n", 2),
            ("a: 1\nb: 'x\n", 3),
            ("? [a]\n: b\n", 1),
            ("a: b: c\n", 1),
        ] {
            assert_eq!(read(text), Err(format!("line {line} is not YAML")), "{text}");
        }
    }

    #[test]
    fn passes_on_errors_of_the_input() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is broken"))
            }
        }
        for before in ["", "a:\n"] {
            let input = BufReader::with_capacity(1, before.as_bytes().chain(Broken));
            assert_eq!(read_from(input), Err("the disk is broken".to_owned()));
        }
        assert_eq!(read_from(&b"a: \xe9\n"[..]), Err("line 1 is not YAML".to_owned()));
    }
}
