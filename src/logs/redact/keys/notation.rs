//! The table of notations: how a key and its value are written.

use std::{ops::Range, sync::LazyLock};

use super::names;
use crate::logs::redact::{
    looks::{is_random, is_secret_like},
    pattern::Pattern,
    text::{
        BLANK, LOWER, NAME, Words, class, has, is_all, is_at, is_quote, line_before, near, rest_of_line, run,
        run_before,
    },
};

/// How a key is separated from its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// An equals sign, or a colon after a quoted key.
    Sign,
    /// A colon, as in a sentence.
    Colon,
    /// A space, as after a command-line flag.
    Flag,
    /// An XML tag.
    Element,
}

/// Which names a notation is that of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Any,
    /// Only certain suffixes are allowed in the name, because the notation also occurs in prose. A name in capitals after which a colon
    /// follows may have any.
    Strict,
    /// The name must leave no doubt as well.
    Certain,
}

/// Where a value begins.
#[derive(Debug)]
pub(super) struct Place {
    pub start: usize,
    /// Where it ends, if that is known already.
    pub end: Option<usize>,
    pub notation: Notation,
    /// Whether only certain suffixes are allowed in the name.
    pub strict: bool,
    /// Whether the name must leave no doubt.
    pub certain: bool,
}

/// A notation: whether it may be that of a key; what follows the name and its quote, up to a group, which is the value or, if it
/// is empty, where the value begins; what the notation is and which names it is for; and whether a value is accepted.
struct Row(fn(&Key<'_>) -> bool, Pattern, Notation, Names, fn(&Key<'_>, &Place) -> bool);

use Names::{Any, Certain, Strict};
use Notation::{Colon, Element, Flag, Sign};

/// A row that accepts any value.
const fn row(applies: fn(&Key<'_>) -> bool, pattern: &'static str, notation: Notation, names: Names) -> Row {
    Row(applies, Pattern::new(pattern), notation, names, |_, _| true)
}

impl Row {
    const fn if_value(mut self, accepts: fn(&Key<'_>, &Place) -> bool) -> Self {
        self.4 = accepts;
        self
    }
}

static ROWS: [Row; 24] = [
    // %22name%22%3A%22value%22, &quot;name&quot;:&quot;value&quot;
    row(always, r"{encoded}{gap}(?:[:=]|%3[ADad]){gap}{encoded}([^\n]{1,1024}?)(?:{encoded}|$)", Sign, Any),
    // "name": value
    row(|key| key.is_quoted(), r#":{colon}|{blanks}:{gap}()["'`\\]"#, Sign, Any),
    // name=value, name => value, name == "value", name := value, name......value, val name: String = "value"
    row(
        always,
        r#"{gap}(?:%3D()|(?:={2,3}|!=){gap}()["'`]|(?:=>|:=){gap}()|={gap}()(?:[^=]|$)|\.{3,128}:?{gap}()|:{gap}(?:Secret)?String\??(?: \| [^=\n]{0,48})? = {gap}())"#,
        Sign,
        Any,
    ),
    // name->value, name += value, name <- "value" of R, (name . "value") of Lisp, name → value
    row(always, r#"{blanks}(?:(?:[?+]=|->){gap}()|(?:<-{gap}|\. {gap})()["'`])"#, Sign, Any),
    row(always, r"{blanks}\xE2\x86\x92{gap}()", Sign, Any)
        .if_value(|key, value| is_secret_like(key.word_at(value.start))),
    // The end of a quoted phrase, after which the value must be quoted, too
    row(|key| key.quoted_after, r#"{gap}:{gap}()["'`\\]"#, Sign, Any),
    // name: value
    row(|key| !key.quoted_after, ":{colon}", Colon, Strict).if_value(|key, value| !key.is_path_before(value)),
    // <ns:Password Type="text">value</
    row(|key| key.is_tag(), "{tag}", Element, Any),
    // <add key="password" value="value"/>, <entry key="password">value</entry>
    row(|key| key.is_attribute(), r#"[^>\n]{0,256}? value=(?:"([^"\n]+)|'([^'\n]+))"#, Element, Any),
    row(|key| key.is_attribute(), "{tag}", Element, Any),
    // -Name password -Value 'value'
    row(always, "{gap}-value {gap}()", Flag, Strict),
    // variable "password" { default = "value" }
    row(always, r#"{gap}\{\s*default\s*=\s*()["'`]"#, Sign, Any),
    // The fields of an environment variable: name: KEY␤value: …, "name":"KEY","value":"…", also with others between
    row(always, r"{gap}[,\n}]?{gap}\n?{gap}{quote}value{quote}{gap}[:=]{gap}()", Sign, Any),
    row(|key| key.is_name_field(), r#"[\s\S]{0,256}?[,\n][ "'\\]*value{quote}{gap}[:=]{gap}()"#, Sign, Any)
        .if_value(|key, value| key.is_same_map(value)),
    // :name "value", (name "value")
    row(|key| !key.quoted_after && key.follows(b":("), r#"{blanks}()["'`]"#, Sign, Strict),
    // withToken("value"), and a value that is printed with its type: Token("value")
    row(|key| key.is_call(), r#"\(()["'`]"#, Sign, Certain)
        .if_value(|key, value| is_secret_like(key.quoted_at(value)) && !key.quoted_at(value).contains(' ')),
    // {name, "value"} of Erlang
    row(|key| !key.quoted_after && key.follows(b"{"), r#",{gap}(?:<<)?()["'`]"#, Sign, Strict),
    // "name" "value", ("name", "value"), (b"name", b"value")
    row(|key| key.is_quoted(), r#"{blanks}()["'`]"#, Sign, Strict),
    row(|key| key.opens_call(), r#",{gap}()[bur]?["'`]"#, Sign, Strict),
    // A list of names has the same form as a list of names and values.
    row(|key| key.is_listed(), r#",{gap}[bur]?()["'`]"#, Sign, Certain)
        .if_value(|key, value| key.quoted_at(value).rsplit(' ').next().is_some_and(is_secret_like)),
    // name value, as the only words of a line, perhaps after ENV
    row(|key| key.is_bare(), r"{blanks}()[^\s]+$", Flag, Strict).if_value(|key, value| key.is_set_to(value)),
    // | name | value |
    row(|key| !key.quoted_after, r"{gap}\|{gap}([^|\s]+){gap}(?:\||$)", Sign, Strict)
        .if_value(|key, value| key.line().trim_end().ends_with('|') && is_secret_like(key.word_at(value.start))),
    // --name value; several spaces separate a flag from its description. "--name", "value"
    row(|key| key.is_flag() && !key.quoted_after, r"[ \t\r]()[^\s|\\-]", Flag, Strict),
    row(|key| key.is_flag() && key.quoted_after, r"{gap},{gap}()[^\s|\\-]", Flag, Strict),
];

/// By the value of the byte that follows a name, perhaps after blanks: the rows that begin with it, as bits.
static BY_BYTE: LazyLock<[u32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|byte| {
        let begins = ROWS.iter().enumerate().filter(|(_, row)| row.1.may_begin_with(byte as u8));
        begins.fold(0, |rows, (row, _)| rows | 1 << row)
    })
});

/// The largest indentation of a key that counts as the first word of its line.
const MAX_INDENT: usize = 64;

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
    quoted_after: bool,
    /// Where the name ends, with its quote.
    end: usize,
}

fn always(_: &Key<'_>) -> bool {
    true
}

impl<'a> Key<'a> {
    pub(super) fn new(text: &'a str, range: Range<usize>) -> Option<Self> {
        let (name, bytes) = (text.get(range.clone())?, text.as_bytes());
        let quoted_before = range.start > 0 && is_quote(bytes.get(range.start - 1).copied());
        // The quote may be escaped.
        let slashes = run(bytes, range.end, class(b"\\\\"), 8);
        let quoted_after = is_quote(bytes.get(range.end + slashes).copied());
        let end = if quoted_after { range.end + slashes + 1 } else { range.end };
        let end = end + usize::from(bytes.get(end) == Some(&b']'));
        Some(Self { text, range, name, quoted_before, quoted_after, end })
    }

    /// Where the value begins, if the key has one.
    pub(super) fn value(&self) -> Option<Place> {
        // In ${NAME:?message}, what follows the colon is no value.
        if self.text.get(..self.range.start)?.ends_with("${") || self.is_within_arn() {
            return None;
        }
        let blanks = run(self.bytes(), self.end, BLANK, MAX_INDENT);
        let begin_with = |byte: u8| BY_BYTE[usize::from(byte)];
        let possible = self.bytes().get(self.end + blanks).map_or(u32::MAX, |&byte| begin_with(byte))
            | if blanks > 0 { begin_with(b' ') } else { 0 };
        let rows = ROWS.iter().enumerate().filter(|(row, _)| possible >> row & 1 != 0).map(|(_, row)| row);
        let mut places = rows.filter_map(|Row(applies, pattern, notation, names, accepts)| {
            let value = if applies(self) { pattern.value(self.text, self.end)? } else { return None };
            let place = Place {
                start: value.start,
                end: (!value.is_empty()).then_some(value.end),
                notation: *notation,
                strict: *names != Any && (*notation != Colon || has(self.name, LOWER)),
                certain: *names == Certain,
            };
            accepts(self, &place).then_some(place)
        });
        let place = places.next().or_else(|| if self.is_quoted() { self.value_before() } else { None })?;
        (!self.follows_parser_word() || is_secret_like(self.word_at(place.start))).then_some(place)
    }

    /// `"value":"value","name":"DB_PASSWORD"`
    fn value_before(&self) -> Option<Place> {
        let line = line_before(self.text, self.range.start, 1024);
        let offset = self.range.start - line.len();
        let quotes = ['"', '\''];
        let head = line.strip_suffix(quotes)?.trim_end().strip_suffix(':')?.trim_end().strip_suffix(quotes)?;
        let head =
            ["name", "key", "Name", "Key"].iter().find_map(|field| head.strip_suffix(field)?.strip_suffix(quotes))?;
        let map = head.rfind(['{', '[']).map_or(0, |open| open + 1);
        let fields = head.get(map..)?;
        let value = ["value", "Value"].iter().find_map(|field| fields.find(field).map(|at| at + field.len()))?;
        let rest = fields.get(value..)?.strip_prefix(quotes)?.trim_start().strip_prefix(':')?.trim_start();
        let quote = rest.chars().next().filter(|letter| quotes.contains(letter))?;
        let start = offset + map + fields.len() - rest.len() + 1;
        let end = Some(start + rest.get(1..)?.find(quote)?);
        Some(Place { start, end, notation: Element, strict: false, certain: false })
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn byte_before(&self, back: usize) -> Option<u8> {
        self.range.start.checked_sub(back).and_then(|at| self.bytes().get(at)).copied()
    }

    /// Whether one of these bytes is before the name.
    fn follows(&self, bytes: &[u8]) -> bool {
        self.byte_before(1).is_some_and(|byte| bytes.contains(&byte))
    }

    /// The line up to the name, as far as an indentation may be.
    fn line(&self) -> &'a str {
        line_before(self.text, self.range.start, MAX_INDENT)
    }

    fn word_at(&self, at: usize) -> &'a str {
        rest_of_line(self.text, at, 128).split_whitespace().next().unwrap_or_default()
    }

    /// The text of a quoted value, up to the next quote.
    fn quoted_at(&self, value: &Place) -> &'a str {
        rest_of_line(self.text, value.start + 1, 256).split(['"', '\'']).next().unwrap_or_default()
    }

    fn is_quoted(&self) -> bool {
        self.quoted_before && self.quoted_after
    }

    pub(super) fn is_quoted_before(&self) -> bool {
        self.quoted_before
    }

    fn is_flag(&self) -> bool {
        // pulumi config set --secret name value
        self.name.starts_with('-') && !(self.name == "--secret" && self.line().contains("config set"))
    }

    /// `open /run/token: permission denied`, but not `user/password: …`
    fn is_path_before(&self, place: &Place) -> bool {
        let head = line_before(self.text, self.range.start, 16);
        self.follows(b"/")
            && is_at(self.bytes(), place.start - 1, BLANK)
            && !["user/", "username/", "login/"].iter().any(|user| head.ends_with(user))
    }

    /// Whether the name is that of a tag, perhaps after its namespace.
    fn is_tag(&self) -> bool {
        let head = || line_before(self.text, self.range.start, 34);
        self.follows(b"<")
            || self.follows(b":")
                && head()
                    .strip_suffix(':')
                    .and_then(|head| head.rsplit_once('<'))
                    .is_some_and(|(_, name)| is_all(name, NAME))
    }

    /// Whether the name is the value of an attribute that holds the name of a setting.
    fn is_attribute(&self) -> bool {
        let head = || line_before(self.text, self.range.start.saturating_sub(1), 32).strip_suffix('=');
        let is_name = |head: &str| {
            head.rsplit_once([' ', '\t'])
                .is_some_and(|(_, name)| ["name", "key", "id", "Name", "Key", "N"].contains(&name))
        };
        self.is_quoted() && head().is_some_and(is_name)
    }

    /// Whether the name is the value of a field `name` or `key`.
    fn is_name_field(&self) -> bool {
        let signs = class(b"  \"\"''\\\\");
        let sign = self.range.start - run_before(self.bytes(), self.range.start, signs, 8);
        if !is_at(self.bytes(), sign.wrapping_sub(1), class(b"::==")) {
            return false;
        }
        let end = sign - 1 - run_before(self.bytes(), sign - 1, signs, 8);
        let field = line_before(self.text, end, 16).to_ascii_lowercase();
        field.ends_with("name") || field.ends_with("key")
    }

    /// Whether no bracket and no item of a list is between the name and the value.
    fn is_same_map(&self, place: &Place) -> bool {
        let between = near(self.text, self.range.end, place.start);
        !(between.contains('}') || between.contains("\n- ") || between.contains("\n  - "))
    }

    /// Whether the name is that of a function that sets a value, or of a type.
    fn is_call(&self) -> bool {
        let name = self.name.rsplit('.').next().unwrap_or_default();
        let sets = ["set", "Set", "with", "With", "use", "Use", "add", "Add"].iter().any(|word| name.starts_with(word));
        !self.quoted_after && (sets || self.name.starts_with(|letter: char| letter.is_ascii_uppercase()))
    }

    /// Whether an opening parenthesis precedes the name's quote, perhaps with blanks: `define( 'NAME', 'value' )`.
    fn opens_call(&self) -> bool {
        let head = line_before(self.text, self.before_quote(), 16);
        self.is_quoted() && (head.ends_with('(') || head.ends_with(' ') && head.trim_end().ends_with('('))
    }

    fn is_listed(&self) -> bool {
        let before = self.before_quote().checked_sub(1).and_then(|at| self.bytes().get(at));
        self.is_quoted() && !self.name.starts_with('-') && matches!(before, Some(b'[' | b'{' | b',' | b' '))
    }

    /// Where the name's quote begins, with the letter of a text of bytes: `b"name"`.
    fn before_quote(&self) -> usize {
        let letter = matches!(self.byte_before(2), Some(b'b' | b'u' | b'r'));
        self.range.start.saturating_sub(1 + usize::from(letter))
    }

    fn is_bare(&self) -> bool {
        !(self.quoted_before || self.quoted_after || self.name.starts_with('-'))
    }

    /// Whether a word such as `ENV` precedes, or a name that is not one of prose is the first word of its line.
    fn is_set_to(&self, value: &Place) -> bool {
        let line = self.line().trim();
        let is_set = SETTERS.contains(line.rsplit(' ').next().unwrap_or_default())
            || ["config set", "configure set"].iter().any(|command| line.contains(command));
        let is_written = self.name.contains(['_', '.'])
            || self.bytes().get(self.end) == Some(&b'\t')
            || matches!(self.name, "requirepass" | "masterauth" | "masterpass");
        let is_likely = || is_secret_like(self.word_at(value.start).trim_matches(['"', '\'']));
        is_set || is_written && line.is_empty() && is_likely()
    }

    /// Whether the name is "key" after a word such as "public" or "primary".
    pub(super) fn is_of_data(&self) -> bool {
        let word = || line_before(self.text, self.range.start - 1, 24).rsplit(' ').next().unwrap_or_default();
        self.name.eq_ignore_ascii_case("key") && self.follows(b" ") && names::is_data_key(word())
    }

    /// Whether the name is "key" or ends with "id", and is no parameter of a URL and no field of a connection string.
    pub(super) fn may_be_of_data(&self) -> bool {
        let is_key = self.name == "KEY" || self.name == "key" && !self.follows(b"?&");
        is_key || self.name.to_ascii_lowercase().ends_with("id")
    }

    /// The indentation of the key, if only a list dash or a word such as `export` precedes it on its line.
    pub(super) fn leads(&self) -> Option<usize> {
        let line = self.line();
        let line_start = self.range.start - line.len();
        if line_start > 0 && self.bytes().get(line_start - 1) != Some(&b'\n') {
            return None;
        }
        // An escaped line break starts a line, too.
        let line = line.rsplit_once("\\n").map_or(line, |(_, line)| line);
        let indent = line.len() - line.trim_start().len();
        let word = line.trim().trim_matches(['"', '\'', '-', '+']).trim();
        (word.is_empty() || SETTERS.contains(word)).then_some(indent)
    }

    /// Whether the name is a part of an ARN, as in `arn:aws:secretsmanager:eu-west-1:1:secret:name`.
    fn is_within_arn(&self) -> bool {
        let head = || near(self.text, self.range.start.saturating_sub(128), self.range.start);
        let word = || head().rsplit(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '=')).next();
        self.follows(b":") && word().is_some_and(|word| word.starts_with("arn:"))
    }

    /// Whether the key follows a parser's complaint, as in "unexpected token: }".
    fn follows_parser_word(&self) -> bool {
        let is_token = self.name.len() >= 5 && self.name.to_ascii_lowercase().ends_with("token");
        if !is_token || !self.follows(b" ") {
            return false;
        }
        let head = near(self.text, self.range.start.saturating_sub(24), self.range.start).trim_end();
        let word = head.rsplit(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
        PARSER_WORDS.contains_lower(word)
    }
}

impl Place {
    /// Whether the value looks random, and not like a hash with its algorithm.
    pub(super) fn has_random(&self, text: &str) -> bool {
        let value = rest_of_line(text, self.start, 256).split_whitespace().next().unwrap_or_default();
        let value = value.trim_matches(['"', '\'', ',', ';']);
        value.len() >= 24 && is_random(value, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_right() {
        assert!(ROWS.len() <= 32 && ROWS.iter().all(|row| row.1.is_right()));
    }
}
