//! The table of phrases: texts near which a credential stands that no key announces.

use std::ops::Range;

use super::{
    commands, connections,
    keys::is_credential,
    looks::{has_hump, is_masked, is_random, is_reference, is_secret_like, is_uuid},
    pattern::{MAX_RUN, Pattern},
    text::{
        ALNUM, BLANK, DIGIT, Found, LOWER, QUOTE, URL_SAFE, WORD, class, has, is_at, is_blank, is_quote, length,
        rest_of_line, run_before, starts_word,
    },
};

/// How the value is found.
enum Find {
    /// What the pattern has in a group, after the needle, if it is accepted.
    After(Pattern, fn(&str) -> bool),
    /// The same of the word before the needle, up to the needle.
    Before(Pattern, fn(&str) -> bool),
    /// What a function returns. It may set up to where the needle need not be searched again.
    Function(fn(&Found<'_>, &mut usize) -> Option<Range<usize>>),
}

use Find::{After, Before, Function};

const fn after(pattern: &'static str, accepts: fn(&str) -> bool) -> Find {
    After(Pattern::new(pattern), accepts)
}

const fn before(pattern: &'static str, accepts: fn(&str) -> bool) -> Find {
    Before(Pattern::new(pattern), accepts)
}

/// The texts that begin a phrase, with `|` between them; what must precede them; and how the value is found.
pub(super) struct Phrase(pub(super) &'static str, fn(&Found<'_>) -> bool, Find);

pub(super) static PHRASES: [Phrase; 51] = [
    // Sentences about passwords: `password changed from … to …`, `password is …`, `password for ann was set to …`
    Phrase(PASSWORD, word, after(r#"(?:changed|reset|updated) from ([^\s"'`]+(?: to [^\s"'`]+)?)"#, is_secret_like)),
    Phrase(
        PASSWORD,
        word,
        after(r"(?:is|was|set to|changed to|reset to|to|will be|has been set to)\b:?{gap}{value}", is_secret_like),
    ),
    Phrase(PASSWORD, word, after(r"for [^ \n]+{gap}={gap}'([^'\n]+)'", any)),
    Phrase(PASSWORD, word, after(r"for [^ \n]+ (?:is|was|to):?{gap}{value}", is_secret_like)),
    Phrase(PASSWORD, word, after(r"(?:for|of) [^\n]{0,96}? (?:is|was|to|now):? {last}", is_secret_like)),
    // SQL, .netrc, `password … rejected`
    Phrase(PASSWORD, is_statement, after(r"'([^'\n]+)'", any)),
    Phrase(PASSWORD, follows_login, after(r#"([^\s"'`]+)"#, any)),
    Phrase(
        PASSWORD,
        word,
        after(r#"{value}["']?;?{gap}(?:$|(?:failed|rejected|for|is|was|does|on|accepted)\b)"#, is_secret_like),
    ),
    // `password for root (…): …`, also alone on the next line
    Phrase(
        PASSWORD,
        word,
        after(r"[^:={}\n]{0,192}:(?:[ \t]+([^\s]+)|{gap}\n{gap}\n?{gap}([^\s]{8,}))$", is_secret_like),
    ),
    // Sentences about tokens: `token with value …`, `Save this token, it is shown once: …`, `token for ann: …`
    Phrase(TOKEN, in_sentence, after(r#"["'`]? +(?:with|has|had|of) value:?{gap}{value}"#, any)),
    Phrase("key", names_a_key, after(r" +(?:with|has|had|of) value:?{gap}{value}", any)),
    Phrase(TOKEN, in_sentence, after(r#"["'`]?, [^:="'({\n]{0,64}: +([^\s"'`]{24,})$"#, is_strictly_random)),
    Phrase(TOKEN, in_sentence, after(r#"["'`]? +(?:(?:is|was):? *)?["'`]([\w+/-]{24,512})\b"#, is_random_or_uuid)),
    Phrase(TOKEN, in_sentence, after(r#"["'`]? +{stated}["'`]?([\w+/-]{24,512})\b"#, is_strictly_random_or_uuid)),
    Phrase(TOKEN, is_used, after(r"[ ]+([\w+/-]{20,512})\b", is_random_or_uuid)),
    Phrase("key", names_a_key, after(r#"["'`]? +(?:(?:is|was):? *)?["'`]([\w+/-]{24,512})\b"#, is_loosely_random)),
    Phrase("key", names_a_key, after(r#"["'`]? +{stated}["'`]?([\w+/-]{24,512})\b"#, is_strictly_random)),
    Phrase("key", is_used, after(r"[ ]+([\w+/-]{20,512})\b", is_loosely_random)),
    // Users and passwords, and names of passwords beyond ASCII
    Phrase(
        "credentials are |credentials: |log in with |login with |sign in with |login attempt [|basic auth |basic auth: ",
        any_place,
        after(r#"[^\s/:={\[]{1,64}{gap}[/:]{gap}["'`]?([^\s"'`\]]+)"#, is_secret_like),
    ),
    Phrase(
        "contraseña|пароль|Пароль|密码|密碼|パスワード|비밀번호|lösenord|hasło",
        any_place,
        after(r"{gap}(?:[:=]|\xEF\xBC\x9A){gap}{value}", is_secret_like),
    ),
    // Codes, and the words of a wallet
    Phrase(
        "verification code|confirmation code|security code|login code|one-time code|otp for |pin code",
        any_place,
        after(r#"(?:[^\d\n]{0,64}?(?:[:="]| is| was))?[ "]*(\d{4,8})\b"#, any),
    ),
    Phrase(
        "mnemonic|seed phrase|seed_phrase|recovery phrase",
        any_place,
        after(r"[^a-zA-Z0-9\n]{0,4}((?:[a-z]{3,8} ){11,23}[a-z]{3,8})", any),
    ),
    // Arguments of calls and statements
    Phrase("credentials(", any_place, after("{argument}{quoted}", is_secret_like)),
    Phrase("sp_addlogin ", any_place, after("{argument}{quoted}", any)),
    Phrase("-SecureString ", any_place, after("{quoted}", any)),
    Phrase(
        "__construct(|mysqli_connect(|mysqli(|PDO(|getConnection(",
        any_place,
        after("{argument}{argument}{quoted}", any),
    ),
    Phrase(".connect(", any_place, after("{argument}{argument}{quoted}", is_secret_like)),
    Phrase(
        "jwt.sign(|jwt.verify(|createHmac(",
        any_place,
        after(r#"[^)\n]{0,256}?["']([^"' )\n]+)["'][^"')\n]*(?:\)|$)"#, is_secret_like),
    ),
    Phrase("identified ", any_place, after(r"(?:with [^ \n]+ +)?(?:by|as) (?:password )?{quoted}", any)),
    Phrase("insert into ", any_place, Function(inserted)),
    // Logs of wget, Redis and PuTTY
    Phrase("stored cookie ", any_place, after(r"[^\n]{0,256}? ([^ \n]+)$", any)),
    Phrase("\"AUTH\" \"", any_place, after(r#"(?:[^"\n]*" ")?([^"\n]+)""#, any)),
    Phrase("AUTH ", is_redis_command, after(r#"(?:default )?{value}["']?$"#, is_secret_like)),
    Phrase("USER ", is_redis_command, after(r"[^ \n]+ +on [^\n>]{0,128}>{value}", any)),
    Phrase("private-lines: ", any_place, after(r"\d{1,4}\n((?:[0-9A-Za-z+/=]{4,128}\n?)+)", any)),
    // URLs and data source names
    Phrase("://", any_place, Function(connections::userinfo)),
    Phrase("%3A%2F%2F", any_place, after(r"[\w.~-]*(?:%40[\w.-]*)?%3A([^\s&]{1,256}?)%40", any)),
    Phrase("@tcp(|@unix(", any_place, before(r"(?:[^\n]{0,256}?=)?[\w.-]*:([^\n]*)$", is_no_path)),
    Phrase("@//|@(description", any_place, before(r"(?:[^\n]{0,256}?[:=(])?[A-Za-z_]\w*/([^/@\n]+)$", any)),
    Phrase("@", any_place, Function(connections::before_host)),
    Phrase(":5432:|:*:", any_place, after(r#"[\w.*-]{1,128}:[\w.*-]{1,128}:([^ "'\t\n]{4,})"#, is_password)),
    // Parameters: `?code=…`, `&p=…` of InfluxDB, `?sig=…` of signed URLs, `pin=4931`
    Phrase("code=", is_parameter, after(PARAMETER, is_strictly_random)),
    Phrase("sig=|signature=", is_parameter, after(PARAMETER, has_eight)),
    Phrase("&p=", follows_user_parameter, after(r#"([^ &"'\n]+)"#, any)),
    Phrase("pin=|pin\":", is_own_word, after(r#"[ \t"'`]{0,4}(\d{4,8})(?:[^\w.]|$)"#, any)),
    // Options of any program, `command <<< '…'`
    Phrase(" -p ", follows_user_option, after("{value}", is_password)),
    Phrase("<<< ", is_here_string, after(r#"["']?([^\s"'`]+)["']?(?:[^ ]|$| [^>])"#, is_secret_like)),
    // `echo SECRET | docker login --password-stdin`
    Phrase(
        "--password-stdin|sudo -S|passwd --stdin|chpasswd|--with-token|--pass-stdin",
        any_place,
        Function(commands::piped),
    ),
    // `Bearer …`, `Basic …`, also outside of headers; lists of protocols: `bearer, …`; npm's `_auth=…`
    Phrase("bearer|basic", word, after(r"(?:%20|\+|[ \t]+)([\w.~+/-]{8,}={0,2})", is_token)),
    Phrase("bearer|basic", word, after(r",{gap}([\w.~+/-]{8,})", is_strictly_random)),
    Phrase("_auth", word, after(r#"{gap}[=:][ \t"'`]{0,4}([\w+/=-]{8,})"#, any)),
];

const PASSWORD: &str = "password |password) |passphrase |passcode |pass |pw ";
const TOKEN: &str = "password|secret|token";
const PARAMETER: &str = r#"([^\s&"'<>\\]+)"#;

impl Phrase {
    /// Whether the phrase may begin here.
    pub(super) fn begins(&self, found: &Found<'_>) -> bool {
        self.1(found)
    }

    /// Whether the word before the needle is examined, which takes longer than to read on.
    pub(super) fn reads_back(&self) -> bool {
        matches!(self.2, Before(..))
    }

    /// The value of the phrase, if there is one. `searched` is where the needle must be searched again.
    pub(super) fn find(&self, found: &Found<'_>, searched: &mut usize) -> Option<Range<usize>> {
        let text = |value: &Range<usize>| found.text.get(value.clone()).unwrap_or_default();
        let value = match &self.2 {
            Function(find) => find(found, searched)?,
            After(pattern, accepts) => {
                let value = whole_word(found, without_stop(found, pattern.value(found.text, found.end())?));
                accepts(text(&value)).then_some(value)?
            }
            Before(pattern, accepts) => {
                let head = found.text.get(..found.needle.start)?;
                let word = head
                    .bytes()
                    .rev()
                    .take(MAX_WORD)
                    .take_while(|&byte| !byte.is_ascii_whitespace() && !is_quote(Some(byte)));
                let value = pattern.value(head, head.len() - word.count())?;
                accepts(text(&value)).then_some(value)?
            }
        };
        *searched = value.end.max(*searched);
        let value_text = text(&value);
        (!value_text.is_empty() && !is_reference(value_text) && !is_masked(value_text)).then_some(value)
    }
}

/// The longest word before a needle that is examined, in bytes.
const MAX_WORD: usize = 512;

/// The value without the sign that ends a sentence, if no quote follows.
fn without_stop(found: &Found<'_>, value: Range<usize>) -> Range<usize> {
    let text = found.text.get(value.clone()).unwrap_or_default();
    let is_quoted = is_at(found.bytes(), value.end, QUOTE);
    let kept = if is_quoted { text } else { text.trim_end_matches(['.', ',', ';', ')', ':', '!']) };
    value.start..value.start + kept.len()
}

/// A value that is longer than patterns examine, to its end.
fn whole_word(found: &Found<'_>, value: Range<usize>) -> Range<usize> {
    let is_longer = value.len() >= MAX_RUN;
    let rest =
        if is_longer { length(found.bytes(), value.end, |byte| is_blank(byte) || is_quote(Some(byte))) } else { 0 };
    value.start..value.end + rest
}

/// `INSERT INTO users (name, password) VALUES ('ann', '…')`: the value in the place of the column
fn inserted(found: &Found<'_>, _: &mut usize) -> Option<Range<usize>> {
    let (text, needle) = (found.text, &found.needle);
    let line = rest_of_line(text, needle.end, 1024);
    let open = line.find('(')?;
    let close = open + line.get(open..)?.find(')')?;
    let columns = line.get(open + 1..close)?;
    let place =
        columns.split(',').position(|column| is_credential(column.trim_matches([' ', '"', '`', '\'', '[', ']'])))?;
    let rest = line.get(close + 1..)?;
    let values =
        rest.find('(').filter(|&at| rest.get(..at).is_some_and(|word| word.trim().eq_ignore_ascii_case("values")))?;
    let mut values = rest.get(values + 1..)?;
    for _ in 0..place {
        let value = values.trim_start();
        let length = match value.strip_prefix('\'') {
            Some(inner) => inner.find('\'')? + 2,
            None => value.find([',', ')'])?,
        };
        values = value.get(length..)?.trim_start().strip_prefix(',')?;
    }
    let value = values.trim_start().strip_prefix('\'')?;
    let start = needle.end + line.len() - value.len();
    Some(start..start + value.find('\'').unwrap_or(value.len()))
}

// What must precede a needle.

fn any_place(_: &Found<'_>) -> bool {
    true
}

fn word(found: &Found<'_>) -> bool {
    starts_word(found.bytes(), found.needle.start)
}

fn is_own_word(found: &Found<'_>) -> bool {
    !is_at(found.bytes(), found.needle.start.wrapping_sub(1), ALNUM)
}

/// Whether words may follow, perhaps after a quote or a comma: not `token=`.
fn in_sentence(found: &Found<'_>) -> bool {
    is_at(found.bytes(), found.needle.end, BLANK | QUOTE) || found.bytes().get(found.needle.end) == Some(&b',')
}

/// `… with password '…'`, or the keyword of SQL
fn is_statement(found: &Found<'_>) -> bool {
    let is_upper = !has(found.needle(), LOWER);
    word(found) && (is_upper || found.head().trim_end().ends_with("with"))
}

/// `login NAME password …`, in .netrc
fn follows_login(found: &Found<'_>) -> bool {
    word(found) && found.head().split_whitespace().rev().nth(1) == Some("login")
}

/// Whether one of these words precedes, without regard to case and to signs between words.
fn head_ends_with(found: &Found<'_>, words: &[&str]) -> bool {
    let head = found.bytes().get(..found.needle.start).unwrap_or_default();
    let signs = head.iter().rev().take(4).take_while(|&&byte| matches!(byte, b' ' | b'_' | b'-')).count();
    let head = head.get(..head.len() - signs).unwrap_or_default();
    let ends = |word: &&str| {
        let end = head.get(head.len().saturating_sub(word.len())..).unwrap_or_default();
        end.eq_ignore_ascii_case(word.as_bytes())
    };
    words.iter().any(ends)
}

fn names_a_key(found: &Found<'_>) -> bool {
    head_ends_with(found, &["api", "secret", "access", "license", "app"])
}

/// `using token …`, `api key … rejected`: the value may also look like a hash.
fn is_used(found: &Found<'_>) -> bool {
    head_ends_with(found, &["using", "with", "api", "access"])
        && (!found.needle().eq_ignore_ascii_case("key") || names_a_key(found))
}

/// Not a word of a sentence: `AUTH …` on its own, `USER` in an access list
fn is_redis_command(found: &Found<'_>) -> bool {
    let is_alone = !has(found.head(), WORD);
    matches!(found.needle(), "USER " | "user ") || (found.needle() == "AUTH " && is_alone)
}

/// The name of a parameter in a URL, also those of AWS and Google, and after an encoded ampersand
fn is_parameter(found: &Found<'_>) -> bool {
    let start = found.needle.start - run_before(found.bytes(), found.needle.start, URL_SAFE, 16);
    let (Some(head), Some(prefix)) = (found.text.get(..start), found.text.get(start..found.needle.start)) else {
        return false;
    };
    let is_name = ["", "x-amz-", "x-goog-"].iter().any(|name| prefix.eq_ignore_ascii_case(name));
    (is_name && head.ends_with(['?', '&', '#', ';'])) || prefix == "u0026"
}

fn follows_user_parameter(found: &Found<'_>) -> bool {
    let query = found.head().rsplit([' ', '"', '\'']).next().unwrap_or_default();
    query.contains("?u=") || query.contains("&u=")
}

fn follows_user_option(found: &Found<'_>) -> bool {
    [" -u ", " --user ", " --user=", " --username ", " --username=", " -U "]
        .iter()
        .any(|name| found.head().contains(name))
}

fn is_here_string(found: &Found<'_>) -> bool {
    !found.head().ends_with('<')
}

// Which values are accepted.

fn any(_: &str) -> bool {
    true
}

fn is_no_path(value: &str) -> bool {
    !value.starts_with("//")
}

fn has_eight(value: &str) -> bool {
    value.len() >= 8
}

fn is_strictly_random(value: &str) -> bool {
    is_random(value, true)
}

fn is_loosely_random(value: &str) -> bool {
    is_random(value, false)
}

fn is_random_or_uuid(value: &str) -> bool {
    is_random(value, false) || is_uuid(value)
}

fn is_strictly_random_or_uuid(value: &str) -> bool {
    is_random(value, true) || is_uuid(value)
}

fn is_password(value: &str) -> bool {
    is_secret_like(value) && !value.contains([':', '/']) && !value.starts_with('-')
}

/// Distinguishes a token from a word such as "authentication": by its length, a digit, a sign, or a capital letter after a
/// small one.
fn is_token(token: &str) -> bool {
    token.len() >= 24 || has(token, DIGIT | class(b"++~~")) || has_hump(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_right() {
        for Phrase(needles, _, find) in &PHRASES {
            if let After(pattern, _) | Before(pattern, _) = find {
                assert!(pattern.is_right(), "{needles}: {pattern:?}");
            }
        }
    }
}
