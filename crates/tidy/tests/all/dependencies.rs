//! Checks the dependencies between the crates. An arrow points to the crate that is used:
//!
//! - `filter <- routing <- wire <- meta <- node`
//! - `routing <- journal <- meta`
//! - `wire <- client <- node`
//! - `client <- backend <- redis-endpoint <- node`
//! - `resp <- redis-endpoint`
//! - `backend <- http-endpoint <- node`
//! - `records <- http-endpoint`
//! - `filter <- records <- columns`
//! - `routing <- embedded <- python`
//! - `embedded <- pipe` and `records <- pipe`
//! - `client <- python`
//! - `routing <- mesh <- eval`
//! - `picture <- eval`
//!
//! `cli` may use these crates, and `lab` may use all crates. The binary `firstseen` links no crate that only serves
//! measurements and tests.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use firstseen_tidy::{root, sources};

/// Workspace crates that each crate may list among its normal dependencies.
const ALLOWED: [(&str, &[&str]); 24] = [
    ("filter", &[]),
    ("routing", &["firstseen-filter"]),
    ("embedded", &["firstseen-filter", "firstseen-routing"]),
    (
        "python",
        &["firstseen-filter", "firstseen-routing", "firstseen-embedded", "firstseen-client", "firstseen-columns"],
    ),
    ("pipe", &["firstseen-filter", "firstseen-routing", "firstseen-embedded", "firstseen-records"]),
    ("records", &["firstseen-filter"]),
    ("columns", &["firstseen-filter", "firstseen-records"]),
    ("resp", &[]),
    ("journal", &["firstseen-filter", "firstseen-routing"]),
    ("wire", &["firstseen-filter", "firstseen-routing"]),
    ("meta", &["firstseen-filter", "firstseen-routing", "firstseen-journal", "firstseen-wire"]),
    (
        "node",
        &[
            "firstseen-filter",
            "firstseen-routing",
            "firstseen-journal",
            "firstseen-wire",
            "firstseen-meta",
            "firstseen-client",
            "firstseen-backend",
            "firstseen-redis-endpoint",
            "firstseen-http-endpoint",
        ],
    ),
    (
        "redis-endpoint",
        &[
            "firstseen-filter",
            "firstseen-routing",
            "firstseen-wire",
            "firstseen-client",
            "firstseen-backend",
            "firstseen-resp",
        ],
    ),
    (
        "http-endpoint",
        &[
            "firstseen-filter",
            "firstseen-routing",
            "firstseen-records",
            "firstseen-wire",
            "firstseen-client",
            "firstseen-backend",
        ],
    ),
    ("backend", &["firstseen-filter", "firstseen-routing", "firstseen-wire", "firstseen-client"]),
    ("client", &["firstseen-filter", "firstseen-routing", "firstseen-wire"]),
    ("checker", &["firstseen-routing"]),
    ("mesh", &["firstseen-filter", "firstseen-routing"]),
    ("picture", &[]),
    ("eval", &["firstseen-filter", "firstseen-routing", "firstseen-mesh", "firstseen-picture"]),
    (
        "sim",
        &[
            "firstseen-checker",
            "firstseen-filter",
            "firstseen-routing",
            "firstseen-wire",
            "firstseen-journal",
            "firstseen-meta",
            "firstseen-node",
            "firstseen-client",
            "firstseen-picture",
        ],
    ),
    (
        "cli",
        &[
            "firstseen-columns",
            "firstseen-embedded",
            "firstseen-filter",
            "firstseen-routing",
            "firstseen-picture",
            "firstseen-pipe",
            "firstseen-records",
            "firstseen-wire",
            "firstseen-node",
            "firstseen-client",
        ],
    ),
    (
        "lab",
        &[
            "firstseen-checker",
            "firstseen-embedded",
            "firstseen-filter",
            "firstseen-routing",
            "firstseen-eval",
            "firstseen-sim",
            "firstseen-picture",
            "firstseen-pipe",
            "firstseen-records",
            "firstseen-wire",
            "firstseen-node",
            "firstseen-client",
            "firstseen-cli",
        ],
    ),
    ("tidy", &[]),
];

/// Names that the pure crates must not use, with the reason.
const FORBIDDEN: [(&str, &str); 9] = [
    ("tokio", "async"),
    ("tonic", "network"),
    ("openraft", "agreement"),
    ("std::net", "network"),
    ("std::fs", "files"),
    ("std::thread", "threads"),
    ("SystemTime", "the clock"),
    ("Instant", "the clock"),
    ("rand::", "randomness"),
];

/// Names that only one place may use, with the reason.
const CONFINED: [(&str, &str, &str); 2] = [
    ("openraft", "crates/meta/src/", "how the map is agreed on is crates/meta's affair, so that it can be replaced"),
    ("bincode", "crates/meta/src/codec.rs", "bytes on disk and between members have one format, with its own tests"),
];

/// Crates that serve measurements and tests, and that are not used in production.
const LABORATORY: [&str; 6] =
    ["firstseen-checker", "firstseen-eval", "firstseen-lab", "firstseen-mesh", "firstseen-sim", "firstseen-tidy"];

fn manifest(member: &str) -> toml::Table {
    let path = root().join("crates").join(member).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn crates_depend_only_to_the_left() {
    for (member, allowed) in ALLOWED {
        let manifest = manifest(member);
        let ours: BTreeSet<&str> = manifest["dependencies"]
            .as_table()
            .into_iter()
            .flat_map(|table| table.keys())
            .map(String::as_str)
            .filter(|name| name.starts_with("firstseen-"))
            .collect();
        let extra: Vec<_> = ours.iter().filter(|name| !allowed.contains(*name)).collect();
        assert!(extra.is_empty(), "crates/{member} must not depend on {extra:?}");
    }
}

#[test]
fn the_binary_links_no_crate_of_the_laboratory() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--offline", "--all-features", "--edges", "normal", "--prefix", "none"]);
    let output = cargo.args(["-p", "firstseen-cli"]).current_dir(root()).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8_lossy(&output.stdout);
    let linked: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(linked.contains("firstseen-node") && linked.contains("tokio"), "{tree}");
    let laboratory: Vec<_> = LABORATORY.iter().filter(|name| linked.contains(*name)).collect();
    assert!(laboratory.is_empty(), "`firstseen` links {laboratory:?}, which belong to `firstseen-lab`");
}

#[test]
fn every_crate_is_in_the_list() {
    let folders = fs::read_dir(root().join("crates")).expect("the folder of crates");
    for folder in folders.flatten().filter(|entry| entry.path().is_dir()) {
        let name = folder.file_name().to_string_lossy().into_owned();
        assert!(ALLOWED.iter().any(|(member, _)| *member == name), "crates/{name} has no rule in this test");
    }
}

#[test]
fn pure_crates_know_no_world() {
    let pure = [
        "crates/filter/src/",
        "crates/routing/src/",
        "crates/mesh/src/",
        "crates/records/src/",
        "crates/columns/src/",
        "crates/resp/src/",
    ];
    for source in sources().iter().filter(|source| pure.iter().any(|folder| source.path.starts_with(folder))) {
        let code = source.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for (number, line) in code.enumerate() {
            for (name, what) in FORBIDDEN {
                let named = line.split(|letter: char| !(letter.is_alphanumeric() || "_:".contains(letter)));
                let found = named.into_iter().any(|word| word == name || name.contains(':') && word.contains(name));
                assert!(!found, "{} (code line {number}) names {name}: a pure crate must not know {what}", source.path);
            }
        }
    }
}

/// Returns the lines of code that use `name` as a path, an import or the path of a macro. Comments and string literals
/// do not count.
fn names(text: &str, name: &str) -> Vec<usize> {
    let code = |line: &str| {
        let line = line.split("//").next().unwrap_or_default();
        line.split('"').step_by(2).collect::<Vec<_>>().join(" ")
    };
    let is_word =
        |line: &str| line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).any(|word| word == name);
    (1..).zip(text.lines()).filter(|(_, line)| is_word(&code(line))).map(|(number, _)| number).collect()
}

#[test]
fn openraft_and_its_bytes_are_named_in_one_place() {
    for (name, place, why) in CONFINED {
        let mut found_there = 0;
        for source in sources().iter().filter(|source| !source.path.starts_with("crates/tidy/")) {
            let lines = names(&source.text, name);
            if source.path.starts_with(place) {
                found_there += lines.len()
            } else {
                assert!(lines.is_empty(), "{} names {name} in lines {lines:?}: {why}", source.path)
            }
        }
        assert!(found_there > 0, "{place} does not name {name}: this test looks in the wrong place");
        for (member, _) in ALLOWED.iter().filter(|(member, _)| !place.starts_with(&format!("crates/{member}/"))) {
            let manifest = manifest(member);
            for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
                let named = manifest.get(section).and_then(|section| section.get(name));
                assert!(named.is_none(), "crates/{member} depends on {name}: {why}");
            }
        }
    }
}

#[test]
fn names_are_found_in_code_only() {
    let text = "// openraft\nuse openraft::Raft;\nlet quiet = \"openraft=error\"; // openraft\nlet openrafts = 1;\n\
                openraft::declare_raft_types!(\n";
    assert_eq!(names(text, "openraft"), [2, 5]);
}

#[test]
fn unsafe_code_stands_in_one_module_a_crate() {
    let allowed = [
        "crates/cli/src/node/freed_memory.rs",
        "crates/filter/src/arch.rs",
        "crates/filter/benches/floor/mod.rs",
        "crates/sim/src/real_time.rs",
    ];
    for source in sources().iter().filter(|source| !source.path.starts_with("crates/tidy/")) {
        let allows = source.text.contains("allow(unsafe_code)");
        assert!(!allows || allowed.contains(&source.path.as_str()), "{} allows unsafe code", source.path);
    }
}
