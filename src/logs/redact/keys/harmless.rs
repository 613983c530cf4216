//! Decides which values of keys are no credentials: placeholders, remarks, counts, names, and code that computes a value.

use super::{
    names::{Name, Secret},
    notation::Notation::{self, Colon, Flag},
};
use crate::logs::redact::{
    looks::{is_path, is_random, is_reference, is_secret_like, is_uuid},
    pattern::Pattern,
    text::{DIGIT, LETTER, LOWER, UPPER, WORD, Words, class, has, is, is_all},
};

/// What the key and its notation indicate about the value, before the value is examined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub name: &'a Name,
    pub secret: Secret,
    pub notation: Notation,
    /// The indentation, if the key is the first word of its line. The value then extends to the end of the line and may
    /// contain spaces.
    pub leads: Option<usize>,
    /// Whether the name is often that of an entry, whose value may be a hash.
    pub of_data: bool,
}

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

/// For which keys a value is no credential, if a pattern matches its beginning.
type Row = (fn(&Context<'_>) -> bool, Pattern);

static ROWS: [Row; 10] = [
    // !Ref name, the tag of YAML that says where the value comes from; a block may follow `!vault |`
    (|_| true, Pattern::new(r"![0-9A-Za-z-]* (?:[^|>]|$)")),
    // PWD=/srv
    (|key| key.name.is("pwd") || key.name.is("oldpwd"), Pattern::new(r"[/~]|[^\n]:\\")),
    // token: ops@example.com
    (is_after_colon, Pattern::new(r"[a-z-]+(?:\.[a-z-]+)*@[a-z-]+(?:\.[a-z-]+)+$")),
    // token: RPAREN
    (|key| key.name.is("token"), Pattern::new(r"[A-Z_]{2,16}(?:[( ]|$)")),
    // An error code before a message, the name of a setting: invalid_grant: …, STRIPE_KEY
    (is_after_colon, Pattern::new(r"[a-z_]{3,}:(?: |$)|[A-Z]*_[A-Z_]*$")),
    // <set to the key 'a' in secret 'b'>, (protected); punctuation at the end may have been removed
    (|_| true, Pattern::new(r"<[^ =/>]* [^=/]*$|\([a-z -]+\)*$")),
    // cannot refresh token: network unreachable
    (|key| is_in_sentence(key) && key.name.last() == "token", Pattern::new("[a-z]+$")),
    // no such secret: db
    (|key| is_in_sentence(key) && key.secret == Secret::Object, Pattern::new("[a-z.-]+$")),
    // The key within a Secret: `secretKey: password`
    (|key| is_after_colon(key) && key.name.is("secret key"), Pattern::new("[a-z.-]+$")),
    // PASS: TestLogin (0.02s)
    (
        |key| is_after_colon(key) && key.name.is("pass"),
        Pattern::new(r"(?:[Tt]est[\w/.:#\[-]*|[0-9A-Za-z.:#\[-]*[/_][\w/.:#\[-]*)(?: |$)|[\w/.:#\[-]+ \("),
    ),
];

fn is_after_colon(key: &Context<'_>) -> bool {
    key.notation == Colon
}

fn is_in_sentence(key: &Context<'_>) -> bool {
    key.notation == Colon && key.leads.is_none()
}

fn matches_row(value: &str, context: &Context<'_>) -> bool {
    let rows = ROWS.iter().filter(|(applies, _)| applies(context));
    rows.map(|(_, pattern)| pattern.match_at(value.as_bytes(), 0, false)).any(|found| found.end.is_some())
}

/// The longest value that is examined, in bytes. A longer value is redacted, and not searched again for each key within it.
const MAX_EXAMINED: usize = 512;

/// Whether the value of a key, without its quotes, is no credential.
pub(super) fn is_harmless(value: &str, context: &Context<'_>) -> bool {
    if value.len() > MAX_EXAMINED {
        return false;
    }
    let whole = value.trim();
    let bare = whole.trim_end_matches([',', ';', ')', '}', ']']);
    let unquoted = bare.trim_end_matches(['"', '\'', '`', '.']);
    let Context { name, secret, notation, .. } = *context;
    bare.is_empty()
        || is_placeholder(whole)
        || is_placeholder(bare)
        || [whole, bare, unquoted].into_iter().any(is_reference)
        || is_path(bare)
        // A URL may hold a password, which another rule finds.
        || PUBLIC.iter().any(|start| bare.starts_with(start))
        || is_number(bare) && (secret == Secret::Plural || name.counts() || name.is_qualified())
        || matches_row(bare, context)
        || secret == Secret::Cookie && has_only_attributes(bare)
        // [--password PASSWORD], as in the usage of a program.
        || notation == Flag && name.last().eq_ignore_ascii_case(bare) && !has(bare, LOWER)
        || match secret {
            Secret::Object if is_object(bare) => true,
            Secret::Plural | Secret::Object if bare.starts_with('[') && is_list_of_names(bare) => true,
            // AUTH=neo4j/…, SOME_AUTH=…
            Secret::Opaque
                if name.last() == "auth"
                    && (has_password(bare) || (!name.has_lower && !name.is("auth") && is_secret_like(bare))) =>
            {
                return false;
            }
            Secret::Opaque => !is_random(bare, context.of_data) || (name.is("key") && is_uuid(bare)),
            _ => false,
        }
        || is_remark(bare, context)
}

fn is_placeholder(value: &str) -> bool {
    // [FILTERED], as other programs mask.
    let mask = value.strip_prefix(['[', '<', '(']).and_then(|value| value.strip_suffix([']', '>', ')']));
    PLACEHOLDERS.contains_lower(value)
        || mask.is_some_and(|mask| !mask.is_empty() && is_all(mask, UPPER | class(b"  __")))
        || is_all(value, class(b"**"))
        || value.chars().all(|letter| letter == '•')
        || (value.len() > 2 && is_all(value, class(b"xxXX..##--??")))
}

/// Attributes of cookies, and values of settings, in lower case.
static ATTRIBUTES: Words = Words::new(
    "secure httponly partitioned samesite path domain expires max-age true false none lax strict yes no on off enabled \
     disabled name",
);

/// Whether the value of a cookie header consists of settings: `secure=true httponly=true`.
fn has_only_attributes(value: &str) -> bool {
    let parts = value.split([' ', ',', ';', '=']).filter(|part| !part.is_empty());
    parts.clone().count() > 0 && parts.into_iter().all(|part| ATTRIBUTES.contains_lower(part) || is_all(part, DIGIT))
}

/// Whether the value is a user and a password: `neo4j/…`, `admin:…`.
fn has_password(value: &str) -> bool {
    value.split_once(['/', ':']).is_some_and(|(user, password)| {
        !user.is_empty()
            && is_all(user, WORD | class(b"--"))
            && is_secret_like(password)
            && !password.contains(['/', ':'])
    })
}

fn is_number(value: &str) -> bool {
    let digits = value.split(['/', ' ', ',']).next().unwrap_or_default();
    let digits = digits.trim_end_matches(['k', 'K', 'M', '%', 's', 'm', 'h', 'd']);
    (1..=9).contains(&digits.len()) && is_all(digits, DIGIT | class(b".."))
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
    if !matches!(context.notation, Colon | Flag) {
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
        && words().take(4).all(|word| is_all(word, LETTER | class(b"''--__")))
}

/// Whether the value is the name of a Kubernetes object, perhaps with its namespace, as controllers log a Secret.
fn is_object(value: &str) -> bool {
    let is_part = |part: &str| is_all(part, LOWER | DIGIT | class(b"--..")) && has(part, LOWER);
    match value.split_once('/') {
        // namespaces/a/secrets/b
        Some((_, name)) if name.contains('/') => value.split('/').all(|part| is_part(part) && !has(part, DIGIT)),
        Some((namespace, name)) => is_part(namespace) && is_part(name),
        None => {
            let words = || value.split(['-', '.']);
            is_part(value)
                && value.len() <= 63
                && (words().any(|word| OBJECT_WORDS.contains(word))
                    || (words().count() > 1 && words().all(|word| is_all(word, LOWER)))
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

/// Objects whose fields are variables.
static OBJECTS: Words = Words::new(
    "self this process os config cfg conf args opts options settings ctx req request user params env var local module \
     data secrets props state event body input spec app context session cls obj account client form payload vars values \
     import ENV Deno Bun System Environment credentials creds Rails Application Settings",
);

/// Types whose parameters are in angle brackets.
static GENERIC_TYPES: Words = Words::new("Option Vec Box Arc Secret Optional List Maybe Map Result Rc Cow");

/// Types, and values that a declaration gives.
static TYPES: Words =
    Words::new("string str String int bytes text nil null None varchar Buffer Uint8Array SecretString");

/// The head of an expression, after keywords and signs, and the path of identifiers that follows.
static EXPRESSION: Pattern = Pattern::new(
    r"(?:(?:await|new|not|return|yield|mut|move) |[&*!@])*(\$?[A-Za-z_]\w*)(?:(?:\.|\?\.|::|->)[A-Za-z_]\w*)*[!?]?",
);

/// Whether the rest of a line, after a key and its sign, is code that computes the value, which is no credential:
/// `token = os.environ["SMTP_TOKEN"]`.
pub(super) fn is_code(rest: &str, context: &Context<'_>) -> bool {
    let bytes = rest.as_bytes();
    let expression = EXPRESSION.match_at(bytes, 0, false);
    let (Some(end), Some(head)) = (expression.end, expression.value) else { return false };
    let has_mark = matches!(bytes.get(end - 1), Some(b'!' | b'?'));
    let has_path = end - usize::from(has_mark) > head.end;
    let (head, after) = (rest.get(head).unwrap_or_default(), rest.get(end..).unwrap_or_default());
    let inner = after.get(1..).unwrap_or_default();
    let next = inner.bytes().next().unwrap_or_default();
    match after.bytes().next() {
        Some(b'(') => {
            // Some("…") and Secret('…') are printed values, not code.
            let calls = inner.split(')').next().unwrap_or_default();
            let computes =
                calls.starts_with(|letter: char| letter.is_ascii_lowercase()) && calls.contains(['.', '(', '[']);
            let is_printed = !has_path && head.starts_with(|letter: char| letter.is_ascii_uppercase()) && !computes;
            !is_printed && !has_secret_literal(inner)
        }
        Some(b'[') => (is(next, LOWER) && has_path) || matches!(next, b'"' | b'\'' | b'$'),
        Some(b'<') => (is(next, LETTER) || next == b'&') && GENERIC_TYPES.contains(head),
        None | Some(b',' | b';' | b')' | b'}' | b']' | b'?' | b':' | b' ' | b'\t' | b'|') => {
            if has_path {
                return OBJECTS.contains(head.trim_start_matches('$'));
            }
            // api_key: str = Field(…)
            if TYPES.contains(head)
                && let Some(value) = after.strip_prefix(" = ")
            {
                return !has_secret_literal(value);
            }
            let declared = after.is_empty() || after.starts_with([';', ',', ')', '|', '?']) || after.starts_with(" | ");
            // password=password, but not PASSWORD=password.
            (TYPES.contains(head) && declared)
                || (context.name.has_lower && !has(head, DIGIT) && Name::new(head).last() == context.name.last())
        }
        _ => false,
    }
}

/// Whether a call has a quoted argument that looks like a secret, not like a name of a variable or a header.
fn has_secret_literal(arguments: &str) -> bool {
    let is_name =
        |text: &str| is_all(text, UPPER | DIGIT | class(b"__")) || is_all(text, LETTER | class(b"__--..:://"));
    let line = arguments.split('\n').next().unwrap_or_default();
    let mut literals = line.split(['"', '\'']).skip(1).step_by(2);
    literals.any(|literal| !literal.contains(' ') && is_secret_like(literal) && !is_name(literal))
}
