//! Decides about one target: it is waited for, done, or failed. Pure.

use jiff::Timestamp;

use crate::{
    diagnosis::Thresholds,
    pods::Pod,
    render::{
        document::{Fault, length},
        numbers::counted,
    },
};

use super::{
    facts::{Facts, Gone, refusal},
    newest::{Newest, Revision, Youngest},
    observed::{Observed, after},
    outlook::{Assessment, Check, Fate, Limits, Outlook, Trouble, assess, severity},
    target::{Kind, Target},
    workload::{Progress, Workload},
};

/// How many troubles of a target are kept. The others are counted.
const TROUBLES: usize = 5;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) state: State,
    /// How far the target is; continues a sentence that begins with its name.
    pub(super) what: String,
    /// What is wrong with the pods that count: the most severe first, and that which has failed the target.
    pub(super) troubles: Vec<Trouble>,
    /// How many pods have troubles besides these.
    pub(super) more: usize,
    /// How many of all these pods keep the target from being done. A failed pod does not: it is replaced.
    blocking: usize,
    /// When the decision may change although nothing else does.
    pub(super) recheck: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    Waiting,
    Done,
    Failed(Fault),
    /// The target can never be known to be done.
    Unknowable,
}

impl Decision {
    pub(super) fn waiting(what: impl Into<String>) -> Self {
        Self { state: State::Waiting, what: what.into(), troubles: Vec::new(), more: 0, blocking: 0, recheck: None }
    }

    fn failed(self, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { state: State::Failed(Fault { code: code.into(), message: message.into() }), ..self }
    }
}

pub(super) fn decide(facts: &Facts<'_>) -> Decision {
    match facts.gone {
        Some(Gone::Deleted(why)) => return Decision::waiting(why).failed("Deleted", why),
        Some(Gone::Unseen(why)) => return Decision { state: State::Unknowable, ..Decision::waiting(why) },
        None => {}
    }
    match (facts.target, facts.workload) {
        (Target::Named(Kind::Pod, _) | Target::Selected(_), _) => decide_pods(facts),
        (Target::Named(..), Some(workload)) => decide_workload(*facts, workload),
        (Target::Named(..), None) => Decision::waiting("not read yet"),
    }
}

fn decide_workload(mut facts: Facts<'_>, workload: &Workload) -> Decision {
    let Limits { stable, .. } = &mut facts.check.limits;
    *stable = (*stable).max(workload.min_ready());
    let facts = &facts;
    let progress = workload.progress();
    if let Progress::Unobserved(what) = progress {
        return Decision::waiting(what);
    }
    let newest = Newest::of(workload, facts.revisions.iter().copied());
    let fate = if workload.kind() == Kind::Job { Fate::Retried } else { Fate::Replaced };
    let pods = facts.pods.iter().copied().filter(|observed| newest.includes(&observed.pod));
    let decision = with_troubles(facts, pods.map(|observed| (observed, fate)));
    match progress {
        Progress::Unobserved(what) => Decision { what: what.to_owned(), ..decision },
        Progress::Unknowable(what) => {
            let what = format!("{what}, so only RollingUpdate can be waited for, as with `kubectl rollout status`");
            Decision { state: State::Unknowable, what, ..decision }
        }
        Progress::Failed { .. } if newest == Newest::Unlisted => Decision { what: UNLISTED.to_owned(), ..decision },
        Progress::Failed { message, .. }
            if is_of_other_revision(facts, &newest, &message) && facts.check.now < deadline(facts, workload) =>
        {
            let what = "it exceeded the progress deadline with another revision".to_owned();
            Decision { what, recheck: earlier(decision.recheck, Some(deadline(facts, workload))), ..decision }
        }
        Progress::Failed { reason, message } => {
            // The sentence about a pod explains more than the deadline that has passed.
            let message = match decision.troubles.first() {
                Some(trouble) => format!("{message}; {}", trouble.finding.explanation.message),
                None => message,
            };
            Decision { what: message.clone(), ..decision }.failed(reason, message)
        }
        // The pods of a complete Job may have failed before.
        Progress::Done(what) if workload.kind() == Kind::Job => Decision { state: State::Done, what, ..decision },
        Progress::Done(_) if newest == Newest::Unlisted => Decision { what: UNLISTED.to_owned(), ..decision },
        Progress::Done(what) => {
            let exists = |pod: &Pod| pod.deletion.is_none() && pod.phase != "Failed" && newest.includes(pod);
            let pods: Vec<&Observed> = facts.pods.iter().copied().filter(|observed| exists(&observed.pod)).collect();
            let (existing, counted) = (pods.len(), usize::try_from(workload.updated_pods()).unwrap_or_default());
            if newest.creator().is_some() && existing + facts.unreadable.len() < counted && !is_failed(&decision) {
                // The watch of pods is behind, or the controller does not run.
                let what = format!("{what}, but only {existing} of the pods of its newest revision exist");
                return Decision { what, ..decision };
            }
            done_unless_troubled(facts, Decision { what, ..decision }, &pods)
        }
        Progress::Waiting(what) => {
            let decision = held_up(facts, workload, &newest, Decision { what, ..decision });
            match refusal(facts, workload, &newest) {
                Some((Outlook::Hopeless, cause, sentence)) if !is_failed(&decision) => {
                    decision.failed(cause.as_str(), format!("its pods cannot be created: {sentence}"))
                }
                Some((outlook, _, sentence)) => {
                    let recheck = match outlook {
                        Outlook::HopelessAt(time) => earlier(decision.recheck, Some(time)),
                        _ => decision.recheck,
                    };
                    let what = format!("{}; pods cannot be created: {sentence}", decision.what);
                    Decision { what, recheck, ..decision }
                }
                None => decision,
            }
        }
    }
}

fn decide_pods(facts: &Facts<'_>) -> Decision {
    let is_named = matches!(facts.target, Target::Named(..));
    let youngest = Youngest::of(facts.pods.iter().map(|observed| &observed.pod));
    let fate = |pod: &Pod| match &pod.controller {
        Some(_) if is_named => Fate::Final,
        Some(_) if youngest.supersedes(pod) => Fate::Superseded,
        Some(controller) if controller.kind == "Job" => fate_of_job(facts, pod),
        Some(_) => Fate::Replaced,
        None => Fate::Final,
    };
    let is_left = |pod: &Pod| match fate(pod) {
        Fate::Final => false,
        Fate::Retried => is_retried(facts, pod),
        Fate::Replaced | Fate::Superseded => true,
    };
    let counting: Vec<&Observed> = facts
        .pods
        .iter()
        .copied()
        .filter(|Observed { pod, .. }| pod.deletion.is_none() && (is_named || !pod.ignored))
        .filter(|Observed { pod, .. }| pod.phase != "Failed" || !is_left(pod))
        .collect();
    let decision = with_troubles(facts, facts.pods.iter().map(|observed| (*observed, fate(&observed.pod))));
    let is_ready = |pod: &Pod| pod.phase == "Succeeded" || pod.is_true("Ready");
    let ready = counting.iter().filter(|observed| is_ready(&observed.pod)).count();
    if counting.is_empty() {
        let what = match facts.pods.len() + facts.unreadable.len() {
            0 => "no pod has these labels".to_owned(),
            all => {
                let all = counted(all, "pod");
                format!(
                    "{all} with these labels, but none that counts: they are being deleted, are ignored, or have failed"
                )
            }
        };
        return Decision { what, ..decision };
    }
    if ready == counting.len() {
        let what = format!("{} ready or succeeded", counted(counting.len(), "pod"));
        return done_unless_troubled(facts, Decision { what, ..decision }, &counting);
    }
    Decision { what: format!("{ready} of {} ready", counted(counting.len(), "pod")), ..decision }
}

/// What becomes of the failed pods of a Job. Their Job alone knows: it may have given up while other Jobs succeed.
fn fate_of_job(facts: &Facts<'_>, pod: &Pod) -> Fate {
    match facts.job_of(pod) {
        Some(job) if job.superseded => Fate::Superseded,
        Some(job) if job.failed.is_some() => Fate::Final,
        _ => Fate::Retried,
    }
}

/// Whether the Job of a failed pod is complete, or runs another one. Between two attempts it may be about to give up.
fn is_retried(facts: &Facts<'_>, pod: &Pod) -> bool {
    let uid = pod.controller.as_ref().map(|job| job.uid.as_str());
    let is_complete = facts.job_of(pod).is_some_and(|job| job.complete);
    let runs = |other: &Pod| {
        let is_over = other.deletion.is_some() || matches!(other.phase.as_str(), "Failed" | "Succeeded");
        !is_over && other.controller.as_ref().map(|job| job.uid.as_str()) == uid
    };
    is_complete || facts.pods.iter().any(|other| runs(&other.pod))
}

const UNLISTED: &str = "its newest ReplicaSet is not listed yet";

/// Whether the message of a condition names a ReplicaSet other than the newest. After a rollback, a Deployment keeps the
/// condition of the revision that made no progress until the other one makes some.
fn is_of_other_revision(facts: &Facts<'_>, newest: &Newest, message: &str) -> bool {
    let is_named = |revision: &&&Revision| message.contains(&format!("\"{}\"", revision.name));
    facts.revisions.iter().find(is_named).is_some_and(|revision| !newest.is(revision))
}

/// Until when a Deployment may make no progress, as far as the wait can see.
fn deadline(facts: &Facts<'_>, workload: &Workload) -> Timestamp {
    after(facts.progressed.unwrap_or(facts.check.begun), workload.progress_deadline())
}

/// A StatefulSet updates no further pod while one of an earlier revision is not ready, so this one is shown.
fn held_up(facts: &Facts<'_>, workload: &Workload, newest: &Newest, decision: Decision) -> Decision {
    if workload.kind() != Kind::StatefulSet || decision.troubles.iter().any(Trouble::is_open) {
        return decision;
    }
    let is_earlier = |pod: &Pod| {
        let is_own = pod.controller.as_ref().is_some_and(|own| own.uid == workload.uid());
        is_own && !newest.includes(pod) && pod.deletion.is_none() && !pod.ignored
    };
    let earlier_pods = facts.pods.iter().filter(|observed| is_earlier(&observed.pod));
    let world = facts.world();
    let assess = |observed: &&Observed| assess(observed, &world, Fate::Replaced, facts.check).trouble;
    let mut troubles = earlier_pods.filter_map(assess);
    let trouble = troubles.next().map(|trouble| Trouble { outlook: Outlook::MayMend, ..trouble });
    let sentence = workload.held_up(facts.pods.iter().map(|observed| &observed.pod));
    let what = match sentence.filter(|_| trouble.is_some()) {
        Some(sentence) => format!("{}; {sentence}", decision.what),
        None => decision.what,
    };
    Decision { what, troubles: trouble.into_iter().collect(), ..decision }
}

/// Done once all of `pods` are healthy and have been ready for long enough.
fn done_unless_troubled(facts: &Facts<'_>, decision: Decision, pods: &[&Observed]) -> Decision {
    let Check { limits, now, .. } = facts.check;
    if is_failed(&decision) {
        return decision;
    }
    let what = &decision.what;
    if let Some(name) = facts.unreadable.first() {
        return Decision { what: format!("{what}, but the pod {name} cannot be decoded"), ..decision };
    }
    if decision.blocking > 0 {
        return Decision { what: format!("{what}, but not all are healthy"), ..decision };
    }
    let runs = |pod: &Pod| !pod.ignored && pod.phase != "Succeeded";
    let running = || pods.iter().copied().filter(|observed| runs(&observed.pod));
    let stable = running().filter_map(Observed::ready_since).max().map(|since| after(since, limits.stable));
    if let Some(stable) = stable.filter(|stable| *stable > now) {
        let what = format!("{what}, ready for less than {}", length(limits.stable));
        return Decision { what, recheck: earlier(decision.recheck, Some(stable)), ..decision };
    }
    // Ready then only means that it runs.
    let is_probed = |pod: &Pod| {
        pod.omitted.containers > 0
            || pod.init_containers.iter().chain(&pod.containers).any(|container| container.readiness_probe.is_some())
    };
    let has_no_probe = running().next().is_some() && !running().any(|observed| is_probed(&observed.pod));
    let mut what = if has_no_probe { format!("{what}, without a readiness probe") } else { decision.what };
    if let Some(mended) = decision.troubles.iter().find(|trouble| !trouble.is_open()) {
        let (pod, code, sentence) = (&mended.pod.name, mended.code(), &mended.finding.explanation.message);
        let restarted = length(Thresholds::default().restarted);
        what.push_str(&format!(
            "; {pod} failed before ({code}: {sentence}), and is reported until it has run for {restarted}"
        ));
    }
    Decision { state: State::Done, what, ..decision }
}

/// Waiting, or failed because of the trouble of a pod.
fn with_troubles<'a>(facts: &Facts<'_>, pods: impl Iterator<Item = (&'a Observed, Fate)>) -> Decision {
    let (mut troubles, mut recheck) = (Vec::new(), None);
    let world = facts.world();
    for (observed, fate) in pods.filter(|(observed, _)| observed.pod.deletion.is_none() && !observed.pod.ignored) {
        let Assessment { trouble, recheck: due } = assess(observed, &world, fate, facts.check);
        recheck = earlier(recheck, due);
        troubles.extend(trouble);
    }
    troubles.sort_by(|a, b| {
        let order = |trouble: &Trouble| (severity(trouble.outlook), trouble.pod.phase != "Failed");
        order(b).cmp(&order(a)).then_with(|| a.pod.name.cmp(&b.pod.name))
    });
    let blocking = troubles.iter().filter(|trouble| trouble.pod.phase != "Failed" && trouble.is_open()).count();
    let more = troubles.len().saturating_sub(TROUBLES);
    troubles.truncate(TROUBLES);
    let decision = Decision { troubles, more, blocking, recheck, ..Decision::waiting("") };
    match decision.troubles.first().filter(|trouble| trouble.outlook == Outlook::Hopeless) {
        Some(trouble) => {
            let (code, message) = (trouble.code().to_owned(), trouble.finding.explanation.message.to_string());
            decision.failed(code, message)
        }
        None => decision,
    }
}

fn is_failed(decision: &Decision) -> bool {
    matches!(decision.state, State::Failed(_))
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
