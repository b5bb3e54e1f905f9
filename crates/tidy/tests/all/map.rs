//! Checks the references and the length of the pages: every path that a page names must exist, no page may contain a
//! placeholder, and ARCHITECTURE.md must be short enough to be read in a few minutes.

use firstseen_tidy::{pages, prose, root};

/// The page that describes the architecture, and its maximum number of lines.
const MAP: &str = "ARCHITECTURE.md";
const MAP_LINES_MAX: usize = 150;

/// Returns the words in backticks that look like a path in this repository.
fn named_paths(text: &str) -> Vec<String> {
    let tops = ["crates/", "docs/", "tests/", "examples/", "fuzz/", "cluster/", "contrib/", ".ci/"];
    prose(text)
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| tops.iter().any(|top| word.starts_with(top)))
        .filter(|word| !word.contains([' ', '*', '<', '{']))
        .map(str::to_owned)
        .collect()
}

#[test]
fn named_paths_exist() {
    for page in pages() {
        assert!(!page.text.contains("@@"), "{} has a place that was never filled in", page.path);
        let paths = named_paths(&page.text);
        assert!(page.path != MAP || paths.len() > 10, "{MAP} names only {paths:?}");
        for path in paths {
            assert!(root().join(&path).exists(), "{} names `{path}`, which does not exist", page.path);
        }
    }
}

#[test]
fn the_map_is_short() {
    let map = pages().into_iter().find(|page| page.path == MAP).expect(MAP);
    let lines = map.text.lines().count();
    assert!(
        lines <= MAP_LINES_MAX,
        "{MAP} has {lines} lines, over {MAP_LINES_MAX}: move something to docs/explanation/architecture"
    );
}

#[test]
fn paths_are_found_in_backticks() {
    let text = "see `crates/filter/src/lib.rs`, `cargo test`,\n```sh\n`docs/code.md`\n```\nand `crates/*/src`";
    assert_eq!(named_paths(text), ["crates/filter/src/lib.rs"]);
}
