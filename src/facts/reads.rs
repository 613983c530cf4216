//! Decides what to read that verdicts and their explanations depend on, and when again. Each thing is read once for all who ask
//! for it, a bounded number of things is known, and without the right to read them, it is tried rarely.
//!
//! The one who judges [asks](Reads::ask), starts the reads that are [due](Reads::next) by its own means, and
//! [passes the answers](Reads::answered). Pure: no I/O, and the caller passes the time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use crate::{api::NamespacedName, backoff::doubled};

use super::question::{Answer, Fact, JobFact, JobKey, Question, RevisionFact, RevisionKey};

/// How much is known at a time besides Jobs, in all and about one namespace. Nothing else is read until some of it is no
/// longer needed.
const KNOWN: usize = 512;
const IN_NAMESPACE: usize = 64;
/// How long something other than a Job is kept after it was last asked for.
const UNUSED: Duration = Duration::from_secs(10 * 60);
/// How long what changes all the time is used before it is read again.
const FRESH: Duration = Duration::from_secs(5 * 60);
/// The same for the pods that use ports.
const FRESH_HOLDERS: Duration = Duration::from_secs(15);
/// How long nothing else is read in a scope after access was denied. Who does not grant a right should not see many refusals.
const DENIED: Duration = Duration::from_secs(10 * 60);
/// The same for Jobs, whose right is not optional: at first, and at most.
const JOBS_DENIED: Duration = Duration::from_secs(60);
const JOBS_DENIED_LONGEST: Duration = Duration::from_secs(15 * 60);
/// The delay until a Job is read again after one of its pods ended. It doubles with each further read, up to [`SLOWEST`].
const SOONEST: Duration = Duration::from_secs(1);
/// The shortest time between two reads of a Job that ends of pods cause, while no read brings anything new. It grows up to
/// this.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The delay until a Job is read again if nothing suggests that it has changed.
const USUAL: Duration = Duration::from_secs(60);
const SLOWEST: Duration = Duration::from_secs(15 * 60);
/// The longest delay for a Job that was never read, since a status may be waiting for it.
const UNREAD: Duration = Duration::from_secs(15);
/// The delay after the first error when anything else was read. It doubles up to [`SLOWEST`].
const RETRY: Duration = Duration::from_secs(30);

/// A resource and a namespace, for which access is granted or denied.
type Scope = (&'static str, String);

/// What the operator and the commands limit differently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How much is known besides Jobs, in all and about one namespace.
    pub(crate) known: usize,
    pub(crate) in_namespace: usize,
    /// The longest delay until a Job that runs is read again, or something that could not be read.
    pub(crate) slowest: Duration,
}

impl Limits {
    /// Of the operator, which shares its requests and its memory between tenants.
    pub(crate) const OPERATOR: Self = Self { known: KNOWN, in_namespace: IN_NAMESPACE, slowest: SLOWEST };

    /// Of a command, which reads what one person has asked for.
    pub(crate) const fn of_command(slowest: Duration) -> Self {
        Self { known: usize::MAX, in_namespace: usize::MAX, slowest }
    }
}

#[derive(Debug)]
pub(crate) struct Reads {
    limits: Limits,
    known: BTreeMap<Question, State>,
    /// The reads that are due, those first of which nothing is known.
    due: BTreeSet<(bool, Question)>,
    denied: BTreeMap<Scope, Denial>,
}

#[derive(Debug)]
struct State {
    /// Absent until the first read that gave an answer, or if the object does not exist.
    fact: Option<Fact>,
    next: Next,
    /// The delay after the next read.
    delay: Duration,
    asked_since: Instant,
    last_asked: Instant,
    last_read: Option<Instant>,
    /// Who started the read that is under way.
    asker: Option<NamespacedName>,
    /// How often a pod of a Job has ended since a read brought anything new.
    ends: u32,
}

/// When something is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It is being read, or waits for that.
    Reading,
    At(Instant),
    Never,
}

#[derive(Debug)]
struct Denial {
    /// Until when nothing else is read.
    until: Instant,
    /// How many pauses there have been. Several refusals may begin the same pause.
    pauses: u32,
    /// The API server's message.
    message: String,
    /// The objects that asked, and when each last did.
    objects: HashMap<NamespacedName, Instant>,
    last_asked: Instant,
}

/// The answer to [`Reads::ask`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Absent if it is not known. Of a Job that is gone, or may not be read, nothing is known: that is a fact as well.
    pub(crate) fact: Option<Fact>,
    pub(crate) is_reading: bool,
    /// When it was first asked for.
    pub(crate) since: Instant,
    /// When it should be asked for again, because a read will be due.
    pub(crate) due: Option<Instant>,
}

impl Reads {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, known: BTreeMap::new(), due: BTreeSet::new(), denied: BTreeMap::new() }
    }

    /// Returns what is known. If a read is due, [`next`](Self::next) will return it. `object` is who asks.
    pub(crate) fn ask(&mut self, question: Question, object: Option<&NamespacedName>, now: Instant) -> Asked {
        if let Some(fact) = self.comparison(&question, now) {
            return Asked { fact: Some(fact), is_reading: false, since: now, due: None };
        }
        let denial = if self.denied.is_empty() { None } else { self.denied.get_mut(&question.scope()) };
        let denied_until = denial.as_ref().map(|denial| denial.until);
        let is_denied = denied_until.is_some_and(|until| now < until);
        let unknown = |is_absent: bool| match &question {
            Question::Job(_) if is_absent => Some(Fact::Job(JobFact::default())),
            _ => None,
        };
        if !self.known.contains_key(&question) && (is_denied || !has_room(&self.known, &question, self.limits)) {
            if let Some(denial) = denial {
                denial.add(object, now);
            }
            let due = denied_until.filter(|_| is_denied);
            return Asked { fact: unknown(is_denied), is_reading: false, since: now, due };
        }
        let state = self.known.entry(question.clone()).or_insert_with(|| State::new(&question, now));
        state.last_asked = now;
        let has_denial = denial.is_some();
        if let Some(denial) = denial {
            denial.add(object, now);
            if !is_denied && state.is_due(now) {
                // One read shows whether access is granted now.
                denial.pause(&question, now);
            }
        }
        if state.is_due(now) && !is_denied {
            (state.next, state.last_read, state.asker) = (Next::Reading, Some(now), object.cloned());
            self.due.insert((state.fact.is_some(), question.clone()));
        }
        Asked {
            fact: state.fact.clone().or_else(|| unknown(has_denial || state.next == Next::Never)),
            is_reading: state.next == Next::Reading,
            since: state.asked_since,
            due: match state.next {
                Next::At(at) => Some(denied_until.map_or(at, |until| at.max(until))),
                Next::Reading | Next::Never => None,
            },
        }
    }

    /// The comparison of a revision with an earlier one that is gone now, if only what its own template says is asked for.
    fn comparison(&mut self, question: &Question, now: Instant) -> Option<Fact> {
        let Question::Revision(key) = question else { return None };
        if !key.before.is_empty() || self.known.contains_key(question) {
            return None;
        }
        let with = |before: &str| RevisionKey { before: before.to_owned(), ..key.clone() };
        let same = self
            .known
            .range_mut(question..)
            .take_while(|(other, _)| matches!(other, Question::Revision(other) if with(&other.before) == *other));
        let compared = same.filter_map(|(_, state)| match state.fact.as_ref()? {
            Fact::Revision(RevisionFact::Compared(changes) | RevisionFact::NotNewer(changes)) => {
                let changes = RevisionFact::Compared(changes.clone());
                state.last_asked = now;
                Some(Fact::Revision(changes))
            }
            _ => None,
        });
        compared.last()
    }

    /// What is known, without asking for it.
    pub(crate) fn get(&self, question: &Question) -> Option<&Fact> {
        self.known.get(question)?.fact.as_ref()
    }

    /// The same, of what is to be kept.
    pub(crate) fn keep(&mut self, question: &Question, now: Instant) -> Option<&Fact> {
        let state = self.known.get_mut(question)?;
        state.last_asked = now;
        state.fact.as_ref()
    }

    /// Whether it was read, or does not exist.
    pub(crate) fn is_answered(&self, question: &Question) -> bool {
        self.known.get(question).is_some_and(|state| state.fact.is_some() || state.next == Next::Never)
    }

    /// Whether it was asked for since then.
    pub(crate) fn is_asked(&self, question: &Question, since: Instant) -> bool {
        self.known.get(question).is_some_and(|state| state.last_asked >= since)
    }

    /// When a read will be due of what was asked for since then.
    pub(crate) fn due(&self, since: Instant) -> Option<Instant> {
        let asked = self.known.iter().filter(|(_, state)| state.last_asked >= since);
        let due = asked.filter_map(|(question, state)| match state.next {
            Next::At(at) => Some(self.denied.get(&question.scope()).map_or(at, |denial| at.max(denial.until))),
            Next::Reading | Next::Never => None,
        });
        let denied = self.denied.values().filter(|denial| denial.last_asked >= since);
        // If a pause is over, nothing that was asked for has waited for its end.
        due.chain(denied.map(|denial| denial.until).filter(|until| *until > since)).min()
    }

    /// Keeps what is known without a read.
    pub(crate) fn give(&mut self, question: Question, fact: Fact, now: Instant) {
        let state = State { fact: Some(fact), next: Next::Never, ..State::new(&question, now) };
        self.known.insert(question, state);
    }

    /// The next read to start, of those that are allowed.
    pub(crate) fn next(&mut self, is_allowed: impl Fn(&Question) -> bool) -> Option<Question> {
        let next = self.due.iter().find(|(_, question)| is_allowed(question))?.clone();
        self.due.remove(&next);
        Some(next.1)
    }

    /// All reads to start.
    pub(crate) fn take_due(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.due).into_iter().map(|(_, question)| question).collect()
    }

    /// Stores the result of a read.
    pub(crate) fn answered(&mut self, question: &Question, answer: Answer, now: Instant) {
        let Some(state) = self.known.get_mut(question) else { return };
        let asker = state.asker.take();
        match answer {
            Answer::Denied(message) => {
                // A Job's end and a revision do not change. The nodes may have, and nobody would notice it.
                if state.fact.is_some() && matches!(question, Question::Job(_) | Question::Revision(_)) {
                    state.next = Next::At(now);
                } else {
                    self.known.remove(question);
                }
                let denial = self.denied.entry(question.scope()).or_insert_with(|| Denial::new(question, now));
                denial.message = message;
                denial.add(asker.as_ref(), now);
                return;
            }
            // What is known stays: the owner of a Job does not change, and a complete Job stays complete.
            Answer::Unavailable => {
                let longest = if state.fact.is_none() && is_job(question) { UNREAD } else { SLOWEST };
                state.next = Next::At(now + state.delay.min(self.limits.slowest));
                state.delay = (2 * state.delay).min(longest);
                return;
            }
            Answer::Gone => state.next = Next::Never,
            Answer::Read(fact) => state.read(fact, self.limits.slowest, now),
        }
        self.denied.remove(&question.scope());
    }

    /// A pod of this Job ended. The Job's status, or that of other runs of its CronJob, may change a moment later. Returns the
    /// Jobs to ask for again.
    pub(crate) fn pod_ended(&mut self, key: &JobKey, now: Instant) -> Vec<Question> {
        let mut jobs = Vec::new();
        let first = JobKey { namespace: key.namespace.clone(), ..JobKey::default() };
        for (question, state) in self.known.range_mut(Question::Job(first)..) {
            let Question::Job(known) = question else { break };
            if known.namespace != key.namespace {
                break;
            }
            let Some(Fact::Job(job)) = state.fact.as_ref().filter(|_| state.next != Next::Never) else { continue };
            let is_other_run = || {
                let cron_job = job.facts.cron_job.as_deref().filter(|name| !name.is_empty());
                let rest = cron_job.and_then(|cron_job| key.name.strip_prefix(cron_job));
                rest.is_some_and(|rest| rest.starts_with('-'))
            };
            if (known == key || is_other_run()) && state.pod_ended(now) {
                jobs.push(question.clone());
            }
        }
        jobs
    }

    /// The sentences about rights that are missing to read what this object asks for. By now, it has asked for all Jobs that
    /// it needs, but not for the revisions.
    pub(crate) fn denials(&self, object: &NamespacedName, now: Instant) -> Vec<String> {
        let denied = self.denied.iter().filter(|((resource, _), denial)| {
            denial.objects.get(object).is_some_and(|asked| *resource != "jobs" || *asked >= now)
        });
        let sentence = |((resource, _), denial): (&Scope, &Denial)| {
            let what = match *resource {
                "jobs" => "the Job of a failed pod",
                "replicasets" => "the ReplicaSets of a workload to find what changed",
                "controllerrevisions" => "the ControllerRevisions of a workload to find what changed",
                // The right is optional, so nothing reports that it is missing.
                _ => return None,
            };
            Some((*resource != "jobs", format!("could not read {what}: {}", denial.message)))
        };
        let mut sentences: Vec<_> = denied.filter_map(sentence).collect();
        sentences.sort_by_key(|(is_optional, _)| *is_optional);
        sentences.into_iter().map(|(_, sentence)| sentence).collect()
    }

    /// Forgets a deleted object.
    pub(crate) fn forget(&mut self, object: &NamespacedName) {
        self.denied.values_mut().for_each(|denial| _ = denial.objects.remove(object));
    }

    /// This replica begins to lead, perhaps again. A follower reads nothing, so what may have changed since is read again.
    pub(crate) fn begin_term(&mut self) {
        self.known.retain(|_, state| state.next == Next::Never);
        self.due.clear();
        self.denied.clear();
    }

    /// Forgets the Jobs that are no longer needed, what nobody has asked for in a while, and the denials that have passed.
    pub(crate) fn sweep(&mut self, is_needed: impl Fn(&JobKey) -> bool, now: Instant) {
        self.known.retain(|question, state| {
            state.next == Next::Reading
                || match question {
                    Question::Job(job) => is_needed(job),
                    _ => now < state.last_asked + UNUSED,
                }
        });
        self.denied.retain(|_, denial| now < denial.until + UNUSED);
    }
}

fn is_job(question: &Question) -> bool {
    matches!(question, Question::Job(_))
}

/// Jobs are bounded by the pods that have them.
fn has_room(known: &BTreeMap<Question, State>, question: &Question, limits: Limits) -> bool {
    let namespace = question.namespace();
    if is_job(question) || namespace.is_empty() || limits.known == usize::MAX {
        return true;
    }
    let others = known.range(Question::Revision(RevisionKey::default())..);
    let (all, own) =
        others.fold((0, 0), |(all, own), (other, _)| (all + 1, own + usize::from(other.namespace() == namespace)));
    all < limits.known && own < limits.in_namespace
}

impl Denial {
    fn new(question: &Question, now: Instant) -> Self {
        let (message, objects) = (String::new(), HashMap::new());
        let mut denial = Self { until: now, pauses: 0, message, objects, last_asked: now };
        denial.pause(question, now);
        denial
    }

    fn add(&mut self, object: Option<&NamespacedName>, now: Instant) {
        self.last_asked = now;
        match object.and_then(|object| self.objects.get_mut(object)) {
            Some(asked) => *asked = now,
            None => self.objects.extend(object.map(|object| (object.clone(), now))),
        }
    }

    /// Begins the next pause.
    fn pause(&mut self, question: &Question, now: Instant) {
        let pause = if is_job(question) { doubled(JOBS_DENIED, self.pauses, JOBS_DENIED_LONGEST) } else { DENIED };
        (self.until, self.pauses) = (now + pause, self.pauses.saturating_add(1));
    }
}

impl State {
    fn new(question: &Question, now: Instant) -> Self {
        let delay = if is_job(question) { SOONEST } else { RETRY };
        let next = Next::At(now);
        Self { fact: None, next, delay, asked_since: now, last_asked: now, last_read: None, asker: None, ends: 0 }
    }

    fn is_due(&self, now: Instant) -> bool {
        matches!(self.next, Next::At(at) if at <= now)
    }

    fn read(&mut self, fact: Fact, slowest: Duration, now: Instant) {
        self.next = match &fact {
            Fact::Job(job) if job.is_final() => Next::Never,
            Fact::Job(job) => {
                if self.fact.is_none() {
                    self.delay = USUAL;
                }
                // Only a later run of its CronJob may change what is said about a failed one. The operator sees its pods end,
                // a command does not.
                let slowest = if job.facts.failed.is_some() { slowest.max(USUAL) } else { slowest };
                let delay = self.delay.min(slowest);
                self.delay = (2 * self.delay).min(SLOWEST);
                Next::At(now + delay)
            }
            Fact::Revision(_) | Fact::LimitChanges(_) | Fact::Listed { .. } => Next::Never,
            Fact::Nodes(_) | Fact::Claim(_) | Fact::Preemptions(_) => Next::At(now + FRESH),
            Fact::PortHolders(_) => Next::At(now + FRESH_HOLDERS),
        };
        if !matches!(fact, Fact::Job(_)) {
            self.delay = RETRY;
        }
        if self.fact.as_ref() != Some(&fact) {
            self.ends = 0;
        }
        self.fact = Some(fact);
    }

    /// Plans a read of a Job. Returns whether it is earlier than the one that is planned.
    fn pod_ended(&mut self, now: Instant) -> bool {
        // Who changes ended pods all the time must not cause a read each time.
        let pause = match self.ends {
            0 => Duration::ZERO,
            ends => doubled(SOONEST, ends - 1, LONGEST_PAUSE),
        };
        let at = self.last_read.map_or(now, |read| now.max(read + pause));
        match self.next {
            Next::At(planned) if at < planned => self.next = Next::At(at),
            Next::Reading => {}
            Next::At(_) | Next::Never => return false,
        }
        self.ends = self.ends.saturating_add(1);
        self.delay = SOONEST.max(pause);
        true
    }
}

#[cfg(test)]
mod tests;
