//! Pods from what `kubectl get pods -o json` or `-o yaml` printed: a list, a single pod, or several of
//! either one after the other. Objects are judged as they are read: a file may be larger than memory.

use std::io::{self, BufRead, Read};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, error::Category, value::RawValue};

use super::{
    object::{Object, look},
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
/// How deep YAML may nest. The API server's own bound for a decoded object is 10,000 for JSON; no pod comes near 64.
const DEPTH: usize = 64;

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
            (false, None) => self.is("something else"),
            (false, Some(_)) => {
                let object = O::with_fields(fields).map_err(serde::de::Error::custom)?;
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
