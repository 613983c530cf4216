//! An earlier version of the operator, for tests of upgrades and downgrades.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

use crate::{
    error::{Doing, Error, Result},
    go::{UnderWay, target_dir},
};

/// The commit of the earlier version: moved on with each minor version.
pub const EARLIER: &str = "5b75ec0";

/// Builds the operator of [`EARLIER`], once, and returns the program, which is kept in `target/`. It takes about five minutes
/// on two cores. The commit must be in the repository.
pub async fn earlier_version() -> Result<PathBuf> {
    let folder = target_dir().join("testbed").join(format!("orchestr-{EARLIER}"));
    let program = folder.join("bin/orchestr");
    if program.is_file() {
        return Ok(program);
    }
    let _under_way = UnderWay::begin();
    let (source, build) = (folder.join("source"), folder.join("build"));
    for folder in [&source, &folder.join("bin")] {
        fs::create_dir_all(folder).doing(|| format!("make {}", folder.display()))?;
    }
    let archive = folder.join("source.tar");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    done(Command::new("git").current_dir(workspace).args(["archive", EARLIER, "-o"]).arg(&archive)).await?;
    done(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source)).await?;
    let mut cargo = Command::new("nice");
    cargo.args(["-n", "15", "cargo", "build", "--locked", "--bin", "orchestr", "--target-dir"]).arg(&build);
    done(cargo.current_dir(&source).env_remove("CARGO_TARGET_DIR")).await?;
    fs::rename(build.join("debug/orchestr"), &program).doing(|| format!("move {}", program.display()))?;
    for rest in [&source, &build] {
        fs::remove_dir_all(rest).doing(|| format!("remove {}", rest.display()))?;
    }
    fs::remove_file(&archive).doing(|| format!("remove {}", archive.display()))?;
    Ok(program)
}

/// Runs a command to its end.
async fn done(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().await.doing(|| format!("run {:?}", command.as_std()))?;
    if status.success() {
        return Ok(());
    }
    let what = format!("failed ({status})");
    Err(Error::Program { program: format!("{:?}", command.as_std()), what, log: String::new() })
}
