//! Bounded waits: for a condition, the end of a process, or the state of an object.

use std::{
    io::Read,
    process::{Child, Output},
    time::{Duration, Instant},
};

use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher, watcher::Event},
};
use serde::de::DeserializeOwned;

use crate::{
    error::{Doing, Error, Result},
    go::is_building,
};

/// The interval between two checks.
const POLL: Duration = Duration::from_millis(50);

/// Returns when no build is under way. A build takes the processors, so no time is counted before its end.
async fn no_build() {
    while is_building() {
        tokio::time::sleep(POLL).await;
    }
}

/// Calls `check` repeatedly until it succeeds, and returns its result. An `Err` says what is still missing.
/// Returns [`Error::Timeout`] with the last `Err` after `timeout`.
pub async fn eventually<T>(
    what: &str,
    timeout: Duration,
    mut check: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T> {
    no_build().await;
    let begun = Instant::now();
    let mut last = "it was not checked yet".to_owned();
    let checks = async {
        loop {
            match check().await {
                Ok(found) => return found,
                Err(reason) => last = reason,
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(timeout, checks).await {
        Ok(found) => Ok(found),
        Err(_) => Err(Error::Timeout { what: what.to_owned(), after: begun.elapsed(), last }),
    }
}

/// Waits for the end of a process, and reads its standard output and error if they are piped.
/// Returns [`Error::Timeout`] if it is still running after `timeout`. It is killed then.
pub fn finish(mut process: Child, timeout: Duration) -> Result<Output> {
    fn read(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // If the pipe breaks, return what was read before.
            let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            bytes
        })
    }
    drop(process.stdin.take());
    let (stdout, stderr) = (read(process.stdout.take()), read(process.stderr.take()));
    while is_building() {
        std::thread::sleep(POLL);
    }
    let begun = Instant::now();
    let status = loop {
        match process.try_wait().doing(|| "wait for a process".to_owned())? {
            Some(status) => break status,
            None if begun.elapsed() >= timeout => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(Error::Timeout {
                    what: format!("the end of process {}", process.id()),
                    after: begun.elapsed(),
                    last: "it was killed".to_owned(),
                });
            }
            None => std::thread::sleep(POLL),
        }
    };
    // A child of the process may keep the pipes open.
    while !(stdout.is_finished() && stderr.is_finished()) {
        if begun.elapsed() >= timeout {
            return Err(Error::Timeout {
                what: "the end of a process's output".to_owned(),
                after: begun.elapsed(),
                last: "something else holds it open".to_owned(),
            });
        }
        std::thread::sleep(POLL);
    }
    Ok(Output { status, stdout: stdout.join().unwrap_or_default(), stderr: stderr.join().unwrap_or_default() })
}

/// Watches one object until `wanted` returns true, and returns the object. `None` means that it does not exist.
/// Returns [`Error::Timeout`] with the last state of the object after `timeout`.
pub async fn until<K>(
    api: Api<K>,
    name: &str,
    timeout: Duration,
    mut wanted: impl FnMut(Option<&K>) -> bool,
) -> Result<Option<K>>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let mut last = None;
    let mut last_error = None;
    no_build().await;
    let watch = async {
        let mut listed = None;
        while let Some(event) = events.next().await {
            last = match event {
                Ok(Event::Init) => {
                    listed = None;
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    listed = Some(object);
                    continue;
                }
                Ok(Event::InitDone) => listed.take(),
                Ok(Event::Apply(object)) => Some(object),
                Ok(Event::Delete(_)) => None,
                Err(error) => {
                    last_error = Some(error.to_string());
                    continue;
                }
            };
            if wanted(last.as_ref()) {
                return;
            }
        }
    };
    if tokio::time::timeout(timeout, watch).await.is_ok() {
        return Ok(last);
    }
    Err(Error::Timeout {
        what: format!("the awaited state of {name}"),
        after: timeout,
        last: format!("it was {last:#?}; the last error of the watch: {last_error:?}"),
    })
}
