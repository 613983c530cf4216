//! Finds credentials in sentences and statements that announce them: "the password is …", `IDENTIFIED BY '…'`.

use std::ops::Range;

use super::{
    bytes::{
        BASE64, DIGIT, EQUALS, LOWER, PLUS_SLASH, URL_SAFE, ends_word, line_before, rest_of_line, run, starts_word,
    },
    calls,
    cursor::Cursor,
    looks::{is_random, is_reference, is_secret_like, is_uuid},
};

/// A text that begins a phrase, and what may follow it.
pub(super) struct Phrase {
    pub needle: &'static str,
    value: fn(&str, Range<usize>) -> Option<Range<usize>>,
}

pub(super) const PHRASES: &[Phrase] = &[
    Phrase { needle: "password", value: after_password },
    Phrase { needle: "passphrase", value: after_password },
    Phrase { needle: "passcode", value: after_password },
    Phrase { needle: "pass ", value: after_password },
    Phrase { needle: "pw ", value: after_password },
    Phrase { needle: "password", value: with_value },
    Phrase { needle: "secret", value: with_value },
    Phrase { needle: "token", value: with_value },
    Phrase { needle: "key", value: with_value },
    Phrase { needle: "credentials are ", value: stated_credentials },
    Phrase { needle: "credentials: ", value: stated_credentials },
    Phrase { needle: "log in with ", value: stated_credentials },
    Phrase { needle: "login with ", value: stated_credentials },
    Phrase { needle: "sign in with ", value: stated_credentials },
    Phrase { needle: "login attempt [", value: stated_credentials },
    Phrase { needle: "basic auth ", value: stated_credentials },
    Phrase { needle: "basic auth: ", value: stated_credentials },
    Phrase { needle: "credentials(", value: calls::second_secret },
    Phrase { needle: "sp_addlogin ", value: calls::second_argument },
    Phrase { needle: "-SecureString ", value: calls::quoted },
    Phrase { needle: "contraseña", value: after_sign },
    Phrase { needle: "пароль", value: after_sign },
    Phrase { needle: "Пароль", value: after_sign },
    Phrase { needle: "密码", value: after_sign },
    Phrase { needle: "密碼", value: after_sign },
    Phrase { needle: "パスワード", value: after_sign },
    Phrase { needle: "비밀번호", value: after_sign },
    Phrase { needle: "lösenord", value: after_sign },
    Phrase { needle: "hasło", value: after_sign },
    Phrase { needle: "verification code", value: one_time_code },
    Phrase { needle: "confirmation code", value: one_time_code },
    Phrase { needle: "security code", value: one_time_code },
    Phrase { needle: "login code", value: one_time_code },
    Phrase { needle: "one-time code", value: one_time_code },
    Phrase { needle: "otp for ", value: one_time_code },
    Phrase { needle: "stored cookie ", value: stored_cookie },
    Phrase { needle: "__construct(", value: calls::third_argument },
    Phrase { needle: "mysqli_connect(", value: calls::third_argument },
    Phrase { needle: "mysqli(", value: calls::third_argument },
    Phrase { needle: "PDO(", value: calls::third_argument },
    Phrase { needle: "getConnection(", value: calls::third_argument },
    Phrase { needle: ".connect(", value: calls::third_secret },
    Phrase { needle: "jwt.sign(", value: calls::last_secret },
    Phrase { needle: "jwt.verify(", value: calls::last_secret },
    Phrase { needle: "createHmac(", value: calls::last_secret },
    Phrase { needle: "pin code", value: one_time_code },
    Phrase { needle: "insert into ", value: calls::inserted },
    Phrase { needle: "\"AUTH\" \"", value: monitored_auth },
    Phrase { needle: "identified ", value: identified },
    Phrase { needle: "mnemonic", value: wallet },
    Phrase { needle: "seed phrase", value: wallet },
    Phrase { needle: "seed_phrase", value: wallet },
    Phrase { needle: "recovery phrase", value: wallet },
    Phrase { needle: "AUTH ", value: redis_auth },
    Phrase { needle: "USER ", value: redis_user },
    Phrase { needle: "private-lines: ", value: putty_lines },
];

pub(super) fn find(text: &str, needle: Range<usize>, phrase: usize, ranges: &mut Vec<Range<usize>>) {
    let Some(phrase) = PHRASES.get(phrase) else { return };
    if let Some(value) = (phrase.value)(text, needle)
        && !is_reference(text.get(value.clone()).unwrap_or_default())
    {
        ranges.push(value);
    }
}

/// The value without the sign that ends a sentence.
fn without_stop(text: &str, value: Range<usize>) -> Range<usize> {
    let found = text.get(value.clone()).unwrap_or_default();
    value.start..value.start + found.trim_end_matches(['.', ',', ';', ')', ':', '!']).len()
}

/// `password is …`, `password … failed`, `PASSWORD '…'`, `login … password …`, `password … : …`
fn after_password(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut cursor = Cursor::new(text, needle.end);
    let spaced = text.get(needle.clone())?.ends_with(' ');
    if !starts_word(bytes, needle.start) || !(spaced || ends_word(bytes, needle.end)) {
        return None;
    }
    // Setting --password (password) to …
    cursor.eat(")");
    if !spaced && !cursor.blanks() {
        return None;
    }
    let after = cursor;
    let likely = |value: &Range<usize>| text.get(value.clone()).is_some_and(is_secret_like);
    let stated = |mut cursor: Cursor<'_>| {
        cursor.eat(":");
        cursor.blanks();
        Some(without_stop(text, cursor.value())).filter(likely)
    };
    // changed from … to …
    if cursor.eat_word(&["changed from", "reset from", "updated from"]) {
        let old = cursor.value();
        cursor.blanks();
        let new = if cursor.eat_word(&["to"]) { without_stop(text, cursor.value()) } else { old.clone() };
        if likely(&old) {
            return Some(old.start..new.end);
        }
    }
    cursor = after;
    if cursor.eat_word(&["is", "was", "set to", "changed to", "reset to", "to", "will be", "has been set to"])
        && let Some(value) = stated(cursor)
    {
        return Some(value);
    }
    // SQL, and a quoted password.
    cursor = after;
    if cursor.eat_word(&["for"]) {
        cursor.until(128, |byte| byte == b' ');
        cursor.blanks();
        if cursor.eat("=") {
            cursor.blanks();
            return (cursor.peek() == Some(b'\'')).then(|| cursor.value());
        }
        if cursor.eat_word(&["is", "was", "to"])
            && let Some(value) = stated(cursor)
        {
            return Some(value);
        }
    }
    if let Some(value) = stated_later(text, after).filter(likely) {
        return Some(value);
    }
    cursor = after;
    let quoted = cursor.peek() == Some(b'\'');
    let value = cursor.value();
    let ends_quote = quoted && cursor.peek() == Some(b'\'');
    let upper = text.get(needle.clone())?.bytes().all(|byte| !byte.is_ascii_lowercase());
    let head = line_before(text, needle.start, 128);
    if ends_quote && !value.is_empty() && (upper || head.trim_end().ends_with("with")) {
        return Some(value);
    }
    // .netrc
    if !value.is_empty() && !quoted && follows_login(head) {
        return Some(value);
    }
    if value.len() >= 6 && likely(&value) {
        let mut next = cursor;
        next.at += usize::from(next.peek() == Some(b'"') || next.peek() == Some(b'\''));
        next.eat(";");
        next.blanks();
        if next.at_line_end() || next.eat_word(&["failed", "rejected", "for", "is", "was", "does", "on", "accepted"]) {
            return Some(without_stop(text, value));
        }
    }
    announced(text, after)
}

/// The value in `of user ann was set to …`, `for ann is …`.
fn stated_later(text: &str, mut cursor: Cursor<'_>) -> Option<Range<usize>> {
    if !cursor.eat_word(&["for", "of"]) {
        return None;
    }
    let rest = rest_of_line(text, cursor.at, 96);
    // The word before the last blank: after it comes the value.
    let verb = |(at, _): &(usize, &str)| {
        let head = rest.get(..*at).unwrap_or_default().trim_end_matches(':');
        [" is", " was", " to", " now"].iter().any(|verb| head.ends_with(verb))
    };
    let end = rest.rmatch_indices(' ').find(verb).map(|(at, _)| at + 1)?;
    cursor.at += end;
    let value = without_stop(text, cursor.value());
    (cursor.at_line_end() || text.as_bytes().get(value.end).is_some_and(|byte| b".,;\"'".contains(byte)))
        .then_some(value)
}

/// `password for root (…): …` at the end of a line, or alone on the next one
fn announced(text: &str, mut cursor: Cursor<'_>) -> Option<Range<usize>> {
    cursor.until(192, |byte| matches!(byte, b':' | b'=' | b'{' | b'}'));
    if !cursor.eat(":") {
        return None;
    }
    if cursor.at_line_end() {
        return below(text, cursor.at);
    }
    if !cursor.blanks() {
        return None;
    }
    let value = cursor.until(256, |byte| byte.is_ascii_whitespace());
    let value = without_stop(text, value);
    (cursor.at_line_end() && text.get(value.clone()).is_some_and(is_secret_like)).then_some(value)
}

/// The single word of the next line, after at most one empty line.
fn below(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    let start = at + rest.bytes().take(64).take_while(u8::is_ascii_whitespace).count();
    let breaks = text.get(at..start)?.matches('\n').count();
    let line = rest_of_line(text, start, 256).trim_end();
    ((1..=2).contains(&breaks) && !line.contains(char::is_whitespace) && line.len() >= 8 && is_secret_like(line))
        .then(|| start..start + line.len())
}

/// Whether a line so far ends with `login NAME`.
fn follows_login(head: &str) -> bool {
    let mut words = head.split_whitespace().rev();
    let (last, before) = (words.next(), words.next());
    before == Some("login") && last.is_some()
}

/// `token with value …`, `apikey …`
fn with_value(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut cursor = Cursor::new(text, needle.end);
    cursor.at += usize::from(matches!(cursor.peek(), Some(b'"' | b'\'' | b'`')));
    let is_key = text.get(needle.clone()).is_some_and(|needle| needle.eq_ignore_ascii_case("key"));
    if !is_key && cursor.eat(", ") {
        return ends_line(text, cursor);
    }
    if !ends_word(bytes, needle.end) || !cursor.blanks() {
        return None;
    }
    let after = cursor;
    if cursor.eat_word(&["with", "has", "had", "of"]) && cursor.eat("value") {
        cursor.eat(":");
        cursor.blanks();
        let value = cursor.value();
        return (!value.is_empty()).then_some(value);
    }
    cursor = after;
    if cursor.eat_word(&["is", "was"]) {
        cursor.eat(":");
        cursor.blanks();
    } else if let Some(value) = announced_value(cursor) {
        cursor = value;
    } else if let Some(value) = stated_later(text, cursor) {
        cursor.at = value.start;
    } else if cursor.eat_word(&["for", "of"]) {
        // The token for a user: …
        cursor.until(64, |byte| matches!(byte, b':' | b'=' | b'"' | b'\''));
        if !cursor.eat(":") || !cursor.blanks() {
            return None;
        }
    }
    let quoted = matches!(cursor.peek(), Some(b'"' | b'\'' | b'`'));
    cursor.at += usize::from(quoted);
    let start = cursor.at;
    let length = run(bytes, start, URL_SAFE | PLUS_SLASH, 512);
    let value = text.get(start..start + length)?;
    if is_key && !follows_key_word(line_before(text, needle.start, 16)) {
        return None;
    }
    // "using token …", "api key … rejected": also one that looks like a hash.
    let head = line_before(text, needle.start, 32).to_ascii_lowercase();
    let used = ["using ", "with ", "api ", "access "].iter().any(|word| head.ends_with(word));
    let is_value = is_random(value, !(quoted || used)) || (!is_key && is_uuid(value));
    let shortest = if used { 20 } else { 24 };
    (length >= shortest && is_value && ends_word(bytes, start + length)).then(|| start..start + length)
}

/// After a few words that announce a value: `token generated for ann: …`, `key created: …`.
fn announced_value(mut cursor: Cursor<'_>) -> Option<Cursor<'_>> {
    if !cursor.eat_word(&["created", "generated", "issued", "rotated", "renewed", "now", "set", "added", "received"]) {
        return None;
    }
    cursor.until(64, |byte| !(byte.is_ascii_alphanumeric() || b" _-.@".contains(&byte)));
    (cursor.eat(":") && cursor.blanks()).then_some(cursor)
}

/// A random value at the end of a line about a token: `Save this token, it is shown once: …`.
fn ends_line(text: &str, mut cursor: Cursor<'_>) -> Option<Range<usize>> {
    cursor.until(64, |byte| matches!(byte, b':' | b'=' | b'"' | b'\'' | b'(' | b'{'));
    if !cursor.eat(":") || !cursor.blanks() {
        return None;
    }
    let value = cursor.value();
    let found = text.get(value.clone())?;
    (value.len() >= 24 && cursor.at_line_end() && is_random(found, true)).then_some(value)
}

/// Whether `api`, with or without a sign after it, precedes "key".
fn follows_key_word(head: &str) -> bool {
    let head = head.trim_end_matches([' ', '_', '-']).to_ascii_lowercase();
    ["api", "secret", "access", "license", "app"].iter().any(|word| head.ends_with(word))
}

/// `IDENTIFIED BY '…'`, `IDENTIFIED WITH plugin BY '…'`
fn identified(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(text, needle.end);
    if cursor.eat_word(&["with"]) {
        cursor.until(128, |byte| byte == b' ');
        cursor.blanks();
    }
    if !cursor.eat_word(&["by", "as"]) {
        return None;
    }
    cursor.eat_word(&["password"]);
    matches!(cursor.peek(), Some(b'\'' | b'"')).then(|| cursor.value()).filter(|value| !value.is_empty())
}

/// `credentials are admin / …`, `credentials: admin:…`
fn stated_credentials(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(text, needle.end);
    let user = cursor.until(64, |byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b':' | b'=' | b'{' | b'['));
    cursor.blanks();
    if user.is_empty() || !(cursor.eat("/") || cursor.eat(":")) {
        return None;
    }
    cursor.blanks();
    let value = without_stop(text, cursor.value());
    let length = text.get(value.clone())?.trim_end_matches(']').len();
    Some(value.start..value.start + length).filter(|value| text.get(value.clone()).is_some_and(is_secret_like))
}

/// `verification code for ann is 493027`
fn one_time_code(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut cursor = Cursor::new(text, needle.end);
    cursor.until(64, |byte| byte.is_ascii_digit());
    let start = cursor.at;
    let length = run(bytes, start, DIGIT, 9);
    let head = text.get(needle.end..start)?.trim_end();
    let stated = head.is_empty() || head.ends_with([':', '=', '"']) || head.ends_with(" is") || head.ends_with(" was");
    ((4..=8).contains(&length) && stated && ends_word(bytes, start + length)).then(|| start..start + length)
}

/// `Stored cookie example.org 443 / … name value`, as wget logs it
fn stored_cookie(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let line = rest_of_line(text, needle.end, 1024).trim_end();
    let value = line.rsplit(' ').next()?;
    (line.len() > value.len()).then(|| needle.end + line.len() - value.len()..needle.end + line.len())
}

/// A sign and a value, after a name that is not in ASCII.
fn after_sign(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(text, needle.end);
    cursor.blanks();
    if !(cursor.eat(":") || cursor.eat("=") || cursor.eat("：")) {
        return None;
    }
    cursor.blanks();
    Some(without_stop(text, cursor.value())).filter(|value| text.get(value.clone()).is_some_and(is_secret_like))
}

/// `"AUTH" "…"`, `"AUTH" "user" "…"`, as Redis monitors it
fn monitored_auth(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let rest = rest_of_line(text, needle.end, 512);
    let end = rest.rfind('"')?;
    let start = rest.get(..end)?.rfind('"').map_or(0, |at| at + 1);
    (start < end).then(|| needle.end + start..needle.end + end)
}

/// The words of a wallet: 12 to 24 short ones.
fn wallet(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = needle.end;
    at += bytes.get(at..)?.iter().take(4).take_while(|byte| !byte.is_ascii_alphanumeric()).count();
    let start = at;
    let (mut words, mut end) = (0, start);
    while words < 24 {
        let letters = run(bytes, at, LOWER, 9);
        if !(3..=8).contains(&letters) {
            break;
        }
        words += 1;
        end = at + letters;
        at = end + usize::from(bytes.get(end) == Some(&b' '));
        if at == end {
            break;
        }
    }
    (words >= 12).then_some(start..end)
}

/// `AUTH …` on a line of its own, as clients of Redis log it
fn redis_auth(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let head = line_before(text, needle.start, 64);
    if text.get(needle.clone())? != "AUTH " || head.bytes().any(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let mut cursor = Cursor::new(text, needle.end);
    cursor.eat_word(&["default"]);
    let value = cursor.value();
    cursor.at += usize::from(matches!(cursor.peek(), Some(b'"' | b'\'')));
    (cursor.at_line_end() && is_secret_like(text.get(value.clone())?)).then_some(value)
}

/// `USER name on … >password`, in an access list of Redis
fn redis_user(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    if !matches!(text.get(needle.clone())?, "USER " | "user ") {
        return None;
    }
    let mut cursor = Cursor::new(text, needle.end);
    cursor.until(128, |byte| byte == b' ');
    cursor.blanks();
    if !cursor.eat_word(&["on"]) {
        return None;
    }
    cursor.until(128, |byte| byte == b'>');
    if !cursor.eat(">") {
        return None;
    }
    Some(cursor.value()).filter(|value| !value.is_empty())
}

fn putty_lines(text: &str, needle: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = needle.end + run(bytes, needle.end, DIGIT, 4);
    if bytes.get(at) != Some(&b'\n') {
        return None;
    }
    let start = at + 1;
    loop {
        let length = run(bytes, at + 1, BASE64 | EQUALS, 128);
        if length < 4 || matches!(bytes.get(at + 1 + length), Some(byte) if *byte != b'\n') {
            break;
        }
        at += 1 + length;
    }
    (at > start).then_some(start..at)
}
