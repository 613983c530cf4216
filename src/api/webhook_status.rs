//! The delivery state of webhooks in the status of an `Orchestr` object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Cause, Owner, ProblemKind, Severity, lenient, open_enum::open_enum, schema};

/// The limit for the alerts of all webhooks in the status of one object, in bytes of JSON.
pub(crate) const ALERT_BYTES: usize = 64 * 1024;

/// The delivery state of a webhook, from which a restarted operator continues. If it is lost, messages may be sent twice,
/// but none is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookStatus {
    /// The webhook's name in the spec.
    pub name: String,
    /// When the receiver last accepted a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub last_success: Option<Time>,
    /// Why the last attempt failed; absent after a success.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub last_error: Option<DeliveryError>,
    /// How many attempts failed since the last success.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    #[schemars(range(min = 0))]
    pub failures: i64,
    /// How many consecutive attempts were answered with 403 or 404. A proxy may do so during a rollout of the receiver, so
    /// the first ones are retried soon.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    #[schemars(range(min = 0))]
    pub refusals: i64,
    /// Why the receiver refused the incidents that are marked with `refusedAt`; absent if there are none.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<DeliveryError>,
    /// Whether the receiver has accepted messages since it first refused an incident for its content. If it refuses incidents
    /// and accepts nothing, it counts as failing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepts_others: bool,
    /// The maximum number of incidents in the next message, while the incidents that the receiver refuses are being isolated.
    /// Absent: as many as fit.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    #[schemars(range(min = 0))]
    pub part_size: i64,
    /// How much a message that only keeps alerts alive (Alertmanager) contains; less after the receiver refused it.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub resend_detail: Detail,
    /// The earliest time of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub next_attempt: Option<Time>,
    /// The receiver answered 410 Gone. Nothing is sent until the webhook or its Secret changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// A hash of the webhook's spec and Secrets, to detect changes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// A salted hash of the format, the URL and the routing key. If they change, the receiver is a new one and is sent all
    /// ongoing incidents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receiver: String,
    /// Whether the webhook has `sendResolved: false`, so that alerts stay open at its receiver.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sends_no_ends: bool,
    /// How many incidents were due but ended before they could be sent: nothing that has ended is reported as firing.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    #[schemars(range(min = 0))]
    pub dropped: i64,
    /// The message that is being sent.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingMessage>,
    /// The incidents that are sent individually. Their number is limited; `storm` summarizes the others.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub alerts: Vec<AlertStatus>,
    /// A summary of the incidents that are too many to be sent individually.
    #[serde(default, deserialize_with = "StormStatus::read", serialize_with = "StormStatus::write")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<StormStatus>")]
    pub storm: Option<AlertStatus>,
    /// The incidents that silences and quiet hours hold back. Absent if there are none.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub muted: Option<MutedStatus>,
    /// The namespaces whose incidents caused a mention in the last five minutes, or whose critical incidents a message about
    /// a storm announced. At most the latest 8.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub mentioned: Vec<Mention>,
}

/// A mention because of the incidents of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mention {
    /// The namespace; empty for common causes of several namespaces.
    pub namespace: String,
    /// The highest severity of these incidents.
    #[schemars(with = "String")]
    pub severity: Severity,
    /// When the receiver accepted the message.
    #[schemars(with = "schema::Time")]
    pub at: Time,
}

/// Incidents that are due, but held back by silences or quiet hours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutedStatus {
    /// How many incidents are held back now.
    #[schemars(range(min = 0))]
    pub count: i64,
    /// The silence or the quiet hours that hold back the first of them to be sent, such as "quiet hours nights".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// When the first of them is sent, if it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub until: Option<Time>,
    /// How many incidents began and ended while they were held back, since the last message that reported this number.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    #[schemars(range(min = 0))]
    pub ended: i64,
    /// Up to 16 of the incidents, to notice when they end. Of the others, only the number is known.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub incidents: Vec<MutedIncident>,
    /// How many of the incidents that are held back now are not listed.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    #[schemars(range(min = 0))]
    pub unlisted: i64,
    /// How many incidents that were not listed have ended. They are counted in `ended` unless as many return soon.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    #[schemars(range(min = 0))]
    pub unlisted_ended: i64,
    /// When the last of them ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub unlisted_ended_at: Option<Time>,
}

impl WebhookStatus {
    /// The alerts, and the storm, which is one as well.
    pub(crate) fn alerts_and_storm(&self) -> impl Iterator<Item = &AlertStatus> {
        self.alerts.iter().chain(&self.storm)
    }

    pub(crate) fn alerts_and_storm_mut(&mut self) -> impl Iterator<Item = &mut AlertStatus> {
        self.alerts.iter_mut().chain(&mut self.storm)
    }

    /// Whether the receiver may consider an alert firing.
    pub(crate) fn may_be_open(&self, alert: &AlertStatus) -> bool {
        match alert.phase {
            AlertPhase::Firing | AlertPhase::Resolving => true,
            AlertPhase::Announcing => alert.has_begun() || self.may_be_delivered(),
            AlertPhase::Queued | AlertPhase::Resolved => false,
        }
    }

    /// Whether the receiver may already have received the pending message.
    pub(crate) fn may_be_delivered(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.in_flight || pending.maybe_delivered)
    }
}

impl MutedStatus {
    /// Whether there is nothing to store.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.ended == 0 && self.incidents.is_empty() && self.unlisted_ended == 0
    }
}

/// An incident that is held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutedIncident {
    /// The key of the incident.
    pub key: String,
    /// The reason when it was first held back. A silence that names it continues to hold the incident back, also if the
    /// reason changes and another replica leads.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When the incident ended. It is counted in `ended` unless it returns soon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub gone_since: Option<Time>,
}

/// Why a delivery failed. It never contains a URL or a header. If the receiver refuses the message for its content, it quotes
/// at most 200 bytes of the answer, in which everything secret that the request contained is masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryError {
    /// When the attempt failed.
    #[schemars(with = "schema::Time")]
    pub time: Time,
    /// A description of the error.
    pub message: String,
}

/// A message that is being sent. It is stored before the first attempt, so that a restarted operator sends the same
/// message with the same ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingMessage {
    /// The ID, the same for every attempt (`webhook-id`), so that a receiver can detect retries.
    pub id: String,
    /// The purpose of the message: Firing, Resolved or Repeat.
    pub kind: MessageKind,
    /// When the message was created.
    #[schemars(with = "schema::Time")]
    pub created: Time,
    /// How many attempts were started.
    pub attempts: i64,
    /// Whether an attempt was started whose result is not recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_flight: bool,
    /// Whether an attempt failed after which the receiver may have accepted the message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maybe_delivered: bool,
    /// How much the message contains: Full, or, after the receiver refused it for its content (400, 413, 422), NoLogs and then
    /// Names.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub detail: Detail,
}

open_enum! {
    /// The purpose of a message.
    #[derive(Default)]
    pub enum MessageKind {
        /// An incident began. The message may also contain resolved incidents.
        #[default]
        Firing,
        /// An incident was resolved.
        Resolved,
        /// An incident is ongoing and was last sent `repeatEvery` ago.
        Repeat,
        /// All ongoing incidents for a receiver that forgets them otherwise (Alertmanager). Never pending.
        Resend,
        /// A test with `orchestr webhook test`. Never pending.
        Test,
    } else = Firing
}

open_enum! {
    /// How much a message contains.
    #[derive(Default)]
    pub enum Detail {
        /// Everything that fits.
        #[default]
        Full,
        /// Everything but logs.
        NoLogs,
        /// Only what identifies the incidents.
        Names,
    } else = Names
}

/// The state of an incident at a receiver. It repeats what identifies the incident, because the resolved message is sent
/// when the incident itself no longer exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertStatus {
    /// The key of the incident or of the common cause.
    pub key: String,
    /// The pods' namespace, or that of the common cause; empty if it has none.
    pub namespace: String,
    /// The pods' top-level controller, as far as it can be derived from names, or the kind and name of the common cause.
    pub owner: Owner,
    /// The container that causes the problem; absent if the cause is not a single container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The kind of problem.
    #[serde(default)]
    pub kind: ProblemKind,
    /// The latest reason.
    pub reason: String,
    /// The cause that was proven last, so that the resolved message names it.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub cause: Cause,
    /// The severity when it was first sent, which stays the label of the alert: critical, warning or info.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub severity: Option<Severity>,
    /// The team when it was first sent, which stays a label of the alert.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub team: String,
    /// When the incident began.
    #[schemars(with = "schema::Time")]
    pub since: Time,
    /// What was sent to the receiver: Queued (nothing yet), Announcing, Firing, Resolving or Resolved.
    pub phase: AlertPhase,
    /// When the receiver last accepted a message with this incident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub sent_at: Option<Time>,
    /// An earlier receiver was sent that it began, or this one may have been, but it is sent to this one again. So its end is
    /// sent, whatever happens before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub began_elsewhere: bool,
    /// When the incident ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub gone_since: Option<Time>,
    /// How often the incident came back soon after it ended. Each time doubles how long it must be gone before a resolved
    /// message is sent.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub returns: i64,
    /// When the receiver last refused a message about this incident alone, for its content. It is retried after 30 minutes,
    /// or earlier if the receiver accepts nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub refused_at: Option<Time>,
    /// How many incidents began and ended while they were held back, as a message to Alertmanager said together with this
    /// one. Alertmanager is sent it again for as long as the alert, because it forgets annotations that are not.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub held_back: i64,
    /// The message that said that it began, if the receiver has threads and said which message it is: Slack's `ts`. The end is
    /// an answer to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thread: String,
    /// If pods are missing: up to three of the owner's controllers that cannot create them. They are read again after a restart.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub controllers: Vec<Owner>,
    /// The keys of incidents with this common cause, if the alert is about a common cause. At most 32 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub members: Vec<String>,
    /// The incidents that a storm stands for; absent for other alerts. A storm is stored in a shorter form.
    #[serde(skip)]
    pub overflow: Option<Overflow>,
}

/// The incidents of a storm, which are too many to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// How many they were in the last message, or are in the pending one.
    pub count: u64,
    /// A hash of their keys; empty if the receiver was not sent this number.
    pub hash: String,
}

impl AlertStatus {
    /// An alert that nothing was sent about.
    pub(crate) fn queued(key: &str, since: Time) -> Self {
        Self {
            key: key.to_owned(),
            namespace: String::new(),
            owner: Owner::default(),
            container: String::new(),
            kind: ProblemKind::default(),
            reason: String::new(),
            cause: Cause::Unknown,
            severity: None,
            team: String::new(),
            since,
            phase: AlertPhase::Queued,
            sent_at: None,
            began_elsewhere: false,
            gone_since: None,
            returns: 0,
            refused_at: None,
            held_back: 0,
            thread: String::new(),
            controllers: Vec::new(),
            members: Vec::new(),
            overflow: None,
        }
    }

    /// A storm that nothing was sent about.
    pub(crate) fn storm(since: Time, severity: Option<Severity>, overflow: Overflow) -> Self {
        Self { severity, overflow: Some(overflow), ..Self::queued("storm", since) }
    }

    /// Whether this receiver or an earlier one was sent that the incident began.
    pub(crate) fn has_begun(&self) -> bool {
        self.sent_at.is_some() || self.began_elsewhere
    }
}

open_enum! {
    /// What was sent to a receiver about an incident.
    pub enum AlertPhase {
        /// Nothing yet; the next message will contain it.
        Queued,
        /// The pending message reports that it began.
        Announcing,
        /// A message that it began.
        Firing,
        /// The pending message reports that it was resolved.
        Resolving,
        /// A message that it was resolved. Kept for a while, because the incident may come back.
        Resolved,
    } else = Queued
}

impl AlertPhase {
    /// Whether the pending message reports a beginning or an end.
    pub(crate) fn is_pending(self) -> bool {
        matches!(self, Self::Announcing | Self::Resolving)
    }
}

/// The incidents that are not sent individually; messages contain only their number. In memory, a storm is an [`AlertStatus`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StormStatus {
    /// When the incidents became too many.
    #[schemars(with = "schema::Time")]
    since: Time,
    /// The number of incidents in the last message, or in the pending one.
    count: i64,
    /// A hash of their keys, to detect changes.
    members: String,
    /// The highest severity of these incidents when their number was first sent, which stays the label of the alert.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    severity: Option<Severity>,
    /// What was sent to the receiver: Queued (nothing yet), Announcing, Firing, Resolving or Resolved.
    phase: AlertPhase,
    /// When the receiver last accepted a message with this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    sent_at: Option<Time>,
    /// An earlier receiver was sent a number, but this one was not. So their end is sent, whatever happens before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    began_elsewhere: bool,
    /// When the receiver last refused a message about this number alone, as of an alert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    refused_at: Option<Time>,
    /// How many other incidents began and ended while they were held back, as of an alert.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    held_back: i64,
    /// When the last of these incidents ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    gone_since: Option<Time>,
}

impl StormStatus {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<AlertStatus>, D::Error> {
        let read: Option<Self> = lenient::or_default(deserializer)?;
        Ok(read.map(|storm| {
            let overflow = Overflow { count: u64::try_from(storm.count).unwrap_or_default(), hash: storm.members };
            AlertStatus {
                phase: storm.phase,
                sent_at: storm.sent_at,
                began_elsewhere: storm.began_elsewhere,
                refused_at: storm.refused_at,
                held_back: storm.held_back,
                gone_since: storm.gone_since,
                ..AlertStatus::storm(storm.since, storm.severity, overflow)
            }
        }))
    }

    fn write<S: Serializer>(alert: &Option<AlertStatus>, serializer: S) -> Result<S::Ok, S::Error> {
        let storm = alert.as_ref().and_then(|alert| {
            let Overflow { count, hash } = alert.overflow.as_ref()?;
            Some(Self {
                since: alert.since.clone(),
                count: i64::try_from(*count).unwrap_or(i64::MAX),
                members: hash.clone(),
                severity: alert.severity,
                phase: alert.phase,
                sent_at: alert.sent_at.clone(),
                began_elsewhere: alert.began_elsewhere,
                refused_at: alert.refused_at.clone(),
                held_back: alert.held_back,
                gone_since: alert.gone_since.clone(),
            })
        });
        storm.serialize(serializer)
    }
}
