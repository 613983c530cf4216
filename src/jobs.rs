//! Reads the Job of a failed pod, and the CronJob of a failed Job.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::batch::v1::{CronJob, Job},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client};
use tokio::time::timeout;

use crate::{
    api::is_object_name,
    diagnosis::JobFacts,
    pods::{Controller, Pod},
};

/// How much of the API server's message is kept when it denies access, in bytes.
const DENIAL_LIMIT: usize = 512;

/// A Job as a pod's owner reference names it. The key contains all three, so that a pod with a forged reference affects no
/// other pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The result of reading a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobReading {
    Read {
        facts: Arc<JobFacts>,
        /// The API server's message if it denied access to the CronJob; else empty.
        denial: String,
        /// Whether the CronJob is gone, or another one has its name. This is final.
        is_orphan: bool,
    },
    /// The Job is gone, or another Job has its name. This is final.
    Gone,
    /// RBAC denies access to Jobs, with the API server's message.
    Denied(String),
    /// It could not be read for another reason.
    Unavailable,
}

impl JobKey {
    /// The key of the Job that controls a pod.
    pub(crate) fn new(pod: &Pod, job: &Controller) -> Self {
        Self { namespace: pod.namespace.to_string(), name: job.name.to_string(), uid: job.uid.to_string() }
    }

    pub(crate) fn of(job: &Job) -> Self {
        let ObjectMeta { namespace, name, uid, .. } = job.metadata.clone();
        let text = Option::unwrap_or_default;
        Self { namespace: text(namespace), name: text(name), uid: text(uid) }
    }
}

impl JobReading {
    /// Whether another read would give the same result.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Read { facts, is_orphan, .. } => {
                let has_cron_job = facts.cron_job.is_some() && !is_orphan;
                facts.complete || facts.superseded || facts.failed.is_some() && !has_cron_job
            }
            Self::Gone => true,
            Self::Denied(_) | Self::Unavailable => false,
        }
    }

    /// What the Job says; nothing if it is gone or could not be read.
    pub(crate) fn facts(&self) -> Arc<JobFacts> {
        match self {
            Self::Read { facts, .. } => Arc::clone(facts),
            Self::Gone | Self::Denied(_) | Self::Unavailable => Arc::default(),
        }
    }

    /// The API server's message if it denied access to the Job or its CronJob; else empty.
    pub(crate) fn denial(&self) -> &str {
        match self {
            Self::Read { denial, .. } | Self::Denied(denial) => denial,
            Self::Gone | Self::Unavailable => "",
        }
    }
}

/// Reads a Job, and if it failed, its CronJob. Each of the two requests may take as long as `limit`.
pub(crate) async fn read(client: &Client, key: &JobKey, limit: Duration) -> JobReading {
    // The name comes from the owner reference of a pod, which may contain anything.
    if !is_object_name(&key.name) {
        return JobReading::Gone;
    }
    let api: Api<Job> = Api::namespaced(client.clone(), &key.namespace);
    let job = match timeout(limit, api.get(&key.name)).await {
        Ok(Ok(job)) if job.metadata.uid.as_deref() == Some(&key.uid) => job,
        Ok(Ok(_)) => return JobReading::Gone,
        Ok(Err(error)) => return unread(error),
        Err(_) => return JobReading::Unavailable,
    };
    let mut facts = JobFacts::of(&job);
    let (mut denial, mut is_orphan) = (String::new(), false);
    if let (Some(name), Some(_)) = (&facts.cron_job, facts.failed) {
        let api: Api<CronJob> = Api::namespaced(client.clone(), &key.namespace);
        match timeout(limit, api.get(name)).await {
            Ok(Ok(cron_job)) if JobFacts::belongs_to(&job, &cron_job) => facts.add_cron_job(&job, &cron_job),
            Ok(Ok(_)) => is_orphan = true,
            Ok(Err(error)) => match unread(error) {
                JobReading::Denied(message) => denial = message,
                JobReading::Unavailable => return JobReading::Unavailable,
                JobReading::Gone | JobReading::Read { .. } => is_orphan = true,
            },
            Err(_) => return JobReading::Unavailable,
        }
    }
    JobReading::Read { facts: Arc::new(facts), denial, is_orphan }
}

fn unread(error: kube::Error) -> JobReading {
    match error {
        kube::Error::Api(status) if status.is_not_found() => JobReading::Gone,
        kube::Error::Api(status) if status.is_forbidden() => {
            JobReading::Denied(status.message[..status.message.floor_char_boundary(DENIAL_LIMIT)].to_owned())
        }
        _ => JobReading::Unavailable,
    }
}
