//! Splits a page of a list in JSON into its objects. Each object is returned as soon as it is complete, while the rest of
//! the page still arrives, so only one object is held in memory.

use serde::Deserialize;

/// The longest object, in bytes. etcd accepts 1.5 MiB by default.
const OBJECT_LIMIT: usize = 16 << 20;
/// The most bytes of a page beside its objects.
const REST_LIMIT: usize = 64 << 10;

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

/// The metadata of a page.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PageMetadata {
    #[serde(rename = "continue")]
    pub(super) token: Option<String>,
    pub(super) resource_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct TooLong(&'static str);

impl JsonPage {
    /// Reads bytes until an object is complete. Returns how many were read, and the object.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), TooLong> {
        for (index, &byte) in bytes.iter().enumerate() {
            if self.is_in_items && (self.depth > 2 || byte == b'{') {
                self.object.push(byte);
                if self.object.len() > OBJECT_LIMIT {
                    return Err(TooLong("an object of the list is too long"));
                }
            } else if !(self.is_in_items && (byte == b',' || byte.is_ascii_whitespace())) {
                self.rest.push(byte);
                if self.rest.len() > REST_LIMIT {
                    return Err(TooLong("the metadata of the list is too long"));
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

    /// The metadata of the page, after its last byte.
    pub(super) fn end(&self) -> serde_json::Result<PageMetadata> {
        #[derive(Deserialize)]
        struct Page {
            #[serde(default)]
            metadata: PageMetadata,
        }
        serde_json::from_slice::<Page>(&self.rest).map(|page| page.metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a page in chunks of this length.
    fn read(page: &str, chunk: usize) -> (Vec<String>, serde_json::Result<PageMetadata>) {
        let (mut reader, mut objects) = (JsonPage::default(), Vec::new());
        for mut bytes in page.as_bytes().chunks(chunk) {
            while !bytes.is_empty() {
                let (read, object) = reader.read(bytes).unwrap();
                objects.extend(object.map(|object| String::from_utf8(object).unwrap()));
                bytes = &bytes[read..];
            }
        }
        (objects, reader.end())
    }

    fn metadata(token: Option<&str>, version: &str) -> PageMetadata {
        PageMetadata { token: token.map(str::to_owned), resource_version: Some(version.to_owned()) }
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
    fn an_endless_object_is_an_error() {
        let mut reader = JsonPage::default();
        reader.read(br#"{"items":[{"a":""#).unwrap();
        let chunk = vec![b'x'; 1 << 20];
        let chunks = std::iter::repeat_with(|| reader.read(&chunk)).take_while(Result::is_ok).take(1 << 10).count();
        assert_eq!(chunks, (OBJECT_LIMIT >> 20) - 1);
        let mut reader = JsonPage::default();
        assert!(reader.read(&vec![b' '; REST_LIMIT + 1]).is_err());
    }
}
