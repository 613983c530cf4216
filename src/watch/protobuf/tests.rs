use proptest::prelude::*;

use super::*;
use crate::watch::{
    decode::Decoded,
    message::{RawExtension, Status, Unknown, messages},
};

messages! {
    Named {
        #[prost(message, required, tag = 1)] metadata: NamedMeta,
    }

    NamedMeta {
        #[prost(bytes = "bytes", tag = 1)] name: Bytes,
        #[prost(bytes = "bytes", tag = 6)] resource_version: Bytes,
    }

    NamedList {
        #[prost(message, required, tag = 1)] metadata: ListMeta,
        #[prost(message, repeated, tag = 2)] items: Vec<Named>,
    }
}

/// Decodes the names of pods.
fn decoder() -> FromProtobuf<String> {
    let decode = |raw: Bytes| {
        let NamedMeta { name, resource_version } = Named::decode(raw).unwrap_or_default().metadata;
        let [object, resource_version] = [name, resource_version].map(|own| short_text(&own));
        Decoded { object, resource_version }
    };
    FromProtobuf { kind: "Pod".to_owned(), decode }
}

fn envelope(kind: &'static str, message: &impl Message) -> Bytes {
    let unknown = Unknown { type_meta: TypeMeta { kind: kind.into() }, raw: message.encode_to_vec().into() };
    [&MAGIC[..], &unknown.encode_to_vec()].concat().into()
}

fn pod(name: &str) -> Named {
    Named { metadata: NamedMeta { name: name.to_owned().into(), resource_version: "7".into() } }
}

fn list(names: &[&str], token: &'static str) -> Bytes {
    let metadata = ListMeta { resource_version: "9".into(), continue_token: token.into() };
    envelope("PodList", &NamedList { metadata, items: names.iter().map(|name| pod(name)).collect() })
}

/// The names in a page and, if it is complete, its token and resource version.
type Read = (Vec<String>, Option<(Option<String>, String)>);

fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Read, Malformed> {
    let (mut page, mut buffer, mut names) = (PageReader::default(), Buffer::default(), Vec::new());
    for chunk in chunks {
        buffer.push(chunk);
        while let Some(part) = page.next(&mut buffer, &decoder())? {
            match part {
                Part::Object(name) => names.push(name),
                Part::End { token, resource_version } => return Ok((names, Some((token, resource_version)))),
            }
        }
    }
    Ok((names, None))
}

#[test]
fn a_page_ends_with_its_token_or_resource_version() {
    let all = ["a", "b"].map(str::to_owned).to_vec();
    let end = |token: Option<&str>| Some((token.map(str::to_owned), "9".to_owned()));
    assert_eq!(read([&list(&["a", "b"], "")[..]].into_iter()), Ok((all.clone(), end(None))));
    assert_eq!(read([&list(&["a", "b"], "more")[..]].into_iter()), Ok((all, end(Some("more")))));
    assert_eq!(read([&list(&[], "")[..]].into_iter()), Ok((Vec::new(), end(None))));
}

#[test]
fn accepts_a_page_longer_than_any_message() {
    // The metadata and the first pod of a page of a gigabyte.
    let start = b"k8s\0\x0a\x09\x12\x07PodList\x12\x80\x80\x80\x80\x04\x0a\x03\x12\x019";
    let item = pod("a").encode_to_vec();
    let page = [start, &[0x12, item.len() as u8][..], &item].concat();
    assert_eq!(read([&page[..]].into_iter()), Ok((vec!["a".to_owned()], None)));
}

#[test]
fn rejects_responses_that_are_not_pod_lists() {
    let without_metadata = NamedList { items: vec![pod("a")], ..Default::default() };
    for (bytes, problem) in [
        (Bytes::from_static(b"{\"kind\":\"PodList\"}"), "no envelope"),
        (envelope("ServiceList", &without_metadata), "a response of another type"),
        (envelope("PodList", &without_metadata), "a list without a resource version"),
        (Bytes::from_static(b"k8s\0\x08"), "a field that is not length-delimited"),
        (Bytes::from_static(b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "a number that is too large"),
        (Bytes::from_static(b"k8s\0\x0a\xff\xff\xff\xff\x0f"), "a message that is too long"),
        // A list of two bytes, whose first pod has nine.
        (Bytes::from_static(b"k8s\0\x0a\x09\x12\x07PodList\x12\x02\x12\x09"), "an item beyond the end of its list"),
    ] {
        assert_eq!(read([&bytes[..]].into_iter()).map(|(_, end)| end), Err(Malformed(problem)));
    }
}

#[test]
fn decodes_objects_bookmarks_and_errors_of_a_watch() {
    let event = |kind: &'static str, raw| {
        let event = message::WatchEvent { kind: kind.into(), object: RawExtension { raw } };
        decode_event(event.encode_to_vec().into(), &decoder())
    };
    let is_a = |own: &Decoded<String>| (&*own.object, &*own.resource_version) == ("a", "7");
    assert!(matches!(event("ADDED", envelope("Pod", &pod("a"))), Ok(WatchEvent::Applied(own)) if is_a(&own)));
    assert!(matches!(event("DELETED", envelope("Pod", &pod("a"))), Ok(WatchEvent::Deleted(own)) if is_a(&own)));
    let Ok(WatchEvent::Bookmark { resource_version, ends_list: false }) = event("BOOKMARK", envelope("Pod", &pod("")))
    else {
        panic!("no bookmark");
    };
    assert_eq!(resource_version, "7");
    let status = Status { code: 410, message: "too old".into(), reason: "Expired".into() };
    let Ok(WatchEvent::Error(refused)) = event("ERROR", envelope("Status", &status)) else { panic!("no status") };
    assert_eq!((refused.code, &refused.message[..], &refused.reason[..]), (410, "too old", "Expired"));
    assert_eq!(decode_status(&envelope("Status", &status)).unwrap().code, 410);
    assert!(decode_status(&envelope("Pod", &status)).is_none());
    for (kind, raw, problem) in [
        ("ADDED", envelope("Status", &status), "an event of another type"),
        ("SURPRISE", envelope("Pod", &pod("a")), "an event of another type"),
        ("BOOKMARK", envelope("Pod", &Named::default()), "a bookmark without a resource version"),
        ("ADDED", "{}".into(), "no envelope"),
    ] {
        assert!(matches!(event(kind, raw), Err(Malformed(own)) if own == problem), "{kind}");
    }
}

proptest! {
    #[test]
    fn decodes_a_page_independently_of_its_chunks(sizes in prop::collection::vec(1_usize..40, 1..20), token in prop::bool::ANY) {
        let bytes = list(&["a", "bb", "a-rather-long-name-of-a-pod"], if token { "more" } else { "" });
        let mut rest = &bytes[..];
        let mut chunks = Vec::new();
        for size in sizes.iter().cycle() {
            let (chunk, after) = rest.split_at((*size).min(rest.len()));
            chunks.push(chunk);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(read(chunks.into_iter()), read([&bytes[..]].into_iter()));
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(prop::num::u8::ANY, 0..200), at in 0_usize..200) {
        // Random bytes, and a valid list with some of its bytes replaced.
        let mut damaged = list(&["a", "bb"], "").to_vec();
        let length = damaged.len();
        damaged.splice(at.min(length)..(at + bytes.len()).min(length), bytes.iter().copied());
        for bytes in [bytes, damaged] {
            let _ = read([&bytes[..]].into_iter());
            let _ = decode_event(bytes.clone().into(), &decoder());
            let _ = decode_status(&bytes.clone().into());
            let mut buffer = Buffer::default();
            buffer.push(&bytes);
            while let Ok(Some(frame)) = buffer.take_frame() {
                let _ = decode_event(frame, &decoder());
            }
        }
    }
}
