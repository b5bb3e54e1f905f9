//! Every path that ARCHITECTURE.md and README.md name exists.

use std::fs;

use firstseen_tidy::root;

/// Words in backticks that look like a path of this repository.
fn named_paths(text: &str) -> Vec<String> {
    let tops = ["crates/", "docs/", "tests/", "examples/", "fuzz/", ".ci/"];
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| tops.iter().any(|top| word.starts_with(top)))
        .filter(|word| !word.contains([' ', '*', '<', '{']))
        .map(str::to_owned)
        .collect()
}

#[test]
fn named_paths_exist() {
    for document in ["ARCHITECTURE.md", "README.md"] {
        let text = fs::read_to_string(root().join(document)).expect(document);
        let paths = named_paths(&text);
        assert!(!paths.is_empty(), "{document} names no path at all");
        for path in paths {
            assert!(root().join(&path).exists(), "{document} names `{path}`, which does not exist");
        }
    }
}

#[test]
fn paths_are_found_in_backticks() {
    assert_eq!(named_paths("see `crates/filter/src/lib.rs` and `cargo test`"), ["crates/filter/src/lib.rs"]);
}
