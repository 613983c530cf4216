//! Decodes events in JSON, and splits a page of a list in JSON into its objects. Each object is returned as soon as it is
//! complete, while the rest of the page still arrives, so only one object is held in memory.

use std::borrow::Cow;

use serde::{Deserialize, de::Error};
use serde_json::value::RawValue;

use super::{
    buffer::{Buffer, Malformed},
    decode::{Decoded, Part, WatchEvent},
    message::{AnyList, AnyObject},
};

/// The longest object, in bytes. etcd accepts 1.5 MiB by default.
const OBJECT_LIMIT: usize = 16 << 20;
/// The most bytes of a page beside its objects.
const REST_LIMIT: usize = 64 << 10;

/// Decodes an event of a watch.
pub(super) fn decode_event<K>(
    line: &[u8],
    decode: &dyn Fn(&[u8]) -> serde_json::Result<Decoded<K>>,
) -> serde_json::Result<WatchEvent<K>> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let Event { kind, object } = serde_json::from_slice(line)?;
    let object = object.get();
    match &*kind {
        "ADDED" | "MODIFIED" => decode(object.as_bytes()).map(WatchEvent::Applied),
        "DELETED" => decode(object.as_bytes()).map(WatchEvent::Deleted),
        "BOOKMARK" => {
            let bookmark = serde_json::from_str::<AnyObject>(object)?.bookmark();
            bookmark.ok_or_else(|| Error::custom("a bookmark without a resource version"))
        }
        "ERROR" => Ok(WatchEvent::Error(Box::new(serde_json::from_str(object)?))),
        _ => Err(Error::custom("an event of another type")),
    }
}

/// The position in a page.
#[derive(Debug, Default)]
pub(super) struct JsonPage {
    /// How many objects and arrays are open.
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// Whether the last token of the outer object was the key `items`.
    follows_items_key: bool,
    /// Whether the position is in the array of objects.
    is_in_items: bool,
    /// The beginning of the string that is being read, as long as it may be a key of the outer object.
    string: Vec<u8>,
    /// The object that is being read.
    object: Vec<u8>,
    /// The page without its objects.
    rest: Vec<u8>,
}

impl JsonPage {
    /// Takes the next object out of the buffer, if it is complete.
    pub(super) fn next(&mut self, buffer: &mut Buffer) -> Result<Option<Vec<u8>>, Malformed> {
        let (read, object) = self.read(buffer.bytes())?;
        buffer.skip(read);
        Ok(object)
    }

    /// Reads bytes until an object is complete. Returns how many were read, and the object.
    fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), Malformed> {
        for (index, &byte) in bytes.iter().enumerate() {
            if self.is_in_items && (self.depth > 2 || byte == b'{') {
                self.object.push(byte);
                if self.object.len() > OBJECT_LIMIT {
                    return Err(Malformed("an object of the list is too long"));
                }
            } else if !(self.is_in_items && (byte == b',' || byte.is_ascii_whitespace())) {
                self.rest.push(byte);
                if self.rest.len() > REST_LIMIT {
                    return Err(Malformed("the metadata of the list is too long"));
                }
            }
            if self.advance(byte) {
                return Ok((index + 1, Some(std::mem::take(&mut self.object))));
            }
        }
        Ok((bytes.len(), None))
    }

    /// Takes one byte. Returns whether it ends an object of the list.
    fn advance(&mut self, byte: u8) -> bool {
        if self.is_in_string {
            self.advance_string(byte);
            return false;
        }
        match byte {
            b'"' => {
                self.is_in_string = true;
                self.string.clear();
            }
            b'{' | b'[' => {
                self.is_in_items |= byte == b'[' && self.depth == 1 && self.follows_items_key;
                self.depth += 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                let ends_object = self.is_in_items && self.depth == 2;
                self.is_in_items &= self.depth > 1;
                return ends_object && byte == b'}';
            }
            b',' if self.depth == 1 => self.follows_items_key = false,
            _ => {}
        }
        false
    }

    fn advance_string(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => {
                self.is_in_string = false;
                if self.depth == 1 {
                    self.follows_items_key = self.string == b"items";
                }
                return;
            }
            _ => {}
        }
        if self.depth == 1 && self.string.len() < 8 {
            self.string.push(byte);
        }
    }

    /// The end of the page, after its last byte.
    pub(super) fn end<K>(&self) -> serde_json::Result<Part<K>> {
        let AnyList { metadata } = serde_json::from_slice(&self.rest)?;
        metadata.end().ok_or_else(|| Error::custom("a list without a resource version"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a page in chunks of this length. Returns its objects, and its continue token and version.
    fn read(page: &str, chunk: usize) -> (Vec<String>, serde_json::Result<(Option<String>, String)>) {
        let (mut page_reader, mut buffer, mut objects) = (JsonPage::default(), Buffer::default(), Vec::new());
        for bytes in page.as_bytes().chunks(chunk) {
            buffer.push(bytes);
            while let Some(object) = page_reader.next(&mut buffer).unwrap() {
                objects.push(String::from_utf8(object).unwrap());
            }
        }
        let end = page_reader.end::<()>().map(|end| match end {
            Part::End { token, resource_version } => (token, resource_version),
            Part::Object(()) => panic!("an object"),
        });
        (objects, end)
    }

    fn metadata(token: Option<&str>, version: &str) -> (Option<String>, String) {
        (token.map(str::to_owned), version.to_owned())
    }

    #[test]
    fn returns_each_object_however_the_bytes_arrive() {
        let objects = [
            r#"{"metadata":{"name":"a"},"spec":{"items":[{"x":1},{"y":[2]}]}}"#,
            r#"{"text":"a \" brace } and ] and { and \\"}"#,
            "{}",
        ];
        let list = objects.join(" ,\n");
        for (page, expected) in [
            (
                format!(r#"{{"kind":"List","items":[{list}],"metadata":{{"resourceVersion":"7"}}}}"#),
                metadata(None, "7"),
            ),
            (
                format!(r#"{{ "metadata" : {{"continue":"t","resourceVersion":"8"}}, "items" : [ {list} ] }}"#),
                metadata(Some("t"), "8"),
            ),
        ] {
            for chunk in [1, 2, 7, page.len()] {
                let (found, end) = read(&page, chunk);
                assert_eq!((&*found, &end.unwrap()), (&objects.map(str::to_owned)[..], &expected), "chunks of {chunk}");
            }
        }
    }

    #[test]
    fn an_empty_list_has_no_objects() {
        for items in ["null", "[]", "[ ]"] {
            let page = format!(r#"{{"items":{items},"metadata":{{"resourceVersion":"7"}}}}"#);
            let (found, end) = read(&page, 3);
            assert_eq!((found.len(), end.unwrap()), (0, metadata(None, "7")), "{items}");
        }
        let other = r#"{"other":[{"a":1}],"metadata":{"items":[{"b":2}],"resourceVersion":"7"},"x":"items","y":[{}]}"#;
        let (found, end) = read(other, 5);
        assert_eq!((found.len(), end.unwrap()), (0, metadata(None, "7")), "only the list's own field counts");
    }

    #[test]
    fn a_page_that_is_cut_or_no_json_is_an_error() {
        for page in ["", "<html>", r#"{"items":[{"a":1}"#, r#"{"items":[{"a":1},"#, r#"{"items":[{}]]"#] {
            assert!(read(page, 4).1.is_err(), "{page}");
        }
    }

    #[test]
    fn decodes_objects_bookmarks_and_errors_of_a_watch() {
        let lines = [
            r#"{"type":"ADDED","object":{"a":1}}"#,
            r#"{"object":{"a":2},"type":"DELETED"}"#,
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#,
        ];
        let (mut buffer, mut shown) = (Buffer::default(), Vec::new());
        for chunk in (lines.join("\r\n\n") + "\n").as_bytes().chunks(7) {
            buffer.push(chunk);
            while let Some(line) = buffer.take_line().unwrap() {
                let decode = |json: &[u8]| {
                    let object = String::from_utf8(json.to_owned()).unwrap();
                    Ok(Decoded { object, resource_version: "7".to_owned() })
                };
                shown.push(match decode_event(&line, &decode).unwrap() {
                    WatchEvent::Applied(own) => format!("+{} {}", own.object, own.resource_version),
                    WatchEvent::Deleted(own) => format!("-{} {}", own.object, own.resource_version),
                    WatchEvent::Bookmark { resource_version, ends_list } => format!("{resource_version} {ends_list}"),
                    WatchEvent::Error(status) => format!("{} {}", status.code, status.message),
                    WatchEvent::End => panic!("an end"),
                });
            }
        }
        assert_eq!(shown, [r#"+{"a":1} 7"#, r#"-{"a":2} 7"#, "8 true", "410 too old"]);
        for line in [
            "garbage",
            r#"{"surprise":true}"#,
            r#"{"type":"SURPRISE","object":{}}"#,
            r#"{"type":"BOOKMARK","object":{}}"#,
        ] {
            let decode = |_: &[u8]| Ok(Decoded { object: (), resource_version: String::new() });
            assert!(decode_event(line.as_bytes(), &decode).is_err(), "{line}");
        }
    }

    #[test]
    fn an_endless_object_is_an_error() {
        let mut reader = JsonPage::default();
        reader.read(br#"{"items":[{"a":""#).unwrap();
        let chunk = vec![b'x'; 1 << 20];
        let chunks = std::iter::repeat_with(|| reader.read(&chunk)).take_while(Result::is_ok).take(1 << 10).count();
        assert_eq!(chunks, (OBJECT_LIMIT >> 20) - 1);
        let mut reader = JsonPage::default();
        assert!(reader.read(&vec![b' '; REST_LIMIT + 1]).is_err());
        let mut buffer = Buffer::default();
        let chunks = std::iter::repeat_with(|| {
            buffer.push(&chunk);
            buffer.take_line()
        });
        assert_eq!(chunks.take_while(Result::is_ok).take(1 << 10).count(), OBJECT_LIMIT >> 20, "an endless event");
    }
}
