//! Checks that the integration tests of a crate form a single binary, `tests/all`. Linking a test binary takes longer
//! than running most of its tests, so more binaries would slow down the test runs. A test may have a separate binary
//! only if it needs a process of its own, and its documentation must say so.

use std::collections::BTreeMap;

use firstseen_tidy::{Source, sources};

/// Phrase that the documentation of a separate test binary must contain.
const REASON: &str = "process of its own";

/// Returns the crate whose test binary is at `path`, or `None` if the file is not a test binary.
fn binary_of(path: &str) -> Option<&str> {
    let (member, test) = path.strip_prefix("crates/")?.split_once("/tests/")?;
    let is_binary = match test.split_once('/') {
        None => true,
        Some((_, file)) => file == "main.rs",
    };
    is_binary.then_some(member)
}

/// Returns the test binaries without a reason to be separate, for crates with several of them.
fn unfounded(sources: &[Source]) -> Vec<&str> {
    let mut binaries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Source { path, text } in sources {
        let docs = text.lines().take_while(|line| line.starts_with("//!"));
        let docs: Vec<&str> = docs.map(|line| line.trim_start_matches("//!").trim()).collect();
        if let Some(member) = binary_of(path).filter(|_| !docs.join(" ").contains(REASON)) {
            binaries.entry(member).or_default().push(path);
        }
    }
    binaries.into_values().filter(|paths| paths.len() > 1).flatten().collect()
}

#[test]
fn a_crate_has_one_test_binary() {
    let sources = sources();
    assert!(sources.iter().any(|source| binary_of(&source.path).is_some()), "no crate has tests");
    let unfounded = unfounded(&sources);
    assert!(
        unfounded.is_empty(),
        "make these modules of tests/all/main.rs, or say why they need a {REASON}: {unfounded:#?}"
    );
}

#[test]
fn a_second_binary_is_found() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let one = source("crates/a/tests/all/main.rs", "//! All.\n\nmod common;");
    let module = source("crates/a/tests/all/common/mod.rs", "//! Shared.");
    let founded = source("crates/a/tests/traces.rs", "//! Spans. A process of its\n//! own, as there is one recorder.");
    assert_eq!(unfounded(&[one, module, founded]), [""; 0]);
    let two = ["crates/a/tests/all/main.rs", "crates/a/tests/quick.rs"];
    assert_eq!(unfounded(&two.map(|path| source(path, "//! Tests."))), two);
}
