//! What values look like: random, like a password, like a reference.

use super::text::{ALNUM, BASE64, Class, DIGIT, LETTER, LOWER, NAME, UPPER, WORD, class, has, is, is_all};

/// Whether a value mixes letters with digits, or small letters with capitals, as passwords and tokens do.
pub(super) fn is_secret_like(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', ';', ')', ':']);
    value.len() >= 6
        && has(value, LETTER)
        && (has(value, DIGIT | class(b"!!##^^**~~")) || has_hump(value))
        && !value.starts_with("0x")
        && !value.starts_with('/')
}

/// Whether a capital follows a small letter.
pub(super) fn has_hump(value: &str) -> bool {
    value.as_bytes().windows(2).any(|pair| is(pair[0], LOWER) && is(pair[1], UPPER))
}

/// Whether a value looks random: long, of mixed characters, without words. `strict` excludes hexadecimal hashes and UUIDs.
pub(super) fn is_random(value: &str, strict: bool) -> bool {
    let count = |class| value.bytes().filter(|&byte| is(byte, class)).count();
    let (digits, upper, lower) = (count(DIGIT), count(UPPER), count(LOWER));
    let plain = is_all(value, BASE64 | NAME | class(b"==~~%%"));
    if !plain || value.len() < 16 || digits == 0 || upper + lower == 0 {
        return false;
    }
    if value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return !strict && value.len() >= 24;
    }
    // Words between dashes or slashes, such as `uploads/2026/report.pdf`, are not random; nor is a single word with a date.
    let words = value.split(['-', '_', '.', '/']).filter(|word| word.len() > 1).count();
    let mixed = upper >= 2 && lower >= 2;
    mixed || (!strict && digits >= 3 && words <= 2 && value.len() >= 20)
}

pub(super) fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Whether the last part of a word is random: at least 20 letters and digits, of which neither is rare.
pub(super) fn has_random_end(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    part.len() >= 20 && is_all(part, ALNUM) && digits >= 2 && part.len() - digits >= 4
}

/// Whether the value is a variable: `${NAME}`, `$(NAME)`, `{{ .name }}`, `$NAME`, `%NAME%`, `{name}`, `<name>`, `%(name)s`.
pub(super) fn is_reference(value: &str) -> bool {
    const NAMES: Class = LETTER | class(b"__--..  !!::??");
    if (value.starts_with("{{") || value.starts_with("${{")) && !value.contains('\n') {
        return true;
    }
    if (value.starts_with("${") || value.starts_with("$(")) && !value.contains(":-") {
        return is_all(value, WORD | class(b"$${}()..--  ::??//||\"\"''"));
    }
    if let Some(name) = value.strip_prefix('$') {
        let name = name.trim_end_matches(['"', '\'', ';', ',']);
        return is_all(name, WORD) && (!has(name, LOWER) || name.contains('_'));
    }
    let within = |open: char, close: char| {
        value
            .strip_prefix(open)
            .and_then(|value| value.strip_suffix(close))
            .is_some_and(|name| (1..=40).contains(&name.len()) && is_all(name, NAMES))
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
        && (rest.len() < value.len() || rest.matches('/').count() >= 2)
        && is_all(rest, DIGIT | LOWER | class(b"//..__--"))
}
