//! Finds credentials among the arguments of programs that do not name them: `mysql -pPASSWORD`, `curl -u USER:PASSWORD`.

use std::{ops::Range, sync::LazyLock};

use super::{
    looks::{is_random, is_reference, is_secret_like},
    pattern::Pattern,
    text::{
        BLANK, DIGIT, Found, LETTER, QUOTE, UPPER, WORD, class, has, is, is_all, is_at, length, line_before, near,
        starts_word,
    },
};

/// Where a program takes a secret.
#[derive(Clone, Copy)]
enum Place {
    /// `-pSECRET`
    Attached(&'static str),
    /// `-p SECRET`
    Next(&'static str),
    /// `-p SECRET`, if the command has this word
    With(&'static str, &'static str),
    /// `-p SECRET` or `-pSECRET`
    Either(&'static str),
    /// `-u USER:SECRET`, with this sign between them
    Pair(&'static str, char),
    /// `-pass pass:SECRET`
    Source(&'static str),
    /// The argument so many places after a word, or after the program if the word is empty. Options are not counted.
    Argument(&'static str, usize),
    /// The third argument after short options with a `b`, or the second if there is an `n` as well: `-nbB USER SECRET`
    Batch,
}

use Place::{Argument, Attached, Batch, Either, Next, Pair, Source, With};

/// Programs, separated by spaces, and where they take secrets.
const PROGRAMS: &[(&str, &[Place])] = &[
    (
        "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mysqlbinlog mysqlpump mysqlslap mysqlsh mariadb \
         mariadb-dump mariadb-admin mariadb-import mariadb-check mariadb-show mydumper xtrabackup 7z 7za 7zr 7zz rar unrar",
        &[Attached("-p")],
    ),
    ("sshpass", &[Either("-p")]),
    (
        "mongo mongosh mongodump mongorestore mongoimport mongoexport mongostat mongotop cqlsh vncdo kadmin ncftp cypher-shell arangosh",
        &[Next("-p")],
    ),
    ("redis-cli valkey-cli keydb-cli redis-benchmark", &[Next("-a"), Next("--pass")]),
    ("sqlcmd bcp osql mosquitto_pub mosquitto_sub zip unzip zipcloak ipmitool tsql", &[Either("-P")]),
    (
        "ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapcompare ldappasswd ldapmodrdn",
        &[Either("-w"), Next("-s")],
    ),
    ("openssl", &[Source("-pass"), Source("-passin"), Source("-passout"), Next("-k"), Next("-K")]),
    ("snmpwalk snmpget snmpset snmpbulkwalk snmpbulkget snmptrap", &[Next("-c"), Next("-A"), Next("-X")]),
    ("rabbitmqctl", &[Argument("add_user", 2), Argument("change_password", 2), Argument("authenticate_user", 2)]),
    ("htpasswd", &[Batch]),
    ("vault", &[Argument("login", 1), Argument("unseal", 1)]),
    ("rclone", &[Argument("obscure", 1)]),
    ("mc", &[Argument("alias", 4), Argument("alias", 5)]),
    ("smbclient smbget rpcclient winexe wmic smbmap", &[Pair("-U", '%'), Pair("--user", '%')]),
    ("lftp", &[Pair("-u", ',')]),
    ("curl", &[Pair("-u", ':'), Pair("-U", ':'), Pair("--user", ':'), Pair("--proxy-user", ':'), Next("--pass")]),
    ("http https xh httpie", &[Pair("-a", ':'), Pair("--auth", ':')]),
    (
        "ab siege wrk etcdctl skopeo buildah crictl nomad",
        &[
            Pair("-A", ':'),
            Pair("--user", ':'),
            Pair("--creds", ':'),
            Pair("--src-creds", ':'),
            Pair("--dest-creds", ':'),
        ],
    ),
    (
        "docker podman nerdctl buildah skopeo crane oras helm az oc cf argocd snyk cosign",
        &[With("login", "-p"), With("login", "-P")],
    ),
    ("twine az rabbitmqadmin", &[Next("-p")]),
    ("gh", &[With("secret", "--body"), With("secret", "-b")]),
    ("ssh-keygen", &[Next("-P"), Next("-N")]),
    ("openssl", &[Argument("passwd", 1)]),
    ("ansible-vault", &[Argument("encrypt_string", 1)]),
    ("snyk", &[Argument("auth", 1)]),
    ("ngrok", &[Argument("authtoken", 1), Argument("add-authtoken", 1)]),
];

/// The most of a command that is examined, in bytes.
const MAX_COMMAND: usize = 512;

/// How many bytes of commands are examined before a position. Only texts in which commands overlap have more: `az <az <az <`.
pub(super) fn most_examined(at: usize) -> usize {
    16 * 1024 + at * 3 / 2
}

pub(super) fn programs() -> impl Iterator<Item = (&'static str, usize)> {
    let indexed = PROGRAMS.iter().enumerate();
    indexed.flat_map(|(index, (names, _))| names.split_whitespace().map(move |name| (name, index)))
}

static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut names: Vec<&str> = programs().map(|(name, _)| name).collect();
    names.sort_unstable();
    names
});

/// Whether the name of a program at a range begins a command.
pub(super) fn is_command(text: &str, name: &Range<usize>) -> bool {
    let bytes = text.as_bytes();
    is_at(bytes, name.end, BLANK | QUOTE)
        && starts_word(bytes, name.start)
        && !is_at(bytes, name.start.wrapping_sub(1), class(b"--..::=="))
        && !has(text.get(name.clone()).unwrap_or_default(), UPPER)
}

/// The secrets among the arguments of the program whose name is at a range. Returns how many bytes were examined.
pub(super) fn find(text: &str, name: Range<usize>, program: usize, ranges: &mut Vec<Range<usize>>) -> usize {
    let places = PROGRAMS.get(program).map_or(&[][..], |(_, places)| places);
    let words = arguments(text, &name);
    let word = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
    let has = |wanted: &str| words.iter().any(|range| word(range) == wanted);
    let mut push = |value: Range<usize>, strict: bool| {
        let found = word(&value);
        let masked = found.starts_with("[REDACTED");
        if !found.is_empty()
            && !masked
            && !is_reference(found)
            && !found.starts_with('-')
            && (!strict || is_secret_like(found))
        {
            ranges.push(value);
        }
    };
    for (index, range) in words.iter().enumerate() {
        let option = word(range);
        let next = words.get(index + 1);
        let after = words.get(index + 1..).unwrap_or_default();
        let argument = |place: usize| after.iter().filter(|range| !word(range).starts_with('-')).nth(place - 1);
        for place in places {
            match *place {
                Attached(name) | Either(name) if option.len() > name.len() && option.starts_with(name) => {
                    push(unquoted(text, range.start + name.len()..range.end), false);
                }
                With(_, name) | Next(name) | Either(name)
                    if option == name && !matches!(*place, With(wanted, _) if !has(wanted)) =>
                {
                    if let Some(next) = next {
                        push(next.clone(), false);
                    }
                }
                Pair(name, sign)
                    if option == name
                        || (is_combined(option, name) && option.ends_with(name.trim_start_matches('-'))) =>
                {
                    if let Some(next) = next {
                        push(after_sign(text, next, sign), false);
                    }
                }
                Pair(name, sign) if option.starts_with(name) && option.len() > name.len() => {
                    push(after_sign(text, &unquoted(text, range.start + name.len()..range.end), sign), false);
                }
                Source(name) if option == name => {
                    if let Some(next) = next.filter(|next| word(next).starts_with("pass:")) {
                        push(next.start + "pass:".len()..next.end, false);
                    }
                }
                Argument(name, places) if option == name => {
                    if let Some(value) = argument(places) {
                        push(value.clone(), places == 1);
                    }
                }
                Batch if is_combined(option, "-b") => {
                    if let Some(value) = argument(if option.contains('n') { 2 } else { 3 }) {
                        push(value.clone(), false);
                    }
                }
                _ => {}
            }
        }
    }
    words.last().map_or(0, |word| word.end - name.end)
}

/// Whether several short options are written as one, with this one among them: `-sSu`.
fn is_combined(option: &str, name: &str) -> bool {
    let (Some(letters), Some(letter)) = (option.strip_prefix('-'), name.strip_prefix('-')) else { return false };
    letter.len() == 1 && letters.len() <= 6 && letters.contains(letter) && is_all(letters, LETTER)
}

/// The part of an argument after a user's name and a sign.
fn after_sign(text: &str, argument: &Range<usize>, sign: char) -> Range<usize> {
    let found = text.get(argument.clone()).unwrap_or_default();
    match found.split_once(sign) {
        // The user is the secret: `curl -u sk_…:`
        Some((user, "")) if is_random(user, false) => argument.start..argument.start + user.len(),
        // 1000:1000 are a user and a group.
        Some((user, secret)) if !(user.contains("//") || is_all(user, DIGIT) && is_all(secret, DIGIT)) => {
            argument.end - secret.len()..argument.end
        }
        _ => argument.end..argument.end,
    }
}

/// An argument without quotes around it.
fn unquoted(text: &str, range: Range<usize>) -> Range<usize> {
    let found = text.get(range.clone()).unwrap_or_default();
    let head = found.len() - found.trim_start_matches(['=', '"', '\'']).len();
    let rest = found.get(head..).unwrap_or_default();
    let length = rest.find(['"', '\'']).unwrap_or(rest.len());
    range.start + head..range.start + head + length
}

/// The arguments of a program: words, or the texts of a list. They end at the end of the line or of the command, or at the
/// name of another program.
fn arguments(text: &str, name: &Range<usize>) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let command = near(text, name.end, name.end + MAX_COMMAND);
    let command = command.split('\n').next().unwrap_or_default();
    let quote = bytes.get(name.end).copied().filter(|&byte| is(byte, QUOTE));
    let listed = quote.is_some() && name.start > 0 && bytes.get(name.start - 1).copied() == quote;
    let enclosing = name.start.checked_sub(1).and_then(|at| bytes.get(at)).copied().filter(|&byte| is(byte, QUOTE));
    let mut words = Vec::new();
    let (mut at, end) = (name.end + usize::from(listed), name.end + command.len());
    while at < end && words.len() < 64 {
        let byte = bytes.get(at).copied().unwrap_or_default();
        if is(byte, BLANK) || (listed && matches!(byte, b',' | b'\\')) {
            at += 1;
            continue;
        }
        let is_end = matches!(byte, b'|' | b';' | b']') || bytes.get(at..at + 2) == Some(b"&&");
        if is_end || !listed && enclosing == Some(byte) {
            break;
        }
        let range = if is(byte, QUOTE) {
            let inner = near(text, at + 1, end);
            let length = inner.find(char::from(byte)).unwrap_or(inner.len());
            at += length + 2;
            at - length - 1..at - 1
        } else {
            let head = bytes.get(..end).unwrap_or_default();
            let plain = at + length(head, at, |byte| is(byte, BLANK | QUOTE));
            let is_quoted = is_at(head, plain, QUOTE);
            let word = if is_quoted { WORD_PATTERN.match_at(head, at, false).end.unwrap_or(plain) } else { plain };
            let range = at..word;
            at = word.max(at + 1);
            trimmed(text, range)
        };
        let found = text.get(range.clone()).unwrap_or_default();
        // Most words are too short to be names, or are options.
        if found.len() > 1 && !found.starts_with('-') && NAMES.binary_search(&found).is_ok() {
            break;
        }
        words.push(range);
    }
    words
}

/// A word, up to a blank that is not between quotes.
static WORD_PATTERN: Pattern = Pattern::new(r#"(?:[^ \t\r\n"']+|"[^"\n]*"|'[^'\n]*')*"#);

/// A word without a quote or bracket at its end that belongs to what surrounds the command.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let found = text.get(range.clone()).unwrap_or_default();
    let kept = found.trim_end_matches([',', ')', ']', '}']);
    let kept = if kept.starts_with('-') { kept } else { kept.trim_matches(['"', '\'']) };
    let start = range.start + (found.len() - found.trim_start_matches(['"', '\'']).len()).min(found.len() - kept.len());
    start..start + kept.len()
}

/// `echo SECRET | docker login --password-stdin`
pub(super) fn piped(found: &Found<'_>, _: &mut usize) -> Option<Range<usize>> {
    let head = line_before(found.text, found.needle.start, MAX_COMMAND);
    let offset = found.needle.start - head.len();
    let pipe = head.rfind('|')?;
    let echo = head.get(..pipe)?.rfind("echo ")? + "echo ".len();
    let argument = head.get(echo..pipe)?.trim_start();
    let argument = argument.strip_prefix("-n ").or_else(|| argument.strip_prefix("-e ")).unwrap_or(argument);
    let end = offset + pipe;
    let range = unquoted(found.text, end - argument.len()..end - argument.len() + argument.trim_end().len());
    let range = if found.needle() == "chpasswd" { after_sign(found.text, &range, ':') } else { range };
    has(found.text.get(range.clone())?, WORD).then_some(range)
}
