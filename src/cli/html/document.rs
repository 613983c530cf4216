//! The frame of every page: its head with the policy and the style sheet, and its landmarks.

use base64::{Engine, prelude::BASE64_STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};

use super::Verdict;

pub(super) const STYLE: &str = include_str!("style.css");

/// The content of a page.
pub(super) struct Document<'a> {
    pub(super) verdict: Verdict,
    pub(super) headline: &'a str,
    /// Below the headline.
    pub(super) header: Markup,
    pub(super) main: Markup,
    /// Which cluster the kubectl commands of the page use, in a sentence.
    pub(super) commands: &'static str,
    pub(super) version: &'a str,
}

impl Document<'_> {
    pub(super) fn markup(&self) -> Markup {
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
            BASE64_STANDARD.encode(digest(&SHA256, STYLE.as_bytes()))
        );
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="referrer" content="no-referrer";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.headline) " – Orchestr" }
                    // The only text that is not escaped. It is a constant.
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header class=(tone(self.verdict)) {
                        h1 { (self.headline) }
                        (self.header)
                    }
                    main { (self.main) }
                    footer { "Written by Orchestr " (self.version) ". " (self.commands) }
                }
            }
        }
    }
}

/// The class of a header.
pub(super) fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Healthy => "good",
        Verdict::Unhealthy => "bad",
        Verdict::Unknown => "unknown",
    }
}
