//! The completions of the kubectl plugin.

use std::{env, os::unix::fs::symlink, path::Path, process::Command};

use orchestr_testbed::kubectl;

use crate::command::{ends, orchestr};

#[test]
fn prints_candidates_and_a_directive() {
    let (code, out, err) = ends(&mut orchestr(&["__complete", "expl"]));
    assert_eq!((code, err.as_str()), (0, ""));
    let (candidate, description) = out.split_once('\t').unwrap();
    assert!(candidate == "explain" && description.ends_with("\n:4\n") && description.lines().count() == 2, "{out}");
    // Flags of the words that are completed are no flags of the command itself.
    let completes = |words: &[&str]| ends(&mut orchestr(&[&["__complete"], words].concat()));
    assert_eq!(completes(&["scan", "-o", "jun"]).1.split('\t').next(), Some("junit"));
    let (code, out, err) = completes(&["--help"]);
    assert!(code == 0 && out.ends_with(":4\n") && !out.contains("Usage") && err.is_empty(), "{out}{err}");
    assert_eq!(completes(&["scan", "-f", ""]), (0, ":0\n".to_owned(), String::new()));
}

/// kubectl finds the program for completions in PATH, and passes it the words after `kubectl orchestr`.
#[tokio::test]
async fn kubectl_completes_the_words_of_its_plugin() {
    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_orchestr"), folder.path().join("kubectl-orchestr")).unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/release/kubectl_complete-orchestr");
    symlink(program, folder.path().join("kubectl_complete-orchestr")).unwrap();
    let path = env::join_paths([folder.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let mut command = Command::new(kubectl().await.unwrap());
    command
        .args(["__complete", "orchestr", "completions", "ba"])
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder.path());
    let (code, out, _) = ends(&mut command);
    assert_eq!((code, out.as_str()), (0, "bash\n:4\n"));
}
