//! Tests that the page about messages lists exactly the reasons that exist in the code.

use std::path::{Path, PathBuf};

use firstseen_cli::exit::{FAILED, INTERRUPTED, USAGE};
use firstseen_cli::unjudged::UnjudgedReason;

/// Returns the rows of the first table under `heading` of docs/reference/dedup-messages.md, without its head.
fn rows(heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/dedup-messages.md");
    let page = std::fs::read_to_string(path).expect("docs/reference/dedup-messages.md");
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
    assert!(rows("Reasons") == expected, "write in docs/reference/dedup-messages.md:\n{}", expected.join("\n"));
}

#[test]
fn the_page_lists_the_exit_codes() {
    let codes: Vec<String> =
        rows("Exit codes").iter().filter_map(|row| row.split('|').nth(1)).map(|code| code.trim().to_owned()).collect();
    assert_eq!(codes, [0, FAILED, USAGE, INTERRUPTED].map(|code| code.to_string()));
}

/// Folders and files whose messages the page lists.
const SOURCES: [&str; 11] = [
    "../records/src/error.rs",
    "../records/src/refused.rs",
    "src/dedup",
    "src/driver",
    "src/input",
    "src/unjudged",
    "src/output",
    "src/form",
    "../columns/src",
    "src/state",
    "src/flags/input.rs",
];
/// Code that precedes a message.
const BEFORE_MESSAGE: [&str; 7] =
    ["#[error(", "notice!(", ".note(&format!(", ".note(", "bail!(", "UsageError(format!(", "UsageError("];
/// Minimum length of words that identify a message.
const WORDS_BYTES_MIN: usize = 14;

fn rust_files(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
        return;
    }
    for entry in std::fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "rs") {
            rust_files(&path, files);
        }
    }
}

/// Returns the string literal at the beginning of `code`, without its line breaks and escapes. Returns `None` if there
/// is no literal.
fn literal(code: &str) -> Option<String> {
    let mut characters = code.trim_start().strip_prefix('"')?.chars().peekable();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Some(text),
            '\\' => match characters.next()? {
                '\n' => while characters.next_if(|next| next.is_whitespace()).is_some() {},
                escaped => text.push(escaped),
            },
            other => text.push(other),
        }
    }
    None
}

/// Returns the longest part of a message between the values in it.
fn words(message: &str) -> &str {
    let parts = message.trim_start_matches("firstseen: ").split(['{', '}']).step_by(2);
    parts.max_by_key(|part| part.len()).unwrap_or_default().trim_matches([' ', '`', ':', ';', '(', ')', ','])
}

#[test]
fn the_page_lists_the_messages_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/reference/dedup-messages.md"))
        .expect("docs/reference/dedup-messages.md");
    let mut files = Vec::new();
    SOURCES.iter().for_each(|source| rust_files(&root.join(source), &mut files));
    let mut found = 0;
    let mut missing = Vec::new();
    for file in files {
        let code = std::fs::read_to_string(&file).expect("a source");
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        for (at, before) in BEFORE_MESSAGE.iter().flat_map(|before| code.match_indices(before)) {
            let Some(message) = literal(&code[at + before.len()..]) else { continue };
            let words = words(&message);
            found += 1;
            if words.len() >= WORDS_BYTES_MIN && !page.contains(words) {
                missing.push(format!("{}: {words}", file.file_name().unwrap_or_default().display()));
            }
        }
    }
    assert!(found > 60, "{found} messages: are they written in another way now?");
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "docs/reference/dedup-messages.md has no line for:\n{}", missing.join("\n"));
}
