//! `orchestr webhook`: sends test alerts, or prints the requests of an object's webhooks without a cluster.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use tokio::time::timeout;

use crate::{
    alerts::{
        Notification, Request, Source, ValidatedWebhook,
        address::AddressPolicy,
        delivery::{DeliveryOptions, HttpClient, hint, secrets::SecretReader, send::send, system_lookup},
        destination::UrlPolicy,
        retry::AttemptOutcome,
    },
    api::{NamespacedName, OrchestrSpec, api_resource},
    render::safe::printable,
};

use super::{
    Failure,
    connect::{Cluster, ConnectionFlags, Retries, connect},
    kind::object_name,
    process::{file_name, ignore_broken_pipe, print_text, read_text},
    yaml::json_or_yaml,
};

/// The exit code if an alert was not delivered, or the operator may not read a Secret.
const NOT_DELIVERED: u8 = 1;
/// How long one check of the operator's rights may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time of the example, so that it is printed alike each time: 2026-07-01T10:01:30Z.
const EXAMPLE: Timestamp = Timestamp::constant(1_782_900_090, 0);
/// The largest file, in bytes: more than any object has.
const LIMIT: u64 = 4 * 1024 * 1024;

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

/// The flags that limit where webhooks may connect, also of `orchestr run`.
#[derive(Debug, Default, Args)]
pub(super) struct WebhookFlags {
    /// Allow http:// webhook URLs, such as that of an Alertmanager in the cluster
    #[arg(long, env = "ORCHESTR_WEBHOOK_ALLOW_HTTP")]
    webhook_allow_http: bool,

    /// Refuse to connect webhooks to private addresses, which includes receivers inside the cluster
    #[arg(long, env = "ORCHESTR_WEBHOOK_REFUSE_PRIVATE")]
    webhook_refuse_private: bool,

    /// Allow webhooks to connect to loopback addresses, for tests and demonstrations
    #[arg(long, env = "ORCHESTR_WEBHOOK_ALLOW_LOOPBACK")]
    webhook_allow_loopback: bool,

    /// Send webhook requests through the proxy set by HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY
    #[arg(long, env = "ORCHESTR_WEBHOOK_PROXY_FROM_ENV")]
    webhook_proxy_from_env: bool,
}

impl WebhookFlags {
    pub(super) fn access(&self) -> DeliveryOptions {
        let addresses = AddressPolicy { private: !self.webhook_refuse_private, loopback: self.webhook_allow_loopback };
        DeliveryOptions {
            urls: UrlPolicy { plain_http: self.webhook_allow_http, addresses },
            proxy_from_env: self.webhook_proxy_from_env,
        }
    }
}

/// The flags of `orchestr webhook render`.
#[derive(Debug, Args)]
pub(super) struct RenderFlags {
    /// The file with the Orchestr object; - for standard input
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,

    /// Render only this webhook; all webhooks of the object by default
    #[arg(long, value_name = "WEBHOOK")]
    webhook: Option<String>,

    /// Render the request about the end of the problem
    #[arg(long)]
    resolved: bool,
}

pub(super) async fn run(command: WebhookCommand) -> Result<ExitCode, Failure> {
    match command {
        WebhookCommand::Test(flags) => test(flags).await,
        WebhookCommand::Render(flags) => render(&flags),
    }
}

async fn test(flags: TestFlags) -> Result<ExitCode, Failure> {
    let cluster = connect(&flags.connection, Retries::InTheClient).await?;
    let webhooks = read(&cluster, &flags).await?;
    let options = flags.webhook_flags.access();
    let http = Arc::new(HttpClient::new(options, system_lookup()));
    let secrets = SecretReader::new(cluster.client.clone(), options.urls, Arc::clone(&http));
    let mut is_success = true;
    let mut print = |result: Result<String, String>| {
        is_success &= result.is_ok();
        let text = result.unwrap_or_else(|text| text);
        ignore_broken_pipe(io::stdout().lock().write_all(text.as_bytes()))
    };
    for webhook in &webhooks {
        let label = format!("{} ({:?})", webhook.policy.name, webhook.policy.format);
        print(check_access(&cluster.client, &flags, webhook, &label).await)?;
        print(send_test(&secrets, &http, &flags.object, webhook, &label).await)?;
    }
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::from(NOT_DELIVERED) })
}

async fn read(cluster: &Cluster, flags: &TestFlags) -> Result<Vec<ValidatedWebhook>, Failure> {
    let NamespacedName { namespace, name } = &flags.object;
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), namespace, &api_resource());
    let object = api.get(name).await.map_err(|error| cluster.target.describe(&error))?;
    selected(&object, &flags.object, flags.webhook.as_deref())
}

/// The webhooks of an object, or the one that is wanted.
fn selected(
    object: &DynamicObject,
    name: &NamespacedName,
    wanted: Option<&str>,
) -> Result<Vec<ValidatedWebhook>, Failure> {
    let spec: OrchestrSpec = serde_path_to_error::deserialize(object.data.get("spec").cloned().unwrap_or_default())
        .map_err(|error| Failure::new(format!("spec.{}: {}", error.path(), error.inner())))?;
    let mut webhooks = ValidatedWebhook::validate_all(spec.webhooks.as_deref().unwrap_or_default(), &mut Vec::new());
    let names: Vec<_> = webhooks.iter().map(|webhook| webhook.policy.name.clone()).collect();
    webhooks.retain(|webhook| wanted.is_none_or(|wanted| webhook.policy.name == wanted));
    let NamespacedName { namespace, name } = name;
    match wanted {
        _ if !webhooks.is_empty() => Ok(webhooks),
        None => Err(Failure::new(format!("{namespace}/{name} has no webhooks"))),
        Some(wanted) => {
            let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(Failure::new(format!("{namespace}/{name} has no webhook {wanted:?}: it has {has}")))
        }
    }
}

/// Checks whether the operator may read the webhook's Secrets. `webhook test` reads them with the rights of its caller, who may
/// be allowed more than the operator. An error is that it may not.
async fn check_access(
    client: &Client,
    flags: &TestFlags,
    webhook: &ValidatedWebhook,
    label: &str,
) -> Result<String, String> {
    let (namespace, account) = (&flags.object.namespace, &flags.operator_account);
    let operator = format!("the operator's account {}/{}", account.namespace, account.name);
    for secret in webhook.endpoint.secret_names() {
        let why = match timeout(TIMEOUT, may_read(client, account, namespace, secret)).await {
            Ok(Ok(true)) => continue,
            Ok(Ok(false)) => {
                return Err(format!(
                    "{label}: {operator} may not get Secret {namespace}/{secret}\n  hint: name the Secret in the Role of \
                     deploy/webhooks/secret-reader.yaml, and apply it in namespace {namespace}; to check another account, \
                     use --operator-account\n"
                ));
            }
            // Reading the Secrets shows whether the operator's own account may.
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() && is_caller(client, account).await => {
                return Ok(format!("{label}: its Secrets are read with {operator}\n"));
            }
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => "you may not create subjectaccessreviews",
            Ok(Err(_)) | Err(_) => "the API server did not answer",
        };
        return Ok(format!("{label}: whether {operator} may read its Secrets could not be checked: {why}\n"));
    }
    Ok(format!("{label}: {operator} may read its Secrets\n"))
}

fn user(account: &NamespacedName) -> String {
    format!("system:serviceaccount:{}:{}", account.namespace, account.name)
}

/// Whether the account may read a Secret.
async fn may_read(client: &Client, account: &NamespacedName, namespace: &str, secret: &str) -> kube::Result<bool> {
    let own = format!("system:serviceaccounts:{}", account.namespace);
    let groups = ["system:authenticated", "system:serviceaccounts", &own].map(str::to_owned);
    let attributes = ResourceAttributes {
        verb: Some("get".to_owned()),
        resource: Some("secrets".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(secret.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(user(account)),
        groups: Some(groups.into()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn is_caller(client: &Client, account: &NamespacedName) -> bool {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let (params, review) = (PostParams::default(), SelfSubjectReview::default());
    let Ok(Ok(answer)) = timeout(TIMEOUT, api.create(&params, &review)).await else { return false };
    answer.status.and_then(|status| status.user_info?.username) == Some(user(account))
}

/// Sends a test alert and then, if the webhook sends resolved alerts, that it is resolved. An error is that one was not delivered.
async fn send_test(
    secrets: &Arc<SecretReader>,
    http: &HttpClient,
    object: &NamespacedName,
    webhook: &ValidatedWebhook,
    label: &str,
) -> Result<String, String> {
    let policy = &webhook.policy;
    let failed = |outcome: &AttemptOutcome, after: &str| {
        let hint = hint(outcome, policy.format).map(|hint| format!("  hint: {hint}\n")).unwrap_or_default();
        format!("{label}: not delivered{after}: {}\n{hint}", outcome.description())
    };
    if let Some(error) = &webhook.endpoint.wrong {
        return Err(failed(&AttemptOutcome::Unusable(error.clone()), ""));
    }
    let read = secrets.read(&object.namespace, &webhook.endpoint).await;
    let endpoint = read.map_err(|error| format!("{label}: {error}\n"))?.endpoint;
    let endpoint = endpoint.map_err(|error| failed(&AttemptOutcome::Unusable(error), ""))?;
    let now = Timestamp::now();
    let id = || format!("test-{:016x}", fastrand::u64(..));
    let firing = Notification::test(id(), object.clone(), policy.name.clone(), now);
    let resolved = policy.send_resolved.then(|| ("resolved alert", firing.clone().resolved(id(), now)));
    let mut text = String::new();
    let mut thread = None;
    for (kind, mut message) in [("test alert", firing)].into_iter().chain(resolved) {
        message.thread = thread.take();
        let attempt = send(http, &endpoint, &message, policy.timeout).await;
        let milliseconds = attempt.latency.as_millis();
        match attempt.outcome {
            AttemptOutcome::Answered { status: status @ 200..=299, .. } => {
                text += &format!("{label}: {kind}: delivered, {status} in {milliseconds} ms\n");
                thread = attempt.thread;
            }
            outcome => return Err(text + &failed(&outcome, &format!(" after {milliseconds} ms"))),
        }
    }
    Ok(text)
}

fn render(flags: &RenderFlags) -> Result<ExitCode, Failure> {
    let text = read_text(&flags.filename, LIMIT)?;
    let object = json_or_yaml(&text).and_then(|document| serde_json::from_value::<DynamicObject>(document).ok());
    let is_one = |object: &DynamicObject| object.types.as_ref().is_some_and(|types| types.kind == "Orchestr");
    let object = object.filter(is_one).ok_or_else(|| {
        Failure::new(format!("{} is not an Orchestr object in JSON or YAML", file_name(&flags.filename)))
    })?;
    let name = NamespacedName {
        namespace: object.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        name: object.metadata.name.clone().unwrap_or_default(),
    };
    let mut text = String::new();
    for webhook in &selected(&object, &name, flags.webhook.as_deref())? {
        if let Some(error) = &webhook.endpoint.wrong {
            return Err(Failure::new(error));
        }
        let request = webhook.example_request(Source::from(name.clone()), flags.resolved, EXAMPLE);
        text += &shown(webhook, &request.map_err(Failure::new)?);
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The request, without what is read from Secrets.
fn shown(webhook: &ValidatedWebhook, request: &Request) -> String {
    let path = request.path.trim_start_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    let question = if request.query.is_empty() { "" } else { "?" };
    let mut lines = vec![
        format!("# {} ({})", webhook.policy.name, webhook.policy.format.as_str()),
        format!("{} <URL>{slash}{path}{question}{}", request.method, request.query),
        format!("content-type: {}", String::from_utf8_lossy(request.content_type.as_bytes())),
    ];
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
    };
    lines.extend(request.headers.iter().map(header));
    lines.push(String::new());
    let body = String::from_utf8_lossy(&request.body);
    lines.extend(body.lines().map(str::to_owned));
    lines.push(String::new());
    lines.iter().map(|line| printable(line) + "\n").collect()
}
