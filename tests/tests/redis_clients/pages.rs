//! Checks the examples in `docs/reference/redis.md`. If a code block names a client program, its lines must equal the
//! marked lines of that program. Other tests run the programs, so the examples on the page are known to work.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Comments in programs before and after the lines that the page shows.
const SNIPPET_START: &str = "shown in docs/reference/redis.md";
const SNIPPET_END: &str = "shown until here";

/// Returns lines without indentation, and without empty lines.
fn plain<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    lines.map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Returns the lines of a program that the page shows.
fn shown(source: &str) -> Vec<&str> {
    let mut is_shown = false;
    let mut lines = Vec::new();
    for line in source.lines() {
        if line.contains(SNIPPET_START) {
            assert!(!is_shown, "two beginnings without an end");
            is_shown = true;
        } else if line.contains(SNIPPET_END) {
            assert!(is_shown, "an end without a beginning");
            is_shown = false;
        } else if is_shown {
            lines.push(line);
        }
    }
    assert!(!is_shown, "a beginning without an end");
    plain(lines.into_iter())
}

/// Returns the code blocks of the page, by the path of their program.
fn blocks(page: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut blocks = BTreeMap::new();
    for rest in page.split("<!-- from ").skip(1) {
        let (path, rest) = rest.split_once(" -->\n```").expect("a block behind the comment");
        let (block, _) = rest.split_once("\n```").expect("the end of the block");
        let lines = block.lines().skip(1);
        assert!(blocks.insert(path, plain(lines)).is_none(), "two blocks of {path}");
    }
    blocks
}

/// Adds the programs in this folder and its subfolders that have lines shown on the page.
fn showing(root: &Path, folder: &str, paths: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = format!("{folder}/{}", entry.file_name().into_string().expect("UTF-8"));
        if entry.path().is_dir() {
            if entry.file_name() != "node_modules" && entry.file_name() != "target" {
                showing(root, &path, paths);
            }
        } else if fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(SNIPPET_START)) {
            paths.push(path);
        }
    }
}

#[test]
fn the_page_shows_the_lines_that_are_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/reference/redis.md")).expect("the page");
    let blocks = blocks(&page);
    for (path, block) in &blocks {
        let source = fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(*block, shown(&source), "docs/reference/redis.md and {path} differ");
    }
    let mut paths = Vec::new();
    for folder in ["tests/clients", "tests/tests/python"] {
        showing(&root, folder, &mut paths);
    }
    paths.retain(|path| !path.ends_with(".md"));
    paths.sort();
    assert_eq!(blocks.keys().copied().collect::<Vec<_>>(), paths, "the page shows every program, and no other");
}

#[test]
fn lines_that_differ_are_found() {
    let page = "<!-- from a.py -->\n```python\nclient = connect()\n```\n";
    let source = "def f():\n    # shown in docs/reference/redis.md\n    client = connect()\n\n    # shown until here\n    return client\n";
    assert_eq!(blocks(page), BTreeMap::from([("a.py", shown(source))]));
    assert_ne!(blocks(page)["a.py"], shown(&source.replace("connect()", "other()")));
}
