//! The controller's requests to the API server. Each runs as a task of its own, so that a slow answer delays nothing else.

use std::{future::pending, sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::timeout,
};

use crate::{
    bounded::{RequestLimiter, RequestLimits},
    events::WatchedEvent,
    facts::{self, Answer, Question},
    logs::{ContainerInstance, LogReader, Permit, ReadResult, Redacted, Redaction},
    spec_error::SpecError,
};

use super::{
    log_requests::DueRead,
    masked_texts::{MaskAnswer, MaskRequest},
    pattern_checks::PatternCheck,
    status::{ObservedStatus, StatusWrite, WriteError, write_status},
    workloads::{self, WorkloadKey, WorkloadQuery, WorkloadReading},
    write_limiter::WritePermit,
};

/// How long each request for a Job or its CronJob may take.
const JOB_TIMEOUT: Duration = Duration::from_secs(5);
/// The limits of requests that read Jobs, or list events.
const SIDE_REQUESTS: RequestLimits = RequestLimits { concurrency: 8, per_second: 50, burst: 100 };
/// The limits of reads of workloads. Without them, somebody who writes events could have the operator send as many requests.
const WORKLOAD_READS: RequestLimits = RequestLimits { concurrency: 4, per_second: 4, burst: 20 };
/// The limits of comparisons of revisions, and of reads that show why no node takes a pod. Statuses do not wait for them as they
/// do for Jobs.
const COMPARISONS: RequestLimits = RequestLimits { concurrency: 4, per_second: 10, burst: 20 };

/// The limits of work on another thread: one tenant waits for one piece of work of each other tenant at most.
const ONE_AT_A_TIME: RequestLimits = RequestLimits { concurrency: 1, per_second: 1_000, burst: 1_000 };
/// The longest time for work on another thread, which usually takes milliseconds. Its steps are bounded, so this is only
/// for what nobody has thought of.
const THREAD_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Tasks {
    client: Client,
    log_reader: LogReader,
    /// Tasks that change the cluster. A shutdown waits for them.
    writes: JoinSet<TaskResult>,
    /// Tasks that only read. A shutdown aborts them.
    reads: JoinSet<TaskResult>,
    side_requests: RequestLimiter,
    workload_reads: RequestLimiter,
    comparisons: RequestLimiter,
    /// Masks texts on another thread, for one request at a time.
    maskings: RequestLimiter,
    /// Compiles patterns on another thread, for one object at a time.
    pattern_checks: RequestLimiter,
    thread_timeout: Duration,
}

pub(super) enum TaskResult {
    StatusWritten { permit: WritePermit, write: Box<StatusWrite>, result: Result<Box<ObservedStatus>, WriteError> },
    LogRead { instance: Box<ContainerInstance>, result: ReadResult },
    LogRedacted(Box<Redacted>),
    Answered { question: Question, answer: Answer, events: Vec<WatchedEvent> },
    WorkloadRead { key: WorkloadKey, reading: WorkloadReading },
    TextsMasked(MaskAnswer),
    PatternsChecked(PatternCheck, Result<(), SpecError>),
}

impl Tasks {
    pub(super) fn new(client: Client, log_reader: LogReader) -> Self {
        Self {
            client,
            log_reader,
            writes: JoinSet::new(),
            reads: JoinSet::new(),
            side_requests: RequestLimiter::new(SIDE_REQUESTS),
            workload_reads: RequestLimiter::new(WORKLOAD_READS),
            comparisons: RequestLimiter::new(COMPARISONS),
            maskings: RequestLimiter::new(ONE_AT_A_TIME),
            pattern_checks: RequestLimiter::new(ONE_AT_A_TIME),
            thread_timeout: THREAD_TIMEOUT,
        }
    }

    pub(super) fn write_status(&mut self, permit: WritePermit, mut write: Box<StatusWrite>) {
        let client = self.client.clone();
        self.writes.spawn(async move {
            let result = write_status(&client, &mut write).await.map(Box::new);
            TaskResult::StatusWritten { permit, write, result }
        });
    }

    /// Returns a permit to read a log from a node if there is one now.
    pub(super) fn log_permit(&self, node: &Arc<str>) -> Option<Permit> {
        self.log_reader.try_permit(node)
    }

    pub(super) fn read_log(&mut self, DueRead { read, permit, turn }: DueRead) {
        let reader = self.log_reader.clone();
        self.reads.spawn(async move {
            let result = reader.read_with(permit, &read).await;
            drop(turn);
            TaskResult::LogRead { instance: Box::new(read.instance), result }
        });
    }

    /// Redaction takes milliseconds, so it runs on another thread.
    pub(super) fn redact(&mut self, redaction: Redaction) {
        let failed = TaskResult::LogRedacted(Box::new(redaction.failed()));
        self.on_thread(None, failed, move || TaskResult::LogRedacted(Box::new(redaction.run())));
    }

    /// Reads the answer to a question.
    pub(super) fn read(&mut self, question: Question) {
        let limiter = match question {
            Question::Revision(_)
            | Question::LimitChanges { .. }
            | Question::Nodes
            | Question::Claim { .. }
            | Question::Preemptions(_) => &self.comparisons,
            _ => &self.side_requests,
        };
        let (client, limiter) = (self.client.clone(), limiter.clone());
        self.reads.spawn(async move {
            let _permit = limiter.acquire(question.namespace()).await;
            let (answer, events) = facts::read(&client, &question, JOB_TIMEOUT).await;
            TaskResult::Answered { question, answer, events }
        });
    }

    pub(super) fn read_workload(&mut self, query: WorkloadQuery) {
        let (client, limiter) = (self.client.clone(), self.workload_reads.clone());
        self.reads.spawn(async move {
            let _permit = limiter.acquire(query.key.namespace()).await;
            let reading = workloads::read(&client, &query).await;
            TaskResult::WorkloadRead { key: query.key, reading }
        });
    }

    /// Masks texts on another thread, because that may take a tenth of a second.
    pub(super) fn mask_texts(&mut self, request: MaskRequest) {
        let turn = (self.maskings.clone(), request.namespace().to_owned());
        let failed = TaskResult::TextsMasked(request.failed());
        self.on_thread(Some(turn), failed, || TaskResult::TextsMasked(request.mask()));
    }

    /// Compiles patterns on another thread, because that may take a tenth of a second.
    pub(super) fn check_patterns(&mut self, check: PatternCheck) {
        let turn = (self.pattern_checks.clone(), check.key.namespace.clone());
        let failed = TaskResult::PatternsChecked(check.clone(), Err(PatternCheck::failed()));
        self.on_thread(Some(turn), failed, move || {
            let result = check.run();
            TaskResult::PatternsChecked(check, result)
        });
    }

    /// Runs work on another thread, once it is the turn of the namespace, if that must wait. Objects wait for the result, so
    /// there always is one: `failed`, if the work panics or takes too long.
    ///
    /// In the released build, a panic ends the process on any thread (`panic = "abort"`): after one, nothing is known about
    /// the state, and a process that starts again reads it from the API. So one input must not make this work panic, or the
    /// operator would end again and again. It depends on texts of tenants, and is tested with arbitrary ones.
    fn on_thread(
        &mut self,
        turn: Option<(RequestLimiter, String)>,
        failed: TaskResult,
        work: impl FnOnce() -> TaskResult + Send + 'static,
    ) {
        let limit = self.thread_timeout;
        self.reads.spawn(async move {
            let _permit = match turn {
                Some((limiter, namespace)) => limiter.acquire(&namespace).await,
                None => None,
            };
            match timeout(limit, spawn_blocking(work)).await {
                Ok(Ok(result)) => result,
                // The error may quote the text that is being masked.
                Ok(Err(error)) => {
                    tracing::error!(panicked = error.is_panic(), "work on another thread failed");
                    failed
                }
                Err(_) => {
                    tracing::error!(seconds = limit.as_secs(), "work on another thread takes too long");
                    failed
                }
            }
        });
    }

    /// The result of the next task that ends. Dropping the future loses none.
    pub(super) async fn next(&mut self) -> TaskResult {
        loop {
            let ended = tokio::select! {
                Some(ended) = self.writes.join_next() => ended,
                Some(ended) = self.reads.join_next() => ended,
                else => pending().await,
            };
            match ended {
                Ok(result) => return result,
                // The error may quote what the task was about.
                Err(error) => tracing::error!(panicked = error.is_panic(), "a task failed"),
            }
        }
    }

    pub(super) fn abort_reads(&mut self) {
        self.reads.abort_all();
    }

    /// The result of the next write that ends; absent if none is left.
    pub(super) async fn next_write(&mut self) -> Option<TaskResult> {
        loop {
            if let Ok(result) = self.writes.join_next().await? {
                return Some(result);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{facts::JobKey, logs::ReadLimits};

    /// Without an API server: these tasks make no requests.
    fn tasks() -> Tasks {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
        let log_reader = LogReader::new(client.clone(), ReadLimits::default());
        Tasks::new(client, log_reader)
    }

    fn answer(name: &str, is_done: bool) -> TaskResult {
        let key = JobKey { namespace: "shop".to_owned(), name: name.to_owned(), uid: "1".to_owned() };
        let answer = if is_done { Answer::Gone } else { Answer::Unavailable };
        TaskResult::Answered { question: Question::Job(key), answer, events: Vec::new() }
    }

    #[tokio::test]
    async fn work_on_another_thread_returns_result_and_permit() {
        let mut tasks = tasks();
        let limiter = RequestLimiter::new(ONE_AT_A_TIME);
        for (key, panics) in [("first", true), ("second", false), ("third", true)] {
            tasks.on_thread(Some((limiter.clone(), "shop".to_owned())), answer(key, false), move || {
                assert!(!panics, "on purpose");
                answer(key, true)
            });
        }
        let mut results = Vec::new();
        for _ in 0..3 {
            let result = timeout(Duration::from_secs(10), tasks.next()).await.unwrap();
            let TaskResult::Answered { question: Question::Job(key), answer, .. } = result else { panic!() };
            results.push((key.name, answer == Answer::Gone));
        }
        results.sort_unstable();
        let expected = [("first", false), ("second", true), ("third", false)];
        assert_eq!(results, expected.map(|(name, is_done)| (name.to_owned(), is_done)));
        let permit = timeout(Duration::from_secs(10), limiter.acquire("shop")).await;
        assert!(permit.is_ok_and(|permit| permit.is_some()));
    }

    #[tokio::test]
    async fn work_on_another_thread_that_takes_too_long_has_a_result() {
        let mut tasks = Tasks { thread_timeout: Duration::from_millis(20), ..tasks() };
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        tasks.on_thread(None, answer("slow", false), move || {
            let _ = blocked.recv();
            answer("slow", true)
        });
        let result = timeout(Duration::from_secs(10), tasks.next()).await.unwrap();
        drop(release);
        assert!(matches!(result, TaskResult::Answered { answer: Answer::Unavailable, .. }));
    }
}
