//! Every path that ARCHITECTURE.md and README.md name or link to exists, and nothing in them waits to be filled in.

use std::fs;

use firstseen_tidy::root;

/// Words in backticks that look like a path of this repository, and the targets of relative links.
fn named_paths(text: &str) -> Vec<String> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let links = links.filter(|target| !target.contains("://")).map(str::to_owned);
    let tops = ["crates/", "docs/", "tests/", "examples/", "fuzz/", ".ci/"];
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| tops.iter().any(|top| word.starts_with(top)))
        .filter(|word| !word.contains([' ', '*', '<', '{']))
        .map(str::to_owned)
        .chain(links)
        .collect()
}

#[test]
fn named_paths_exist() {
    for document in ["ARCHITECTURE.md", "README.md"] {
        let text = fs::read_to_string(root().join(document)).expect(document);
        assert!(!text.contains("@@"), "{document} has a place that was never filled in");
        let paths = named_paths(&text);
        assert!(!paths.is_empty(), "{document} names no path at all");
        for path in paths {
            assert!(root().join(&path).exists(), "{document} names `{path}`, which does not exist");
        }
    }
}

#[test]
fn paths_are_found_in_backticks() {
    let text = "see `crates/filter/src/lib.rs`, `cargo test`, [kinds](docs/kinds.md) and [papers](https://example.org)";
    assert_eq!(named_paths(text), ["crates/filter/src/lib.rs", "docs/kinds.md"]);
}
