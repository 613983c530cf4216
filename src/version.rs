//! The version of this program, as `--version`, the log, User-Agent headers and metrics show it.

use std::sync::LazyLock;

use http::HeaderValue;

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The git revision of the source. It comes from the environment of the build, because a build in a folder without `.git`,
/// such as that of the image, must yield the same program.
pub const REVISION: Option<&str> = match option_env!("ORCHESTR_REVISION") {
    Some(revision) if !revision.is_empty() => Some(revision),
    _ => None,
};

/// The version and, if the build was given it, the revision: `0.1.0 (5f0c2a915f0c)`.
#[must_use]
pub fn version_and_revision() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| describe(REVISION));
    &TEXT
}

/// The value of the header User-Agent: `orchestr/0.1.0 (5f0c2a915f0c)`.
#[must_use]
pub fn user_agent() -> HeaderValue {
    HeaderValue::try_from(format!("orchestr/{}", version_and_revision()))
        .unwrap_or(const { HeaderValue::from_static(concat!("orchestr/", env!("CARGO_PKG_VERSION"))) })
}

fn describe(revision: Option<&str>) -> String {
    revision.map_or_else(|| VERSION.to_owned(), |revision| format!("{VERSION} ({revision})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_revision_only_if_there_is_one() {
        assert_eq!(describe(Some("5f0c2a915f0c")), format!("{VERSION} (5f0c2a915f0c)"));
        assert_eq!(describe(None), VERSION);
    }

    #[test]
    fn the_user_agent_is_the_version_that_the_command_prints() {
        assert_eq!(user_agent().to_str().unwrap(), format!("orchestr/{}", version_and_revision()));
    }
}
