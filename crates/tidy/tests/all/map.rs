//! Checks the references and the length of the pages: every path that a page names must exist, no page may contain a
//! placeholder, and ARCHITECTURE.md must be short enough to be read in a few minutes. The entries of its diagrams, such
//! as `node/accept, gate`, are paths as well.

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

/// Returns the entries of the diagrams of a page. The diagrams are the page's `text` blocks. An entry names a crate and
/// a part of its sources, without the file extension, such as `node/accept`. The entry `node/accept, gate` is short for
/// two entries, `node/accept` and `node/gate`. A word with a slash is an entry only if its first part is one of
/// `crates`.
fn diagram_entries(text: &str, crates: &[&str]) -> Vec<String> {
    let mut entries = Vec::new();
    let diagrams = text.split("```text\n").skip(1).filter_map(|block| block.split("```").next());
    for line in diagrams.flat_map(str::lines) {
        // The folder of the parts that follow, while a list of parts continues.
        let mut folder = None;
        for word in line.split([' ', '(', ')']).filter(|word| !word.is_empty()) {
            let part = word.trim_end_matches([',', ':', ';', '.']);
            if part.split_once('/').is_some_and(|(first, _)| crates.contains(&first)) {
                entries.push(part.to_owned());
                folder = part.rsplit_once('/').map(|(folder, _)| folder);
            } else if let Some(folder) = folder.filter(|_| !part.is_empty()) {
                entries.push(format!("{folder}/{part}"));
            }
            folder = folder.filter(|_| word.ends_with(','));
        }
    }
    entries
}

/// Returns whether an entry of a diagram names a file or a folder of the sources.
fn is_source(entry: &str) -> bool {
    let Some((name, part)) = entry.split_once('/') else { return false };
    let sources = root().join("crates").join(name).join("src");
    sources.join(part).is_dir() || sources.join(format!("{part}.rs")).is_file()
}

#[test]
fn entries_of_the_diagrams_exist() {
    let map = pages().into_iter().find(|page| page.path == MAP).expect(MAP);
    let folders: Vec<String> = std::fs::read_dir(root().join("crates"))
        .expect("the folder of the crates")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let entries = diagram_entries(&map.text, &folders.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(entries.len() > 25, "the diagrams of {MAP} have only the entries {entries:?}");
    for entry in entries {
        assert!(is_source(&entry), "a diagram of {MAP} has `{entry}`, which is not in the sources of that crate");
    }
}

#[test]
fn entries_are_found_in_diagrams() {
    let text = "a node/not\n```text\nfile, pipe\n  node/accept, gate   admit (filter/window), or not\n  \
                filter/bloom, ... the rule and/or cells -- node/links: ordered\n```\nnode/not";
    let entries = diagram_entries(text, &["node", "filter"]);
    assert_eq!(entries, ["node/accept", "node/gate", "filter/window", "filter/bloom", "node/links"]);
    assert!(is_source("node/accept") && is_source("filter/timing") && !is_source("node/never"));
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
