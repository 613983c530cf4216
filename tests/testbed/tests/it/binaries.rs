//! The error messages if the programs are missing or cannot be built.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use orchestr_testbed::{binaries, finish};

/// Calls [`binaries`] in another process with these values of `KUBEBUILDER_ASSETS`, `PATH` and `CARGO_TARGET_DIR`.
fn find_binaries(assets: &Path, path: &Path, target: &Path) -> Output {
    let process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "binaries::binaries_process", "--ignored", "--nocapture"])
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

#[test]
fn shows_the_output_of_go() {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    fs::write(&go, "#!/bin/sh\necho \"go: module lookup disabled\" >&2\nexit 1\n").unwrap();
    fs::set_permissions(&go, fs::Permissions::from_mode(0o755)).unwrap();
    let others = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(std::iter::once(dir.path().to_owned()).chain(std::env::split_paths(&others)));
    let output = find_binaries(Path::new(""), Path::new(&path.unwrap()), dir.path());
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
