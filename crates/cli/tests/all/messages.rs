//! The page of messages lists every reason of the code, and no other.

use std::path::Path;

use firstseen_cli::exit::{FAILED, INTERRUPTED, USAGE};
use firstseen_cli::unjudged::UnjudgedReason;

/// The rows of the first table under `heading` of docs/dedup-messages.md, without its head.
fn rows(heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dedup-messages.md");
    let page = std::fs::read_to_string(path).expect("docs/dedup-messages.md");
    let section = page.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("no section {heading}"));
    let is_row = |line: &&str| line.starts_with('|');
    section.lines().skip_while(|line| !is_row(line)).take_while(is_row).skip(2).map(str::to_owned).collect()
}

#[test]
fn the_page_lists_the_reasons_of_the_code() {
    let row = |reason: UnjudgedReason| {
        let (name, meaning, cure) = (reason.name(), reason.meaning(), reason.cure());
        format!("| `{name}` | {meaning} | {cure} |")
    };
    let expected: Vec<String> = UnjudgedReason::all().map(row).collect();
    assert!(rows("Reasons") == expected, "write in docs/dedup-messages.md:\n{}", expected.join("\n"));
}

#[test]
fn the_page_lists_the_exit_codes() {
    let codes: Vec<String> =
        rows("Exit codes").iter().filter_map(|row| row.split('|').nth(1)).map(|code| code.trim().to_owned()).collect();
    assert_eq!(codes, [0, FAILED, USAGE, INTERRUPTED].map(|code| code.to_string()));
}
