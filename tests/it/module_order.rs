//! Checks that each module imports only modules that precede it in [`ORDER`], so that there are no cyclic dependencies.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Each module may import only those before it.
const ORDER: [&str; 33] = [
    "hex",
    "escapes",
    "partial_text",
    "quantity",
    "version",
    "backoff",
    "bounded",
    "clock",
    "watchdog",
    "leader",
    "api",
    "glob",
    "spec_error",
    "status_apply",
    "watch",
    "pods",
    "events",
    "namespaces",
    "diagnosis",
    "index",
    "facts",
    "logs",
    "report",
    "metrics",
    "render",
    "alerts",
    "config",
    "settings",
    "controller",
    "telemetry",
    "app",
    "cli",
    "main",
];

#[test]
fn modules_import_only_modules_to_their_left() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for file in rust_files(&src) {
        let relative = file.strip_prefix(&src).unwrap();
        let module = relative.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let position = |name: &str| ORDER.iter().position(|module| *module == name);
        let own = position(module).unwrap_or_else(|| panic!("{module} is not in ORDER"));
        for imported in imports(&fs::read_to_string(&file).unwrap()) {
            let place = position(&imported);
            if imported != module && place.is_none_or(|place| place > own) {
                wrong.push(format!("{} imports {imported}", relative.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn imports_are_read_from_groups_and_from_paths() {
    let source = "
        use crate::{\n    api::{A, b::{C}},\n    pods,\n};
        // crate::ignored
        fn f() -> crate::watch::W {}
        #[cfg(test)]
        mod tests { use crate::settings::Settings; }";
    assert_eq!(imports(source).into_iter().collect::<Vec<_>>(), ["api", "pods", "watch"]);
}

/// The top-level modules that a file names outside its tests.
fn imports(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String = code.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    let mut found = BTreeSet::new();
    for (start, marker) in code.match_indices("crate::") {
        let mut rest = code[start + marker.len()..].chars().peekable();
        let is_group = rest.next_if_eq(&'{').is_some();
        let (mut depth, mut name, mut is_first) = (0, String::new(), true);
        for char in rest {
            match char {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                _ if depth > 0 => {}
                _ if char.is_alphanumeric() || char == '_' => {
                    if is_first {
                        name.push(char);
                    }
                    continue;
                }
                _ if char.is_whitespace() && name.is_empty() => continue,
                _ => {}
            }
            if !name.is_empty() {
                found.insert(std::mem::take(&mut name));
                is_first = char == ',';
            }
            if !is_group {
                break;
            }
        }
        if !name.is_empty() {
            found.insert(name);
        }
    }
    found
}

/// All files except those of tests.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    files
}
