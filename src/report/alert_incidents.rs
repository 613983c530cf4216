//! The texts of incidents for alerts.
//!
//! A webhook tracks at most 250 incidents one by one, and only counts the others, which need no texts. So texts go to those
//! that are tracked, and then to those that may be tracked next, as far as they fit. Here, an object is limited; all objects
//! together are limited by `alerts/delivery/shared_texts.rs`.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    api::{AlertPhase, NamespacedName, OrchestrStatus, Owner, Severity, condition, reason},
    logs::{Masking, clean_text},
};

use super::{
    fit::end_within,
    identity::id,
    incident::{Incident, Texts},
    incidents::{Example, Group},
    input::Input,
    problem::{self, FindTail},
    quote::with_log_line,
    truncate,
};

/// The longest message, in bytes.
const MESSAGE: usize = 1_024;
/// How much of the end of a log an alert gets, in bytes. No alert format shows more.
const LOGS: usize = 4_096;
/// The most bytes that the texts of an object's incidents take, without logs: four times what their alerts may take in the
/// status.
pub(super) const TEXT_BYTES: usize = 256 * 1024;
/// The most bytes that the ends of their logs take.
pub(super) const LOG_BYTES: usize = 256 * 1024;

/// Adds their texts to the incidents.
pub(super) fn add_texts(groups: &mut [Group<'_>], input: &Input<'_>, find_tail: FindTail<'_>) {
    let (mut texts, mut logs) = (TEXT_BYTES, LOG_BYTES);
    let left_out = Arc::new(Texts::left_out());
    for index in by_need(groups, input.previous) {
        let Some(group) = groups.get_mut(index) else { continue };
        if texts == 0 {
            group.incident.texts = Arc::clone(&left_out);
            continue;
        }
        let mut own = without_log(group, input.masking);
        if input.logs {
            own.message = with_log_line(&own.message, &group.log_line(find_tail));
        }
        // The last one may take more than is left, but only by its own size.
        texts = texts.saturating_sub(own.bytes());
        if logs > 0 {
            add_log(&mut own, group, find_tail);
            logs = logs.saturating_sub(own.logs.len());
        } else {
            own.log_note = Texts::LEFT_OUT;
        }
        group.incident.texts = Arc::new(own);
    }
}

/// An incident about the object's own spec, of which some parts are wrong. Sent to receivers, because users may not
/// look at the status. It began when the status first said so.
pub(crate) fn of_spec(object: &NamespacedName, wrong: String, status: &OrchestrStatus) -> Incident {
    let NamespacedName { namespace, name } = object;
    let ready = status.conditions.iter().find(|condition| condition.type_ == condition::READY);
    Incident {
        key: id(&["Spec", namespace, name]).key().into(),
        namespace: namespace.as_str().into(),
        owner: Owner { kind: "Orchestr".to_owned(), name: name.clone() }.into(),
        reason: reason::INVALID_SPEC.into(),
        since: ready.map(|ready| ready.last_transition_time.0).unwrap_or_default(),
        texts: Arc::new(Texts { message: wrong, ..Texts::default() }),
        is_of_spec: true,
        ..Incident::default()
    }
}

/// The places of the incidents that need texts most first: those that a webhook tracks, then the critical ones, then
/// those that began first. Namespaces take turns, so that none of them leaves others without texts.
fn by_need(groups: &[Group<'_>], previous: Option<&OrchestrStatus>) -> Vec<usize> {
    let alerts = previous.into_iter().flat_map(|status| &status.webhooks).flat_map(|webhook| &webhook.alerts);
    let tracked: HashSet<&str> =
        alerts.filter(|alert| alert.phase != AlertPhase::Resolved).map(|alert| alert.key.as_str()).collect();
    let mut order: Vec<_> = groups
        .iter()
        .enumerate()
        .map(|(index, Group { incident, .. })| {
            let is_critical = incident.severity == Severity::Critical;
            (Reverse((tracked.contains(incident.key.as_str()), is_critical)), incident.since, index)
        })
        .collect();
    order.sort_unstable();
    let mut ranks: HashMap<&str, usize> = HashMap::new();
    let mut turns: Vec<_> = order
        .into_iter()
        .filter_map(|(Reverse((is_tracked, _)), _, index)| {
            let rank = ranks.entry(groups.get(index)?.identity.namespace).or_default();
            *rank += 1;
            Some((Reverse(is_tracked), *rank, index))
        })
        .collect();
    // A stable sort: equal ranks keep their order.
    turns.sort_by_key(|(is_tracked, rank, _)| (*is_tracked, *rank));
    turns.into_iter().map(|(.., index)| index).collect()
}

fn without_log(group: &Group<'_>, masking: Option<&Masking<'_>>) -> Texts {
    let message = match group.example {
        Example::Pod(_, finding) => &finding.message,
        Example::Missing(missing) => &missing.explanation.message,
    };
    let explanation = group.explanation();
    let sentence = if explanation.message.is_empty() { message } else { &explanation.message };
    Texts {
        message: clean_text(sentence, masking, MESSAGE),
        example_pods: group.example_pods(),
        revision: group.revision(masking),
        evidence: problem::evidence(group.example.explanation(), masking),
        ..Texts::default()
    }
}

/// Adds the log of the most recent pod.
fn add_log(own: &mut Texts, group: &Group<'_>, find_tail: FindTail<'_>) {
    let Example::Pod(pod, finding) = group.example else { return };
    let culprit = finding.containers.iter().find(|own| truncate::name(&own.name) == group.identity.container);
    let Some(tail) = culprit.or(finding.containers.first()).and_then(|container| find_tail(pod, container)) else {
        return;
    };
    let mut note = tail.note;
    let end = end_within(&tail.text, LOGS, char::len_utf8);
    if end.len() < tail.text.len() {
        let separator = if note.is_empty() { "" } else { "; " };
        note += &format!("{separator}earlier lines are in the object's status");
    }
    own.logs = Arc::from(end);
    own.log_note = note.into();
}
