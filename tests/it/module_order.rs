//! Checks that each module imports only modules that precede it in [`ORDER`], so that there are no cyclic dependencies.

use std::collections::BTreeSet;

use crate::file_circles::{Module, of_program, read, source};

/// Each module may import only those before it.
const ORDER: [&str; 32] = [
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
];

#[test]
fn modules_import_only_modules_to_their_left() {
    let modules = source();
    let mut wrong = Vec::new();
    for (path, module) in of_program(&modules).filter(|(path, _)| !path.is_empty()) {
        let position = |name: &str| ORDER.iter().position(|module| *module == name);
        let own = position(&path[0]).unwrap_or_else(|| panic!("{} is not in ORDER", path[0]));
        for imported in imports(module) {
            if position(imported).is_none_or(|place| place > own) {
                wrong.push(format!("{} imports {imported}", module.file));
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
    assert_eq!(imports(&read("", source)).into_iter().collect::<Vec<_>>(), ["api", "pods", "watch"]);
}

/// The top-level modules that a module names.
fn imports(module: &Module) -> BTreeSet<&str> {
    let of_crate = module.named().filter(|path| path[0] == "crate");
    of_crate.filter_map(|path| path.get(1).map(String::as_str)).collect()
}
