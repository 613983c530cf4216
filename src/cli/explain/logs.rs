//! Reads the logs that explain the problem of a pod, cleans them and masks credentials.

use std::{collections::HashMap, sync::Arc};

use arcstr::ArcStr;
use futures::future::join_all;
use tokio::time::timeout;

use crate::{
    api::LogSource,
    diagnosis::{ContainerFinding, Finding},
    logs::{LogPlan, LogPolicy, LogReader, LogRequest, ReadLimits, Tail},
    pods::Pod,
    render::safe::clean,
};

use super::reader::Reader;

/// The bytes of a log that are shown, at most.
const LOG_BYTES: u32 = 16 * 1024;
/// How many logs of a pod are read.
const LOGS: usize = 4;

/// The logs of the containers in trouble, by container.
pub(super) async fn read(reader: &Reader<'_>, pod: &Pod, finding: &Finding, lines: u32) -> HashMap<ArcStr, Tail> {
    let policy = LogPolicy { tail_lines: lines, max_bytes: LOG_BYTES, redact: true, redact_patterns: Vec::new() };
    let policy = Arc::new(policy);
    let logs = LogReader::new(reader.client().clone(), ReadLimits::default());
    let reads = finding
        .containers
        .iter()
        .take(LOGS)
        .map(async |container| (container.name.clone(), log(reader, &logs, pod, container, &policy).await));
    join_all(reads).await.into_iter().collect()
}

async fn log(
    reader: &Reader<'_>,
    logs: &LogReader,
    pod: &Pod,
    container: &ContainerFinding,
    policy: &Arc<LogPolicy>,
) -> Tail {
    let request = match LogRequest::plan(pod, container, policy) {
        LogPlan::Unavailable(tail) => return tail,
        LogPlan::Read(request) => request,
    };
    let what = format!("the log of {}", clean(&container.name));
    let (_permit, within) = match reader.begin().await {
        Ok(begun) => begun,
        Err(why) => {
            reader.not_read(&what, &why);
            return Tail::unavailable(why);
        }
    };
    let Ok(tail) = timeout(within, logs.tail(&request)).await else {
        let why = format!("no response within {} s", within.as_secs().max(1));
        reader.not_read(&what, &why);
        return Tail::unavailable(why);
    };
    let is_shown = !matches!(tail.source, LogSource::Unavailable | LogSource::TerminationMessage);
    if !is_shown && tail.note.starts_with("not allowed: ") {
        reader.not_read(&what, &format!("not allowed: get pods/log in {}", reader.namespace));
    }
    tail
}
