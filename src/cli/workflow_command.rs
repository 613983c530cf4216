//! Escapes the parts of a workflow command of GitHub Actions, `::error title=TITLE::MESSAGE`, as `@actions/core` does.

/// The runner reads `##[command]`, an older form, anywhere in a line.
const OLDER_FORM: &str = "##[";

/// Text that the runner reads no command from. Besides the older form, it reads `::command::` at the beginning of a line,
/// after white space.
pub(super) fn without_commands(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_start();
        if content.starts_with("::") {
            let (indent, _) = line.split_at(line.len() - content.len());
            harmless += indent;
            harmless += ": :";
            harmless += &without_older_form(content.get(2..).unwrap_or_default());
        } else {
            harmless += &without_older_form(line);
        }
    }
    harmless
}

pub(super) fn without_older_form(text: &str) -> String {
    text.replace(OLDER_FORM, "# #[")
}

/// A message. Nothing in it can end the line, which begins a further command.
pub(super) fn data(text: &str) -> String {
    without_older_form(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, such as the title. Nothing in it can end the value.
pub(super) fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn leaves_no_command_in_a_text() {
        for (text, expected) in [
            ("shop  cart-a  Error\n", "shop  cart-a  Error\n"),
            ("::stop-commands::x\n  ::error::y", ": :stop-commands::x\n  : :error::y"),
            ("a ::error::b", "a ::error::b"),
            ("| ##[add-mask]a\n###[b", "| # #[add-mask]a\n## #[b"),
            (":::", ": ::"),
        ] {
            assert_eq!(without_commands(text), expected);
        }
    }

    proptest! {
        #[test]
        fn no_text_contains_a_command(text in "(?s)(::|##\\[|#|:|[ \n\t\u{2028}]|.){0,30}") {
            let harmless = without_commands(&text);
            prop_assert!(!harmless.contains(OLDER_FORM), "{harmless:?}");
            prop_assert!(harmless.split('\n').all(|line| !line.trim_start().starts_with("::")), "{harmless:?}");
        }
    }
}
