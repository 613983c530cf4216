//! `__complete`: the completions of a command line, in the protocol of cobra. kubectl calls the program
//! `kubectl_complete-orchestr` for them, which calls this. Pure, except that it prints.
//!
//! A candidate is a line, with a description after a tab. The last line is a colon and the sum of cobra's directives.

use clap::{Arg, ArgAction, Command, ValueHint, builder::StyledStr};

/// The subcommand, which is not part of the command line's definition: its arguments are any words.
pub(super) const SUBCOMMAND: &str = "__complete";

/// The shell may complete the names of files.
const FILES: u8 = 0;
/// The shell must not complete the names of files.
const NO_FILES: u8 = 4;

/// The candidates with their descriptions, and the directive.
type Completions = (Vec<(String, String)>, u8);

/// The completions of the last of these words, which may be empty, as cobra prints them.
pub(super) fn complete(command: &mut Command, words: &[String]) -> String {
    // Adds the help flags and the arguments of all subcommands.
    command.build();
    let (last, before) = words.split_last().map_or(("", words), |(last, before)| (last.as_str(), before));
    let (candidates, directive) = completions(command, before, last);
    let line = |(candidate, description): (String, String)| match description.as_str() {
        "" => candidate + "\n",
        description => format!("{candidate}\t{description}\n"),
    };
    candidates.into_iter().map(line).collect::<String>() + &format!(":{directive}\n")
}

/// A position in a command line.
struct Position<'c> {
    command: &'c Command,
    /// The flag whose value follows.
    flag: Option<&'c Arg>,
    used: Vec<&'c Arg>,
    /// How many arguments without a flag there are.
    positionals: usize,
    /// Whether `--` has ended the flags.
    has_ended: bool,
}

fn completions(root: &Command, before: &[String], last: &str) -> Completions {
    let mut position = Position { command: root, flag: None, used: Vec::new(), positionals: 0, has_ended: false };
    before.iter().for_each(|word| position.advance(word));
    let Position { command, flag, used, positionals, has_ended } = position;
    let matching = |name: String, help: Option<&StyledStr>| name.starts_with(last).then(|| (name, described(help)));
    if let Some(flag) = flag {
        return values(flag, last, "");
    }
    if last.starts_with('-') && !has_ended {
        if let Some((name, value)) = last.split_once('=') {
            let values = |flag| values(flag, value, &format!("{name}="));
            return long(command, name).map_or((Vec::new(), NO_FILES), values);
        }
        let may_follow = |arg: &&Arg| {
            let is_repeated = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
            !arg.is_hide_set() && (is_repeated || used.iter().all(|own| own.get_id() != arg.get_id()))
        };
        let flags = command.get_arguments().filter(may_follow);
        return (
            flags.filter_map(|arg| matching(format!("--{}", arg.get_long()?), arg.get_help())).collect(),
            NO_FILES,
        );
    }
    if let Some(positional) = command.get_positionals().nth(positionals) {
        return values(positional, last, "");
    }
    let subcommands = command.get_subcommands().filter(|own| !own.is_hide_set());
    (subcommands.filter_map(|own| matching(own.get_name().to_owned(), own.get_about())).collect(), NO_FILES)
}

impl<'c> Position<'c> {
    fn advance(&mut self, word: &str) {
        if self.flag.take().is_some() {
            return;
        }
        match word {
            "--" if !self.has_ended => self.has_ended = true,
            _ if self.has_ended || word == "-" || !word.starts_with('-') => {
                match self.command.find_subcommand(word).filter(|_| !self.has_ended) {
                    Some(command) => {
                        self.command = command;
                        self.used.clear();
                    }
                    None => {
                        // The last one may take any number of words.
                        let is_last = self.positionals + 1 >= self.command.get_positionals().count();
                        let is_repeated = |arg: &Arg| matches!(arg.get_action(), ArgAction::Append);
                        let arg = self.command.get_positionals().nth(self.positionals);
                        if !(is_last && arg.is_some_and(is_repeated)) {
                            self.positionals += 1;
                        }
                    }
                }
            }
            _ if word.starts_with("--") => {
                let (name, has_value) = match word.split_once('=') {
                    Some((name, _)) => (name, true),
                    None => (word, false),
                };
                let Some(flag) = long(self.command, name) else { return };
                self.used.push(flag);
                self.flag = Some(flag).filter(|flag| !has_value && takes_value(flag));
            }
            _ => self.shorts(word),
        }
    }

    /// Several short flags in one word, such as `-Ao json`. The last one may take the next word as its value.
    fn shorts(&mut self, word: &str) {
        let mut letters = word.chars().skip(1);
        while let Some(letter) = letters.next() {
            let Some(flag) = self.command.get_arguments().find(|arg| arg.get_short() == Some(letter)) else { return };
            self.used.push(flag);
            if takes_value(flag) {
                self.flag = Some(flag).filter(|_| letters.next().is_none());
                return;
            }
        }
    }
}

fn long<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    let name = name.strip_prefix("--")?;
    command.get_arguments().find(|arg| arg.get_long() == Some(name))
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// The values of an argument that begin with `last`, each after `prefix`.
fn values(arg: &Arg, last: &str, prefix: &str) -> Completions {
    let all = arg.get_possible_values();
    let possible = all.iter().filter(|value| !value.is_hide_set() && value.get_name().starts_with(last));
    let candidates =
        possible.map(|value| (format!("{prefix}{}", value.get_name()), described(value.get_help()))).collect();
    let is_file = matches!(arg.get_value_hint(), ValueHint::FilePath | ValueHint::AnyPath)
        || arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == "FILE"));
    (candidates, if is_file { FILES } else { NO_FILES })
}

/// A description on one line.
fn described(text: Option<&StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// The candidates without their descriptions, and the directive.
    fn completed(words: &[&str]) -> (Vec<String>, String) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let out = complete(&mut Cli::command(), &words);
        let mut lines: Vec<String> =
            out.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect();
        let directive = lines.pop().unwrap();
        (lines, directive)
    }

    #[test]
    fn completes_subcommands_flags_and_values() {
        for (words, candidates) in [
            (&["sc"][..], &["scan"][..]),
            (&["webhook", ""], &["test", "render"]),
            (&["scan", "--name"], &["--namespace"]),
            (&["scan", "-n", "shop", "--all-n"], &["--all-namespaces"]),
            (&["scan", "-o", "js"], &["json"]),
            (&["scan", "-Ao", "js"], &["json"]),
            (&["scan", "--output", "js"], &["json"]),
            (&["scan", "--output=js"], &["--output=json"]),
            (&["scan", "-ojson", "--fail"], &["--fail-on-empty"]),
            (&["explain", "deploy/cart", "-o", ""], &["text", "json"]),
            (&["completions", "ba"], &["bash"]),
            (&["wait", "deploy/a", "deploy/b", "--gra"], &["--grace"]),
            (&["scan", "--nosuch=x"], &[]),
            (&["scan", "--", "--name"], &[]),
            (&["nosuch", "--name"], &[]),
        ] {
            assert_eq!(
                completed(words),
                (candidates.iter().map(|own| (*own).to_owned()).collect(), ":4".to_owned()),
                "{words:?}"
            );
        }
    }

    #[test]
    fn lists_all_subcommands_but_not_itself() {
        for words in [&[][..], &[""]] {
            let (candidates, directive) = completed(words);
            let has = |name: &str| candidates.iter().any(|own| own == name);
            assert!(has("scan") && has("wait") && has("explain") && !has(SUBCOMMAND), "{candidates:?}");
            assert_eq!(directive, ":4");
        }
    }

    #[test]
    fn leaves_files_to_the_shell() {
        assert_eq!(completed(&["scan", "-f", "po"]), (Vec::new(), ":0".to_owned()));
        assert_eq!(completed(&["scan", "--kubeconfig", ""]), (Vec::new(), ":0".to_owned()));
        assert_eq!(completed(&["scan", "--context", ""]), (Vec::new(), ":4".to_owned()));
    }

    #[test]
    fn leaves_out_flags_that_cannot_be_repeated() {
        assert_eq!(completed(&["scan", "--logs", "--log"]).0, ["--log-timeout"]);
        assert_eq!(completed(&["scan", "-n", "shop", "--namesp"]).0, ["--namespace"]);
    }

    #[test]
    fn describes_candidates_on_one_line() {
        let out = complete(&mut Cli::command(), &["explain".to_owned(), "--log".to_owned()]);
        assert_eq!(out, "--log-lines\tHow many lines of a log to print, the last ones\n:4\n");
    }
}
