//! Runs the commands in the README, in CONTRIBUTING.md and on the pages in `docs/`, exactly as they are written. If the
//! program changes and a page becomes wrong, this test fails.
//!
//! The test runs every code block that contains commands, except blocks that cannot be run in a test. Before such a
//! block, the page has an HTML comment with the reason (`blocks::Mark`), which readers of the page do not see. A table
//! in this file lists the number of these comments on each page. If somebody adds a comment to exclude another block,
//! the test fails until the table is changed too.

mod blocks;
mod script;
mod shown;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::blocks::{Block, blocks};

/// Time limit for a block.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for a block in the long run.
const LONG: Duration = Duration::from_secs(900);

/// Number of comments on each page that exclude a block, or commands of a block, from being run.
const LEFT_OUT: [(&str, usize); 20] = [
    ("CONTRIBUTING.md", 4),
    ("README.md", 1),
    ("docs/explanation/simulation.md", 1),
    ("docs/how-to/add-a-kind.md", 2),
    ("docs/how-to/client.md", 2),
    ("docs/how-to/columns.md", 2),
    ("docs/how-to/console.md", 3),
    ("docs/how-to/dedup.md", 1),
    ("docs/how-to/install.md", 3),
    ("docs/how-to/pipe.md", 4),
    ("docs/how-to/python.md", 2),
    ("docs/how-to/recover-a-cluster.md", 1),
    ("docs/how-to/restart-nodes.md", 1),
    ("docs/how-to/run-a-cluster.md", 2),
    ("docs/how-to/runbook.md", 1),
    ("docs/how-to/testing.md", 12),
    ("docs/reference/hashing.md", 1),
    ("docs/reference/performance.md", 3),
    ("docs/tutorials/first-hour.md", 1),
    ("docs/tutorials/laboratory.md", 1),
];

const RUNBOOK: &str = "docs/how-to/runbook.md";

/// Pages and folders that have a test of their own, so that they run in parallel.
const LARGE: [&str; 3] = ["README.md", "docs/how-to/", "docs/explanation/"];

#[test]
fn the_readme_does_what_it_says() {
    run_page("README.md", false);
}

#[test]
fn instructions_do_what_they_say() {
    let how_to = pages().into_iter().filter(|page| page.starts_with("docs/how-to/") && page != RUNBOOK);
    how_to.for_each(|page| run_page(&page, false));
}

#[test]
fn explanations_do_what_they_say() {
    pages().into_iter().filter(|page| page.starts_with("docs/explanation/")).for_each(|page| run_page(&page, false));
}

#[test]
fn the_runbook_does_what_it_says() {
    run_page(RUNBOOK, false);
}

#[test]
fn all_other_pages_do_what_they_say() {
    let is_large = |page: &String| LARGE.iter().any(|large| page.starts_with(large));
    pages().iter().filter(|page| !is_large(page)).for_each(|page| run_page(page, false));
}

#[test]
#[ignore = "minutes: the blocks of all pages that say that they are long"]
fn long_blocks_do_what_the_pages_say() {
    pages().iter().for_each(|page| run_page(page, true));
}

#[test]
fn blocks_that_are_not_run_are_counted() {
    let left_out = pages().into_iter().map(|page| {
        let count = blocks(&text(&page)).iter().map(Block::left_out).sum();
        (page, count)
    });
    let left_out: Vec<(String, usize)> = left_out.filter(|(_, count)| *count > 0).collect();
    let known = LEFT_OUT.map(|(page, count)| (page.to_owned(), count));
    assert_eq!(left_out, known, "run what can be run; where a block cannot, its comment says why, and it counts here");
}

#[test]
fn a_page_that_is_wrong_is_found() {
    let fault = |page: &str| faults("page", page, false, TIMEOUT).join("\n");
    assert_eq!(fault("```sh\nfirstseen plan --capacity 1M\n```\n"), "");
    assert!(fault("```sh\nfirstseen plan --capacity 1M --flag-that-is-not\n```\n").contains("page:1: exit"));
    assert!(fault("```sh\nfirstseen dedup absent.log | cat\n```\n").contains("page:1: exit"), "also in a pipe");
    assert!(fault("```sh\ntrue > once.log\n```\n").contains("once.log is empty"));
    let cargo = |flags: &str| fault(&format!("```sh\ncargo run {flags} -- plan --capacity 1M\n```\n"));
    for flags in ["--release --no-default-features", "--features full -p firstseen-cli", "--profile dist"] {
        assert_eq!(cargo(flags), "");
    }
    for flags in
        ["--relase", "--release --nothing", "--features absent", "--profile absent", "-p firstseen-sim", "plan"]
    {
        assert!(cargo(flags).contains("page:1: exit"), "{flags}");
    }
    assert!(fault("```sh\ncargo run plan\n```\n").contains("page:1: exit"), "no end of cargo's own flags");
    let shown = "```sh\nprintf 'a 1\\nb 2\\n'\n```\n```text\na 1\nb 3\n```\n";
    assert!(fault(shown).contains("page:4: the page shows `b 3`"), "{}", fault(shown));
    let hanging = faults("page", "```sh\nsleep 600\n```\n", false, Duration::from_secs(1)).join("\n");
    assert!(hanging.contains("page:1: does not end"), "{hanging}");
}

fn run_page(page: &str, long: bool) {
    let faults = faults(page, &text(page), long, if long { LONG } else { TIMEOUT });
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// Returns the errors in the blocks of a page.
fn faults(page: &str, text: &str, long: bool, patience: Duration) -> Vec<String> {
    let mut faults = Vec::new();
    let blocks = blocks(text);
    for (index, block) in blocks.iter().enumerate() {
        if !block.is_run() || block.not_run().is_some() || block.is_long() != long {
            continue;
        }
        let next = blocks.get(index + 1);
        let shows = next.filter(|next| next.language == "text" && next.section == block.section);
        faults.extend(fault(page, block, shows, patience));
    }
    faults
}

/// Returns the error of a block, if there is one. `shows` is the output that the page shows for it.
fn fault(page: &str, block: &Block, shows: Option<&Block>, patience: Duration) -> Option<String> {
    let played = stage::play(|base| script::script(block, base), patience);
    let said = |line: usize, what: String| Some(format!("{page}:{line}: {what}\n{}\n{}", block.text, played.printed));
    match played.status {
        None => return said(block.line, format!("does not end within {patience:?}")),
        Some(status) if !status.success() => return said(block.line, format!("{status}")),
        Some(_) => {}
    }
    let is_empty = |file: &&str| fs::read(played.folder.path(file)).is_ok_and(|bytes| bytes.is_empty());
    if let Some(file) = redirected(&block.text).find(is_empty) {
        return said(block.line, format!("{file} is empty"));
    }
    let shows = shows?;
    let line = shown::missing(&shows.text, &played.printed)?;
    said(shows.line, format!("the page shows `{line}`"))
}

/// Returns the files that commands redirect their output to.
fn redirected(commands: &str) -> impl Iterator<Item = &str> {
    let after = commands.match_indices("> ").map(|(at, sign)| &commands[at + sign.len()..]);
    after.filter_map(|rest| rest.split_whitespace().next())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// Returns the README, the page for contributors, and all pages in `docs/` and its subfolders, sorted by name.
fn pages() -> Vec<String> {
    let mut pages = vec!["CONTRIBUTING.md".to_owned(), "README.md".to_owned()];
    collect("docs", &mut pages);
    pages.sort();
    pages
}

/// Adds the pages in `folder` and its subfolders.
fn collect(folder: &str, pages: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).expect("pages").map(|entry| entry.expect("a page")) {
        let path = format!("{folder}/{}", entry.file_name().into_string().expect("UTF-8"));
        match entry.path().is_dir() {
            true => collect(&path, pages),
            false if path.ends_with(".md") => pages.push(path),
            false => {}
        }
    }
}
