use std::{
    io::{BufReader, Read},
    marker::PhantomData,
};

use serde_json::{Value, json};

use super::{documents::first_document, *};

/// The documents of a text, which is read some bytes at a time, or the error.
fn read(text: &str) -> Result<Vec<Value>, String> {
    let mut documents = Documents::new(BufReader::with_capacity(7, text.as_bytes()));
    let mut values = Vec::new();
    while documents.begin_next().map_err(|error| error.to_string())? {
        values.push(documents.deserialize(PhantomData).map_err(|error| error.to_string())?);
    }
    Ok(values)
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
    let text = "# pods\n---\na: 1\n--- # next\n\n---\n- b\n-  c: [d, {e: f}]\n   g: >\n    --- no\n---x: 1\n---\n";
    let expected = vec![json!({"a": 1}), json!(["b", {"c": ["d", {"e": "f"}], "g": "--- no\n"}])];
    assert_eq!(read(&text.replace("---x: 1\n", "")), Ok(expected));
    assert_eq!(read(text), Err("line 11 is not YAML".to_owned()), "the key is no separator, and a mapping no element");
    assert_eq!(read("# nothing\n\n"), Ok(vec![]));
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
        ("- a\n...\n- b\n", 3),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(error, format!("line {line} is not YAML"), "{text}");
    }
}

#[test]
fn a_visitor_that_leaves_elements_unread_fails() {
    let first = |text: &str| first_document::<(u64,)>(text.as_bytes()).map_err(|error| error.to_string());
    assert_eq!(first("- 1\n"), Ok(Some((1,))));
    assert_eq!(first("- 1\n- 2\n"), Err("it has another shape".to_owned()));
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
        let read = first_document::<Value>(BufReader::with_capacity(1, before.as_bytes().chain(Broken)));
        assert_eq!(read.unwrap_err().to_string(), "the disk is broken");
    }
    let latin = first_document::<Value>(&b"a: \xe9\n"[..]);
    assert_eq!(latin.unwrap_err().to_string(), "line 1 is not YAML");
}
