//! Clients that others have written, each by its own methods, against the door: all carry out one script
//! (`tests/clients/README.md`), and say in one form what they were told.
//!
//! Promises: a machine that lacks a language, or the way to its registry, gets a notice, and the test is skipped. A program that
//! cannot be built, or that says something else than is true, fails its test. Must not know: how a client does what the script
//! says.

mod build;
mod pages;
mod script;

use std::process::{Command, Stdio};

use serde_json::json;

use crate::python::{self, said};
use crate::run::{Folder, Watchdog};

use self::build::{Build, built};
use self::script::{door, plays_the_script};

const NODE: Build =
    Build { language: "node", fetch: &["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], build: &[] };

const GO: Build =
    Build { language: "go", fetch: &["go", "mod", "download"], build: &["go", "build", "-o", "bin/", "./..."] };

/// Maven fetches, and `javac` builds: Maven's own compiler would be one more thing to fetch.
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

/// Spring brings a lettuce of its own choice. Its classes name annotations that are not among its dependencies.
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

/// Where `java` finds what was fetched and built.
const CLASSES: &str = "target/classes:target/dependency/*";

/// A program in the folder where it was built.
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
        plays_the_script(python::python(&folder, &["redis_py.py"]));
    }
}

#[test]
#[ignore = "it fetches node-redis from a registry, and is skipped with a notice where there is none"]
fn node_redis_plays_the_script() {
    if let Some(folder) = built(&NODE) {
        plays_the_script(in_folder(&folder, "node", &["node_redis.mjs"]));
    }
}

#[test]
#[ignore = "it fetches ioredis from a registry, and is skipped with a notice where there is none"]
fn ioredis_plays_the_script() {
    if let Some(folder) = built(&NODE) {
        plays_the_script(in_folder(&folder, "node", &["ioredis.mjs"]));
    }
}

#[test]
#[ignore = "it fetches go-redis from a registry, and is skipped with a notice where there is none"]
fn go_redis_plays_the_script() {
    if let Some(folder) = built(&GO) {
        plays_the_script(in_folder(&folder, folder.path("bin/go-redis").to_str().expect("UTF-8"), &[]));
    }
}

#[test]
#[ignore = "it fetches rueidis from a registry, and is skipped with a notice where there is none"]
fn rueidis_plays_the_script() {
    if let Some(folder) = built(&GO) {
        plays_the_script(in_folder(&folder, folder.path("bin/rueidis").to_str().expect("UTF-8"), &[]));
    }
}

#[test]
#[ignore = "it fetches jedis from a registry, and is skipped with a notice where there is none"]
fn jedis_plays_the_script() {
    if let Some(folder) = built(&JAVA) {
        plays_the_script(in_folder(&folder, "java", &["-cp", CLASSES, "clients.JedisClient"]));
    }
}

#[test]
#[ignore = "it fetches lettuce from a registry, and is skipped with a notice where there is none"]
fn lettuce_plays_the_script() {
    if let Some(folder) = built(&JAVA) {
        plays_the_script(in_folder(&folder, "java", &["-cp", CLASSES, "clients.LettuceClient"]));
    }
}

#[test]
fn the_rust_crate_plays_the_script() {
    plays_the_script(Command::new(env!("CARGO_BIN_EXE_redis-rs-under-test")));
}

/// Runs a program against a door, whose port is its last argument, and returns what it printed.
fn printed_by(mut program: Command) -> String {
    let door = door();
    let program = program.arg(door.port.to_string()).stdin(Stdio::null());
    let child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a program");
    let _watchdog = Watchdog::of(&child);
    let (is_well, text) = said(child.wait_with_output().expect("an end"));
    assert!(is_well, "{text}");
    text
}

/// Checks what a program in cluster mode prints: 20 keys are set alone, the same and 80 others in a pipeline, and an item is added.
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

/// Runs a program of Spring against a door, and returns what it printed.
fn spring(program: &str) -> Option<String> {
    let folder = built(&SPRING)?;
    Some(printed_by(in_folder(&folder, "java", &["-cp", CLASSES, program])))
}

/// What Spring Data Redis makes of `setIfAbsent`, of a pipeline and of sets, with lettuce.
#[test]
#[ignore = "it fetches Spring from a registry, and is skipped with a notice where there is none"]
fn a_service_of_spring_handles_every_event_once() {
    let Some(text) = spring("Template") else { return };
    assert!(text.contains("every event once"), "{text}");
}

/// The idempotent receiver of Spring Integration: HSETNX, and HGET of what was there.
#[test]
#[ignore = "it fetches Spring from a registry, and is skipped with a notice where there is none"]
fn spring_integration_accepts_every_message_once() {
    let Some(text) = spring("MetadataStore") else { return };
    assert!(text.contains("every message once"), "{text}");
}
