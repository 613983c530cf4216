//! `orchestr webhook render`: the requests of an object's webhooks, without a cluster.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use jiff::Timestamp;
use kube::api::DynamicObject;

use crate::{
    alerts::{Request, Source, ValidatedWebhook},
    api::{NamespacedName, OrchestrSpec},
    render::safe::printable,
};

use super::{
    Failure,
    process::{file_name, print_text, read_text},
    yaml::json_or_yaml,
};

/// The time of the example, so that it is printed alike each time: 2026-07-01T10:01:30Z.
const EXAMPLE: Timestamp = Timestamp::constant(1_782_900_090, 0);
/// The largest file, in bytes: more than any object has.
const LIMIT: u64 = 4 * 1024 * 1024;

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

pub(super) fn render(flags: &RenderFlags) -> Result<ExitCode, Failure> {
    let (object, spec) = read(&flags.filename)?;
    let mut wrong = Vec::new();
    let mut webhooks = ValidatedWebhook::validate_all(spec.webhooks.as_deref().unwrap_or_default(), &mut wrong);
    select(&mut webhooks, flags.webhook.as_deref(), &format!("{}/{}", object.namespace, object.name))
        .map_err(Failure::new)?;
    let mut text = String::new();
    for webhook in &webhooks {
        if let Some(error) = &webhook.endpoint.wrong {
            return Err(Failure::new(error));
        }
        let source = Source::from(object.clone());
        let request = webhook.example_request(source, flags.resolved, EXAMPLE).map_err(Failure::new)?;
        text += &shown(webhook, &request);
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps the webhooks that are wanted. `object` is the name of the object that has them.
pub(super) fn select(webhooks: &mut Vec<ValidatedWebhook>, wanted: Option<&str>, object: &str) -> Result<(), String> {
    let names: Vec<_> = webhooks.iter().map(|webhook| webhook.policy.name.clone()).collect();
    match wanted {
        _ if names.is_empty() && wanted.is_none() => Err(format!("{object} has no webhooks")),
        Some(wanted) if !names.iter().any(|name| name == wanted) => {
            let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(format!("{object} has no webhook {wanted:?}: it has {has}"))
        }
        _ => {
            webhooks.retain(|webhook| wanted.is_none_or(|wanted| webhook.policy.name == wanted));
            Ok(())
        }
    }
}

fn read(path: &Path) -> Result<(NamespacedName, OrchestrSpec), Failure> {
    let text = read_text(path, LIMIT)?;
    let not_one = || Failure::new(format!("{} is not an Orchestr object in JSON or YAML", file_name(path)));
    let document = json_or_yaml(&text);
    let object: DynamicObject =
        document.and_then(|document| serde_json::from_value(document).ok()).ok_or_else(not_one)?;
    if object.types.as_ref().is_none_or(|types| types.kind != "Orchestr") {
        return Err(not_one());
    }
    let spec = serde_path_to_error::deserialize(object.data.get("spec").cloned().unwrap_or_default())
        .map_err(|error| Failure::new(format!("spec.{}: {}", error.path(), error.inner())))?;
    let metadata = object.metadata;
    let namespace = metadata.namespace.unwrap_or_else(|| "default".to_owned());
    Ok((NamespacedName { namespace, name: metadata.name.unwrap_or_default() }, spec))
}

/// The request, without what is read from Secrets.
fn shown(webhook: &ValidatedWebhook, request: &Request) -> String {
    let path = if request.path.is_empty() { "" } else { request.path.trim_start_matches('/') };
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
