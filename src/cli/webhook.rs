//! `orchestr webhook`.

use std::{io, io::Write, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use kube::{Api, Client, api::DynamicObject};

use crate::{
    alerts::{
        Notification, ValidatedWebhook,
        delivery::{
            HttpClient, hint,
            secrets::{SecretReader, names as secret_names},
            send::send,
            system_lookup,
        },
        retry::AttemptOutcome,
    },
    api::{NamespacedName, OrchestrSpec, WebhookFormat, api_resource},
};

use super::{
    Failure,
    account::{OperatorAccount, Verdict},
    connect::{ConnectionFlags, Retries, connect},
    ignore_broken_pipe,
    webhook_flags::WebhookFlags,
};

/// The exit code where a receiver did not take what it was sent.
const NOT_TAKEN: u8 = 1;

#[derive(Debug, Subcommand)]
pub(super) enum WebhookCommand {
    /// Send a marked test alert and its end to an object's webhooks, and print what the receivers said;
    /// exits 1 where one did not take it
    Test(TestFlags),
}

/// The flags of `orchestr webhook test`.
#[derive(Debug, Args)]
pub(super) struct TestFlags {
    /// The Orchestr object
    #[arg(value_name = "NAMESPACE/NAME", value_parser = object_name)]
    object: NamespacedName,

    /// Only this webhook of it; all of them by default
    #[arg(long, value_name = "WEBHOOK")]
    webhook: Option<String>,

    /// The operator's service account, whose right to read the Secrets is checked
    #[arg(
        long, value_name = "NAMESPACE/NAME", value_parser = object_name,
        default_value = "orchestr-system/orchestr",
    )]
    operator_account: NamespacedName,

    #[command(flatten)]
    connection: ConnectionFlags,

    #[command(flatten)]
    webhook_flags: WebhookFlags,
}

fn object_name(text: &str) -> Result<NamespacedName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("must be NAMESPACE/NAME".to_owned()),
    }
}

pub(super) async fn run(WebhookCommand::Test(flags): WebhookCommand) -> Result<ExitCode, Failure> {
    let cluster = connect(&flags.connection, Retries::InTheClient).await?;
    let subscribers = subscribers(&cluster.client, &flags).await.map_err(|error| match error {
        Missing::Api(error) => cluster.target.describe(&error),
        Missing::Told(told) => Failure::new(told),
    })?;
    let access = flags.webhook_flags.access();
    let http = Arc::new(HttpClient::new(access, system_lookup()));
    let account = OperatorAccount::new(&cluster.client, &flags.operator_account);
    let secrets = SecretReader { client: cluster.client.clone(), urls: access.urls, http: Arc::clone(&http) };
    let mut all_taken = true;
    for subscriber in &subscribers {
        let rights = rights(&account, &flags, subscriber).await;
        all_taken &= rights.taken;
        ignore_broken_pipe(io::stdout().lock().write_all(rights.text.as_bytes()))?;
        let told = test(&secrets, &http, &flags.object, subscriber).await;
        all_taken &= told.taken;
        ignore_broken_pipe(io::stdout().lock().write_all(told.text.as_bytes()))?;
    }
    Ok(if all_taken { ExitCode::SUCCESS } else { ExitCode::from(NOT_TAKEN) })
}

enum Missing {
    Api(kube::Error),
    Told(String),
}

async fn subscribers(client: &Client, flags: &TestFlags) -> Result<Vec<ValidatedWebhook>, Missing> {
    let NamespacedName { namespace, name } = &flags.object;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &api_resource());
    let object = api.get(name).await.map_err(Missing::Api)?;
    let spec: OrchestrSpec = serde_path_to_error::deserialize(object.data.get("spec").cloned().unwrap_or_default())
        .map_err(|error| Missing::Told(format!("spec.{}: {}", error.path(), error.inner())))?;
    let mut all = ValidatedWebhook::validate_all(spec.webhooks.as_deref().unwrap_or_default())
        .map_err(|error| Missing::Told(error.to_string()))?;
    if let Some(wanted) = &flags.webhook {
        let names: Vec<_> = all.iter().map(|subscriber| subscriber.policy.name.clone()).collect();
        all.retain(|subscriber| subscriber.policy.name == *wanted);
        if all.is_empty() {
            let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Missing::Told(format!("{namespace}/{name} has no webhook {wanted:?}: it has {has}")));
        }
    }
    if all.is_empty() { Err(Missing::Told(format!("{namespace}/{name} has no webhooks"))) } else { Ok(all) }
}

struct Told {
    text: String,
    taken: bool,
}

fn label(subscriber: &ValidatedWebhook) -> String {
    format!("{} ({:?})", subscriber.policy.name, subscriber.policy.format)
}

/// Whether the operator itself could do what follows.
async fn rights(account: &OperatorAccount<'_>, flags: &TestFlags, subscriber: &ValidatedWebhook) -> Told {
    let (namespace, operator) = (&flags.object.namespace, &flags.operator_account);
    let verdict = account.may_read(namespace, secret_names(&subscriber.webhook)).await;
    let taken = !matches!(verdict, Verdict::Refused(_));
    let NamespacedName { namespace: home, name } = operator;
    let words = match verdict {
        Verdict::Allowed => format!("the operator's account {home}/{name} may read its Secrets"),
        Verdict::IsCaller => format!("its Secrets are read with the operator's account {home}/{name}"),
        Verdict::Refused(secret) => format!(
            "the operator's account {home}/{name} may not get Secret {namespace}/{secret}\n  hint: name the Secret in \
             the Role of deploy/webhooks/secret-reader.yaml, and apply it in namespace {namespace}; another account is \
             named with --operator-account"
        ),
        Verdict::Unknown(why) => {
            format!("whether the operator's account {home}/{name} may read its Secrets could not be checked: {why}")
        }
    };
    Told { text: format!("{}: {words}\n", label(subscriber)), taken }
}

async fn test(
    secrets: &SecretReader,
    http: &HttpClient,
    object: &NamespacedName,
    subscriber: &ValidatedWebhook,
) -> Told {
    let (policy, webhook) = (&subscriber.policy, &subscriber.webhook);
    let label = label(subscriber);
    let reading = match secrets.read(&object.namespace, webhook).await {
        Ok(reading) => reading,
        Err(error) => return Told { text: format!("{label}: {error}\n"), taken: false },
    };
    let endpoint = match reading.endpoint {
        Ok(endpoint) => endpoint,
        Err(error) => return failed(&label, &AttemptOutcome::Unusable(error.0), "", policy.format),
    };
    let now = Timestamp::now();
    let id = || format!("test-{:016x}", fastrand::u64(..));
    let begin = Notification::test(id(), object.clone(), policy.name.clone(), now);
    let end = begin.clone().resolved(id(), now);
    let mut text = String::new();
    for (what, message) in [("test alert", begin), ("its end", end)] {
        if what == "its end" && !policy.send_resolved {
            continue;
        }
        let attempt = send(http, &endpoint, &message, policy.timeout).await;
        let milliseconds = attempt.latency.as_millis();
        match attempt.outcome {
            AttemptOutcome::Answered { status: status @ 200..=299, .. } => {
                text += &format!("{label}: {what}: taken, {status} in {milliseconds} ms\n");
            }
            outcome => {
                let mut told = failed(&label, &outcome, &format!(" after {milliseconds} ms"), policy.format);
                told.text.insert_str(0, &text);
                return told;
            }
        }
    }
    Told { text, taken: true }
}

fn failed(label: &str, outcome: &AttemptOutcome, after: &str, format: WebhookFormat) -> Told {
    let mut text = format!("{label}: not taken{after}: {}\n", outcome.reason());
    if let Some(hint) = hint(outcome, format) {
        text += &format!("  hint: {hint}\n");
    }
    Told { text, taken: false }
}
