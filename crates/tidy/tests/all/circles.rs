//! Checks that no modules of a crate import each other, directly or through other modules.
//!
//! The check looks for circular imports among modules that have the same parent module. In this comparison, a module
//! includes the files of all modules below it. Module A depends on module B if a file of A names an item that a file of
//! B defines. The dependency counts even if A imports the item from a third module that re-exports it.
//!
//! Two kinds of dependencies do not count:
//!
//! - Dependencies of the file that represents a folder (`mod.rs`, or the file with the folder's name), when the modules
//!   in that folder are compared. This file defines shared types and connects the modules, so it depends on them and
//!   they depend on it.
//! - Method calls, because they need no import. Another check, in `types.rs`, ensures that the methods of a type are
//!   near the type.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_tidy::modules::{Arrow, arrows};
use firstseen_tidy::{Source, sources};

/// Modules of one level that all depend on each other through their imports.
#[derive(Debug, PartialEq, Eq)]
struct Circle {
    /// Folder of the modules, relative to the top of the repository.
    folder: String,
    modules: BTreeSet<String>,
    arrows: Vec<String>,
}

/// Returns all cycles in the crate whose sources are below `folder`.
fn circles(sources: &[Source], folder: &str) -> Vec<Circle> {
    let arrows = arrows(sources, folder);
    let mut levels: BTreeMap<&[String], Vec<&Arrow>> = BTreeMap::new();
    for arrow in &arrows {
        let common = arrow.from.iter().zip(&arrow.to).take_while(|(one, other)| one == other).count();
        if arrow.from.len().min(arrow.to.len()) > common {
            levels.entry(&arrow.from[..common]).or_default().push(arrow);
        }
    }
    levels
        .into_iter()
        .flat_map(|(path, arrows)| circles_beside(&format!("{folder}{}", path.join("/")), &arrows))
        .collect()
}

/// Returns the cycles between the modules in `folder`.
fn circles_beside(folder: &str, arrows: &[&Arrow]) -> Vec<Circle> {
    let level = arrows
        .first()
        .map_or(0, |arrow| arrow.from.iter().zip(&arrow.to).take_while(|(one, other)| one == other).count());
    let ends = |arrow: &Arrow| (arrow.from[level].clone(), arrow.to[level].clone());
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in arrows.iter().map(|arrow| ends(arrow)) {
        imports.entry(from).or_default().insert(to);
    }
    let mut circles: Vec<Circle> = Vec::new();
    for module in imports.keys() {
        let is_mutual = |other: &String| reached(&imports, other).contains(module);
        let modules: BTreeSet<String> = reached(&imports, module).into_iter().filter(is_mutual).collect();
        if modules.is_empty() || circles.iter().any(|circle| circle.modules.contains(module)) {
            continue;
        }
        let is_inside = |arrow: &&&Arrow| modules.contains(&arrow.from[level]) && modules.contains(&arrow.to[level]);
        let words = |arrow: &&Arrow| format!("{} -> {}: {}", arrow.from.join("::"), arrow.to.join("::"), arrow.item);
        let arrows = arrows.iter().filter(is_inside).map(words).collect();
        circles.push(Circle { folder: folder.trim_end_matches('/').to_owned(), modules, arrows });
    }
    circles
}

/// Returns all modules that can be reached from one module through imports.
fn reached(imports: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = imports.get(from).into_iter().flatten().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module.clone()) {
            next.extend(imports.get(module).into_iter().flatten());
        }
    }
    reached
}

/// Returns the source folders of all crates.
fn crates(sources: &[Source]) -> BTreeSet<String> {
    let folder = |source: &Source| {
        let member = source.path.strip_prefix("crates/")?.split_once("/src/")?.0;
        Some(format!("crates/{member}/src/"))
    };
    sources.iter().filter_map(folder).collect()
}

#[test]
fn no_modules_import_each_other() {
    let sources = sources();
    let found: Vec<Circle> = crates(&sources).iter().flat_map(|folder| circles(&sources, folder)).collect();
    assert!(found.is_empty(), "modules that import each other: {found:#?}");
}

#[test]
fn circles_are_found_through_re_exports_and_at_every_level() {
    let source = |path: &str, text: &str| Source { path: format!("x/src/{path}"), text: text.to_owned() };
    let found = |texts: &[(&str, &str)]| {
        let sources: Vec<Source> = texts.iter().map(|(path, text)| source(path, text)).collect();
        circles(&sources, "x/src/")
            .into_iter()
            .map(|circle| circle.modules.into_iter().collect())
            .collect::<Vec<Vec<String>>>()
    };
    let top = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;");
    let a = ("a.rs", "use crate::B; pub struct A(B);");
    assert_eq!(found(&[top, a, ("b.rs", "pub struct B;")]), [[""; 0]; 0]);
    assert_eq!(found(&[top, a, ("b.rs", "pub struct B; fn b() -> super::A { todo() }")]), [["a", "b"]]);
    let for_tests = "pub struct B; #[cfg(test)] mod tests { use crate::A; }";
    assert_eq!(found(&[top, a, ("b.rs", for_tests)]), [[""; 0]; 0], "tests may look at everything");
    let below = [("lib.rs", "mod a;"), ("a/mod.rs", "mod b; mod c; pub struct A; fn a() { b::b(); }")];
    let b = ("a/b.rs", "use super::c::C; use super::A; pub fn b() {}");
    assert_eq!(
        found(&[below[0], below[1], b, ("a/c.rs", "pub struct C;")]),
        [[""; 0]; 0],
        "a folder is one with its file"
    );
    assert_eq!(found(&[below[0], below[1], b, ("a/c.rs", "pub struct C; fn c() { super::b::b() }")]), [["b", "c"]]);
}
