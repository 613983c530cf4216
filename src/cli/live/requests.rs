//! Sends the requests that verdicts depend on, several at a time.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use kube::Client;
use tokio::time::Instant;

use crate::{
    events::WatchedEvent,
    facts::{self, Answer, Fact, Question, Reads},
};

/// Concurrent reads, and how many of them list events: those take longer, and must not delay the Jobs.
const CONCURRENCY: usize = 8;
const EVENT_LISTS: usize = 4;

/// What could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::cli) enum Note {
    JobsDenied,
    CronJobsDenied,
    /// Unlike the others, this may soon be over.
    JobsFailed,
    EventsDenied,
    EventsFailed,
    EventsCut,
}

impl Note {
    pub(in crate::cli) const fn as_str(self) -> &'static str {
        match self {
            Self::JobsDenied => "you may not read Jobs: failed pods are reported even if a retry has completed the Job",
            Self::CronJobsDenied => {
                "you may not read CronJobs: failed runs are reported even if a later one has succeeded"
            }
            Self::JobsFailed => "cannot read Jobs: their failed pods are judged as soon as that works",
            Self::EventsDenied => "you may not read events: causes that only events prove are missing",
            Self::EventsFailed => "cannot list events yet: causes that only earlier events prove are missing",
            Self::EventsCut => {
                "a namespace has too many Warning events to read all: causes that only the others prove are missing"
            }
        }
    }
}

type Read = (Question, Answer, Vec<WatchedEvent>);

pub(super) struct Requests {
    read: Box<dyn Fn(Question) -> BoxFuture<'static, Read> + Send>,
    running: FuturesUnordered<BoxFuture<'static, Read>>,
    questions: Vec<Question>,
    /// Whether only events are listed.
    only_lists: bool,
    /// What is missing of the events that were asked for.
    missing: BTreeMap<Question, Note>,
    noted: HashSet<Note>,
}

/// Whether it is answered by a list of events.
fn is_list(question: &Question) -> bool {
    matches!(question, Question::Events(_) | Question::Kills(_))
}

impl Requests {
    pub(super) fn new(client: Client, limit: Duration) -> Self {
        let read = move |question: Question| {
            let client = client.clone();
            async move {
                let (answer, events) = facts::read(&client, &question, limit).await;
                (question, answer, events)
            }
            .boxed()
        };
        Self::by(Box::new(read))
    }

    fn by(read: Box<dyn Fn(Question) -> BoxFuture<'static, Read> + Send>) -> Self {
        Self {
            read,
            running: FuturesUnordered::new(),
            questions: Vec::new(),
            only_lists: false,
            missing: BTreeMap::new(),
            noted: HashSet::new(),
        }
    }

    /// Starts the reads that are due, as long as there are not too many. The others start when these end.
    pub(super) fn start(&mut self, reads: &mut Reads) {
        while self.running.len() < CONCURRENCY {
            let lists = self.questions.iter().filter(|question| is_list(question)).count();
            let is_allowed = |question: &Question| match is_list(question) {
                true => lists < EVENT_LISTS,
                false => !self.only_lists,
            };
            let Some(question) = reads.next(is_allowed) else { return };
            self.questions.push(question.clone());
            self.running.push((self.read)(question));
        }
    }

    /// Gives up all reads, and starts only lists of events from now on.
    pub(super) fn restrict_to_lists(&mut self, reads: &mut Reads) {
        self.only_lists = true;
        self.running.clear();
        for question in self.questions.drain(..) {
            reads.answered(&question, Answer::Unavailable, Instant::now());
        }
    }

    /// Lists that could not be read and are not needed any more are no longer missing.
    pub(super) fn forget_unasked(&mut self, is_asked: impl Fn(&Question) -> bool) {
        self.missing.retain(|question, note| *note != Note::EventsFailed || is_asked(question));
    }

    pub(super) fn is_reading(&self) -> bool {
        !self.running.is_empty()
    }

    /// The next answer. Waits forever if no read is under way.
    pub(super) async fn next(&mut self) -> Read {
        let Some(read) = self.running.next().await else { return std::future::pending().await };
        self.questions.retain(|question| *question != read.0);
        read
    }

    /// The note about an answer, once. `is_known` is whether an earlier answer remains valid.
    pub(super) fn note_about(&mut self, question: Question, answer: &Answer, is_known: bool) -> Option<Note> {
        let note = match (&question, answer) {
            (Question::Job(_), Answer::Unavailable) if !is_known => Note::JobsFailed,
            (Question::Job(_), Answer::Denied(_)) => Note::JobsDenied,
            (Question::Job(_), Answer::Read(Fact::Job(job))) if !job.denial.is_empty() => Note::CronJobsDenied,
            (_, Answer::Read(Fact::Listed { is_complete: false })) => Note::EventsCut,
            (question, Answer::Denied(_)) if is_list(question) => Note::EventsDenied,
            (question, Answer::Unavailable) if is_list(question) => Note::EventsFailed,
            _ => {
                self.missing.remove(&question);
                return None;
            }
        };
        if is_list(&question) {
            self.missing.insert(question, note);
        }
        self.note(note)
    }

    /// Returns the note the first time.
    pub(super) fn note(&mut self, note: Note) -> Option<Note> {
        self.noted.insert(note).then_some(note)
    }

    /// What is missing of the events that were asked for, if anything is.
    pub(super) fn missing_events(&self) -> Option<Note> {
        self.missing.values().copied().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{JobFact, JobKey, Limits};

    fn job(index: usize) -> Question {
        Question::Job(JobKey { namespace: "shop".to_owned(), name: format!("sums-{index}"), uid: index.to_string() })
    }

    fn requests(answer: fn(&Question) -> Answer) -> (Requests, Reads) {
        let read = move |question: Question| {
            let answer = answer(&question);
            async move { (question, answer, Vec::new()) }.boxed()
        };
        (Requests::by(Box::new(read)), Reads::new(Limits::of_command(Duration::from_secs(15))))
    }

    /// How many answers arrive without a pause, and the notes about them.
    fn answers(requests: &mut Requests, reads: &mut Reads) -> (usize, Vec<Note>) {
        let (mut count, mut notes) = (0, Vec::new());
        requests.start(reads);
        while let Some((question, answer, _)) = requests.next().now_or_never() {
            count += 1;
            reads.answered(&question, answer.clone(), Instant::now());
            requests.start(reads);
            notes.extend(requests.note_about(question, &answer, false));
        }
        (count, notes)
    }

    #[tokio::test]
    async fn reads_all_without_a_pause_and_notes_denials_once() {
        let (mut requests, mut reads) =
            requests(|_| Answer::Read(Fact::Job(JobFact { denial: "no".into(), ..JobFact::default() })));
        let now = Instant::now();
        (0..30).for_each(|index| _ = reads.ask(job(index), None, now));
        requests.start(&mut reads);
        assert_eq!(requests.running.len(), CONCURRENCY);
        assert_eq!(answers(&mut requests, &mut reads), (30, vec![Note::CronJobsDenied]));
        // They are read again in case they may be read later.
        (0..30).for_each(|index| _ = reads.ask(job(index), None, now + Duration::from_secs(20)));
        assert_eq!(answers(&mut requests, &mut reads), (30, vec![]));
    }

    #[tokio::test]
    async fn lists_of_events_do_not_delay_jobs() {
        let (mut requests, mut reads) = requests(|_| Answer::Gone);
        let lists = (0..20).map(|index| Question::Events(format!("team-{index}")));
        lists.for_each(|list| _ = reads.ask(list, None, Instant::now()));
        requests.start(&mut reads);
        assert_eq!(requests.questions.len(), EVENT_LISTS);
        reads.ask(job(0), None, Instant::now());
        requests.start(&mut reads);
        assert!(requests.questions.contains(&job(0)));
        requests.restrict_to_lists(&mut reads);
        reads.ask(job(1), None, Instant::now());
        requests.start(&mut reads);
        assert_eq!(requests.questions.iter().filter(|question| is_list(question)).count(), EVENT_LISTS);
        assert!(!requests.questions.contains(&job(1)), "what is not a list is given up");
    }

    #[tokio::test]
    async fn lists_events_once_and_again_after_an_error() {
        let list = || Question::Events("shop".to_owned());
        let listed = |is_complete| Answer::Read(Fact::Listed { is_complete });
        for (answer, missing, again) in [
            (listed(true), None, false),
            (listed(false), Some(Note::EventsCut), false),
            (Answer::Denied("no".to_owned()), Some(Note::EventsDenied), false),
            (Answer::Unavailable, Some(Note::EventsFailed), true),
        ] {
            let (mut requests, mut reads) = requests(|_| Answer::Read(Fact::Listed { is_complete: true }));
            let now = Instant::now();
            reads.ask(list(), None, now);
            reads.take_due();
            reads.answered(&list(), answer.clone(), now);
            assert_eq!(requests.note_about(list(), &answer, false), missing);
            assert_eq!(requests.missing_events(), missing);
            let is_asked = reads.ask(list(), None, now + Duration::from_secs(20)).is_reading;
            assert_eq!(is_asked, again, "{missing:?}");
            assert_eq!(answers(&mut requests, &mut reads), (usize::from(again), Vec::new()));
            assert_eq!(requests.missing_events(), missing.filter(|_| !again), "{missing:?}");
        }
    }

    #[test]
    fn a_failed_list_that_is_not_needed_is_not_missing() {
        let (mut requests, _) = requests(|_| Answer::Gone);
        let list = Question::Kills("shop".to_owned());
        requests.note_about(list, &Answer::Unavailable, false);
        requests.forget_unasked(|_| false);
        assert_eq!(requests.missing_events(), None);
    }
}
