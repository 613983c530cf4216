//! Checks that every command of `orchestr` in the documentation is one that the program accepts, and that the files and
//! folders that other commands name exist.

use clap::CommandFactory;
use orchestr::cli::Cli;
use regex::Regex;

use super::pages::{Page, pages, root};

/// `chart::guide` and [`super::walkthrough`] run these pages, and their commands create files.
const RUN: [&str; 3] = ["docs/install.md", "docs/first-steps.md", "docs/fleet.md"];

/// The commands of a script: those of a pipe and of a list one by one, each as its words. Redirections are left out.
fn commands(script: &str) -> Vec<Vec<String>> {
    let script = script.replace("\\\n", " ");
    let mut commands = Vec::new();
    for line in script.lines() {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for character in line.chars() {
            match (character, quote) {
                (_, Some(mark)) if character == mark => quote = None,
                (_, Some(_)) => word.get_or_insert_default().push(character),
                ('\'' | '"', None) => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                ('#', None) if word.is_none() => break,
                ('&', None) if word.as_ref().is_some_and(|word| word.ends_with('>')) => {
                    word.get_or_insert_default().push(character);
                }
                ('|' | ';' | '&', None) => {
                    words.extend(word.take());
                    commands.push(std::mem::take(&mut words));
                }
                (' ' | '\t', None) => words.extend(word.take()),
                _ => word.get_or_insert_default().push(character),
            }
        }
        words.extend(word.take());
        commands.push(words);
    }
    for words in &mut commands {
        without_redirections(words);
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// Removes `> file`, `2>file` and the like.
fn without_redirections(words: &mut Vec<String>) {
    let redirection = Regex::new(r"^[0-9]?(>>?|<)(.*)$").unwrap();
    let mut kept = Vec::new();
    let mut all = std::mem::take(words).into_iter();
    while let Some(word) = all.next() {
        match redirection.captures(&word) {
            Some(found) if found[2].is_empty() => drop(all.next()),
            Some(_) => {}
            None => kept.push(word),
        }
    }
    *words = kept;
}

/// The commands in the blocks of a page in these languages.
fn commands_of(page: &Page, languages: &[&str]) -> Vec<Vec<String>> {
    let item = Regex::new(r"(?m)^\s*(?:- )?(?:run: )?").unwrap();
    let mut found = Vec::new();
    for code in page.blocks() {
        match code.language.split(' ').next().filter(|language| languages.contains(language)) {
            Some("console") => {
                let lines = code.text.lines().filter_map(|line| line.strip_prefix("$ "));
                found.extend(lines.flat_map(commands));
            }
            // Pipelines.
            Some("yaml") => found.extend(commands(&item.replace_all(&code.text, ""))),
            Some(_) => found.extend(commands(&code.text)),
            None => {}
        }
    }
    for words in &mut found {
        let program = words.iter().position(|word| word != "do").unwrap_or_default();
        words.drain(..program);
    }
    found
}

/// The arguments, if this is a command of `orchestr`.
fn arguments(words: &[String]) -> Option<&[String]> {
    match words {
        [program, arguments @ ..] if program == "orchestr" || program == "target/release/orchestr" => Some(arguments),
        [program, plugin, arguments @ ..] if program == "kubectl" && plugin == "orchestr" => Some(arguments),
        [cargo, run, dashes, arguments @ ..] if cargo == "cargo" && run == "run" && dashes == "--" => Some(arguments),
        _ => None,
    }
}

fn parse(arguments: &[String]) -> Result<(), String> {
    let words = std::iter::once("orchestr").chain(arguments.iter().map(String::as_str));
    Cli::command().try_get_matches_from(words).map(drop).map_err(|error| error.to_string())
}

#[test]
fn every_command_is_accepted() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        for words in commands_of(&page, &["sh", "console", "yaml"]) {
            let Some(arguments) = arguments(&words) else { continue };
            count += 1;
            if let Err(error) = parse(arguments) {
                wrong.push(format!("{}: {}: {error}", page.path, words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 30, "only {count} commands were found");
}

/// Such as `orchestr show -o html`, which leaves out what the sentence is not about.
#[test]
fn every_command_in_a_sentence_exists() {
    let flag = Regex::new(r"(?:^|\s)(--[a-z-]+)").unwrap();
    let mut count = 0;
    for page in pages() {
        for code in page.inline_code() {
            let Some(words) = code.strip_prefix("orchestr ") else { continue };
            let mut command = Cli::command();
            command.build();
            for word in words.split_whitespace() {
                match command.find_subcommand(word) {
                    Some(found) => command = found.clone(),
                    None => break,
                }
            }
            let is_known = command.get_name() != "orchestr" || words.starts_with('-');
            assert!(is_known, "{}: {code} names no subcommand", page.path);
            for found in flag.captures_iter(words) {
                let exists = command.get_arguments().any(|argument| argument.get_long() == found[1].strip_prefix("--"));
                assert!(exists, "{}: {code}: there is no flag {}", page.path, &found[1]);
            }
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn every_file_and_folder_of_a_command_exists() {
    let mut count = 0;
    for page in pages().into_iter().filter(|page| !RUN.contains(&page.path.as_str())) {
        for words in commands_of(&page, &["sh", "console"]) {
            let paths: Vec<&str> = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["kubectl", ref arguments @ ..] => {
                    let after = |pair: &[&str]| ["-f", "-k"].contains(&pair[0]);
                    arguments
                        .windows(2)
                        .filter(|pair| after(pair))
                        .map(|pair| pair[1].split('=').next_back().unwrap())
                        .collect()
                }
                ["helm", "install" | "upgrade", _, chart, ..] => vec![chart],
                ["bash", script, ..] => vec![script],
                _ => continue,
            };
            for path in paths.into_iter().filter(|path| *path != "-" && !path.starts_with('/')) {
                assert!(root().join(path).exists(), "{}: {path} does not exist", page.path);
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn a_command_that_is_not_accepted_is_noticed() {
    let script =
        "cd x && orchestr scan --namespce 'a b' >\"$FILE\" 2>&1 | head; kubectl orchestr wait \\\n  deploy/cart # c";
    let found = commands(script);
    let words: Vec<Vec<&str>> = found.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    assert!(words.contains(&vec!["orchestr", "scan", "--namespce", "a b"]), "{words:?}");
    assert!(words.contains(&vec!["kubectl", "orchestr", "wait", "deploy/cart"]), "{words:?}");
    let accepted: Vec<bool> =
        found.iter().filter_map(|words| arguments(words)).map(|words| parse(words).is_ok()).collect();
    assert_eq!(accepted, [false, true]);
}
