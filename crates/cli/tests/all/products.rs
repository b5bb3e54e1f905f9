//! Runs the commands of the section "Logs by product" in `docs/how-to/dedup.md` on samples of these logs. The test
//! reads the commands from the page itself, so the page cannot show a command that does not work. Each sample in
//! `tests/samples` has the format of one product. It contains repeated records, and for each field of the key it
//! contains records that differ only in that field.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Folder, Ran, number};

const SECTION: &str = "\n## Logs by product\n";

/// A sample, and the expected result of the page's command.
struct Sample {
    file: &'static str,
    first_seen: u64,
    duplicates: u64,
    /// Line numbers that are missing in the output, starting at 1. A record of PostgreSQL can have several lines.
    removed: &'static [usize],
}

const fn sample(file: &'static str, first_seen: u64, duplicates: u64, removed: &'static [usize]) -> Sample {
    Sample { file, first_seen, duplicates, removed }
}

const SAMPLES: [Sample; 16] = [
    sample("alb.log", 8, 2, &[4, 7]),
    sample("apache-combined.log", 8, 2, &[3, 8]),
    sample("apache-vhost.log", 9, 2, &[4, 9]),
    sample("caddy.log", 8, 2, &[3, 8]),
    sample("cloudfront.log", 6, 2, &[6, 9]),
    sample("conn.log", 8, 2, &[11, 15]),
    sample("container-json.log", 8, 2, &[7, 8]),
    sample("container.log", 7, 2, &[5, 6]),
    sample("haproxy.log", 7, 2, &[4, 8]),
    sample("iis.log", 7, 2, &[7, 15]),
    sample("journal.json", 6, 2, &[6, 7]),
    sample("kube-audit.log", 7, 2, &[5, 8]),
    sample("nginx-combined.log", 8, 2, &[3, 8]),
    sample("nginx-main.log", 9, 2, &[3, 8]),
    sample("pod.log", 7, 2, &[6, 7]),
    sample("postgresql.csv", 6, 2, &[8, 9, 10, 13]),
];

fn samples_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples")
}

/// Returns the commands in the `sh` blocks of the section, each on one line.
fn commands_of_the_page() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/dedup.md");
    let page = fs::read_to_string(path).expect("docs/how-to/dedup.md");
    let (_, section) = page.split_once(SECTION).expect("a section `Logs by product`");
    let section = section.split("\n## ").next().expect("the text of the section");
    let mut commands = Vec::new();
    for block in section.split("\n```sh\n").skip(1) {
        let (script, _) = block.split_once("\n```").expect("the end of a block");
        let script = script.replace("\\\n", " ");
        let lines = script.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        commands.extend(lines.map(str::to_owned));
    }
    commands
}

/// Returns the file that a command reads, which is its last word.
fn file_of(command: &str) -> &str {
    command.split_whitespace().next_back().expect("a command has words")
}

/// Returns the variants of `command` whose key has one field less, each with the name of the missing field.
fn without_a_key_field(command: &str) -> Vec<(String, String)> {
    let Some((before, rest)) = command.split_once("--key ") else {
        return Vec::new();
    };
    let (key, after) = rest.split_once(' ').expect("a command ends with its file");
    let fields: Vec<&str> = key.split(',').collect();
    if fields.len() == 1 {
        return Vec::new();
    }
    let shortened = |left_out: &&str| {
        let others: Vec<&str> = fields.iter().filter(|field| *field != left_out).copied().collect();
        (format!("{before}--key {} {after}", others.join(",")), (*left_out).to_owned())
    };
    fields.iter().map(shortened).collect()
}

/// Runs `command` in a folder that contains its sample.
fn run(command: &str) -> Ran {
    let file = file_of(command);
    let folder = Folder::new();
    folder.write(file, fs::read(samples_folder().join(file)).expect("a sample"));
    folder.shell(&format!("{command} --seed 1 --report json")).ok()
}

/// Returns the lines that are not comments, in their order.
fn records_of(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect()
}

/// Returns the comments in sorted order. The output begins with `#Fields:`, even if the input has other comments before
/// that line.
fn comments_of(text: &str) -> Vec<&str> {
    let mut comments: Vec<&str> = text.split_inclusive('\n').filter(|line| line.starts_with('#')).collect();
    comments.sort_unstable();
    comments
}

#[test]
fn commands_of_the_page_remove_repeats_and_nothing_else() {
    for command in commands_of_the_page() {
        let file = file_of(&command);
        let sample = SAMPLES.iter().find(|sample| sample.file == file);
        let sample = sample.unwrap_or_else(|| panic!("there is no sample for `{command}`"));
        let input = fs::read_to_string(samples_folder().join(file)).expect("a sample");
        let ran = run(&command);
        let report = ran.report();
        let counts = (number(&report, "first_seen"), number(&report, "duplicates"));
        assert_eq!(counts, (sample.first_seen, sample.duplicates), "`{command}`: {}", ran.err);
        let unjudged = report["unjudged"].as_object().expect("counts by reason");
        assert!(unjudged.is_empty(), "`{command}`: {}", ran.err);
        let kept = input.split_inclusive('\n').zip(1..).filter(|(_, line)| !sample.removed.contains(line));
        let expected: String = kept.map(|(text, _)| text).collect();
        assert_eq!(records_of(&ran.out), records_of(&expected), "`{command}`");
        assert_eq!(comments_of(&ran.out), comments_of(&expected), "`{command}`");
    }
}

#[test]
fn each_field_of_a_key_tells_records_apart() {
    for command in commands_of_the_page() {
        let whole = number(&run(&command).report(), "first_seen");
        for (shortened, field) in without_a_key_field(&command) {
            let first_seen = number(&run(&shortened).report(), "first_seen");
            assert!(first_seen < whole, "`{command}` keeps the same without `{field}`");
        }
    }
}

#[test]
fn the_page_has_a_command_for_each_sample() {
    let commands = commands_of_the_page();
    let mut named: Vec<&str> = commands.iter().map(|command| file_of(command)).collect();
    named.sort_unstable();
    assert_eq!(named, SAMPLES.map(|sample| sample.file));
    let entries = fs::read_dir(samples_folder()).expect("the samples");
    let mut files: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    files.sort_unstable();
    assert_eq!(files, named, "every sample is used");
}
