//! Decides which values of keys are no credentials: references, remarks, counts, names and code.

use std::sync::LazyLock;

use regex::Regex;

use super::{
    names::{self, Secret, among},
    values::{Context, Notation},
};
use crate::logs::pattern::constant;

/// Values that are no secret.
const PLACEHOLDERS: &str = "yes no YES NO true false null nil none None True False NULL undefined <nil> <none> <unset> <empty> \
    <redacted> <hidden> (none) (empty) (hidden) enabled disabled optional required missing ok on off ... %s %v %q {} ? basic \
    bearer Bearer Basic string str String text int bytes varchar boolean object any STRING strong lax strict unset";

/// First words of a remark about a credential.
const REMARKS: &str = "a an and argument by can cannot configmaps could denied does empty error expired failed failure flag \
    for forbidden from has if in incorrect instead invalid is malformed mismatch missing must no not of \
    option or rejected required secret secrets serviceaccounts should the to unable unauthorized \
    unexpected unknown verification was with wrong too field header expected authentication requires needs was are will line";

/// First words that make even a quoted value, or one after an equals sign, a remark.
const CERTAIN_REMARKS: &str =
    "is must cannot can't required missing invalid expired not too should incorrect field this may";

/// Words of an error, which make a value of several words a remark.
const ERRORS: &str = "error failed failure invalid denied missing expected required unable incorrect mismatch rejected unauthorized \
    expired";

/// Words before "token" in the complaint of a parser.
const PARSER_WORDS: &str =
    "unexpected expected expecting near at next invalid illegal bad last current offending unrecognized parse parsing";

/// Parts of the names of Kubernetes Secrets.
const OBJECT_WORDS: &str = "credentials credential creds secret secrets token tokens tls cert certs key keys password auth config \
    registry pull regcred account";

/// The start of code: a path of identifiers, followed by a call, an index or the end of the expression.
static EXPRESSION: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r#"(?x-u)\A(?:(?:await|new|not|return|yield|mut|move|&mut)[\ ]|[&*!@])*
        (\$?[A-Za-z_][A-Za-z0-9_]*)((?:(?:\.|\?\.|::|->)[A-Za-z_][A-Za-z0-9_]*)*)[!?]?(\(|\[["'a-z$]|<[A-Z&a-z]|[,;)}\]?:\ \t]|\z)"#,
    )
});

/// Objects whose fields are variables.
const OBJECTS: &str = "self this process os config cfg conf args opts options settings ctx req request user params env var local \
    module data secrets props state event body input spec app";

/// Public keys, fingerprints and other values that are published.
const PUBLIC: &[&str] = &[
    "arn:",
    "SHA256:",
    "MD5:",
    "ssh-rsa",
    "ssh-ed25519",
    "ecdsa-sha2-",
    "sha512-",
    "sha384-",
    "sha256-",
    "sha256:",
    "scram-sha-",
    "http://",
    "https://",
    "age1",
    "!Ref ",
    "!GetAtt ",
    "!Sub ",
    "<%=",
    "-----BEGIN PUBLIC",
    "-----BEGIN CERT",
];

/// The longest value, and the most of a line of code, that is examined, in bytes.
const MAX_EXAMINED: usize = 1024;
const MAX_CODE: usize = 256;

/// Whether the value of a key, without its quotes, is no credential.
pub(super) fn is_harmless(value: &str, context: &Context<'_>) -> bool {
    // [FILTERED], as other programs mask.
    let mask = value.trim().strip_prefix('[').and_then(|value| value.strip_suffix(']'));
    if mask.is_some_and(|mask| !mask.is_empty() && mask.bytes().all(|byte| byte.is_ascii_uppercase())) {
        return true;
    }
    // A longer value is redacted, and not searched again for each key within it.
    if value.len() > MAX_EXAMINED {
        return false;
    }
    let bare = value.trim().trim_end_matches([',', ';', ')', '}', ']']);
    if bare.is_empty()
        || among(PLACEHOLDERS, bare)
        || among(PLACEHOLDERS, value.trim())
        || bare.bytes().all(|byte| byte == b'*')
        || (bare.len() > 2 && bare.bytes().all(|byte| matches!(byte, b'x' | b'X' | b'.')))
    {
        return true;
    }
    if is_reference(value.trim())
        || is_reference(bare)
        || is_path(bare)
        || PUBLIC.iter().any(|start| bare.starts_with(start))
    {
        return true;
    }
    if is_number(bare) && (context.secret == Secret::Plural || (names::counts(context.key))) {
        return true;
    }
    if names::is_word(context.key, "pwd") && (bare.starts_with(['/', '~']) || bare.get(1..3) == Some(":\\")) {
        return true;
    }
    if names::is_word(context.key, "token") && (2..=16).contains(&bare.len()) && is_constant(bare) {
        return true;
    }
    // [--password PASSWORD], as in the usage of a program.
    if context.notation == Notation::Flag
        && names::last_word(context.key).is_some_and(|word| word.to_ascii_uppercase() == bare)
    {
        return true;
    }
    match context.secret {
        Secret::Object if is_object(bare) => return true,
        Secret::Plural | Secret::Object if bare.starts_with('[') && is_list_of_names(bare) => return true,
        Secret::Opaque if !is_random(bare, names::is_word(context.key, "key")) => return true,
        _ => {}
    }
    is_remark(bare, context)
}

fn is_number(value: &str) -> bool {
    let digits = value.split(['/', ' ']).next().unwrap_or_default().trim_end_matches(['k', 'M', '%', 's', 'm']);
    (1..=7).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Whether the value is the name of a constant or of a kind of token: `RPAREN`.
fn is_constant(value: &str) -> bool {
    let name = value.split(['(', ' ']).next().unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Whether the value is a sentence about a credential.
fn is_remark(bare: &str, context: &Context<'_>) -> bool {
    let bare = bare.trim_start_matches(['[', '"', '\'', '{', '\\']);
    let letter = |letter: char| letter.is_ascii_alphabetic() || letter == '\'';
    let word = bare.split(|next| !letter(next)).next().unwrap_or_default();
    let lower = word.to_ascii_lowercase();
    let rest = bare.get(word.len()..).unwrap_or_default();
    let alone = rest.is_empty() || rest.starts_with([' ', ',', '.', ':', ';', '"']);
    if word.is_empty() || !alone {
        return false;
    }
    if among(CERTAIN_REMARKS, &lower) && (rest.starts_with(' ') || among("missing required", &lower)) {
        return true;
    }
    if !matches!(context.notation, Notation::Colon | Notation::Flag) {
        return false;
    }
    among(REMARKS, &lower)
        || word.ends_with("n't")
        || bare.split(|next| !letter(next)).take(4).any(|word| among(ERRORS, &word.to_ascii_lowercase()))
}

/// Whether the value is a variable: `${NAME}`, `$(NAME)`, `{{ .name }}`, `$NAME`, `{name}`, `<name>`, `%(name)s`.
pub(in crate::logs::redact) fn is_reference(value: &str) -> bool {
    let simple = |value: &str| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"${}()_.- :?".contains(&byte));
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
                && name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-. ".contains(&byte))
        })
    };
    within('{', '}') || within('<', '>') || value.starts_with("%(") || value.starts_with("YOUR_")
}

/// Whether the value is a path such as `/run/secrets/db`, `~/.ssh/id` or `./keys/app.pem`. AWS secrets may begin with a
/// slash, too, but contain capitals.
fn is_path(value: &str) -> bool {
    let rest = value.trim_start_matches(['~', '.']);
    rest.starts_with('/')
        && (rest.len() < value.len() || rest.bytes().filter(|&byte| byte == b'/').count() >= 2)
        && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/._-".contains(&byte))
}

/// Whether the value is the name of a Kubernetes object, perhaps with its namespace, as controllers log a Secret.
fn is_object(value: &str) -> bool {
    let is_part = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
            && part.bytes().any(|byte| byte.is_ascii_lowercase())
    };
    match value.split_once('/') {
        Some((namespace, name)) => is_part(namespace) && is_part(name),
        None => is_part(value) && value.split(['-', '.']).any(|word| among(OBJECT_WORDS, word)),
    }
}

fn is_list_of_names(value: &str) -> bool {
    let names = value.trim_matches(['[', ']']).split([',', ' ']).map(|name| name.trim_matches(['"', '\'', ' ']));
    names
        .filter(|name| !name.is_empty())
        .all(|name| is_object(name) || name.split('-').any(|word| word.ends_with("cred")))
}

/// Whether a value mixes letters with digits, or small letters with capitals, as passwords and tokens do.
pub(in crate::logs::redact) fn is_secret_like(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', ';', ')', ':']);
    let any = |test: fn(&u8) -> bool| value.as_bytes().iter().any(test);
    let letters = any(u8::is_ascii_alphabetic);
    let hump = value
        .as_bytes()
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()));
    value.len() >= 6
        && letters
        && (any(u8::is_ascii_digit) || hump)
        && !value.starts_with("0x")
        && !value.starts_with('/')
}

/// Whether a value looks random: long, of mixed characters, without words. `strict` excludes hexadecimal hashes and UUIDs.
pub(in crate::logs::redact) fn is_random(value: &str, strict: bool) -> bool {
    let bytes = value.as_bytes();
    let count = |test: fn(&u8) -> bool| bytes.iter().filter(|byte| test(byte)).count();
    let (digits, upper, lower) =
        (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let hexadecimal = bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    let plain = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-~.%".contains(byte));
    let words = value.split(['-', '_', '.', '/']).filter(|word| word.len() > 1).count();
    if !plain || bytes.len() < 16 || digits == 0 || upper + lower == 0 || value.contains("://") {
        return false;
    }
    if hexadecimal {
        return !strict && bytes.len() >= 24;
    }
    // Words between dashes or slashes, such as `uploads/2026/report.pdf`, are not random; nor is a single word with a date.
    let mixed = upper >= 2 && lower >= 2;
    mixed || (!strict && digits >= 3 && words <= 2 && bytes.len() >= 20)
}

/// Whether the key follows a parser's complaint, as in "unexpected token: }".
pub(super) fn follows_parser_word(text: &str, start: usize) -> bool {
    let from = text.ceil_char_boundary(start.saturating_sub(24));
    let head = text.get(from..start).unwrap_or_default().trim_end();
    let word = head.rsplit(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    among(PARSER_WORDS, &word.to_ascii_lowercase())
}

/// Whether the rest of a line, after a key and its sign, is code that computes the value.
pub(super) fn is_code(rest: &str, context: &Context<'_>) -> bool {
    let rest = rest.get(..rest.floor_char_boundary(MAX_CODE)).unwrap_or_default();
    let Some(found) = EXPRESSION.captures(rest) else { return false };
    let part = |index| found.get(index).map_or("", |part| part.as_str());
    let (head, path, next) = (part(1), part(2), part(3));
    let end = found.get(0).map_or(0, |all| all.end());
    // Some("…") and Secret('…') are printed values, not code.
    let printed = path.is_empty() && head.starts_with(|letter: char| letter.is_ascii_uppercase());
    match next {
        "(" => !printed && !has_secret_literal(rest.get(end..).unwrap_or_default()),
        _ if next.starts_with('[') => !path.is_empty() || next.ends_with(['"', '\'']),
        _ if next.starts_with('<') => {
            matches!(head, "Option" | "Vec" | "Box" | "Arc" | "Secret" | "Optional" | "List" | "Maybe")
        }
        _ if !path.is_empty() => among(OBJECTS, head.trim_start_matches('$')),
        // password=password, but not PASSWORD=password.
        _ => {
            let capitals = !context.key.bytes().any(|byte| byte.is_ascii_lowercase());
            let variable = !head.bytes().any(|byte| byte.is_ascii_digit());
            among("string str String int bytes text nil null None", head) && matches!(next, ";" | "," | ")" | "")
                || (!capitals && variable && names::last_word(head) == names::last_word(context.key))
        }
    }
}

/// Whether a call has a quoted argument that looks like a secret, not like a name.
fn has_secret_literal(arguments: &str) -> bool {
    let line = arguments.split('\n').next().unwrap_or_default();
    line.split(['"', '\''])
        .skip(1)
        .step_by(2)
        .any(|literal| !literal.contains(' ') && is_secret_like(literal) && !is_name(literal))
}

/// Whether a text is the name of a variable or a header.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        || !text.bytes().any(|byte| byte.is_ascii_digit())
}
