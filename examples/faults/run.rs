//! One run: the steps of the schedule, and what they mean for the book.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use orchestr_testbed::{
    Backup, ControlPlane, Options, Reply,
    book::{Answer, Event, Message, Style},
    messages,
};
use serde_json::json;

use super::{
    Result,
    cluster::{Cluster, pod_name},
    replicas::Replicas,
    schedule::{Fault, Kind, PodChange, Step, Trouble},
};

/// After this, another replica leads and has written, see the table in docs/reliability.md.
const FAILOVER: Duration = Duration::from_secs(20);
/// After this, the operator has read a changed Secret.
const SECRETS: Duration = Duration::from_secs(45);
/// After this, it uses rights that it got back.
const RIGHTS: Duration = Duration::from_secs(60);

pub struct Run {
    pub cluster: Cluster,
    pub replicas: Replicas,
    pub begun: Instant,
    pub begun_at: Timestamp,
    /// What happened, apart from what receivers got. Not in the order of the times.
    events: Vec<(Duration, Event)>,
    /// With the pods that were broken, and the time.
    backup: Option<(Backup, std::collections::BTreeSet<usize>, Duration)>,
    /// The replica that a fault concerns now.
    victim: Option<usize>,
    with_earlier: bool,
}

impl Run {
    pub async fn start(versions: Vec<PathBuf>, logs: &Path) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        let with_earlier = versions.len() > 1;
        let cluster = Cluster::start(plane, with_earlier).await?;
        let account = cluster.plane.service_account(super::cluster::SYSTEM, "orchestr").await?;
        let replicas = Replicas::start(versions, account.kubeconfig(), logs)?;
        let (begun, begun_at) = (Instant::now(), Timestamp::now());
        let mut run =
            Self { cluster, replicas, begun, begun_at, events: Vec::new(), backup: None, victim: None, with_earlier };
        for index in 0..run.cluster.webhooks.len() {
            run.open(index);
        }
        Ok(run)
    }

    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn happened(&mut self, event: Event) {
        self.events.push((self.now(), event));
    }

    /// The operator sees again after this time.
    fn sees_again_in(&mut self, after: Duration, why: &'static str) {
        self.events.push((self.now() + after, Event::SeesAgain(why)));
    }

    fn open(&mut self, index: usize) {
        let webhook = &self.cluster.webhooks[index];
        let style = match webhook.format {
            "PagerDuty" | "Custom" => Style::Single,
            "Alertmanager" => Style::Repeated,
            _ => Style::Grouped,
        };
        let event = Event::Opened(webhook.page(), style);
        self.happened(event);
    }

    /// Does the steps at their times.
    pub async fn play(&mut self, steps: &[(Duration, Step)]) -> Result<()> {
        for (at, step) in steps {
            while self.now() < *at {
                tokio::time::sleep((*at - self.now()).min(Duration::from_secs(1))).await;
                self.replicas.revive(self.victim)?;
            }
            match step {
                Step::Pod(change) => self.change(*change).await?,
                Step::Begin(fault) => self.begin(fault).await?,
                Step::End(fault) => self.end(fault).await?,
            }
        }
        Ok(())
    }

    async fn change(&mut self, change: PodChange) -> Result<()> {
        match change {
            PodChange::Breaks(number) => self.happened(Event::Broke(pod_name(number))),
            PodChange::Mends(number) | PodChange::Goes(number) => self.happened(Event::Mended(pod_name(number))),
        }
        self.cluster.change(change).await
    }

    async fn begin(&mut self, fault: &Fault) -> Result<()> {
        println!("{:6.1} s  {:?}", self.now().as_secs_f64(), fault.kind);
        // Any of these may end the Lease.
        if self.with_earlier && !matches!(fault.kind, Kind::Receiver(..)) {
            self.happened(Event::Downgraded);
        }
        match fault.kind {
            Kind::Kill(who) | Kind::Terminate(who) | Kind::Stop(who) => {
                let index = self.replicas.index(who, &self.cluster.client).await;
                self.victim = Some(index);
                self.happened(Event::BlindFrom("replica"));
                match fault.kind {
                    Kind::Kill(_) => self.replicas.kill(index).await?,
                    Kind::Terminate(_) => self.replicas.signal(index, "TERM").await?,
                    _ => self.replicas.signal(index, "STOP").await?,
                }
            }
            Kind::ApiServerKilled => {
                self.happened(Event::BlindFrom("API server"));
                self.cluster.plane.kill_api_server().await?;
            }
            Kind::Receiver(index, trouble) => {
                let (text, reply) = match trouble {
                    Trouble::Unavailable => (String::new(), Reply::Status(503)),
                    Trouble::Hangs => (String::new(), Reply::Hang),
                    Trouble::LosesAnswers => (String::new(), Reply::Close),
                    Trouble::Busy => (String::new(), Reply::Header(429, "Retry-After", "3".to_owned())),
                    Trouble::RefusesOne(number) => (pod_name(number), Reply::Status(400)),
                };
                self.cluster.webhooks[index].receiver.refuse(&text, reply);
            }
            Kind::RightsWithdrawn => {
                self.happened(Event::BlindFrom("rights"));
                self.cluster.withdraw_rights().await?;
            }
            Kind::SecretTouched(index) => {
                let changes = json!({"metadata": {"annotations": {"touched": "yes"}}, "stringData": {"other": "key"}});
                self.cluster.write_secret(index, changes).await?;
            }
            Kind::UrlChanged(index) => {
                let old = self.cluster.webhooks[index].page();
                self.events.push((self.now() + SECRETS, Event::Left(old)));
                self.cluster.renew(index);
                self.open(index);
                self.cluster.write_secret(index, json!({})).await?;
            }
            Kind::WebhookRemoved(index) => {
                self.cluster.set_present(index, false).await?;
                self.happened(Event::Left(self.cluster.webhooks[index].page()));
            }
            Kind::EtcdKilled => {
                self.happened(Event::BlindFrom("etcd"));
                self.cluster.plane.interrupt_etcd(fault.lasts).await?;
                self.sees_again_in(FAILOVER, "etcd");
            }
            Kind::EtcdCompacted => {
                self.happened(Event::BlindFrom("API server"));
                self.cluster.plane.compact_etcd().await?;
                self.cluster.plane.restart_api_server().await?;
                self.sees_again_in(FAILOVER, "API server");
            }
            Kind::EtcdRestored => {
                self.happened(Event::BlindFrom("etcd"));
                let (broken, now) = (self.cluster.broken.clone(), self.now());
                self.backup = Some((self.cluster.plane.back_up().await?, broken, now));
                self.sees_again_in(FAILOVER, "etcd");
            }
            Kind::CrdDeleted => {
                self.happened(Event::BlindFrom("CRD"));
                self.cluster.delete_crd().await?;
                self.happened(Event::Deleted);
            }
        }
        Ok(())
    }

    async fn end(&mut self, fault: &Fault) -> Result<()> {
        match fault.kind {
            Kind::Kill(_) | Kind::Terminate(_) | Kind::Stop(_) => {
                if let Some(index) = self.victim.take() {
                    match fault.kind {
                        Kind::Stop(_) => self.replicas.signal(index, "CONT").await?,
                        _ => self.replicas.start_again(index).await?,
                    }
                }
                self.sees_again_in(FAILOVER, "replica");
            }
            Kind::ApiServerKilled => {
                self.cluster.plane.start_api_server().await?;
                self.sees_again_in(FAILOVER, "API server");
            }
            Kind::Receiver(index, _) => self.cluster.webhooks[index].receiver.accept(),
            Kind::RightsWithdrawn => {
                self.cluster.grant_rights().await?;
                self.sees_again_in(RIGHTS, "rights");
            }
            Kind::WebhookRemoved(index) => {
                self.cluster.renew(index);
                self.open(index);
                self.cluster.write_secret(index, json!({})).await?;
                self.cluster.set_present(index, true).await?;
            }
            Kind::EtcdRestored => self.restore().await?,
            Kind::CrdDeleted => {
                self.cluster.plane.install(&orchestr::api::crd::crd()).await?;
                self.cluster.write_object().await?;
                self.sees_again_in(FAILOVER, "CRD");
            }
            Kind::SecretTouched(_) | Kind::UrlChanged(_) | Kind::EtcdKilled | Kind::EtcdCompacted => {}
        }
        Ok(())
    }

    async fn restore(&mut self) -> Result<()> {
        let Some((backup, broken, taken)) = self.backup.take() else { return Ok(()) };
        self.happened(Event::BlindFrom("API server"));
        self.cluster.plane.kill_api_server().await?;
        self.cluster.plane.restore(&backup).await?;
        self.happened(Event::Restored(taken));
        let changed: Vec<usize> = broken.symmetric_difference(&self.cluster.broken).copied().collect();
        for number in changed {
            let name = pod_name(number);
            self.happened(if broken.contains(&number) { Event::Broke(name) } else { Event::Mended(name) });
        }
        self.cluster.broken = broken;
        self.cluster.plane.start_api_server().await?;
        self.sees_again_in(FAILOVER, "API server");
        Ok(())
    }

    /// Everything that has happened so far, in the order of the times, with what the receivers got.
    pub fn book(&self) -> Vec<(Duration, Event)> {
        let now = self.now();
        let mut book = self.events.clone();
        for webhook in &self.cluster.webhooks {
            let mut keys = BTreeMap::new();
            for received in webhook.receiver.received() {
                let at = received.at.saturating_duration_since(self.begun);
                let page = received.path.split('/').take(3).collect::<Vec<_>>().join("/");
                let page = page.split('?').next().unwrap_or_default().to_owned();
                let sent = self.begun_at + jiff::SignedDuration::try_from(at).unwrap_or_default();
                let named = messages::read(webhook.format, &received.json(), sent, &mut keys);
                let answer = match received.reply {
                    Reply::Hang | Reply::Close => Answer::Lost,
                    Reply::Status(200) => Answer::Accepted,
                    _ => Answer::Refused,
                };
                let id = received.header("webhook-id").to_owned();
                let (firing, resolved) = (named.firing, named.resolved);
                book.push((at, Event::Sent(page, Message { id, firing, resolved, answer })));
            }
        }
        book.retain(|(at, _)| *at <= now);
        book.sort_by_key(|(at, _)| *at);
        book
    }
}
