//! Runs the client programs in docs/reference/http.md exactly as the page shows them.

use std::process::{Command, Stdio};

use crate::http_wire::HttpNode;
use crate::python::{fetch, run};
use crate::run::{Folder, Watchdog};

const PAGE: &str = include_str!("../../docs/reference/http.md");
const REQUESTS: [&str; 1] = ["requests==2.32.3"];

/// Returns the code block of the page after the comment that names this client, with the port of the endpoint replaced.
pub(crate) fn shown(client: &str, port: u16) -> String {
    let comment = format!("<!-- run by tests/tests/{client} -->");
    let (_, rest) =
        PAGE.split_once(&comment).unwrap_or_else(|| panic!("docs/reference/http.md has no block behind {comment}"));
    let block = rest.split("```").nth(1).expect("a block");
    let (_, lines) = block.split_once('\n').expect("its lines");
    assert!(lines.contains("7420"), "the port of the page: {lines}");
    lines.replace("7420", &port.to_string())
}

#[test]
#[ignore = "it fetches requests from a registry, and is skipped with a notice where there is none"]
fn a_program_in_python_asks_by_requests() {
    let folder = Folder::new();
    if !fetch(&folder, &REQUESTS) {
        return;
    }
    let endpoint = HttpNode::start("");
    let said = run(&folder, &shown("http_clients.rs: python", endpoint.port), &[]);
    assert_eq!(said, "True False\n['duplicate', 'first_seen']\n");
}

#[test]
fn a_program_for_node_asks_by_fetch() {
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let major: Option<u32> = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    if major.is_none_or(|major| major < 18) {
        println!(
            "NOT CHECKED: the program of docs/reference/http.md for Node, as there is no Node 18 or later here: `{version}`"
        );
        return;
    }
    let endpoint = HttpNode::start("");
    endpoint.node.folder.write("program.mjs", shown("http_clients.rs: node", endpoint.port));
    let mut command = Command::new("node");
    command.arg("program.mjs").current_dir(endpoint.node.folder.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("node");
    let _watchdog = Watchdog::of(&child);
    let output = child.wait_with_output().expect("an end");
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert_eq!(said, "true false\n[ 'duplicate', 'first_seen' ]\n");
}
