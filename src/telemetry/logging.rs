//! The operator's own log, on standard error.

use std::{
    any::Any,
    io::{self, IsTerminal},
    panic,
};

use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::filter_fn,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::config::{LogFormat, Logging};

#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    #[error("{0:?} is not a log filter such as info or orchestr=debug")]
    Filter(String),
    #[error("the log is already set up")]
    AlreadySet,
}

/// Sets up the log of this process.
///
/// # Errors
/// When the filter cannot be parsed, or the process already has a log.
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
    let filter = EnvFilter::try_new(filter).map_err(|_| LoggingError::Filter(filter.to_owned()))?;
    let lines = fmt::layer::<Registry>().with_writer(writer);
    let lines = if json {
        lines.json().flatten_event(true).with_span_list(false).boxed()
    } else {
        lines.with_ansi(io::stderr().is_terminal()).boxed()
    };
    Ok(tracing_subscriber::registry().with(lines.with_filter(filter_fn(is_allowed))).with(filter))
}

/// Whether an event may be logged at all, whatever the user's filter is. Other crates may log secrets: kube-client logs
/// the whole response of the API server when it cannot decode it, and other crates log requests below `WARN`. Nothing is
/// lost, because kube returns its errors to us, and we log them without the contents of the response.
fn is_allowed(metadata: &Metadata<'_>) -> bool {
    let max_level = match metadata.target().split("::").next() {
        Some("orchestr") => LevelFilter::TRACE,
        Some("kube_client") => LevelFilter::OFF,
        _ => LevelFilter::from_level(Level::WARN),
    };
    *metadata.level() <= max_level
}

/// Logs where a panic happened. Rust's own report may quote a text, for instance a log if an index into it is wrong.
pub fn report_panics_without_contents() {
    panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(location, reason = constant(panic.payload()), "the program is wrong, please report this");
    }));
}

/// The message, if it is part of the program.
fn constant(payload: &dyn Any) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or_default()
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

    fn logged(filter: &str, json: bool, events: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(filter, json, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, events);
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn never_logs_response_bodies_whatever_the_filter() {
        let events = || {
            tracing::error!(target: "kube_client::client", "hunter2, expected a map");
            tracing::debug!(target: "kube_runtime::watcher", "hunter2");
            tracing::debug!(target: "hyper::proto", "hunter2");
            tracing::trace!(target: "orchestr::pods", "ours");
        };
        for filter in ["trace", "kube_client=trace,kube_runtime=trace,hyper=trace,orchestr=trace"] {
            let log = logged(filter, false, events);
            assert!(log.contains("ours") && !log.contains("hunter2"), "{log}");
        }
    }

    #[test]
    fn applies_the_filter_to_our_own_events() {
        let events = || {
            tracing::info!(target: "orchestr::app", "one");
            tracing::debug!(target: "orchestr::app", "two");
            tracing::warn!(target: "kube_runtime::watcher", "three");
        };
        let log = logged("info", false, events);
        assert!(log.contains("one") && !log.contains("two") && log.contains("three"), "{log}");
    }

    #[test]
    fn writes_one_json_object_per_line() {
        let log = logged("info", true, || tracing::info!(target: "orchestr::app", pods = 3, "a\nb\u{1b}[31m"));
        assert_eq!(log.lines().count(), 1, "{log}");
        let line: serde_json::Value = serde_json::from_str(&log).unwrap();
        assert_eq!(
            (&line["level"], &line["pods"], &line["message"]),
            (&"INFO".into(), &3.into(), &"a\nb\u{1b}[31m".into())
        );
    }

    #[test]
    fn names_an_invalid_filter() {
        let Err(error) = subscriber("orchestr=loud", true, io::sink) else { panic!("the filter was accepted") };
        assert_eq!(error.to_string(), r#""orchestr=loud" is not a log filter such as info or orchestr=debug"#);
    }

    #[test]
    fn quotes_only_messages_that_are_part_of_the_program() {
        let payload = panic::catch_unwind(|| drop("é: hunter2"[..std::hint::black_box(1)].to_owned())).unwrap_err();
        assert_eq!(constant(&*payload), "");
        assert_eq!(constant(&"a message"), "a message");
    }
}
