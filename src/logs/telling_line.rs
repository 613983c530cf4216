//! Finds the line of a log that says most about why a program ended, such as the last line of level error, the message of a
//! panic, or the last exception of a stack trace.
//!
//! The line is quoted as the container's own words and proves nothing. It is taken from a text that is already cleaned and
//! redacted, and nothing is quoted if no line clearly reports a failure. Pure.

mod level;
mod shown;
mod words;

use level::{Level, level};

/// How sure it is that a line reports a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It says that the program ends, or where to read more: quoted if no other line tells.
    Farewell,
    /// By its words only, or it may have been handled: it follows a line of level warning or less.
    Likely,
    /// By its level, or by the form in which a runtime or a shell reports a failure.
    Clear,
}

/// The line as it is quoted: one line of at most 160 characters; empty if none tells.
pub(super) fn telling_line(text: &str) -> String {
    find(text).map(shown::shown).unwrap_or_default()
}

/// The last line of the highest rank.
fn find(text: &str) -> Option<&str> {
    let mut reader = Reader::default();
    let mut found: Option<(Rank, &str)> = None;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(rank) = reader.rank(line, lines.peek().copied()) else { continue };
        let rank = if words::is_farewell(line) { Rank::Farewell } else { rank };
        if found.is_none_or(|(best, found)| rank >= best && !repeats(found, line)) {
            found = Some((rank, line));
        }
    }
    found.map(|(_, line)| line)
}

/// Whether a line says only what an earlier one said, such as `Error: failed to start` at the end of many programs, or an exception
/// whose message the earlier one contains.
fn repeats(earlier: &str, line: &str) -> bool {
    let head = line.get(..line.floor_char_boundary(HEAD)).unwrap_or_default().to_ascii_lowercase();
    let message = head.rfind("rror: ").and_then(|at| line.get(at + "rror: ".len()..)).unwrap_or(line).trim();
    // The number of a cause.
    let message =
        message.split_once(": ").filter(|(number, _)| is_number(number)).map_or(message, |(_, message)| message).trim();
    let reason =
        line.strip_prefix("Caused by: ").and_then(|cause| cause.split_once(": ")).map_or(message, |(_, reason)| reason);
    !reason.is_empty() && earlier != line && (earlier.contains(message) || earlier.contains(reason))
}

/// How far into a line its level may end where a later line repeats an earlier one, in bytes.
const HEAD: usize = 40;

/// What the lines so far say about the next ones.
#[derive(Debug, Default)]
struct Reader {
    expected: Expected,
    /// Whether the last line with a level had one below error.
    is_harmless: bool,
}

/// What the lines before a line say about it.
#[derive(Debug, Default, PartialEq, Eq)]
enum Expected {
    #[default]
    Nothing,
    /// The next line with a text, such as the message of a Rust panic.
    Message,
    /// The first of the reasons below an error that ends with a colon, if they are a list.
    Reasons,
    /// The line `Description:` of Spring Boot, whose next line is the message.
    Description,
    /// The end of a Python traceback: the first line that is not indented.
    Exception,
    /// The indented lines below `Caused by:`, of which the last one is the first cause.
    Causes,
}

impl Reader {
    fn rank(&mut self, line: &str, next: Option<&str>) -> Option<Rank> {
        let rank = self.rank_of(line, next);
        if rank.is_some() && line.trim_end().ends_with(':') && self.expected == Expected::Nothing {
            self.expected = Expected::Reasons;
        }
        rank
    }

    fn rank_of(&mut self, line: &str, next: Option<&str>) -> Option<Rank> {
        // Of Python: the lines of a group of exceptions.
        let line = line.trim_start().strip_prefix("| ").unwrap_or(line);
        // Of PHP-FPM: what a script has written.
        let line = line.split_once("PHP message: ").map_or(line, |(_, message)| message);
        let bare = shown::without_box(line);
        let is_indented = line.starts_with([' ', '\t']);
        if bare.is_empty() {
            return None;
        }
        match self.expected {
            Expected::Exception if is_indented => return None,
            Expected::Message | Expected::Exception => {
                self.expected = Expected::Nothing;
                return Some(Rank::Clear);
            }
            Expected::Causes if is_indented => return Some(Rank::Clear),
            Expected::Causes => self.expected = Expected::Nothing,
            Expected::Reasons => {
                self.expected = Expected::Nothing;
                if is_listed(bare) {
                    return Some(Rank::Clear);
                }
            }
            Expected::Description if bare == "Description:" => {
                self.expected = Expected::Message;
                return None;
            }
            Expected::Description | Expected::Nothing => {}
        }
        if let Some(expected) = announced(bare, is_indented, next) {
            self.expected = expected;
            self.is_harmless = false;
            return None;
        }
        if is_frame(bare) || opens_object(bare) {
            return None;
        }
        if is_heading(bare) {
            return words::report_failure(bare).then_some(Rank::Likely);
        }
        if is_crash(bare, is_indented) || is_of_errno(bare) {
            self.is_harmless = false;
            return Some(Rank::Clear);
        }
        match level(line) {
            Some((Level::Error, _)) => {
                self.is_harmless = false;
                return Some(Rank::Clear);
            }
            Some((Level::Lower, _)) => {
                self.is_harmless = true;
                return None;
            }
            None => {}
        }
        if is_exception(bare, next.unwrap_or_default()) {
            // A type alone says less than the line above it.
            return Some(if self.is_harmless || is_type(bare) { Rank::Likely } else { Rank::Clear });
        }
        // The keys of JSON are no words.
        let text = if bare.starts_with('{') { shown::json_message(bare) } else { None };
        let line = text.as_deref().unwrap_or(line);
        match is_indented {
            true => None,
            false if words::is_of_shell(line) => Some(Rank::Clear),
            false => words::report_failure(line).then_some(Rank::Likely),
        }
    }
}

/// What a line says about the next ones, and nothing else.
fn announced(bare: &str, is_indented: bool, next: Option<&str>) -> Option<Expected> {
    // The head of a traceback may be cut off.
    if bare.starts_with("Traceback (most recent call last)") || is_indented && bare.starts_with("File \"") {
        return Some(Expected::Exception);
    }
    // Of .NET: `fail: Microsoft.Extensions.Hosting.Internal.Host[11]`.
    let is_of_host = ["fail: ", "crit: "].iter().any(|level| bare.starts_with(level)) && bare.ends_with(']');
    if is_of_host || bare.starts_with("thread '") && bare.contains(" panicked at ") && bare.ends_with(':') {
        return Some(Expected::Message);
    }
    // Of Laravel and Symfony: the type or the place of an exception, an empty line, and its message.
    let is_above_message = is_type(bare) || bare.starts_with("In ") && bare.contains(" line ") && bare.ends_with(':');
    if is_above_message && next.is_some_and(|next| next.trim().is_empty()) {
        return Some(Expected::Message);
    }
    match bare.trim_end() {
        "Error:" | "error:" | "ERROR:" | "ERRORS:" | "Unhandled exception:" => Some(Expected::Message),
        bare if bare.ends_with(" error:") => Some(Expected::Message),
        "Caused by:" => Some(Expected::Causes),
        "APPLICATION FAILED TO START" => Some(Expected::Description),
        _ => None,
    }
}

/// A line of a stack trace, or one that points at a column of the line before it.
fn is_frame(bare: &str) -> bool {
    const FRAMES: [&str; 7] = ["at ", "... ", "from ", "File \"", "goroutine ", "[signal ", "--- "];
    // A longer number is a time.
    let is_numbered = || {
        let is_short = |number: &str| number.len() <= 4 && is_number(number);
        bare.split_once(": ").is_some_and(|(number, rest)| is_short(number) && level(rest).is_none())
    };
    FRAMES.iter().any(|frame| bare.starts_with(frame)) || bare.starts_with(['^', '~']) || is_numbered()
}

/// `1) ` or `- ` before the first of several reasons.
fn is_listed(bare: &str) -> bool {
    bare.starts_with("- ") || bare.split_once(") ").is_some_and(|(number, _)| is_number(number))
}

/// The first line of an object, such as `err: {`: the line above it has the message.
fn opens_object(bare: &str) -> bool {
    bare.trim_end().ends_with(['{', '[']) && !bare.contains(' ') || bare.trim_end().ends_with(": {")
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The line with which a runtime reports that it ends the program.
fn is_crash(bare: &str, is_indented: bool) -> bool {
    const BEGINNINGS: [&str; 9] = [
        "panic: ",
        "fatal error: ",
        "Exception in thread ",
        "Unhandled exception",
        "PHP Fatal error:",
        "PHP Parse error:",
        "Fatal error: ",
        "init terminating in do_boot",
        "Uncaught ",
    ];
    // Of Ruby: `app.rb:1:in `require': cannot load such file -- sinatra (LoadError)`.
    let is_of_ruby = || bare.ends_with("Error)") && bare.contains(": ") && level(bare).is_none();
    let is_panic =
        || bare.starts_with("thread ") && [" panicked at ", " panic: "].iter().any(|words| bare.contains(words));
    // Of C++ and Elixir.
    ["what(): ", "** ("].iter().any(|begins| bare.starts_with(begins))
        || !is_indented && (BEGINNINGS.iter().any(|begins| bare.starts_with(begins)) || is_panic() || is_of_ruby())
}

/// A line that is framed, such as `*** FATAL CONFIG FILE ERROR ***`: the lines below it say more.
fn is_heading(bare: &str) -> bool {
    ["***", "==="].iter().any(|frame| bare.starts_with(frame) && bare.trim_end().ends_with(frame))
}

/// An error of the system with its number, as Apache prints it: `(13)Permission denied: AH00072: …`.
fn is_of_errno(bare: &str) -> bool {
    let number = bare.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    number.is_some_and(|(number, text)| {
        !number.is_empty()
            && is_number(number)
            && text.starts_with(|letter: char| letter.is_ascii_uppercase())
            && text.contains(": ")
    })
}

/// The message of an exception, above its stack trace or with its type.
fn is_exception(bare: &str, next: &str) -> bool {
    // What led to the exception above, which has it in its own message, what else went wrong, and the files that required a module.
    if ["---> ", "Suppressed: ", "- "].iter().any(|begins| bare.starts_with(begins)) {
        return false;
    }
    let is_frame_of_stack = |line: &str| line.starts_with([' ', '\t']) && line.trim_start().starts_with("at ");
    // Of Lua and of Haskell.
    let is_head_of_stack = |line: &str| line.starts_with("stack traceback:") || line.starts_with("CallStack (from ");
    let kind = bare.strip_prefix('[').unwrap_or(bare).split_once(": ").map_or(bare, |(kind, _)| kind);
    is_type(kind) || is_frame_of_stack(next) || is_head_of_stack(next) || bare.starts_with("Caused by: ")
}

/// Whether this is the name of the type of an exception, such as `kafka.errors.NoBrokersAvailable`.
fn is_type(name: &str) -> bool {
    let is_of_errors = |path: &str| path.split('.').any(|part| ["errors", "exceptions", "exc"].contains(&part));
    let is_in_package = || name.rsplit_once('.').is_some_and(|(path, own)| is_capitalized(own) && is_of_errors(path));
    let ends = ["Error", "Exception", "Rejection"];
    !name.contains([' ', '/']) && (ends.iter().any(|end| name.ends_with(end)) || is_in_package())
}

fn is_capitalized(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_uppercase())
}

#[cfg(test)]
mod tests;
