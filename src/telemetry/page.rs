//! The page of metrics, in the format that the scraper accepts.

use std::fmt::{self, Write};

use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    registry::Registry,
};

/// A format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    /// The older text format, which every tool reads.
    Prometheus,
}

impl Format {
    /// OpenMetrics if the header `Accept` names it.
    pub(super) fn accepted(accept: &str) -> Self {
        let names_it = |media: &str| {
            let mut parts = media.split(';').map(str::trim);
            parts.next() == Some("application/openmetrics-text") && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
        };
        if accept.split(',').any(names_it) { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Encodes all metrics.
///
/// # Errors
/// If a value cannot be encoded.
pub(super) fn encode(registry: &Registry, format: Format) -> Result<String, fmt::Error> {
    match format {
        Format::OpenMetrics => {
            let mut page = String::new();
            encode_registry(&mut page, registry)?;
            encode_eof(&mut page)?;
            Ok(page)
        }
        Format::Prometheus => {
            let mut page = Older::default();
            encode_registry(&mut page, registry)?;
            Ok(page.text)
        }
    }
}

/// Converts OpenMetrics to the older format: there, the comments about a counter name it with `_total`.
#[derive(Default)]
struct Older {
    text: String,
    /// The beginning of a line.
    line: String,
    /// The comment that precedes the type.
    help: String,
}

impl Older {
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.starts_with("# HELP ") {
            self.help = line;
            return;
        }
        let Some(name) = line.strip_prefix("# TYPE ").and_then(|line| line.split(' ').next()) else {
            self.text.push_str(&line);
            self.text.push('\n');
            return;
        };
        let help = std::mem::take(&mut self.help);
        let suffix = if line.ends_with(" counter") { "_total" } else { "" };
        for (comment, prefix) in [(&help, "# HELP "), (&line, "# TYPE ")] {
            let rest = comment.get(prefix.len() + name.len()..).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(self.text, "{prefix}{name}{suffix}{rest}");
        }
    }
}

impl Write for Older {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive('\n') {
            match part.strip_suffix('\n') {
                Some(end) => {
                    self.line.push_str(end);
                    self.end_line();
                }
                None => self.line.push_str(part),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

    use super::*;

    #[test]
    fn negotiates_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("text/plain, application/openmetrics-text ; version=1.0.0", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("text/html,*/*;q=0.8", Format::Prometheus),
            ("", Format::Prometheus),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn both_formats_have_the_same_samples() {
        let mut registry = Registry::default();
        let counter = Family::<Vec<(String, String)>, Counter>::default();
        counter.get_or_create(&vec![("reason".to_owned(), "a\n# TYPE \"b\" counter\\".to_owned())]).inc();
        registry.register("orchestr_a", "A counter", counter);
        registry.register("orchestr_b", "A gauge", Gauge::<i64>::default());
        let sample = r##"orchestr_a_total{reason="a\n# TYPE \"b\" counter\\"} 1"##;
        assert_eq!(
            encode(&registry, Format::OpenMetrics).unwrap(),
            format!(
                "# HELP orchestr_a A counter.\n# TYPE orchestr_a counter\n{sample}\n\
                 # HELP orchestr_b A gauge.\n# TYPE orchestr_b gauge\norchestr_b 0\n# EOF\n"
            )
        );
        assert_eq!(
            encode(&registry, Format::Prometheus).unwrap(),
            format!(
                "# HELP orchestr_a_total A counter.\n# TYPE orchestr_a_total counter\n{sample}\n\
                 # HELP orchestr_b A gauge.\n# TYPE orchestr_b gauge\norchestr_b 0\n"
            )
        );
    }
}
