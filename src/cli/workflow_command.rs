//! Escapes the parts of a workflow command of GitHub Actions, `::error title=TITLE::MESSAGE`, as `@actions/core` does.

/// A message. Nothing in it can end the line, which begins a further command.
pub(super) fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, such as the title. Nothing in it can end the value.
pub(super) fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
