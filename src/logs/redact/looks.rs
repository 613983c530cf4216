//! What values look like: random, like a password, like a reference.

use super::bytes::{self, ALNUM, DASH, DOT, PLUS_SLASH, UNDERSCORE};

/// Whether a value mixes letters with digits, or small letters with capitals, as passwords and tokens do.
pub(super) fn is_secret_like(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', ';', ')', ':']);
    let any = |test: fn(&u8) -> bool| value.as_bytes().iter().any(test);
    value.len() >= 6
        && any(u8::is_ascii_alphabetic)
        && (any(u8::is_ascii_digit) || has_hump(value) || any(|byte| matches!(byte, b'!' | b'#' | b'^' | b'*' | b'~')))
        && !value.starts_with("0x")
        && !value.starts_with('/')
}

/// Whether a capital follows a small letter.
pub(super) fn has_hump(value: &str) -> bool {
    let pairs = value.as_bytes().windows(2);
    pairs.into_iter().any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()))
}

/// Whether a value looks random: long, of mixed characters, without words. `strict` excludes hexadecimal hashes and UUIDs.
pub(super) fn is_random(value: &str, strict: bool) -> bool {
    let bytes = value.as_bytes();
    let count = |test: fn(&u8) -> bool| bytes.iter().filter(|byte| test(byte)).count();
    let (digits, upper, lower) =
        (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let plain = bytes
        .iter()
        .all(|&byte| bytes::is(byte, ALNUM | PLUS_SLASH | UNDERSCORE | DASH | DOT) || b"=~%".contains(&byte));
    if !plain || bytes.len() < 16 || digits == 0 || upper + lower == 0 {
        return false;
    }
    if bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-') {
        return !strict && bytes.len() >= 24;
    }
    // Words between dashes or slashes, such as `uploads/2026/report.pdf`, are not random; nor is a single word with a date.
    let words = value.split(['-', '_', '.', '/']).filter(|word| word.len() > 1).count();
    let mixed = upper >= 2 && lower >= 2;
    mixed || (!strict && digits >= 3 && words <= 2 && bytes.len() >= 20)
}

pub(super) fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Whether the last part of a word is random: at least 20 letters and digits, of which neither is rare.
pub(super) fn has_random_end(part: &str) -> bool {
    let bytes = part.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    bytes.len() >= 20 && bytes.iter().all(u8::is_ascii_alphanumeric) && digits >= 2 && bytes.len() - digits >= 4
}

/// Whether the value is a variable: `${NAME}`, `$(NAME)`, `{{ .name }}`, `$NAME`, `%NAME%`, `{name}`, `<name>`, `%(name)s`.
pub(super) fn is_reference(value: &str) -> bool {
    let simple =
        |value: &str| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"${}()_.- :?/|\"'".contains(&byte));
    if (value.starts_with("{{") || value.starts_with("${{")) && !value.contains('\n') {
        return true;
    }
    if (value.starts_with("${") || value.starts_with("$(")) && !value.contains(":-") {
        return simple(value);
    }
    if let Some(name) = value.strip_prefix('$') {
        let name = name.trim_end_matches(['"', '\'', ';', ',']);
        let variable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        return name.bytes().all(variable)
            && (name.bytes().all(|byte| !byte.is_ascii_lowercase()) || name.contains('_'));
    }
    let within = |open: char, close: char| {
        value.strip_prefix(open).and_then(|value| value.strip_suffix(close)).is_some_and(|name| {
            !name.is_empty()
                && name.len() <= 40
                && name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-. !:?".contains(&byte))
        })
    };
    within('{', '}') || within('<', '>') || within('%', '%') || value.starts_with("%(") || value.starts_with("YOUR_")
}

/// Whether a value was masked by the program.
pub(super) fn is_masked(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.'))
}

/// Whether the value is a path such as `/run/secrets/db`, `~/.ssh/id` or `./keys/app.pem`. AWS secrets may begin with a
/// slash, too, but contain capitals.
pub(super) fn is_path(value: &str) -> bool {
    let rest = value.trim_start_matches(['~', '.']);
    rest.starts_with('/')
        && (rest.len() < value.len() || rest.bytes().filter(|&byte| byte == b'/').count() >= 2)
        && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/._-".contains(&byte))
}
