//! Decides which values of keys are no credentials: placeholders, remarks, counts and names.

use super::{
    context::{Context, Notation},
    names::Secret,
};
use crate::logs::redact::{
    looks::{is_path, is_random, is_reference, is_secret_like, is_uuid},
    words::Words,
};

/// Values that are no secret, in lower case.
static PLACEHOLDERS: Words = Words::new(
    "yes no true false null nil none undefined <nil> <none> <unset> <empty> <redacted> <hidden> (none) (empty) (hidden) \
     (null) (unset) (not (redacted) (masked) enabled disabled optional required missing ok on off ... … %s %v %q %d {} ? \
     basic bearer string str text int bytes varchar boolean bool object any strong weak strict lax unset n/a na \
     valid invalid present absent found configured loaded refreshed revoked generated created updated deleted skipped \
     accepted rejected unchanged rotated stale active inactive provided available unavailable used unused hidden masked \
     redacted filtered omitted encrypted expired incorrect denied changed empty blank unknown error failed wrong mismatch \
     malformed unauthorized forbidden fail success succeeded passed changeit_not_set not_set notset not-set unspecified \
     - -- \"\" '' [] {} () * removed",
);

/// First words of a remark about a credential.
static REMARKS: Words = Words::new(
    "a an and are argument authentication by can cannot configmaps could denied does empty error expected expired failed \
     failure field flag for forbidden from has header if in incorrect instead invalid is line malformed mismatch missing \
     must needs no not of option or rejected required requires secret secrets serviceaccounts should the this to too \
     unable unauthorized unexpected unknown verification was were will with wrong attempt attempting using use please \
     loaded found read stored checking fetched received see when while because after before it its you your we there that these those cannot already only",
);

/// First words that make even a quoted value, or one after an equals sign, a remark if others follow.
static CERTAIN_REMARKS: Words = Words::new(
    "is must cannot can't required missing invalid expired not too should incorrect field this may no does has failed \
     unable unknown please value length",
);

/// Words of an error, which make a value of several words a remark.
static ERRORS: Words = Words::new(
    "error failed failure invalid denied missing expected required unable incorrect mismatch rejected unauthorized expired",
);

/// Words that occur in sentences, not in passphrases.
static SENTENCE_WORDS: Words = Words::new(
    "is was are were has have had not no for of by with from must should cannot can could will would does did been be \
     this that which than at least because",
);

/// Parts of the names of Kubernetes Secrets.
static OBJECT_WORDS: Words = Words::new(
    "credentials credential creds secret secrets token tokens tls cert certs key keys password passwords auth config \
     registry pull regcred account",
);

/// The starts of public keys, fingerprints and other values that are published.
const PUBLIC: &[&str] = &[
    "arn:",
    "SHA256:",
    "MD5:",
    "ssh-rsa",
    "ssh-ed25519",
    "ecdsa-sha2-",
    "rsa-sha2-",
    "sha512-",
    "sha384-",
    "sha256-",
    "sha256:",
    "scram-sha-",
    "SCRAM-SHA-",
    "http://",
    "https://",
    "file://",
    "age1",
    "<%=",
    "-----BEGIN PUBLIC",
    "-----BEGIN CERT",
];

/// The longest value that is examined, in bytes. A longer value is redacted, and not searched again for each key within it.
const MAX_EXAMINED: usize = 512;

/// Whether the value of a key, without its quotes, is no credential.
pub(super) fn is_harmless(value: &str, context: &Context<'_>) -> bool {
    if value.len() > MAX_EXAMINED {
        return false;
    }
    let whole = value.trim();
    let bare = whole.trim_end_matches([',', ';', ')', '}', ']']);
    if bare.is_empty() || is_placeholder(whole) || is_placeholder(bare) {
        return true;
    }
    let unquoted = bare.trim_end_matches(['"', '\'', '`', '.']);
    if [whole, bare, unquoted].into_iter().any(is_reference)
        || is_tagged(bare)
        || is_path(bare)
        || PUBLIC.iter().any(|start| bare.starts_with(start))
    {
        // A URL may hold a password, which another rule finds.
        return true;
    }
    if is_number(bare) && (context.secret == Secret::Plural || context.name.counts() || context.name.is_qualified()) {
        return true;
    }
    if (context.name.is("pwd") || context.name.is("oldpwd"))
        && (bare.starts_with(['/', '~']) || bare.get(1..3) == Some(":\\"))
    {
        return true;
    }
    if context.notation == Notation::Colon && is_mail_address(bare) {
        return true;
    }
    if context.name.is("token") && (2..=16).contains(&bare.len()) && is_constant(bare) {
        return true;
    }
    if is_description(bare) || (context.notation == Notation::Colon && is_label(bare)) {
        return true;
    }
    if context.secret == Secret::Cookie && has_only_attributes(bare) {
        return true;
    }
    // cannot refresh token: network unreachable
    if context.notation == Notation::Colon
        && context.leads.is_none()
        && context.name.last() == "token"
        && bare.bytes().all(|byte| byte.is_ascii_lowercase())
    {
        return true;
    }
    // PASS: TestLogin (0.02s)
    if context.name.is("pass") && context.notation == Notation::Colon && is_test_name(bare) {
        return true;
    }
    // [--password PASSWORD], as in the usage of a program.
    if context.notation == Notation::Flag
        && context.name.last().eq_ignore_ascii_case(bare)
        && !bare.bytes().any(|byte| byte.is_ascii_lowercase())
    {
        return true;
    }
    match context.secret {
        Secret::Object if is_object(bare) => return true,
        // no such secret: db
        Secret::Object if context.notation == Notation::Colon && context.leads.is_none() && is_lower_word(bare) => {
            return true;
        }
        // The key within a Secret: `secretKey: password`.
        Secret::Plain
            if context.name.is("secret key") && context.notation == Notation::Colon && is_lower_word(bare) =>
        {
            return true;
        }
        Secret::Plural | Secret::Object if bare.starts_with('[') && is_list_of_names(bare) => return true,
        Secret::Opaque
            if context.name.last() == "auth"
                && (has_password(bare)
                    || (!context.name.has_lower && !context.name.is("auth") && is_secret_like(bare))) =>
        {
            return false;
        }
        Secret::Opaque if !is_random(bare, context.of_data) || (context.name.is("key") && is_uuid(bare)) => {
            return true;
        }
        _ => {}
    }
    is_remark(bare, context)
}

fn is_placeholder(value: &str) -> bool {
    // [FILTERED], as other programs mask.
    let mask = value.strip_prefix(['[', '<', '(']).and_then(|value| value.strip_suffix([']', '>', ')']));
    PLACEHOLDERS.contains_lower(value)
        || mask.is_some_and(|mask| {
            !mask.is_empty() && mask.bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b' ' | b'_'))
        })
        || value.bytes().all(|byte| byte == b'*')
        || value.chars().all(|letter| letter == '•')
        || (value.len() > 2 && value.bytes().all(|byte| matches!(byte, b'x' | b'X' | b'.' | b'#' | b'-' | b'?')))
}

/// Whether the value is a text in brackets that stands for another: `(protected)`, `<set to the key 'a' in secret 'b'>`.
fn is_description(value: &str) -> bool {
    let lower = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b' ' | b'-'));
    // Punctuation at the end may have been removed.
    let angle = value.strip_prefix('<').map(|value| value.strip_suffix('>').unwrap_or(value));
    angle.is_some_and(|inner| inner.contains(' ') && !inner.contains(['=', '/']))
        || value.strip_prefix('(').is_some_and(|inner| !inner.is_empty() && lower(inner.trim_end_matches(')')))
}

/// Whether the value is an error code before a message, or the name of a setting: `invalid_grant: …`, `STRIPE_KEY`.
fn is_label(value: &str) -> bool {
    let word = value.split([' ', ':']).next().unwrap_or_default();
    let code = value.get(word.len()..).is_some_and(|rest| rest == ":" || rest.starts_with(": "))
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let name = value.contains('_') && value.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    (code && word.len() > 2) || name
}

/// Attributes of cookies, and values of settings, in lower case.
static ATTRIBUTES: Words = Words::new(
    "secure httponly partitioned samesite path domain expires max-age true false none lax strict yes no on off enabled \
     disabled name",
);

/// Whether the value of a cookie header consists of settings: `secure=true httponly=true`.
fn has_only_attributes(value: &str) -> bool {
    let parts = value.split([' ', ',', ';', '=']).filter(|part| !part.is_empty());
    parts.clone().count() > 0
        && parts
            .into_iter()
            .all(|part| ATTRIBUTES.contains_lower(part) || part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the value is the name of a test, perhaps with its duration.
fn is_test_name(value: &str) -> bool {
    let (name, rest) = value.split_once(' ').unwrap_or((value, ""));
    let path = |byte: u8| byte.is_ascii_alphanumeric() || b"_/.:-#[".contains(&byte);
    (rest.starts_with('(') || name.contains(['/', '_']) || name.starts_with("Test") || name.starts_with("test"))
        && name.bytes().all(path)
}

/// Whether the value is a user and a password: `neo4j/…`, `admin:…`.
fn has_password(value: &str) -> bool {
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    let pair = value.split_once(['/', ':']);
    pair.is_some_and(|(user, password)| word(user) && is_secret_like(password) && !password.contains(['/', ':']))
}

fn is_lower_word(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'.'))
}

/// Whether a YAML tag says where the value comes from: `!Ref name`. A block may follow `!vault |`.
fn is_tagged(value: &str) -> bool {
    let tag = value.strip_prefix('!').and_then(|value| value.split_once(' '));
    tag.is_some_and(|(tag, rest)| {
        tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && !rest.starts_with(['|', '>'])
    })
}

fn is_mail_address(value: &str) -> bool {
    let letters = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'-'))
    };
    value.split_once('@').is_some_and(|(user, host)| letters(user) && letters(host) && host.contains('.'))
}

fn is_number(value: &str) -> bool {
    let digits = value.split(['/', ' ', ',']).next().unwrap_or_default();
    let digits = digits.trim_end_matches(['k', 'K', 'M', '%', 's', 'm', 'h', 'd']);
    (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Whether the value is the name of a constant or of a kind of token: `RPAREN`.
fn is_constant(value: &str) -> bool {
    let name = value.split(['(', ' ']).next().unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Whether the value is a sentence about a credential.
fn is_remark(bare: &str, context: &Context<'_>) -> bool {
    let bare = bare.trim_start_matches(['[', '"', '\'', '{', '\\', '(']);
    let letter = |letter: char| letter.is_ascii_alphabetic() || letter == '\'';
    let word = bare.split(|next| !letter(next)).next().unwrap_or_default();
    let rest = bare.get(word.len()..).unwrap_or_default();
    let alone = rest.is_empty() || rest.starts_with([' ', ',', '.', ':', ';', '"']);
    if word.is_empty() || !alone {
        return false;
    }
    if rest.starts_with(' ') && (CERTAIN_REMARKS.contains_lower(word) || is_sentence(bare)) {
        return true;
    }
    if !matches!(context.notation, Notation::Colon | Notation::Flag) {
        return false;
    }
    // token: refreshing in 30s
    let next = rest.split_whitespace().next().unwrap_or_default();
    REMARKS.contains_lower(word)
        || (word.ends_with("ing") && ["in", "after", "at", "every", "for", "from", "the", "until"].contains(&next))
        || word.ends_with("n't")
        || bare.split(|next| !letter(next)).take(4).any(|word| ERRORS.contains_lower(word))
}

/// Whether a text of at least three words has one that occurs in sentences, and no word of mixed characters.
fn is_sentence(text: &str) -> bool {
    let words = || text.split(' ').map(|word| word.trim_matches([',', '.', ':', ';', '"', '\'', '(', ')', '!']));
    words().count() >= 3
        && words().skip(1).any(|word| SENTENCE_WORDS.contains_lower(word))
        && words()
            .take(4)
            .all(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'\'' | b'-' | b'_')))
}

/// Whether the value is the name of a Kubernetes object, perhaps with its namespace, as controllers log a Secret.
fn is_object(value: &str) -> bool {
    let is_part = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
            && part.bytes().any(|byte| byte.is_ascii_lowercase())
    };
    match value.split_once('/') {
        // namespaces/a/secrets/b
        Some((_, name)) if name.contains('/') => {
            value.split('/').all(|part| is_part(part) && !part.bytes().any(|byte| byte.is_ascii_digit()))
        }
        Some((namespace, name)) => is_part(namespace) && is_part(name),
        None => {
            let words = || value.split(['-', '.']);
            is_part(value)
                && value.len() <= 63
                && (words().any(|word| OBJECT_WORDS.contains(word))
                    || (words().count() > 1 && words().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())))
                    || value.starts_with("sh.helm.release."))
        }
    }
}

fn is_list_of_names(value: &str) -> bool {
    let names = value.split([',', ' ']).map(|name| name.trim_matches(['[', ']', '{', '}', '"', '\'', ' ']));
    names
        .filter(|name| !matches!(*name, "" | "name:" | "Name:"))
        .all(|name| is_object(name) || name.split('-').any(|word| word.ends_with("cred")))
}
