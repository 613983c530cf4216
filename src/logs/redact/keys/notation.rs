//! Recognizes how a key and its value are written.

use std::ops::Range;

use super::{
    code,
    context::{Notation, Place},
    markup, names,
};
use crate::logs::redact::{
    bytes::{BLANK, is_at, is_blank, is_quote, line_before, near, rest_of_line, run},
    looks::is_secret_like,
    words::Words,
};

/// The largest indentation of a key that counts as the first word of its line.
const MAX_INDENT: usize = 64;

/// How far back the start of an ARN is searched, in bytes.
const MAX_ARN: usize = 128;

/// Words before "token" in the complaint of a parser.
static PARSER_WORDS: Words = Words::new(
    "unexpected expected expecting near at next invalid illegal bad last current offending unrecognized parse parsing \
     unknown unsupported reserved undefined",
);

/// Words after which a line consists of a name and its value.
static SETTERS: Words = Words::new("ENV ARG setx SET set export env");

/// A name that may be that of a key.
pub(super) struct Key<'a> {
    text: &'a str,
    range: Range<usize>,
    pub name: &'a str,
    quoted_before: bool,
}

impl<'a> Key<'a> {
    pub(super) fn new(text: &'a str, range: Range<usize>) -> Option<Self> {
        let name = text.get(range.clone())?;
        let quoted_before = range.start > 0 && is_quote(text.as_bytes().get(range.start - 1).copied());
        Some(Self { text, range, name, quoted_before })
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn byte_before(&self, back: usize) -> Option<u8> {
        self.range.start.checked_sub(back).and_then(|at| self.byte(at))
    }

    fn after_blanks(&self, at: usize) -> usize {
        at + run(self.text.as_bytes(), at, BLANK, MAX_INDENT)
    }

    /// Where the value begins, if the key has one.
    pub(super) fn value(&self) -> Option<Place> {
        let head = self.text.get(..self.range.start)?;
        // In ${NAME:?message}, what follows the colon is no value.
        if head.ends_with("${") || self.is_within_arn() {
            return None;
        }
        let bytes = self.text.as_bytes();
        let mut at = self.range.end;
        if let Some(quote) = encoded_quote(bytes, at) {
            return self.encoded_value(quote);
        }
        let slashes = run_of_slashes(bytes, at);
        let quoted_after = is_quote(self.byte(at + slashes));
        if quoted_after {
            at += slashes + 1;
        }
        if self.byte(at) == Some(b']') {
            at += 1;
        }
        self.after_sign(at, quoted_after)
            .or_else(|| markup::value(self.text, &self.range))
            .or_else(|| self.field())
            .or_else(|| self.pair(at, quoted_after))
            .or_else(|| self.setting(at, quoted_after))
            .or_else(|| self.cell(at, quoted_after))
            .or_else(|| self.flag(at, quoted_after))
    }

    /// `name=value`, `name: value`, `"name" => value`
    fn after_sign(&self, at: usize, quoted_after: bool) -> Option<Place> {
        let bytes = self.text.as_bytes();
        let value = self.after_blanks(at);
        let gap = value - at;
        let sign = bytes.get(value..)?;
        let length = match sign {
            [b'%', b'3', b'D' | b'd', ..] if gap == 0 => 3,
            // A comparison with a text.
            [b'=', b'=', b'=', rest @ ..] if is_quote(first_after_blanks(rest)) => 3,
            [b'=' | b'!', b'=', rest @ ..] if is_quote(first_after_blanks(rest)) => 2,
            [b'=', b'=', ..] => return None,
            [b'=', b'>', ..] | [b':', b'=', ..] => 2,
            [b'?', b'=', ..] | [b'+', b'=', ..] if gap > 0 => 2,
            [b'-', b'>', ..] if gap > 0 => 2,
            [b'=', ..] => 1,
            // An arrow, also as one character.
            [0xe2, 0x86, 0x92, ..] if gap > 0 => {
                let value = first_word(rest_of_line(self.text, self.after_blanks(value + 3), 128));
                if !is_secret_like(value) {
                    return None;
                }
                3
            }
            // name <- "value", as R writes it
            [b'<', b'-', rest @ ..] if gap > 0 && is_quote(first_after_blanks(rest)) => 2,
            // (password . "value"), as Lisp writes it
            [b'.', b' ', rest @ ..] if gap > 0 && is_quote(first_after_blanks(rest)) => 1,
            [b'.', b'.', b'.', rest @ ..] => {
                let dots = 3 + rest.iter().take(128).take_while(|&&byte| byte == b'.').count();
                dots + usize::from(sign.get(dots) == Some(&b':'))
            }
            // A path in code, or a URL's scheme.
            [b':', b':', ..] | [b':', b'/', b'/', ..] => return None,
            [b':', ..] if gap == 0 || quoted_after || self.type_after(value + 1).is_some() => 1,
            _ => return None,
        };
        let sign_end = value + length;
        let mut start = self.after_blanks(sign_end);
        let mut colon = length == 1 && sign.first() == Some(&b':');
        // val password: String = "value"
        if colon && let Some(value) = self.type_after(sign_end) {
            start = value;
            colon = false;
        }
        let quoted_value = is_quote(self.byte(start)) || self.byte(start) == Some(b'\\');
        // A name with a quote after but not before it is the end of a quoted phrase. Its value must be quoted, too.
        let phrase = quoted_after && !self.quoted_before;
        if colon && (gap > 0 || phrase) && !quoted_value {
            return None;
        }
        // A path, as in "open /run/token: permission denied".
        if colon && !quoted_after && start > sign_end && self.byte_before(1) == Some(b'/') {
            let head = line_before(self.text, self.range.start, 16);
            if !["user/", "username/", "login/"].iter().any(|user| head.ends_with(user)) {
                return None;
            }
        }
        if self.follows_parser_word() && !is_secret_like(first_word(rest_of_line(self.text, start, 128))) {
            return None;
        }
        let prose = colon && !quoted_after;
        let capitals = !self.name.bytes().any(|byte| byte.is_ascii_lowercase());
        let notation = if prose { Notation::Colon } else { Notation::Sign };
        Some(Place::new(start, notation, prose && !capitals))
    }

    /// The name between quotes that are encoded: `%22name%22%3A%22value%22`, `&quot;name&quot;:&quot;value&quot;`
    fn encoded_value(&self, quote: &str) -> Option<Place> {
        let bytes = self.text.as_bytes();
        let sign = self.after_blanks(self.range.end + quote.len());
        let length = match bytes.get(sign..)? {
            [b':' | b'=', ..] => 1,
            [b'%', b'3', b'A' | b'a' | b'D' | b'd', ..] => 3,
            _ => return None,
        };
        let open = self.after_blanks(sign + length);
        let rest = rest_of_line(self.text, open, 1024).strip_prefix(quote)?;
        let start = open + quote.len();
        let end = start + rest.find(quote).unwrap_or(rest.len());
        Some(Place { end: Some(end), ..Place::new(start, Notation::Sign, false) })
    }

    /// The fields of an environment variable in a container spec: `name: KEY␤value: …`, `"name":"KEY","value":"…"`
    fn field(&self) -> Option<Place> {
        let bytes = self.text.as_bytes();
        let quote = |at: usize| {
            let slashes = run_of_slashes(bytes, at);
            if is_quote(self.byte(at + slashes)) { at + slashes + 1 } else { at }
        };
        let mut at = self.after_blanks(quote(self.range.end));
        // -Name password -Value 'value'
        if bytes.get(at..at + 7)?.eq_ignore_ascii_case(b"-value ") {
            return Some(Place::new(self.after_blanks(at + 7), Notation::Flag, true));
        }
        // variable "password" { default = "value" }
        if let Some(rest) = self.text.get(at..)?.strip_prefix('{')
            && let Some(rest) = rest.trim_start().strip_prefix("default")
            && let Some(rest) = rest.trim_start().strip_prefix('=')
        {
            let start = self.text.len() - rest.trim_start().len();
            return is_quote(self.byte(start)).then(|| Place::new(start, Notation::Sign, false));
        }
        at += usize::from(matches!(self.byte(at), Some(b',' | b'\n' | b'}')));
        at = self.after_blanks(at);
        at += usize::from(self.byte(at) == Some(b'\n'));
        at = quote(self.after_blanks(at));
        if !bytes.get(at..at + 5)?.eq_ignore_ascii_case(b"value") {
            at = self.later_value()?;
        }
        at = self.after_blanks(quote(at + 5));
        if !matches!(self.byte(at), Some(b':' | b'=')) {
            return None;
        }
        Some(Place::new(self.after_blanks(at + 1), Notation::Sign, false))
    }

    /// Where the field `value` begins, if others are between it and the name: `name: KEY␤  type: string␤  value: …`.
    fn later_value(&self) -> Option<usize> {
        const REACH: usize = 256;
        let head = line_before(self.text, self.range.start, 16).trim_end_matches(['"', '\'', '\\']).trim_end();
        let head = head.strip_suffix([':', '='])?.trim_end_matches(['"', '\'', ' ', '\\']).to_ascii_lowercase();
        if !(head.ends_with("name") || head.ends_with("key")) {
            return None;
        }
        let rest = near(self.text, self.range.end, self.range.end + REACH);
        // The end of the map: a bracket, or the next item of a list.
        let end = rest.find('}').into_iter().chain(rest.find("\n- ")).chain(rest.find("\n  - ")).min();
        let rest = rest.get(..end.unwrap_or(rest.len()))?;
        let fields = rest.match_indices([',', '\n']).map(|(at, _)| at + 1);
        fields
            .map(|at| {
                self.range.end
                    + at
                    + rest
                        .get(at..)
                        .map_or(0, |rest| rest.len() - rest.trim_start_matches([' ', '"', '\'', '\\']).len())
            })
            .find(|&at| near(self.text, at, at + 5).eq_ignore_ascii_case("value"))
    }

    /// Two quoted texts: `("name", "value")`, `"name" "value"`, `:name "value"`, `{name, "value"}`
    fn pair(&self, at: usize, quoted_after: bool) -> Option<Place> {
        let bytes = self.text.as_bytes();
        if !quoted_after {
            let start = self.after_blanks(at);
            if matches!(self.byte_before(1), Some(b':' | b'(')) && start > at && is_quote(self.byte(start)) {
                return Some(Place::new(start, Notation::Sign, true));
            }
            // A call that sets it: withToken("value").
            // Or a value that is printed with its type: Token("value").
            let is_type = self.name.starts_with(|letter: char| letter.is_ascii_uppercase());
            if self.byte(at) == Some(b'(') && is_quote(self.byte(at + 1)) && (self.is_setter() || is_type) {
                let value = rest_of_line(self.text, at + 2, 256).split(['"', '\'']).next()?;
                return (is_secret_like(value) && !value.contains(' '))
                    .then(|| Place { certain: true, ..Place::new(at + 1, Notation::Sign, true) });
            }
            if self.byte_before(1) == Some(b'{') && self.byte(at) == Some(b',') {
                let start = self.after_blanks(at + 1);
                let start = start + if bytes.get(start..)?.starts_with(b"<<") { 2 } else { 0 };
                return is_quote(self.byte(start)).then(|| Place::new(start, Notation::Sign, true));
            }
            return None;
        }
        let gap = self.after_blanks(at);
        if !self.quoted_before {
            return None;
        }
        if gap > at && is_quote(self.byte(gap)) {
            return Some(Place::new(gap, Notation::Sign, true));
        }
        if self.byte(at) != Some(b',') {
            return None;
        }
        // The letter of a text of bytes: (b"name", b"value").
        let back = 2 + usize::from(matches!(self.byte_before(2), Some(b'b' | b'u' | b'r')));
        let start = self.after_blanks(at + 1);
        let prefix = usize::from(matches!(self.byte(start), Some(b'b' | b'u' | b'r')));
        if !is_quote(self.byte(start + prefix)) {
            return None;
        }
        match self.byte_before(back) {
            Some(b'(') => Some(Place::new(start, Notation::Sign, true)),
            Some(b' ') if self.opens_call(back) => Some(Place::new(start, Notation::Sign, true)),
            // A list of names has the same form as a list of names and values.
            Some(b'[' | b'{' | b',' | b' ') if !self.name.starts_with('-') => {
                let value = rest_of_line(self.text, start + prefix + 1, 256).split(['"', '\'']).next()?;
                let value = value.rsplit(' ').next()?;
                is_secret_like(value).then(|| Place { certain: true, ..Place::new(start, Notation::Sign, true) })
            }
            _ => None,
        }
    }

    /// `| name | value |`
    fn cell(&self, at: usize, quoted_after: bool) -> Option<Place> {
        let bar = self.after_blanks(at);
        let head = line_before(self.text, self.range.start, MAX_INDENT);
        if quoted_after || self.byte(bar) != Some(b'|') || !head.trim_end().ends_with('|') {
            return None;
        }
        let start = self.after_blanks(bar + 1);
        let value = rest_of_line(self.text, start, 256).split('|').next()?.trim_end();
        let is_value = is_secret_like(value) && !value.contains(' ');
        is_value.then(|| Place { end: Some(start + value.len()), ..Place::new(start, Notation::Sign, true) })
    }

    /// `name value`, as the only words of a line, perhaps after `ENV`
    fn setting(&self, at: usize, quoted_after: bool) -> Option<Place> {
        let start = self.after_blanks(at);
        if start == at || self.quoted_before || quoted_after || self.name.starts_with('-') {
            return None;
        }
        let line = line_before(self.text, self.range.start, MAX_INDENT).trim();
        let is_written = self.name.contains(['_', '.'])
            || self.byte(at) == Some(b'\t')
            || matches!(self.name, "requirepass" | "masterauth" | "masterpass");
        let is_set = SETTERS.contains(line.rsplit(' ').next().unwrap_or_default())
            || ["config set", "configure set"].iter().any(|command| line.contains(command));
        if !(is_set || (is_written && line.is_empty())) {
            return None;
        }
        let value = rest_of_line(self.text, start, 1024).trim_end();
        let single =
            !value.contains(char::is_whitespace) && (is_set || is_secret_like(value.trim_matches(['"', '\''])));
        single.then(|| Place::new(start, Notation::Flag, true))
    }

    /// `--name value`, `"--name", "value"`
    fn flag(&self, at: usize, quoted_after: bool) -> Option<Place> {
        if !self.name.starts_with('-') {
            return None;
        }
        // pulumi config set --secret name value
        if self.name == "--secret" && line_before(self.text, self.range.start, MAX_INDENT).contains("config set") {
            return None;
        }
        let next = self.after_blanks(at);
        let comma = quoted_after && self.byte(next) == Some(b',');
        let start = self.after_blanks(next + usize::from(comma));
        // Several spaces separate a flag from its description.
        let described = next > at + 1 && !quoted_after;
        let fits = start > at
            && !described
            && !matches!(self.byte(start), Some(b'-' | b'\n' | b'|' | b'\\'))
            && comma == quoted_after;
        fits.then(|| Place::new(start, Notation::Flag, true))
    }

    /// Whether blanks and an opening parenthesis precede the name's quote: `define( 'NAME', 'value' )`.
    fn opens_call(&self, back: usize) -> bool {
        let end = self.range.start.saturating_sub(back - 1);
        line_before(self.text, end, 16).trim_end().ends_with('(')
    }

    pub(super) fn is_quoted(&self) -> bool {
        self.quoted_before
    }

    /// Whether the name is "key" after a word such as "public" or "primary".
    pub(super) fn is_of_data(&self) -> bool {
        self.name.eq_ignore_ascii_case("key")
            && self.byte_before(1) == Some(b' ')
            && names::is_data_key(
                line_before(self.text, self.range.start - 1, 24).rsplit(' ').next().unwrap_or_default(),
            )
    }

    /// Where the value begins behind a colon and a type.
    fn type_after(&self, colon: usize) -> Option<usize> {
        let start = self.after_blanks(colon);
        code::after_type(rest_of_line(self.text, start, 64)).map(|value| start + value)
    }

    /// Whether the name is "key" or ends with "id", and is no parameter of a URL and no field of a connection string.
    pub(super) fn may_be_of_data(&self) -> bool {
        let is_key = self.name == "KEY" || self.name == "key" && !matches!(self.byte_before(1), Some(b'?' | b'&'));
        is_key || self.name.to_ascii_lowercase().ends_with("id")
    }

    /// Whether the name is that of a function that sets a value.
    fn is_setter(&self) -> bool {
        ["set", "Set", "with", "With", "use", "Use", "add", "Add"]
            .iter()
            .any(|word| self.name.rsplit('.').next().is_some_and(|name| name.starts_with(word)))
    }

    /// The indentation of the key, if only a list dash or a word such as `export` precedes it on its line.
    pub(super) fn leads(&self) -> Option<usize> {
        let line = line_before(self.text, self.range.start, MAX_INDENT);
        let line_start = self.range.start - line.len();
        if line_start > 0 && self.byte(line_start - 1) != Some(b'\n') {
            return None;
        }
        // An escaped line break starts a line, too.
        let line = if line.contains('\\') { line.rsplit_once("\\n").map_or(line, |(_, line)| line) } else { line };
        let indent = line.len() - line.trim_start().len();
        let word = line.trim().trim_matches(['"', '\'', '-', '+']).trim();
        (word.is_empty() || SETTERS.contains(word)).then_some(indent)
    }

    /// Whether the name is a part of an ARN, as in `arn:aws:secretsmanager:eu-west-1:1:secret:name`.
    fn is_within_arn(&self) -> bool {
        if self.byte_before(1) != Some(b':') {
            return false;
        }
        let head = near(self.text, self.range.start.saturating_sub(MAX_ARN), self.range.start);
        let word = head.rsplit(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '=')).next();
        word.is_some_and(|word| word.starts_with("arn:"))
    }

    /// Whether the key follows a parser's complaint, as in "unexpected token: }".
    fn follows_parser_word(&self) -> bool {
        let is_token = self.name.len() >= 5 && self.name.to_ascii_lowercase().ends_with("token");
        if !is_token || self.byte_before(1) != Some(b' ') {
            return false;
        }
        let head = near(self.text, self.range.start.saturating_sub(24), self.range.start).trim_end();
        let word = head.rsplit(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
        PARSER_WORDS.contains_lower(word)
    }
}

fn first_after_blanks(bytes: &[u8]) -> Option<u8> {
    bytes.iter().copied().take(8).find(|&byte| !is_blank(byte))
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// The number of backslashes before an escaped quote.
fn run_of_slashes(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take(8).take_while(|&&byte| byte == b'\\').count()
}

/// A quote that is encoded for a URL, for HTML or as Unicode.
fn encoded_quote(bytes: &[u8], at: usize) -> Option<&'static str> {
    if !is_at(bytes, at, crate::logs::redact::bytes::PERCENT) && !matches!(bytes.get(at), Some(b'&' | b'\\')) {
        return None;
    }
    let rest = bytes.get(at..)?;
    ["%22", "%27", "%5C%22", "&quot;", "&#34;", "&#39;", "&#x27;", "\\u0022", "\\x22"]
        .into_iter()
        .find(|quote| rest.starts_with(quote.as_bytes()))
}
