//! Runs a command while an empty control plane runs on loopback, and ends with its exit code:
//!
//! `cargo run -p orchestr-testbed --example with_control_plane -- COMMAND [ARGUMENT…]`
//!
//! The command's environment has `KUBECONFIG`, for the administrator, and `KUBECTL`, the path of a matching kubectl.

use std::{env, error::Error, process::ExitCode};

use orchestr_testbed::{ControlPlane, Options, kubectl};
use tokio::process::Command;

#[tokio::main]
async fn main() -> ExitCode {
    // Interrupted, it must still stop the control plane.
    let result = tokio::select! {
        result = run() => result,
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::FAILURE),
    };
    result.unwrap_or_else(|error| {
        eprintln!("with_control_plane: {error}");
        ExitCode::FAILURE
    })
}

async fn run() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let mut args = env::args_os().skip(1);
    let program = args.next().ok_or("name a command to run")?;
    let plane = ControlPlane::start(Options::default()).await?;
    let mut command = Command::new(program);
    command.args(args).env("KUBECONFIG", plane.admin_kubeconfig()).env("KUBECTL", kubectl().await?);
    let status = command.kill_on_drop(true).status().await?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
