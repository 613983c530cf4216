//! The flags of `orchestr mcp`, and its tools, each with the command that it stands for.

use std::path::PathBuf;

use clap::{Args, FromArgMatches};
use jiff::Timestamp;
use rmcp::model::{JsonObject, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::{
    cli::{Failure, explain, scan, show, wait},
    render::agent::{self, Part},
};

/// The most targets of `rollout`.
const TARGETS: usize = 10;
/// How many lines of a log are read.
const LOG_LINES: usize = 200;
/// How many lines of a log `explain` and `rollout` show.
const FEW_LINES: usize = 10;

/// The flags of `orchestr mcp`.
#[derive(Debug, Args)]
pub(in crate::cli) struct McpFlags {
    /// The kubeconfig file; by default $KUBECONFIG, ~/.kube/config, or the pod's own service account
    #[arg(long, env = "ORCHESTR_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// A context in the kubeconfig that may be asked about, its current context by default; may be repeated
    #[arg(long, env = "ORCHESTR_CONTEXT", value_name = "NAME")]
    context: Vec<String>,

    /// Answer about the pods in a file written by `kubectl get pods -A -o json`; no cluster is asked
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Problems,
    Explain,
    Log,
    History,
    Rollout,
}

impl Tool {
    pub(super) const ALL: [Self; 5] = [Self::Problems, Self::Explain, Self::Log, Self::History, Self::Rollout];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Problems => "problems",
            Self::Explain => "explain",
            Self::Log => "log",
            Self::History => "history",
            Self::Rollout => "rollout",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Problems => {
                "The incidents of the cluster, the most recent first: pods of one owner that fail alike, with the proven cause, a \
                 sentence, evidence and example pods. notSeen says what could not be checked. Logs are not read."
            }
            Self::Explain => {
                "Everything that is known about one pod or workload: causes, containers, probes, events, what changed in the \
                 revision, objects that it refers to, its node, and the last lines of the log. notRead says what could not be read."
            }
            Self::Log => {
                "The end of the log of the run that failed, of one pod, with credentials masked. The run may be the previous one, \
                 which `kubectl logs` without --previous does not show."
            }
            Self::History => {
                "When incidents began and ended, and when the pods were not watched, from the status of an Orchestr object."
            }
            Self::Rollout => {
                "Whether workloads are rolled out and healthy now: Complete, Failed (it cannot mend itself), or InProgress with how \
                 far it is. Each is checked once."
            }
        }
    }

    /// The arguments: name, schema, and whether it is required.
    fn arguments(self) -> Vec<(&'static str, Value, bool)> {
        let text = |description: &str| json!({"type": "string", "description": description});
        let context = ("context", text("A context of the kubeconfig that the server was started with"), false);
        let namespace = ("namespace", text("The namespace"), true);
        match self {
            Self::Problems => vec![
                context,
                (
                    "namespace",
                    text("Only these namespaces: names or patterns such as team-*, with commas between"),
                    false,
                ),
                ("selector", text("Only pods with these labels, such as app=cart,tier!=web"), false),
                ("since", text("Only problems that began within this time, such as 10m"), false),
                ("cursor", text("nextCursor of the page before"), false),
            ],
            Self::Explain => vec![
                context,
                namespace,
                ("target", text("A pod by its name, or KIND/NAME, such as deployment/cart"), true),
            ],
            Self::Log => vec![
                context,
                namespace,
                ("pod", text("The name of the pod"), true),
                ("container", text("Only this container"), false),
            ],
            Self::History => vec![
                context,
                ("object", text("The Orchestr object as NAMESPACE/NAME"), true),
                ("since", text("Only what lasted or ended within this time, such as 24h"), false),
            ],
            Self::Rollout => vec![
                context,
                namespace,
                (
                    "targets",
                    json!({
                        "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": TARGETS,
                        "description": "Workloads or pods as KIND/NAME, such as deployment/cart",
                    }),
                    true,
                ),
            ],
        }
    }

    /// The fields of the answer: name and type. Those without `?` are always there.
    fn answer(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Problems => &[
                ("asOf", "string"),
                ("summary", "string"),
                ("notSeen", "array"),
                ("incidents", "array"),
                ("commonCauses?", "array"),
                ("omittedIncidents?", "integer"),
                ("nextCursor?", "string"),
                ("omitted?", "object"),
            ],
            Self::Explain => &[
                ("asOf", "string"),
                ("target", "string"),
                ("namespace", "string"),
                ("state", "string"),
                ("workload?", "object"),
                ("pods", "array"),
                ("notRead", "array"),
                ("omitted?", "object"),
            ],
            Self::Log => &[
                ("asOf", "string"),
                ("namespace", "string"),
                ("logs", "array"),
                ("notRead", "array"),
                ("note?", "string"),
                ("omitted?", "object"),
            ],
            Self::History => &[
                ("asOf", "string"),
                ("object", "string"),
                ("until", "string"),
                ("incidents", "array"),
                ("unwatched", "array"),
                ("omitted?", "object"),
            ],
            Self::Rollout => &[("asOf", "string"), ("targets", "array"), ("omitted?", "object")],
        }
    }

    /// The tool as the protocol lists it.
    pub(super) fn described(self) -> rmcp::model::Tool {
        let arguments = self.arguments();
        let required: Vec<_> = arguments.iter().filter(|(_, _, required)| *required).map(|(name, ..)| *name).collect();
        let properties: JsonObject =
            arguments.iter().map(|(name, schema, _)| ((*name).to_owned(), schema.clone())).collect();
        let input = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        let field = |name: &'static str| (name.trim_end_matches('?'), name.ends_with('?'));
        let fields: JsonObject =
            self.answer().iter().map(|(name, kind)| (field(name).0.to_owned(), json!({"type": kind}))).collect();
        let always: Vec<_> =
            self.answer().iter().map(|(name, _)| field(name)).filter(|own| !own.1).map(|own| own.0).collect();
        let output = json!({"type": "object", "properties": fields, "required": always});
        let object = |value| match value {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let annotations = ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
        rmcp::model::Tool::new(self.name(), self.description(), object(input))
            .with_raw_output_schema(object(output).into())
            .with_annotations(annotations)
    }
}

/// A call of a tool: its command, parsed from the arguments, and the part of the document that answers it.
pub(super) struct Call {
    command: Command,
    part: Part,
}

enum Command {
    Scan(scan::ScanFlags),
    Explain(explain::ExplainFlags),
    Show(show::ShowFlags),
    Wait(wait::WaitFlags),
}

impl Call {
    /// # Errors
    /// If an argument is missing, unknown or not valid.
    pub(super) fn new(tool: Tool, arguments: &Map<String, Value>, flags: &McpFlags) -> Result<Self, Failure> {
        let known = tool.arguments();
        if let Some(unknown) = arguments.keys().find(|name| known.iter().all(|(known, ..)| known != name)) {
            return Err(Failure::new(format!("there is no argument {unknown:?}")));
        }
        if let Some((missing, ..)) =
            known.iter().find(|(name, _, required)| *required && !arguments.contains_key(*name))
        {
            return Err(Failure::new(format!("the argument {missing} is missing")));
        }
        let text = |name: &str| match arguments.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Failure::new(format!("the argument {name} must be a string"))),
        };
        // Each value is in one word with its flag or after `--`, so that none becomes a flag.
        let mut line = CommandLine::default();
        let mut part = Part::Explanation;
        match tool {
            Tool::Problems => {
                ["namespace", "selector", "since"]
                    .into_iter()
                    .try_for_each(|name| text(name).map(|own| line.flag(name, own)))?;
                part = Part::Problems { after: text("cursor")?, is_of_file: flags.filename.is_some() };
            }
            Tool::Explain => {
                line.flag("namespace", text("namespace")?);
                line.flag("log-lines", Some(FEW_LINES.to_string()));
                line.operands.extend(text("target")?);
            }
            Tool::Log => {
                line.flag("namespace", text("namespace")?);
                line.flag("log-lines", Some(LOG_LINES.to_string()));
                line.operands.extend(text("pod")?.map(|pod| format!("pod/{pod}")));
                part = Part::Log { container: text("container")? };
            }
            Tool::History => {
                line.flags.push("--history".to_owned());
                line.flag("since", text("since")?);
                line.operands.extend(text("object")?);
                part = Part::History;
            }
            Tool::Rollout => {
                line.flag("namespace", text("namespace")?);
                line.flag("log-lines", Some(FEW_LINES.to_string()));
                line.flag("timeout", Some("0s".to_owned()));
                line.operands = targets(arguments.get("targets"))?;
                part = Part::Rollout;
            }
        }
        match &flags.filename {
            Some(file) if tool == Tool::Problems => line.flag("filename", Some(file.display().to_string())),
            Some(_) => return Err(Failure::new("only problems can be answered from a file")),
            None => {
                line.flag("kubeconfig", flags.kubeconfig.as_ref().map(|path| path.display().to_string()));
                for context in contexts(text("context")?, &flags.context, tool)? {
                    line.flag("context", Some(context));
                }
            }
        }
        let command = match tool {
            Tool::Problems => Command::Scan(line.parse()?),
            Tool::Explain | Tool::Log => Command::Explain(line.parse()?),
            Tool::History => Command::Show(line.parse()?),
            Tool::Rollout => Command::Wait(line.parse()?),
        };
        Ok(Self { command, part })
    }

    pub(super) async fn answer(self) -> Result<Value, Failure> {
        let document = match &self.command {
            Command::Scan(flags) => scan::document(flags).await?,
            Command::Explain(flags) => explain::document(flags).await?,
            Command::Show(flags) => show::document(flags).await?,
            Command::Wait(flags) => wait::document(flags).await?,
        };
        Ok(agent::answer(&document, &self.part, Timestamp::now()))
    }
}

/// The targets of `rollout`.
fn targets(value: Option<&Value>) -> Result<Vec<String>, Failure> {
    let items = value.and_then(Value::as_array).filter(|items| (1..=TARGETS).contains(&items.len()));
    let texts = items.and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    texts.ok_or_else(|| Failure::new(format!("the argument targets must be a list of 1 to {TARGETS} strings")))
}

/// The contexts to ask: the one of the call, which must be one of those that the server was started with, or else all of them.
fn contexts(wanted: Option<String>, allowed: &[String], tool: Tool) -> Result<Vec<String>, Failure> {
    match wanted {
        Some(wanted) if allowed.contains(&wanted) => Ok(vec![wanted]),
        Some(_) if allowed.is_empty() => {
            Err(Failure::new("the argument context is for a server that was started with --context"))
        }
        Some(_) => Err(Failure::new(format!("the argument context must be one of {}", allowed.join(", ")))),
        None if allowed.len() > 1 && tool != Tool::Problems => {
            Err(Failure::new(format!("the argument context is missing: one of {}", allowed.join(", "))))
        }
        None => Ok(allowed.to_vec()),
    }
}

/// The command line that a call stands for.
#[derive(Default)]
struct CommandLine {
    flags: Vec<String>,
    operands: Vec<String>,
}

impl CommandLine {
    fn flag(&mut self, name: &str, value: Option<String>) {
        self.flags.extend(value.map(|value| format!("--{name}={value}")));
    }

    fn parse<T: Args + FromArgMatches>(self) -> Result<T, Failure> {
        let words = self.flags.into_iter().chain(["--".to_owned()]).chain(self.operands);
        // The flags that the environment sets are those of the server.
        let command = T::augment_args(clap::Command::new("orchestr").no_binary_name(true).disable_help_flag(true));
        let matches = command.try_get_matches_from(words);
        let parsed = matches.and_then(|matches| T::from_arg_matches(&matches));
        parsed.map_err(|error| {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            Failure::new(first.strip_prefix("error: ").unwrap_or(first))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> McpFlags {
        McpFlags { kubeconfig: None, context: Vec::new(), filename: None }
    }

    fn refused(tool: Tool, arguments: Value, flags: &McpFlags) -> String {
        let Value::Object(arguments) = arguments else { panic!() };
        Call::new(tool, &arguments, flags).err().unwrap().to_string()
    }

    #[test]
    fn arguments_cannot_become_flags() {
        for (tool, arguments) in [
            (Tool::Explain, json!({"namespace": "shop", "target": "--kubeconfig=/etc/passwd"})),
            (Tool::Log, json!({"namespace": "shop", "pod": "--filename=x"})),
            (Tool::Rollout, json!({"namespace": "shop", "targets": ["--kubeconfig=/etc/passwd"]})),
            (Tool::History, json!({"object": "--filename=/etc/passwd"})),
        ] {
            let why = refused(tool, arguments, &flags());
            assert!(why.contains("invalid value"), "{tool:?}: {why}");
        }
        let Value::Object(arguments) = json!({"namespace": "--filename=/etc/passwd"}) else { panic!() };
        let call = Call::new(Tool::Problems, &arguments, &flags()).ok().unwrap();
        let Command::Scan(flags) = call.command else { panic!() };
        assert!(format!("{flags:?}").contains("filename: None"), "{flags:?}");
    }

    #[test]
    fn says_what_is_wrong_with_arguments() {
        let several = McpFlags { context: vec!["a".to_owned(), "b".to_owned()], ..flags() };
        let file = McpFlags { filename: Some("pods.json".into()), ..flags() };
        for (tool, arguments, flags, expected) in [
            (Tool::Problems, json!({"verbose": true}), &flags(), "there is no argument \"verbose\""),
            (Tool::Problems, json!({"namespace": 7}), &flags(), "the argument namespace must be a string"),
            (Tool::Explain, json!({"namespace": "shop"}), &flags(), "the argument target is missing"),
            (Tool::Rollout, json!({"namespace": "shop", "targets": []}), &flags(), "must be a list of 1 to 10 strings"),
            (Tool::Problems, json!({"context": "a"}), &flags(), "was started with --context"),
            (Tool::Problems, json!({"context": "c"}), &several, "the argument context must be one of a, b"),
            (Tool::Log, json!({"namespace": "shop", "pod": "cart"}), &several, "context is missing: one of a, b"),
            (
                Tool::Log,
                json!({"namespace": "shop", "pod": "cart"}),
                &file,
                "only problems can be answered from a file",
            ),
        ] {
            let why = refused(tool, arguments, flags);
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn every_tool_is_read_only_and_describes_its_answer() {
        for tool in Tool::ALL {
            let described = tool.described();
            assert_eq!(described.annotations.unwrap().read_only_hint, Some(true));
            assert!(described.output_schema.unwrap()["required"].as_array().unwrap().len() > 1);
        }
    }
}
