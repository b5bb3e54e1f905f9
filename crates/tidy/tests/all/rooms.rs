//! Checks in which direction the top-level modules of a crate depend on each other. The modules are listed here in an
//! order, and each module may import only modules that come earlier in that order. A comment in the crate's `lib.rs`
//! states the same order.

use firstseen_tidy::{Source, sources};

/// Crates whose top-level modules have an order, and that order.
const ORDERED: [(&str, &[&str]); 1] =
    [("crates/routing/src/", &["ids", "verdict", "plan", "map", "protocol", "claims", "clocks", "engine", "group"])];

/// Returns the top-level module of a file, given the source folder of the crate.
fn room<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let inside = path.strip_prefix(folder)?;
    inside.split(['/', '.']).next().filter(|room| *room != "lib")
}

/// Returns the top-level modules that a file names with a `crate::` path.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = code.flat_map(|line| line.split("crate::").skip(1));
    paths.filter_map(|path| path.split(|it: char| !it.is_alphanumeric() && it != '_').next())
}

/// Returns the imports of a file that violate the order.
fn faults(source: &Source, folder: &str, order: &[&str]) -> Vec<String> {
    let Some(own) = room(&source.path, folder) else { return Vec::new() };
    let place = |room: &str| order.iter().position(|known| *known == room);
    let Some(own_place) = place(own) else {
        return vec![format!("{}: room `{own}` has no place in the order", source.path)];
    };
    let wrong = named(&source.text).filter(|other| place(other).is_none_or(|other| other > own_place));
    wrong
        .map(|other| format!("{}: `{own}` imports `crate::{other}`, which does not stand before it", source.path))
        .collect()
}

#[test]
fn rooms_import_only_those_before_them() {
    let sources = sources();
    for (folder, order) in ORDERED {
        let faults: Vec<String> = sources.iter().flat_map(|source| faults(source, folder, order)).collect();
        assert!(faults.is_empty(), "{faults:#?}");
        for room in order {
            assert!(sources.iter().any(|source| self::room(&source.path, folder) == Some(room)), "{room} is empty");
        }
    }
}

#[test]
fn what_imports_a_later_room_is_found() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let of = |source: &Source| faults(source, "x/src/", &["low", "high"]).len();
    assert_eq!(of(&source("x/src/low/one.rs", "use crate::high::Thing;")), 1);
    assert_eq!(of(&source("x/src/low.rs", "pub(crate) use crate::Thing;")), 1, "through lib.rs");
    assert_eq!(of(&source("x/src/high/one.rs", "use crate::low::Thing;\nuse crate::high::Other;")), 0);
    assert_eq!(of(&source("x/src/other.rs", "")), 1);
}
