//! Recognises messages that differ only in numbers and ids, such as the port of a connection or the id of a sandbox.

use std::hash::{DefaultHasher, Hasher};

/// Shorter numbers, such as exit codes and HTTP status codes, make a difference.
const LONG_NUMBER: usize = 4;
/// Shorter words of hexadecimal digits may be words.
const LONG_ID: usize = 8;

/// Prepended by client-go to the message of similar events that it combines in one.
const COMBINED: &str = "(combined from similar events): ";

/// A hash of the message without long numbers and ids.
pub(super) fn template(message: &str) -> u64 {
    let message = message.strip_prefix(COMBINED).unwrap_or(message);
    let mut hasher = DefaultHasher::new();
    for word in message.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()) {
        if !is_variable(word) {
            hasher.write(word);
        }
        // Separates words, so that their parts cannot be exchanged.
        hasher.write_u8(b' ');
    }
    hasher.finish()
}

fn is_variable(word: &[u8]) -> bool {
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits == word.len() && digits >= LONG_NUMBER
        || digits > 0 && word.len() >= LONG_ID && word.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_ports_or_ids_have_the_same_template() {
        for (one, other, same) in [
            ("read tcp 10.0.0.1:43210->10.0.0.9:8080: reset", "read tcp 10.0.0.1:51022->10.0.0.9:8080: reset", true),
            ("sandbox \"0a1b2c3d4e5f\" failed", "sandbox \"9f8e7d6c5b4a\" failed", true),
            ("statuscode: 503", "statuscode: 500", false),
            ("Liveness probe failed", "Readiness probe failed", false),
            ("volume facade", "volume decade", false),
            ("volume \"a\"", "volume \"b\"", false),
            ("ab c", "a bc", false),
            ("(combined from similar events): no route", "no route", true),
        ] {
            assert_eq!(template(one) == template(other), same, "{one} {other}");
        }
    }
}
