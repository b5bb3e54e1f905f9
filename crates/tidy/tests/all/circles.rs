//! No circle between modules of a crate: who imports another module is not imported by it, be it through others.
//!
//! At every level the modules beside each other are compared, each with all that is below it: an arrow goes from one to
//! another where a file below the first names an item that a file below the second defines, by whatever re-exports. The
//! file of a folder itself is left out among the modules of the folder: it defines words that they share, puts them
//! together, and is one module with them to all others. Calls of methods show no arrow, as no import shows them: that a
//! type's methods stand near it is what `types.rs` looks at.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_tidy::modules::{Arrow, arrows};
use firstseen_tidy::{Source, sources};

/// Modules beside each other, each of which leads to all others by what it imports.
#[derive(Debug, PartialEq, Eq)]
struct Circle {
    /// The folder that they are in, from the top of the repository.
    folder: String,
    modules: BTreeSet<String>,
    arrows: Vec<String>,
}

/// All circles of the crate whose sources are below `folder`.
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

/// Those of modules beside each other, all in `folder`.
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

/// All modules to which the imports of one lead.
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

/// The folders of crates' sources.
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
