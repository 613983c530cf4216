//! The operator's own log: lines on standard error.

use std::io::{self, IsTerminal};

use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::filter_fn,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::config::{LogFormat, Logging};

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter can't be read.
    #[error("{filter:?} is not a log filter such as info or orchestr=debug")]
    Filter {
        /// The filter.
        filter: String,
    },
    /// There is a log already.
    #[error("the log is set up already")]
    AlreadySet,
}

/// Sends this process's events to standard error.
///
/// # Errors
/// When the filter can't be read, or the process has a log already.
pub fn init(logging: &Logging) -> Result<(), LoggingError> {
    let json = match logging.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !io::stderr().is_terminal(),
    };
    subscriber(&logging.filter, json, io::stderr)?.try_init().map_err(|_| LoggingError::AlreadySet)
}

fn subscriber<W>(filter: &str, json: bool, writer: W) -> Result<impl Subscriber + Send + Sync, LoggingError>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).map_err(|_| LoggingError::Filter { filter: filter.to_owned() })?;
    let lines = fmt::layer::<Registry>().with_writer(writer);
    let lines = if json {
        lines.json().flatten_event(true).with_span_list(false).boxed()
    } else {
        lines.with_ansi(io::stderr().is_terminal()).boxed()
    };
    Ok(tracing_subscriber::registry().with(lines.with_filter(filter_fn(may_be_told))).with(filter))
}

/// Whether an event may be told at all, whatever the filter asks for. What other crates say is beyond
/// our control: kube writes whole answers of the API server, Secrets among them, when it can't decode
/// them, and lists requests below `WARN`. Its errors reach us as values, and are told without what
/// stood in the answer.
fn may_be_told(metadata: &Metadata<'_>) -> bool {
    let most = match metadata.target().split("::").next() {
        Some("orchestr") => LevelFilter::TRACE,
        Some("kube_client") => LevelFilter::OFF,
        _ => LevelFilter::from_level(Level::WARN),
    };
    *metadata.level() <= most
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn told(filter: &str, json: bool, events: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(filter, json, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, events);
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn bodies_of_answers_are_never_told_whatever_the_filter() {
        let events = || {
            tracing::error!(target: "kube_client::client", "hunter2, expected a map");
            tracing::debug!(target: "kube_runtime::watcher", "hunter2");
            tracing::debug!(target: "hyper::proto", "hunter2");
            tracing::trace!(target: "orchestr::pods", "ours");
        };
        for filter in ["trace", "kube_client=trace,kube_runtime=trace,hyper=trace,orchestr=trace"] {
            let told = told(filter, false, events);
            assert!(told.contains("ours") && !told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn the_filter_decides_about_our_own() {
        let events = || {
            tracing::info!(target: "orchestr::app", "one");
            tracing::debug!(target: "orchestr::app", "two");
            tracing::warn!(target: "kube_runtime::watcher", "three");
        };
        let told = told("info", false, events);
        assert!(told.contains("one") && !told.contains("two") && told.contains("three"), "{told}");
    }

    #[test]
    fn a_line_of_json_is_one_object() {
        let told = told("info", true, || tracing::info!(target: "orchestr::app", pods = 3, "a\nb\u{1b}[31m"));
        assert_eq!(told.lines().count(), 1, "{told}");
        let line: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(
            (&line["level"], &line["pods"], &line["message"]),
            (&"INFO".into(), &3.into(), &"a\nb\u{1b}[31m".into())
        );
    }

    #[test]
    fn a_filter_that_is_none_is_named() {
        let Err(error) = subscriber("orchestr=loud", true, io::sink) else { panic!("it was taken") };
        assert_eq!(error.to_string(), r#""orchestr=loud" is not a log filter such as info or orchestr=debug"#);
    }
}
