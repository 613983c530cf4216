//! The error messages if the programs are missing or cannot be built.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use orchestr_testbed::{Error, binaries, build_all, eventually, finish};

/// Calls [`binaries`] in another process with these values of `KUBEBUILDER_ASSETS`, `PATH` and `CARGO_TARGET_DIR`.
fn find_binaries(assets: &Path, path: &Path, target: &Path) -> Output {
    run("testbed::binaries::binaries_process", assets, path, target)
}

/// Runs an ignored test in another process.
fn run(test: &str, assets: &Path, path: &Path, target: &Path) -> Output {
    let process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("KUBEBUILDER_ASSETS", assets)
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", target)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(process, Duration::from_secs(60)).unwrap()
}

#[tokio::test]
#[ignore = "the other tests run it, in a process of its own"]
async fn binaries_process() {
    match binaries().await {
        Ok(found) => println!("found: {found:?}"),
        Err(error) => println!("error: {error}"),
    }
}

fn error_text(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, error) = text.split_once("error: ").expect(&text);
    error.to_owned()
}

#[test]
fn names_what_a_folder_lacks() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("etcd"), "").unwrap();
    let error = error_text(&find_binaries(dir.path(), Path::new("/nowhere"), dir.path()));
    let wanted = format!("KUBEBUILDER_ASSETS is {}, which has no kube-apiserver:", dir.path().display());
    assert!(error.starts_with(&wanted), "{error}");
}

#[test]
fn asks_to_install_go() {
    let dir = tempfile::tempdir().unwrap();
    let error = error_text(&find_binaries(Path::new(""), dir.path(), dir.path()));
    assert!(error.contains("install Go 1.26.0 or later"), "{error}");
}

/// A `PATH` with this script as `go`.
fn with_go(dir: &Path, script: &str) -> PathBuf {
    let go = dir.join("go");
    fs::write(&go, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&go, fs::Permissions::from_mode(0o755)).unwrap();
    let others = std::env::var_os("PATH").unwrap();
    std::env::join_paths(std::iter::once(dir.to_owned()).chain(std::env::split_paths(&others))).unwrap().into()
}

/// How many programs have been built in the folder for the build.
fn built(target: &Path) -> usize {
    let roots = fs::read_dir(target.join("testbed")).into_iter().flatten().map(|root| root.unwrap().path().join("bin"));
    roots.filter_map(|bin| fs::read_dir(bin).ok()).flatten().count()
}

#[tokio::test]
#[ignore = "another test runs it, in a process of its own"]
async fn build_all_process() {
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap());
    let clock = async {
        let error = eventually("nothing", Duration::from_millis(1), async || Err::<(), _>("no".to_owned())).await;
        assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
        println!("{} programs were built when the time was over", built(&target));
    };
    tokio::join!(build_all(), clock);
}

/// Each build of this `go` lasts until another one has begun.
#[test]
fn builds_all_programs_concurrently_before_any_clock_runs() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        while [ "$1" != -o ]; do shift; done
        out=$2; shift 2
        : >"$CARGO_TARGET_DIR/begun-$$"
        until [ "$(ls "$CARGO_TARGET_DIR" | grep -c begun-)" -ge 2 ]; do sleep 0.05; done
        mkdir -p "$out"
        for package; do
            name=${package##*/}
            [ "$name" = v3 ] && name=server
            : >"$out/$name"
        done"#;
    let output = run("testbed::binaries::build_all_process", Path::new(""), &with_go(dir.path(), script), dir.path());
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("7 programs were built when the time was over"), "{out}{err}");
    assert_eq!(built(dir.path()), 7);
    for names in ["etcd and kube-apiserver", "Helm", "Prometheus and promtool", "Alertmanager"] {
        assert!(err.contains(&format!("building {names} with Go (once, ")), "{names}: {err}");
    }
    let begun = fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("begun-"));
    assert_eq!(begun.count(), 4, "each once");
}

#[test]
fn shows_the_output_of_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = with_go(dir.path(), "echo \"go: module lookup disabled\" >&2; exit 1");
    let output = find_binaries(Path::new(""), &path, dir.path());
    let error = error_text(&output);
    assert!(error.contains("failed: it ended (exit status: 1)"), "{error}");
    assert!(error.contains("go: module lookup disabled"), "{error}");
    let progress = String::from_utf8_lossy(&output.stderr);
    assert!(progress.contains("building etcd and kube-apiserver with Go (once"), "{progress}");
    // No incomplete build remains that a later run could use.
    let root = fs::read_dir(dir.path().join("testbed")).unwrap().next().unwrap().unwrap();
    let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}
