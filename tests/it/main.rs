//! Integration tests against a real API server.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod alerts;
mod arbitrary;
mod cases;
mod causes;
mod chart;
mod columns;
mod command;
mod crd;
mod docs;
mod exam;
mod install;
mod judgement;
mod kubectl_status;
mod leader;
mod logs;
mod messages;
mod module_order;
mod operator;
mod pod_statuses;
mod protobuf;
mod proxy;
mod release;
mod replay;
mod running_operator;
mod scan;
mod sequences;
mod show;
mod status_recorder;
mod support;
mod telemetry;
mod tenancy;
mod test_env;
mod threats;
mod transitions;
mod verdicts;
