//! Tests of `firstseen top` as users run it: with `--once`, and in a real terminal.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::local_cluster::{LocalCluster, eventually};
use crate::run::Folder;

use super::at;

#[test]
fn once_is_plain_text_and_json_is_the_overview() {
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 2");
    cluster.create(&folder, "clicks", "--window 24h --capacity 20k").ok();
    // The command finds the cluster of this folder.
    let text = folder.run("top --once").ok().out;
    assert!(text.contains("2 of 2 nodes up") && text.contains("clicks") && text.contains("0 undecided/s"), "{text}");
    assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
    let json = folder.run(&format!("top --json --http {}", at(&cluster, 1))).ok().out;
    let overview: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&overview["version"], &overview["cluster"]["node"]), (&1.into(), &"node-2".into()));
    folder.run("top").fails(2, &["no terminal", "--once"]);
    folder.run("top --once --http 127.0.0.1:9").fails(1, &["no answer from 127.0.0.1:9", "--http"]);
    let mistaken = cluster.addresses().split(',').next().expect("an address").to_owned();
    assert_ne!(folder.run(&format!("top --once --http {mistaken}")).code, Some(0));
}

/// Terminal session of its own, which ends with the test.
struct Tmux(String);

impl Tmux {
    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        let ran = command.args(["-L", &self.0]).args(arguments).stderr(Stdio::null()).output().expect("tmux");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    fn shows(&self, words: &[&str]) {
        let mut seen = String::new();
        eventually(&format!("{words:?}"), || {
            seen = self.run(&["capture-pane", "-p", "-t", "0"]);
            words.iter().all(|word| seen.contains(word))
        });
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn a_real_terminal_shows_it_and_is_given_back() {
    if Command::new("tmux").arg("-V").output().is_err() {
        eprintln!("skipped: no tmux in PATH; top is tried in no real terminal");
        return;
    }
    let folder = Folder::new();
    let cluster = LocalCluster::start(&folder, "--nodes 1");
    cluster.create(&folder, "clicks", "--window 24h --capacity 20k").ok();
    let tmux = Tmux(format!("firstseen-{}", std::process::id()));
    let home = folder.path("").display().to_string();
    tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-c", &home, "env PS1='$ ' sh"]);
    let binary = env!("CARGO_BIN_EXE_firstseen-under-test");
    tmux.run(&["send-keys", "-t", "0", &format!("{binary} top; echo it has ended with $?"), "Enter"]);
    tmux.shows(&["[live] firstseen", "clicks", "filters (1) by number <", "q quit"]);
    tmux.run(&["send-keys", "-t", "0", "s"]);
    tmux.shows(&["filters (1) by name <"]);
    tmux.run(&["send-keys", "-t", "0", "Tab"]);
    tmux.shows(&["under way, and trees <"]);
    tmux.run(&["send-keys", "-t", "0", "p"]);
    tmux.shows(&["[paused]"]);
    tmux.run(&["resize-window", "-t", "0", "-x", "60", "-y", "20"]);
    tmux.shows(&["60 columns and 20 lines"]);
    tmux.run(&["send-keys", "-t", "0", "q"]);
    tmux.shows(&["it has ended with 0"]);
    let after = tmux.run(&["capture-pane", "-p", "-t", "0"]);
    assert!(!after.contains("columns and"), "the screen is as it was: {after}");
    tmux.run(&["resize-window", "-t", "0", "-x", "80", "-y", "24"]);
    tmux.run(&["send-keys", "-t", "0", &format!("{binary} top; echo a signal has ended it"), "Enter"]);
    tmux.shows(&["[live] firstseen"]);
    let shell = tmux.run(&["display-message", "-p", "-t", "0", "#{pane_pid}"]);
    let ended = Command::new("pkill").args(["-TERM", "-P", shell.trim()]).status().expect("pkill");
    assert!(ended.success(), "top runs below {shell}");
    tmux.shows(&["a signal has ended it"]);
    assert_eq!(tmux.run(&["display-message", "-p", "-t", "0", "#{alternate_on}"]).trim(), "0");
}
