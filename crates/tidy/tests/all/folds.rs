//! Checks that production code is not compressed to save lines. A helper must be a named function instead of a closure,
//! each `let` must bind one value, and values that belong together must form a struct with named fields instead of a
//! tuple.
//!
//! The constant `KNOWN` contains the exceptions that each crate may still have. Its numbers may only decrease.

mod found;

use std::collections::BTreeMap;

use firstseen_tidy::{Source, sources};

use found::{Folds, folds};

/// Maximum number of exceptions in one crate.
struct Most {
    closures: usize,
    double_lets: usize,
    tuples: usize,
}

const fn most(closures: usize, double_lets: usize, tuples: usize) -> Most {
    Most { closures, double_lets, tuples }
}

/// Exceptions that crates may have. A crate that is not in the list may have none.
const KNOWN: [(&str, Most); 11] = [
    ("backend", most(1, 0, 0)),
    ("cli", most(6, 6, 0)),
    ("client/tests/fake", most(1, 3, 0)),
    ("redis-endpoint", most(2, 3, 0)),
    ("filter", most(2, 2, 0)),
    ("http-endpoint", most(1, 0, 0)),
    ("node", most(1, 3, 0)),
    ("records", most(0, 5, 0)),
    ("resp", most(0, 1, 0)),
    ("routing", most(1, 2, 0)),
    ("wire", most(1, 2, 0)),
];

/// Returns a description of the crates that have more exceptions than `known` allows, with the places.
fn excess(found: &BTreeMap<String, Folds>, known: &[(&str, Most)]) -> Vec<String> {
    let none = most(0, 0, 0);
    let mut excess = Vec::new();
    for (member, folds) in found {
        let most = known.iter().find(|(name, _)| name == member).map_or(&none, |(_, most)| most);
        for (what, places, most) in [
            ("closures bound to a name", &folds.closures, most.closures),
            ("`let`s of several things", &folds.double_lets, most.double_lets),
            ("functions with a tuple of unlike things", &folds.tuples, most.tuples),
        ] {
            if places.len() > most {
                excess.push(format!("{member} has {} {what}, and may have {most}: {places:#?}", places.len()));
            }
        }
    }
    excess
}

#[test]
fn no_crate_folds_more_than_it_may() {
    let found = folds(&sources());
    for (member, Folds { lines, closures, double_lets, tuples }) in &found {
        let counts = [closures.len(), double_lets.len(), tuples.len()];
        println!("(\"{member}\", most({}, {}, {})), // of {lines} lines", counts[0], counts[1], counts[2]);
    }
    let excess = excess(&found, &KNOWN);
    assert!(excess.is_empty(), "name a function, write one `let` a line, or make a struct: {excess:#?}");
}

/// Returns the numbers of exceptions in a production file.
fn folds_in(text: &str) -> [usize; 3] {
    let source = Source { path: "crates/x/src/lib.rs".to_owned(), text: text.to_owned() };
    let Folds { closures, double_lets, tuples, .. } = &folds(&[source])["x"];
    [closures.len(), double_lets.len(), tuples.len()]
}

#[test]
fn what_is_folded_is_found() {
    assert_eq!(folds_in("fn f() { let double = |a: u8| a * 2; let g: fn(u8) -> u8 =\n    |a| a; }"), [2, 0, 0]);
    assert_eq!(folds_in("fn f() { let (a, mut b) = (1, 2); let (c, d) = pair(); }"), [0, 1, 0]);
    assert_eq!(folds_in("fn f(of: (u8, u8), other: &(u8, &str)) {} trait T { fn g(&self, a: (u8, u16)); }"), [0, 0, 2]);
    assert_eq!(folds_in("fn f() { all().map(|one| one.of); }"), [0, 0, 0], "an argument has no name");
}

#[test]
fn tests_may_fold_and_comments_are_no_lines() {
    let inside = "/// F.\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn f() { let g = |a| a; }\n}\n";
    let declares = "#[cfg(test)]\nmod tests;\nmod b;\n";
    let sources = [
        ("crates/x/src/lib.rs", inside),
        ("crates/x/src/a.rs", declares),
        ("crates/x/src/a/tests.rs", "fn f() { let g = |a| a; }"),
        ("crates/x/src/a/b.rs", "fn f() { let g = |a| a; }"),
        ("crates/x/tests/all/main.rs", "fn f() { let g = |a| a; }"),
    ];
    let sources = sources.map(|(path, text)| Source { path: path.to_owned(), text: text.to_owned() });
    let found = &folds(&sources)["x"];
    assert_eq!(found.lines, 3);
    assert_eq!(found.closures, ["crates/x/src/a/b.rs:1: g"]);
}

#[test]
fn a_crate_with_more_than_it_may_have_is_named() {
    let found = BTreeMap::from([("x".to_owned(), Folds { closures: vec!["a".to_owned()], ..Folds::default() })]);
    assert_eq!(excess(&found, &[("x", most(1, 0, 0))]), [""; 0]);
    assert_eq!(excess(&found, &[("y", most(1, 0, 0))]).len(), 1);
}
