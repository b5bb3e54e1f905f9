//! Runs Redis client libraries of several languages against the Redis endpoint. For each library, a small program
//! executes the same script with the methods of the library and prints the results in a common form
//! (`tests/clients/README.md`).
//!
//! If a language is not installed or its package registry cannot be reached, the test of its clients prints a notice
//! and is skipped. If a program cannot be built or prints a wrong result, its test fails.

mod build;
mod pages;
mod script;

use std::process::{Command, Stdio};

use serde_json::json;

use crate::python::{self, said};
use crate::run::{Folder, Watchdog};

use self::build::{Build, built};
use self::script::{assert_script_passes, endpoint};

const NODE: Build =
    Build { language: "node", fetch: &["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], build: &[] };

const GO: Build =
    Build { language: "go", fetch: &["go", "mod", "download"], build: &["go", "build", "-o", "bin/", "./..."] };

/// Build steps for Java programs. Maven fetches the dependencies, and then `javac` compiles the program. Maven does not
/// compile the program itself, because for that it would have to fetch its compiler plugin as a further dependency.
const JAVA: Build = Build {
    language: "java",
    fetch: &["mvn", "-q", "-B", "dependency:copy-dependencies"],
    build: &[
        "javac",
        "-Xlint:all",
        "-Werror",
        "-cp",
        "target/dependency/*",
        "-d",
        "target/classes",
        "-sourcepath",
        "src",
        "src/clients/JedisClient.java",
        "src/clients/LettuceClient.java",
    ],
};

/// Build steps for the Spring program, which uses the version of lettuce that Spring depends on. The lint `classfile`
/// of `javac` is switched off. This lint warns about annotations in Spring's classes, because the definitions of these
/// annotations are not among the dependencies.
const SPRING: Build = Build {
    language: "spring",
    fetch: JAVA.fetch,
    build: &[
        "javac",
        "-Xlint:all,-classfile,-processing",
        "-Werror",
        "-cp",
        "target/dependency/*",
        "-d",
        "target/classes",
        "src/Template.java",
        "src/MetadataStore.java",
    ],
};

/// Class path of the fetched and built classes.
const CLASSES: &str = "target/classes:target/dependency/*";

/// Creates the command for a program in the folder where it was built.
fn in_folder(folder: &Folder, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder.path(""));
    command
}

#[test]
#[ignore = "it fetches redis-py from a registry, and is skipped with a notice where there is none"]
fn redis_py_plays_the_script() {
    let folder = Folder::new();
    folder.write("requirements.txt", include_str!("../clients/python/requirements.txt"));
    folder.write("redis_py.py", include_str!("../clients/python/redis_py.py"));
    if python::fetch(&folder, &["-r", "requirements.txt"]) {
        assert_script_passes(python::python(&folder, &["redis_py.py"]));
    }
}

#[test]
#[ignore = "it fetches node-redis from a registry, and is skipped with a notice where there is none"]
fn node_redis_plays_the_script() {
    if let Some(folder) = built(&NODE) {
        assert_script_passes(in_folder(&folder, "node", &["node_redis.mjs"]));
    }
}

#[test]
#[ignore = "it fetches ioredis from a registry, and is skipped with a notice where there is none"]
fn ioredis_plays_the_script() {
    if let Some(folder) = built(&NODE) {
        assert_script_passes(in_folder(&folder, "node", &["ioredis.mjs"]));
    }
}

#[test]
#[ignore = "it fetches go-redis from a registry, and is skipped with a notice where there is none"]
fn go_redis_plays_the_script() {
    if let Some(folder) = built(&GO) {
        assert_script_passes(in_folder(&folder, folder.path("bin/go-redis").to_str().expect("UTF-8"), &[]));
    }
}

#[test]
#[ignore = "it fetches rueidis from a registry, and is skipped with a notice where there is none"]
fn rueidis_plays_the_script() {
    if let Some(folder) = built(&GO) {
        assert_script_passes(in_folder(&folder, folder.path("bin/rueidis").to_str().expect("UTF-8"), &[]));
    }
}

#[test]
#[ignore = "it fetches jedis from a registry, and is skipped with a notice where there is none"]
fn jedis_plays_the_script() {
    if let Some(folder) = built(&JAVA) {
        assert_script_passes(in_folder(&folder, "java", &["-cp", CLASSES, "clients.JedisClient"]));
    }
}

#[test]
#[ignore = "it fetches lettuce from a registry, and is skipped with a notice where there is none"]
fn lettuce_plays_the_script() {
    if let Some(folder) = built(&JAVA) {
        assert_script_passes(in_folder(&folder, "java", &["-cp", CLASSES, "clients.LettuceClient"]));
    }
}

#[test]
fn the_rust_crate_plays_the_script() {
    assert_script_passes(Command::new(env!("CARGO_BIN_EXE_redis-rs-under-test")));
}

/// Runs a program against an endpoint, whose port is its last argument. Returns what the program printed.
fn printed_by(mut program: Command) -> String {
    let endpoint = endpoint();
    let program = program.arg(endpoint.port.to_string()).stdin(Stdio::null());
    let child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a program");
    let _watchdog = Watchdog::of(&child);
    let (is_well, text) = said(child.wait_with_output().expect("an end"));
    assert!(is_well, "{text}");
    text
}

/// Checks the output of a client in cluster mode. Its program sets 20 keys one by one, then sets the same keys and 80
/// others in a pipeline. At the end, it adds an item to a set.
fn uses_cluster_mode(program: Command) {
    let printed = printed_by(program);
    let seen: serde_json::Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let pipelined = [vec!["seen"; 20], vec!["new"; 80]].concat();
    assert_eq!(seen, json!({ "alone": vec!["new"; 20], "pipelined": pipelined, "added": 1 }));
}

#[test]
#[ignore = "it fetches redis-py from a registry, and is skipped with a notice where there is none"]
fn redis_py_uses_cluster_mode() {
    let folder = Folder::new();
    folder.write("requirements.txt", include_str!("../clients/python/requirements.txt"));
    folder.write("redis_py_cluster.py", include_str!("../clients/python/redis_py_cluster.py"));
    if python::fetch(&folder, &["-r", "requirements.txt"]) {
        uses_cluster_mode(python::python(&folder, &["redis_py_cluster.py"]));
    }
}

#[test]
#[ignore = "it fetches ioredis from a registry, and is skipped with a notice where there is none"]
fn ioredis_uses_cluster_mode() {
    if let Some(folder) = built(&NODE) {
        uses_cluster_mode(in_folder(&folder, "node", &["ioredis_cluster.mjs"]));
    }
}

#[test]
#[ignore = "it fetches go-redis from a registry, and is skipped with a notice where there is none"]
fn go_redis_uses_cluster_mode() {
    if let Some(folder) = built(&GO) {
        uses_cluster_mode(in_folder(&folder, folder.path("bin/go-redis-cluster").to_str().expect("UTF-8"), &[]));
    }
}

/// Runs a Spring program against an endpoint, and returns what the program printed.
fn spring(program: &str) -> Option<String> {
    let folder = built(&SPRING)?;
    Some(printed_by(in_folder(&folder, "java", &["-cp", CLASSES, program])))
}

/// Checks Spring Data Redis with lettuce: `setIfAbsent`, a pipeline, and sets.
#[test]
#[ignore = "it fetches Spring from a registry, and is skipped with a notice where there is none"]
fn a_service_of_spring_handles_every_event_once() {
    let Some(text) = spring("Template") else { return };
    assert!(text.contains("every event once"), "{text}");
}

/// Checks the idempotent receiver of Spring Integration, which uses HSETNX, and HGET for existing entries.
#[test]
#[ignore = "it fetches Spring from a registry, and is skipped with a notice where there is none"]
fn spring_integration_accepts_every_message_once() {
    let Some(text) = spring("MetadataStore") else { return };
    assert!(text.contains("every message once"), "{text}");
}
