//! `orchestr webhook`.

use std::{io, io::Write, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use kube::{Api, Client, api::DynamicObject};

use crate::{
    alerts::{
        Notification, ValidatedWebhook,
        delivery::{HttpClient, hint, secrets::SecretReader, send::send, system_lookup},
        retry::AttemptOutcome,
    },
    api::{NamespacedName, OrchestrSpec, WebhookFormat, api_resource},
};

use super::{
    Failure,
    account::{OperatorAccount, SecretAccess},
    connect::{ConnectionFlags, Retries, connect},
    kind::object_name,
    process::ignore_broken_pipe,
    webhook_flags::WebhookFlags,
    webhook_render::{RenderFlags, render, select},
};

/// The exit code if an alert was not delivered, or the operator may not read a Secret.
const NOT_DELIVERED: u8 = 1;

#[derive(Debug, Subcommand)]
pub(super) enum WebhookCommand {
    /// Send a test alert, and the message that resolves it, to an object's webhooks, and print the results; exits 1 if
    /// one is not delivered
    Test(TestFlags),
    /// Print the requests about an example problem that an object's webhooks would send; needs no cluster, and sends nothing
    Render(RenderFlags),
}

/// What the exit codes mean, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  each message was delivered, and the operator may read the Secrets
  1  a message was not delivered, or the operator may not read a Secret
  2  the object could not be read, or it has no such webhook";

/// The flags of `orchestr webhook test`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct TestFlags {
    /// The Orchestr object
    #[arg(value_name = "NAMESPACE/NAME", value_parser = object_name)]
    object: NamespacedName,

    /// Test only this webhook; all webhooks of the object by default
    #[arg(long, value_name = "WEBHOOK")]
    webhook: Option<String>,

    /// The operator's service account, for which the command checks whether it may read the Secrets
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

pub(super) async fn run(command: WebhookCommand) -> Result<ExitCode, Failure> {
    match command {
        WebhookCommand::Test(flags) => run_test(flags).await,
        WebhookCommand::Render(flags) => render(&flags),
    }
}

async fn run_test(flags: TestFlags) -> Result<ExitCode, Failure> {
    let cluster = connect(&flags.connection, Retries::InTheClient).await?;
    let webhooks = webhooks(&cluster.client, &flags).await.map_err(|error| match error {
        WebhooksError::Api(error) => cluster.target.describe(&error),
        WebhooksError::Invalid(message) => Failure::new(message),
    })?;
    let options = flags.webhook_flags.access();
    let http = Arc::new(HttpClient::new(options, system_lookup()));
    let account = OperatorAccount::new(&cluster.client, &flags.operator_account);
    let secrets = SecretReader::new(cluster.client.clone(), options.urls, Arc::clone(&http));
    let mut success = true;
    for webhook in &webhooks {
        let access = check_access(&account, &flags, webhook).await;
        success &= access.success;
        ignore_broken_pipe(io::stdout().lock().write_all(access.text.as_bytes()))?;
        let delivery = test(&secrets, &http, &flags.object, webhook).await;
        success &= delivery.success;
        ignore_broken_pipe(io::stdout().lock().write_all(delivery.text.as_bytes()))?;
    }
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::from(NOT_DELIVERED) })
}

enum WebhooksError {
    Api(kube::Error),
    Invalid(String),
}

async fn webhooks(client: &Client, flags: &TestFlags) -> Result<Vec<ValidatedWebhook>, WebhooksError> {
    let NamespacedName { namespace, name } = &flags.object;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &api_resource());
    let object = api.get(name).await.map_err(WebhooksError::Api)?;
    let spec: OrchestrSpec = serde_path_to_error::deserialize(object.data.get("spec").cloned().unwrap_or_default())
        .map_err(|error| WebhooksError::Invalid(format!("spec.{}: {}", error.path(), error.inner())))?;
    let mut webhooks = ValidatedWebhook::validate_all(spec.webhooks.as_deref().unwrap_or_default(), &mut Vec::new());
    select(&mut webhooks, flags.webhook.as_deref(), &format!("{namespace}/{name}")).map_err(WebhooksError::Invalid)?;
    Ok(webhooks)
}

struct CheckResult {
    text: String,
    success: bool,
}

fn label(webhook: &ValidatedWebhook) -> String {
    format!("{} ({:?})", webhook.policy.name, webhook.policy.format)
}

/// Checks whether the operator may read the webhook's Secrets.
async fn check_access(account: &OperatorAccount<'_>, flags: &TestFlags, webhook: &ValidatedWebhook) -> CheckResult {
    let (namespace, operator) = (&flags.object.namespace, &flags.operator_account);
    let access = account.secret_access(namespace, webhook.endpoint.secret_names()).await;
    let success = !matches!(access, SecretAccess::Denied(_));
    let NamespacedName { namespace: home, name } = operator;
    let message = match access {
        SecretAccess::Allowed => format!("the operator's account {home}/{name} may read its Secrets"),
        SecretAccess::IsCaller => format!("its Secrets are read with the operator's account {home}/{name}"),
        SecretAccess::Denied(secret) => format!(
            "the operator's account {home}/{name} may not get Secret {namespace}/{secret}\n  hint: name the Secret in \
             the Role of deploy/webhooks/secret-reader.yaml, and apply it in namespace {namespace}; to check another \
             account, use --operator-account"
        ),
        SecretAccess::Unknown(reason) => {
            format!("whether the operator's account {home}/{name} may read its Secrets could not be checked: {reason}")
        }
    };
    CheckResult { text: format!("{}: {message}\n", label(webhook)), success }
}

/// Sends a test alert and then, if the webhook sends resolved alerts, that it is resolved.
async fn test(
    secrets: &SecretReader,
    http: &HttpClient,
    object: &NamespacedName,
    webhook: &ValidatedWebhook,
) -> CheckResult {
    let policy = &webhook.policy;
    let label = label(webhook);
    if let Some(error) = &webhook.endpoint.wrong {
        return failed(&label, &AttemptOutcome::Unusable(error.clone()), "", policy.format);
    }
    let secrets = match secrets.read(&object.namespace, &webhook.endpoint).await {
        Ok(secrets) => secrets,
        Err(error) => return CheckResult { text: format!("{label}: {error}\n"), success: false },
    };
    let endpoint = match secrets.endpoint {
        Ok(endpoint) => endpoint,
        Err(error) => return failed(&label, &AttemptOutcome::Unusable(error.0), "", policy.format),
    };
    let now = Timestamp::now();
    let id = || format!("test-{:016x}", fastrand::u64(..));
    let firing = Notification::test(id(), object.clone(), policy.name.clone(), now);
    let resolved = policy.send_resolved.then(|| ("resolved alert", firing.clone().resolved(id(), now)));
    let mut text = String::new();
    for (kind, message) in [("test alert", firing)].into_iter().chain(resolved) {
        let attempt = send(http, &endpoint, &message, policy.timeout).await;
        let milliseconds = attempt.latency.as_millis();
        match attempt.outcome {
            AttemptOutcome::Answered { status: status @ 200..=299, .. } => {
                text += &format!("{label}: {kind}: delivered, {status} in {milliseconds} ms\n");
            }
            outcome => {
                let mut result = failed(&label, &outcome, &format!(" after {milliseconds} ms"), policy.format);
                result.text.insert_str(0, &text);
                return result;
            }
        }
    }
    CheckResult { text, success: true }
}

fn failed(label: &str, outcome: &AttemptOutcome, after: &str, format: WebhookFormat) -> CheckResult {
    let mut text = format!("{label}: not delivered{after}: {}\n", outcome.description());
    if let Some(hint) = hint(outcome, format) {
        text += &format!("  hint: {hint}\n");
    }
    CheckResult { text, success: false }
}
