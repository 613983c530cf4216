//! Finds the line of a log that says most about why a program ended, such as the last line of level error, the message of a
//! panic, or the last exception of a stack trace.
//!
//! The line is quoted as the container's own words and proves nothing. It is taken from a text that is already cleaned and
//! redacted, and nothing is quoted if no line clearly reports a failure. Pure.

mod fields;
mod level;
mod shown;
mod words;

use level::{Level, level};

/// How sure it is that a line reports a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
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
        let next = lines.peek().copied().unwrap_or_default();
        if let Some(rank) = reader.rank(line, next)
            && found.is_none_or(|(best, found)| rank >= best && !repeats(found, line))
            && !words::is_farewell(line)
        {
            found = Some((rank, line));
        }
    }
    found.map(|(_, line)| line)
}

/// Whether a line says only what an earlier one said, such as `Error: failed to start` at the end of many programs.
fn repeats(earlier: &str, line: &str) -> bool {
    line.strip_prefix("Error: ").is_some_and(|message| earlier.contains(message.trim_end()))
}

/// What the lines so far say about the next ones.
#[derive(Debug, Default)]
struct Reader {
    expected: Expected,
    /// Whether the last line with a level had one below error.
    is_harmless: bool,
}

/// A line that is told by the lines before it.
#[derive(Debug, Default, PartialEq, Eq)]
enum Expected {
    #[default]
    Nothing,
    /// The next line with a text, such as the message of a Rust panic.
    Message,
    /// The line `Description:` of Spring Boot, whose next line is the message.
    Description,
    /// The end of a Python traceback: the first line that is not indented.
    Exception,
    /// The indented lines below `Caused by:`, of which the last one is the first cause.
    Causes,
}

impl Reader {
    fn rank(&mut self, line: &str, next: &str) -> Option<Rank> {
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
            Expected::Description if bare == "Description:" => {
                self.expected = Expected::Message;
                return None;
            }
            Expected::Description | Expected::Nothing => {}
        }
        if let Some(expected) = announced(bare, is_indented) {
            self.expected = expected;
            return None;
        }
        if is_frame(bare) {
            return None;
        }
        if is_crash(bare, is_indented) {
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
        if is_exception(bare, next) {
            return Some(if self.is_harmless { Rank::Likely } else { Rank::Clear });
        }
        match is_indented {
            true => None,
            false if words::is_of_shell(line) => Some(Rank::Clear),
            false => words::report_failure(line).then_some(Rank::Likely),
        }
    }
}

/// What a line says about the next ones, and nothing else.
fn announced(bare: &str, is_indented: bool) -> Option<Expected> {
    // The head of a traceback may be cut off.
    if bare.starts_with("Traceback (most recent call last)") || is_indented && bare.starts_with("File \"") {
        return Some(Expected::Exception);
    }
    // Of .NET: `fail: Microsoft.Extensions.Hosting.Internal.Host[11]`.
    let is_of_host = ["fail: ", "crit: "].iter().any(|level| bare.starts_with(level)) && bare.ends_with(']');
    if is_of_host || bare.starts_with("thread '") && bare.contains(" panicked at ") && bare.ends_with(':') {
        return Some(Expected::Message);
    }
    match bare {
        "Caused by:" => Some(Expected::Causes),
        "APPLICATION FAILED TO START" => Some(Expected::Description),
        _ => None,
    }
}

/// A line of a stack trace, or one that points at a column of the line before it.
fn is_frame(bare: &str) -> bool {
    const FRAMES: [&str; 6] = ["at ", "... ", "from ", "File \"", "goroutine ", "[signal "];
    let is_numbered =
        || bare.split_once(": ").is_some_and(|(number, _)| number.bytes().all(|own| own.is_ascii_digit()));
    FRAMES.iter().any(|frame| bare.starts_with(frame)) || bare.starts_with(['^', '~']) || is_numbered()
}

/// The line with which a runtime reports that it ends the program.
fn is_crash(bare: &str, is_indented: bool) -> bool {
    const BEGINNINGS: [&str; 10] = [
        "panic: ",
        "fatal error: ",
        "Exception in thread ",
        "Unhandled exception",
        "PHP Fatal error:",
        "PHP Parse error:",
        "Fatal error: ",
        "** (",
        "init terminating in do_boot",
        "Uncaught ",
    ];
    // Of Ruby: `app.rb:1:in `require': cannot load such file -- sinatra (LoadError)`.
    let is_of_ruby = || bare.ends_with("Error)") && bare.contains(": ") && level(bare).is_none();
    let is_panic = || bare.starts_with("thread '") && bare.contains(" panicked at ");
    bare.starts_with("what(): ")
        || !is_indented && (BEGINNINGS.iter().any(|begins| bare.starts_with(begins)) || is_panic() || is_of_ruby())
}

/// The message of an exception, above its stack trace or with its type.
fn is_exception(bare: &str, next: &str) -> bool {
    let is_frame_of_stack = |line: &str| line.starts_with([' ', '\t']) && line.trim_start().starts_with("at ");
    let kind = bare.split_once(": ").map_or(bare, |(kind, _)| kind);
    let is_type = !kind.contains(' ') && (kind.ends_with("Error") || kind.ends_with("Exception"));
    is_type || is_frame_of_stack(next) || ["Caused by: ", "---> "].iter().any(|begins| bare.starts_with(begins))
}

#[cfg(test)]
mod tests;
