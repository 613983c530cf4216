//! What verdicts about pods depend on besides the pods themselves: the operator and all commands know it by the same means.
//!
//! [`Known`] is the one [`World`]. Whether a pod was replaced, and who uses its port, it takes from the index of pods; the
//! events from their store. All else is read when a verdict asks for it: [`Reads`] decides what and when, [`read`] sends the
//! requests. It never judges, and does not know who is told.

mod question;
mod reads;
mod requests;

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use arcstr::ArcStr;
use tokio::time::Instant;

pub(crate) use self::{
    question::{Answer, Fact, JobFact, JobKey, Question, RevisionFact, RevisionKey},
    reads::{Limits, Reads},
    requests::{get, get_at, read},
};

use crate::{
    api::NamespacedName,
    diagnosis::{
        ClaimFacts, ClusterNodes, JobFacts, LimitChanges, PortHolder, Preempted, TemplateChanges, World, owner_names,
        revision_hash,
    },
    events::{Event, EventStore},
    index::{Index, ViewId},
    pods::{Controller, Pod},
};

/// Who judges pods.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Judge<'a> {
    /// The operator, for an object. It reads nothing for pods that are only counted.
    Object(&'a NamespacedName),
    /// A command. It lists the events of namespaces at once, those about kills when they are needed.
    Command {
        /// Whether Jobs are read. Otherwise, one that is not known stays so.
        reads_jobs: bool,
        /// Whether the index lacks pods that may use a port.
        reads_port_holders: bool,
    },
}

/// The world as far as it is known. What else is needed is asked for.
pub(crate) struct Known<'a> {
    index: &'a Index,
    view: ViewId,
    events: &'a EventStore,
    reads: &'a RefCell<Reads>,
    judge: Judge<'a>,
    now: Instant,
    asked_job: Cell<Option<AskedJob>>,
    due: Cell<Option<Instant>>,
    is_lacking: Cell<bool>,
}

/// What is known of a Job that a verdict has asked for.
pub(crate) struct AskedJob {
    /// When it was first asked for.
    pub(crate) since: Instant,
    /// The API server's message if it denied access to the CronJob; else empty.
    pub(crate) denial: String,
}

impl<'a> Known<'a> {
    pub(crate) fn new(
        index: &'a Index,
        view: ViewId,
        events: &'a EventStore,
        reads: &'a RefCell<Reads>,
        judge: Judge<'a>,
        now: Instant,
    ) -> Self {
        let (asked_job, due, is_lacking) = (Cell::default(), Cell::default(), Cell::default());
        Self { index, view, events, reads, judge, now, asked_job, due, is_lacking }
    }

    /// The Job that the last verdict has asked for, if it has.
    pub(crate) fn take_asked_job(&self) -> Option<AskedJob> {
        self.asked_job.take()
    }

    /// When a read will be due of what verdicts have asked for.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.get()
    }

    /// Whether something is being read that explains a verdict, and is not known.
    pub(crate) fn is_lacking(&self) -> bool {
        self.is_lacking.get()
    }

    /// What is known of a revision of the pod's owner, compared with an earlier one, if there is one.
    pub(crate) fn revision_fact(&self, pod: &Pod, hash: &str, before: Option<&str>) -> Option<RevisionFact> {
        match self.ask(Question::Revision(RevisionKey::new(pod, hash, before)?))? {
            Fact::Revision(revision) => Some(revision),
            _ => None,
        }
    }

    fn ask(&self, question: Question) -> Option<Fact> {
        let object = match self.judge {
            Judge::Object(object) => Some(object),
            Judge::Command { .. } => None,
        };
        let is_job = matches!(question, Question::Job(_));
        let asked = self.reads.borrow_mut().ask(question, object, self.now);
        self.due.set(self.due.get().into_iter().chain(asked.due).min());
        self.is_lacking.set(self.is_lacking.get() || asked.is_reading && asked.fact.is_none() && !is_job);
        if is_job {
            let denial = match &asked.fact {
                Some(Fact::Job(job)) => job.denial.clone(),
                _ => String::new(),
            };
            self.asked_job.set(Some(AskedJob { since: asked.since, denial }));
        }
        asked.fact
    }

    fn skips(&self, pod: &Pod) -> bool {
        matches!(self.judge, Judge::Object(_)) && pod.ignored
    }
}

impl World for Known<'_> {
    fn is_replaced(&self, pod: &Pod) -> bool {
        self.index.is_replaced(pod)
    }

    fn job(&self, pod: &Pod, job: &Controller) -> Option<Arc<JobFacts>> {
        let question = Question::Job(JobKey::new(pod, job));
        let is_read = matches!(self.judge, Judge::Object(_) | Judge::Command { reads_jobs: true, .. });
        let fact = match is_read && !self.skips(pod) {
            true => self.ask(question)?,
            false => self.reads.borrow().get(&question).cloned().unwrap_or(Fact::Job(JobFact::default())),
        };
        match fact {
            Fact::Job(job) => Some(job.facts),
            _ => None,
        }
    }

    fn events(&self, pod: &Pod) -> Arc<[Event]> {
        self.events.about(pod)
    }

    fn port_holder(&self, pod: &Pod) -> Option<PortHolder> {
        if matches!(self.judge, Judge::Command { reads_port_holders: true, .. }) {
            let Fact::PortHolders(holders) = self.ask(Question::PortHolders(pod.namespace.to_string()))? else {
                return None;
            };
            return holders.holder(pod, |_| true);
        }
        self.index.port_holder(self.view, pod)
    }

    fn revision(&self, pod: &Pod) -> Option<Arc<TemplateChanges>> {
        if self.skips(pod) {
            return None;
        }
        let (kind, name) = owner_names(pod)?;
        let hash = revision_hash(pod)?;
        let before = self.index.healthy_before(&pod.namespace, kind, name, hash).map(|before| before.hash);
        match self.revision_fact(pod, hash, before)? {
            RevisionFact::Compared(changes) | RevisionFact::NotNewer(changes) => Some(changes),
            RevisionFact::TooLarge => None,
        }
    }

    fn limit_changes(&self, pod: &Pod) -> Option<Arc<LimitChanges>> {
        if self.skips(pod) {
            return None;
        }
        match self.ask(Question::limit_changes(pod)?) {
            Some(Fact::LimitChanges(changes)) => Some(changes),
            _ => None,
        }
    }

    fn nodes(&self, pod: &Pod) -> Option<Arc<ClusterNodes>> {
        if self.skips(pod) {
            return None;
        }
        match self.ask(Question::Nodes) {
            Some(Fact::Nodes(nodes)) => Some(nodes),
            _ => None,
        }
    }

    fn claims(&self, pod: &Pod) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
        let known = |(name, question)| match self.ask(question)? {
            Fact::Claim(claim) => Some((name, claim)),
            _ => None,
        };
        if self.skips(pod) { Vec::new() } else { Question::claims(pod).filter_map(known).collect() }
    }

    fn preempted(&self, pod: &Pod, may_be_news: bool) -> Option<Preempted> {
        if self.skips(pod) {
            return None;
        }
        let question = Question::Preemptions(pod.namespace.to_string());
        let kept = if may_be_news { None } else { self.reads.borrow_mut().keep(&question, self.now).cloned() };
        let Fact::Preemptions(preemptions) = kept.or_else(|| self.ask(question))? else { return None };
        let may_name = |namespace: &str, uid| match self.judge {
            Judge::Object(_) => self.index.selects_pod_in(self.view, namespace, uid),
            Judge::Command { .. } => true,
        };
        preemptions.before(pod, may_name)
    }

    fn lacks_kills(&self, pod: &Pod) {
        let namespace = pod.namespace.to_string();
        // Most kills are explained by the warnings.
        let has_listed = || self.reads.borrow().get(&Question::Events(namespace.clone())).is_some();
        if matches!(self.judge, Judge::Command { .. }) && has_listed() {
            self.ask(Question::Kills(namespace));
        }
    }
}
