//! Checks the dependencies of the client library. Their number must be the one in docs/how-to/client.md, and openraft
//! must not be among them.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use firstseen_tidy::root;

/// Returns all crates that the client library depends on, directly or indirectly, including the client crate itself.
/// Each crate has the form `name vVERSION`. The list comes from `cargo tree`, which runs without network access.
fn client_crates() -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["tree", "--locked", "--offline", "-p", "firstseen-client", "-e", "normal", "--prefix", "none"]);
    let output = command.current_dir(root()).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("UTF-8");
    tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Returns the number in a text such as `95 crates in all`.
fn crates_named(text: &str) -> Option<usize> {
    let before = text.split_once(" crates in all")?.0;
    before.rsplit(char::is_whitespace).next()?.parse().ok()
}

#[test]
fn the_client_needs_as_many_crates_as_is_said() {
    let guide = fs::read_to_string(root().join("docs/how-to/client.md")).expect("docs/how-to/client.md");
    let crates = client_crates();
    assert_eq!(
        crates_named(&guide),
        Some(crates.len()),
        "docs/how-to/client.md is wrong; these are needed: {crates:#?}"
    );
    let is = |names: [&str; 4]| {
        crates.iter().filter_map(|line| line.split(' ').next()).filter(|name| names.contains(name)).count()
    };
    assert_eq!(is(["openraft", "redb", "bincode", "firstseen-node"]), 0, "{crates:#?}");
    assert_eq!(is(["firstseen-client", "tonic", "prost", "tokio"]), 4, "{crates:#?}");
}

#[test]
fn the_number_is_found() {
    assert_eq!((crates_named("## Dependencies\n\n95 crates in all, of"), crates_named("no number")), (Some(95), None));
}
