//! Checks that no source files import each other in a circle, so that every file can be read after those that it uses.
//!
//! An import counts for the file that defines the imported name: re-exports are followed. So a `mod.rs` that only declares
//! and re-exports its children never closes a circle, but one that uses a child which uses its own items does.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    slice,
};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The modules of a crate by their paths, such as `["alerts", "plan"]`. The root has an empty path.
pub type Modules = BTreeMap<Vec<String>, Module>;

/// For each file, the files that it imports, each with the names that it takes.
type Imports = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// What a file says about names, outside its tests.
#[derive(Debug, Default)]
pub struct Module {
    pub file: String,
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// `a::b::c` in code, and single names as paths of one segment.
    paths: BTreeSet<Vec<String>>,
    /// Children that are compiled only for tests.
    test_modules: Vec<String>,
}

/// One name of a `use` declaration: `use a::b as c` has the path `a::b` and the name `c`. The name of a glob is `*`.
#[derive(Debug, Clone)]
struct Use {
    path: Vec<String>,
    name: String,
    is_reexport: bool,
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let circles = circles(&imports(&source()));
    assert!(circles.is_empty(), "{} circles of imports:\n{}", circles.len(), circles.join("\n"));
}

#[test]
fn circle_is_found_through_groups_and_reexports() {
    let found = circles_of(&[
        ("lib", "mod a; mod b;"),
        ("a", "mod inner; pub use inner::{Deep, other as renamed};"),
        ("a/inner", "use crate::{b::{self, C}, a::*}; pub struct Deep(C); pub fn other() { b::f() }"),
        ("b", "use super::a::{self, Deep}; pub struct C; pub fn f() { a::renamed() }"),
    ]);
    assert_eq!(found, ["a/inner, b\n  a/inner -> b: C, f\n  b -> a/inner: Deep, other\n"]);
}

#[test]
fn circle_needs_an_item_that_the_parent_defines() {
    let child = ("a/child", "use super::Item; pub fn f(_: Item) {}");
    let only_reexports = ("a", "mod child; mod item; pub use child::f; pub use item::Item;");
    let item = ("a/item", "pub struct Item;");
    assert_eq!(circles_of(&[only_reexports, child, item]), Vec::<String>::new());
    let found = circles_of(&[("a", "mod child; pub struct Item; fn g() { child::f(Item) }"), child]);
    assert_eq!(found, ["a, a/child\n  a -> a/child: f\n  a/child -> a: Item\n"]);
}

#[test]
fn comments_texts_and_tests_import_nothing() {
    let a = "use crate::b::B;
        // crate::c::C
        fn f<'a>(_: &'a B) { println!(\"crate::c::C\\\"\", r#\"crate::c::C\"#, '\"'); }
        #[cfg(test)]
        fn g() { crate::c::C }
        #[cfg(test)]
        mod testing;
        #[cfg(test)]
        mod tests { use crate::c::C; }";
    let others = [("a/testing", "use crate::c::C;"), ("b", "pub struct B;"), ("c", "use crate::a::f; struct C;")];
    assert_eq!(circles_of(&[&[("a", a)], &others[..]].concat()), Vec::<String>::new());
}

/// The circles between files, given as the paths of modules and their source.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let path = |name: &str| if name == "lib" { Vec::new() } else { name.split('/').map(str::to_owned).collect() };
    let mut modules: Modules = files.iter().map(|(name, source)| (path(name), read(name, source))).collect();
    modules.entry(Vec::new()).or_default();
    circles(&imports(&modules))
}

impl Module {
    /// The paths that it takes names by.
    pub fn named(&self) -> impl Iterator<Item = &Vec<String>> {
        self.uses.iter().map(|import| &import.path).chain(&self.paths)
    }
}

/// All modules of the crate.
pub fn source() -> Modules {
    let mut modules = Modules::new();
    read_modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut modules);
    modules
}

/// Reads the folder of the module `path`.
fn read_modules(folder: &Path, path: &[String], modules: &mut Modules) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        let stem = entry.file_stem().unwrap().to_str().unwrap().to_owned();
        let child = [path, slice::from_ref(&stem)].concat();
        if entry.is_dir() {
            read_modules(&entry, &child, modules);
        } else if entry.extension().is_some_and(|extension| extension == "rs") && stem != "main" {
            let of_folder = matches!(stem.as_str(), "mod" | "lib");
            let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
            let file = entry.strip_prefix(src).unwrap().to_str().unwrap();
            let module = read(file, &fs::read_to_string(&entry).unwrap());
            modules.insert(if of_folder { path.to_vec() } else { child }, module);
        }
    }
}

pub fn read(file: &str, source: &str) -> Module {
    let tokens = tokens(source);
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    let (mut at, mut depth, mut is_public) = (0, 0, false);
    while let Some(token) = tokens.get(at) {
        let next = |offset: usize| tokens.get(at + offset).map_or("", String::as_str);
        match token.as_str() {
            "#" if tokens[at..].starts_with(&["#", "[", "cfg", "(", "test", ")", "]"].map(str::to_owned)) => {
                let end = end_of_item(&tokens, at + 7);
                if let Some(name) = tokens[at..end].iter().position(|token| token == "mod") {
                    module.test_modules.push(tokens[at + name + 1].clone());
                }
                at = end;
                continue;
            }
            "use" => {
                let end = at + tokens[at..].iter().position(|token| token == ";").unwrap();
                read_use(&tokens[at + 1..end], &[], is_public, &mut module.uses);
                at = end;
            }
            "pub" => {
                is_public = true;
                if next(1) == "(" {
                    at += 3;
                }
                at += 1;
                continue;
            }
            "{" => depth += 1,
            "}" => depth -= 1,
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" if depth == 0 => {
                module.items.insert(next(1).to_owned());
                // The name of an item is no use of it.
                at += if is_name(next(1)) && !matches!(next(1), "fn" | "unsafe") { 1 } else { 0 };
            }
            "mod" => {
                if depth == 0 && next(2) == "{" {
                    module.items.insert(next(1).to_owned());
                }
                at += 1;
            }
            "macro_rules" if depth == 0 => {
                module.items.insert(next(2).to_owned());
            }
            _ if is_name(token) => {
                let mut path = vec![token.clone()];
                while next(path.len() * 2 - 1) == "::" && is_name(next(path.len() * 2)) {
                    path.push(next(path.len() * 2).to_owned());
                }
                at += path.len() * 2 - 2;
                let is_field = at >= 1 && path.len() == 1 && matches!(tokens[at - 1].as_str(), "." | "::");
                if !is_field {
                    module.paths.insert(path);
                }
            }
            _ => {}
        }
        is_public = false;
        at += 1;
    }
    module
}

/// Reads one `use` tree: a path, a group of trees, or a path with a group at its end.
fn read_use(tokens: &[String], parent: &[String], is_reexport: bool, uses: &mut Vec<Use>) {
    let mut path = parent.to_vec();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "::" => {}
            "{" => {
                let (mut depth, mut start) = (0, at + 1);
                for (index, token) in tokens.iter().enumerate().skip(at + 1) {
                    match token.as_str() {
                        "{" => depth += 1,
                        "}" if depth > 0 => depth -= 1,
                        "," | "}" if depth == 0 => {
                            read_use(&tokens[start..index], &path, is_reexport, uses);
                            start = index + 1;
                        }
                        _ => {}
                    }
                }
                return;
            }
            "self" if !path.is_empty() => {}
            "as" => {
                let name = tokens[at + 1].clone();
                return uses.push(Use { path, name, is_reexport });
            }
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
    if let Some(name) = path.last().cloned() {
        if name == "*" {
            path.pop();
        }
        if path != parent || tokens.first().is_some_and(|token| token == "self" || token == "*") {
            uses.push(Use { path, name, is_reexport });
        }
    }
}

/// Where an item ends that begins, perhaps with attributes, at `start`.
fn end_of_item(tokens: &[String], start: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(start) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(token.as_str(), "}" | ";" | ",") {
            return index + 1;
        }
    }
    tokens.len()
}

/// Names, `::`, and every other sign by itself. Comments and literals are left out.
fn tokens(source: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    add_tokens(source.parse().unwrap(), &mut tokens);
    tokens
}

fn add_tokens(source: TokenStream, tokens: &mut Vec<String>) {
    let mut is_second_colon = false;
    for token in source {
        match token {
            TokenTree::Ident(name) => tokens.push(name.to_string()),
            TokenTree::Literal(_) => {}
            TokenTree::Punct(_) if is_second_colon => {
                is_second_colon = false;
                continue;
            }
            TokenTree::Punct(sign) => {
                is_second_colon = sign.as_char() == ':' && sign.spacing() == Spacing::Joint;
                tokens.push(if is_second_colon { "::".to_owned() } else { sign.to_string() });
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket | Delimiter::None => ("[", "]"),
                };
                tokens.push(open.to_owned());
                add_tokens(group.stream(), tokens);
                tokens.push(close.to_owned());
            }
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|char: char| char.is_alphabetic() || char == '_')
}

/// The modules that are not only for tests.
pub fn of_program(modules: &Modules) -> impl Iterator<Item = (&Vec<String>, &Module)> {
    modules.iter().filter(|(path, _)| {
        (1..=path.len()).all(|length| {
            let (name, parent) = (&path[length - 1], &path[..length - 1]);
            name != "tests" && modules.get(parent).is_none_or(|module| !module.test_modules.contains(name))
        })
    })
}

/// Which file takes which names from which others.
fn imports(modules: &Modules) -> Imports {
    let mut imports = Imports::new();
    for (path, module) in of_program(modules) {
        let is_in_code = |name: &str| module.paths.iter().any(|used| used[0] == name);
        let used = module.uses.iter().filter(|import| !import.is_reexport || is_in_code(&import.name));
        // An import of a module counts for the items that code reaches by its name.
        let paths = used.map(|import| &import.path).chain(&module.paths);
        for path in paths.filter_map(|used| resolve(modules, path, used, &mut Vec::new())) {
            if let Place::Item(file, name) = path
                && file != module.file
            {
                imports.entry(module.file.clone()).or_default().entry(file).or_default().insert(name);
            }
        }
    }
    imports
}

/// What a path names.
#[derive(Debug, Clone, PartialEq)]
enum Place {
    Module(Vec<String>),
    /// The file that defines it, and its name there.
    Item(String, String),
}

/// What `path` names in the module `from`, if it is in this crate. `seen` ends the search in imports that name each other.
fn resolve(
    modules: &Modules,
    from: &[String],
    path: &[String],
    seen: &mut Vec<(Vec<String>, String)>,
) -> Option<Place> {
    let mut module = from.to_vec();
    for (index, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" => module.clear(),
            "self" => {}
            "super" => {
                module.pop();
            }
            _ => match resolve_name(modules, &module, name, index + 1 < path.len(), seen)? {
                Place::Module(child) => module = child,
                // Variants and associated functions belong to the item.
                item @ Place::Item(..) => return Some(item),
            },
        }
        if index == 0 && name == "Self" {
            return None;
        }
    }
    Some(Place::Module(module))
}

fn resolve_name(
    modules: &Modules,
    path: &[String],
    name: &str,
    is_followed: bool,
    seen: &mut Vec<(Vec<String>, String)>,
) -> Option<Place> {
    let module = modules.get(path)?;
    // A function may have the name of a module: what follows the name tells them apart.
    let child = [path, &[name.to_owned()]].concat();
    let is_item = module.items.contains(name);
    if modules.contains_key(&child) && (is_followed || !is_item) {
        return Some(Place::Module(child));
    }
    if is_item {
        return Some(Place::Item(module.file.clone(), name.to_owned()));
    }
    let key = (path.to_vec(), name.to_owned());
    if seen.contains(&key) {
        return None;
    }
    seen.push(key);
    let named = module.uses.iter().filter(|import| import.name == name);
    let found = named.map(|import| import.path.clone()).find_map(|path_of| resolve(modules, path, &path_of, seen));
    let globs = module.uses.iter().filter(|import| import.name == "*");
    let found = found.or_else(|| {
        globs
            .map(|import| [&import.path[..], &[name.to_owned()]].concat())
            .find_map(|path_of| resolve(modules, path, &path_of, seen))
    });
    seen.pop();
    found
}

/// Each circle as the list of its files, and its imports.
fn circles(imports: &Imports) -> Vec<String> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reached_from(imports, file))).collect();
    let is_between = |file: &String, other: &String| {
        reached.get(file).is_some_and(|files| files.contains(other))
            && reached.get(other).is_some_and(|files| files.contains(file))
    };
    let mut described = BTreeSet::new();
    let mut circles = Vec::new();
    for file in imports.keys().filter(|file| is_between(file, file)) {
        if !described.insert(file) {
            continue;
        }
        let circle: Vec<&String> = imports.keys().filter(|other| is_between(file, other)).collect();
        described.extend(&circle);
        let mut text = circle.iter().map(|file| file.as_str()).collect::<Vec<_>>().join(", ") + "\n";
        for from in &circle {
            for (to, names) in imports[*from].iter().filter(|(to, _)| circle.contains(to)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                text += &format!("  {from} -> {to}: {}\n", names.join(", "));
            }
        }
        circles.push(text);
    }
    circles
}

fn reached_from<'a>(imports: &'a Imports, file: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = imports[file].keys().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(imports.get(file).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}
