//! Finds the values of keys in XML, and in notations that write the value apart from the name.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::{
    names,
    values::{self, Context, Notation},
};
use crate::logs::pattern::constant;

/// Names and their values. In the last one, the value precedes the name.
static PAIRS: LazyLock<[(Regex, usize, usize); 4]> = LazyLock::new(|| {
    [
        // <ns:Password Type="text">value</ns:Password>
        (
            constant(r"<(?:[A-Za-z0-9_-]{1,32}:)?([A-Za-z0-9_.-]{1,64})(?:[ \t][^<>\n]{0,256})?>([^<\n]{1,4096})</"),
            1,
            2,
        ),
        // <entry key="password">value</entry>
        (constant(r#"[ \t](?:name|key|id)=["']([A-Za-z0-9_.:-]{1,128})["'][^<>\n]{0,128}>([^<\n]{1,4096})<"#), 1, 2),
        // <add key="password" type="text" value="value"/>
        (
            constant(
                r#"[ \t](?:name|key|id)=["']([A-Za-z0-9_.:-]{1,128})["'][^<>\n]{0,128}[ \t]value=["']([^"'\n]{1,4096})["']"#,
            ),
            1,
            2,
        ),
        // {"value":"value","name":"DB_PASSWORD"}
        (
            constant(
                r#"(?i)"value"[ ]?:[ ]?"([^"\\\n]{1,4096})",[ ]?"(?:name|key)"[ ]?:[ ]?"([A-Za-z0-9_.-]{1,128})""#,
            ),
            2,
            1,
        ),
    ]
});

pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
    for (index, (pattern, name, value)) in PAIRS.iter().enumerate() {
        let possible = if index < 3 { text.contains('<') } else { text.contains("alue\"") };
        if !possible {
            continue;
        }
        for found in pattern.captures_iter(text) {
            let (Some(name), Some(value)) = (found.get(*name), found.get(*value)) else { continue };
            let Some(secret) = names::classify(name.as_str(), false) else { continue };
            let context = Context { key: name.as_str(), secret, notation: Notation::Element, leads: None };
            ranges.extend(values::redactable(text, value.range(), &context));
        }
    }
}
