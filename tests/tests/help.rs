//! Tests of `--help` and the other help texts.

use crate::run::{Folder, Ran, dedup, firstseen, firstseen_lab};

const FLAGS: [&str; 59] = [
    "--format",
    "--key",
    "--time",
    "--time-format",
    "--clock",
    "--source",
    "--no-header",
    "--null-data",
    "--separator",
    "--ignore",
    "--empty-key",
    "--ragged",
    "--tz",
    "--normalize",
    "--window",
    "--rule",
    "--kind",
    "--capacity",
    "--fpr",
    "--memory",
    "--slicing",
    "--lateness",
    "--future-max",
    "--seed",
    "--cells",
    "--hashes",
    "--layout",
    "--cell-bits",
    "--sub-windows",
    "--ticks",
    "--equal-timers",
    "--growth",
    "--grow-by",
    "--stable-max",
    "--stable-decrements",
    "--out",
    "--duplicates",
    "--rejected",
    "--unjudged",
    "--strict",
    "--lookup",
    "--late",
    "--state",
    "--state-every",
    "--confirm",
    "--uncertain",
    "--verify",
    "--report",
    "--report-file",
    "--cluster",
    "--filter",
    "--site",
    "--tls-ca",
    "--tls-cert",
    "--tls-key",
    "--token-file",
    "lines, csv, tsv, jsonl, clf",
    "landmark:1d",
    "bzip2 and xz",
];

fn text(mut command: std::process::Command) -> String {
    let output = command.output().expect("the binary");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn help_mentions_every_flag() {
    let help = text(dedup("--help"));
    for flag in FLAGS {
        assert!(help.contains(flag), "{flag} is not in the help");
    }
    let longest = help.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "a line of {longest:?} characters");
    assert!(help.lines().count() <= 164, "{} lines", help.lines().count());
    let example = help.find("tail -F app.log | firstseen dedup --window 24h");
    assert!(example < help.find("--format"), "examples come first:\n{help}");
    let rare = help.find("Filter, rarely needed:").expect("a heading of its own");
    assert!(help.find("      --fpr") < Some(rare) && Some(rare) < help.find("      --cell-bits"), "{help}");
}

#[test]
fn other_commands_explain_themselves() {
    for (command, words) in [
        ("up", "--nodes --sites --nodes-per-site --data --port --tls --memory --json --detach --end 130"),
        ("top", "--http --once --json 127.0.0.1:7401 Keys"),
        ("node", "--config --set KEY=VALUE --check-config --create new-node health"),
        ("node health", "--addr"),
        ("cluster", "init join form status safe-to-stop rebalance drain leave backup restore recover"),
        ("cluster safe-to-stop", "--addr --wait --accept-loss --json Exit"),
        ("filter drop", "--cluster --yes"),
        ("filter forgive", "--cluster --yes"),
        ("filter set-clock", "--cluster --yes"),
        ("cluster backup", "--addr --out --allow-missing --json --tls-ca secrets"),
        ("cluster restore", "--addr --plan --yes --json --tls-ca"),
        ("cluster recover", "--data-dir --plan --yes --json"),
        ("cluster rebalance", "--addr --plan --no-wait --cancel --json"),
        ("cluster drain", "--addr --plan --no-wait --json"),
        ("cluster join", "--addr --tls-ca --tls-cert --tls-key"),
        ("filter", "create alter list describe forgive set-clock place drop"),
        ("filter place", "add remove"),
        ("filter place add", "FILTER PLACE --parent --fold --sites --slicing --cluster"),
        ("filter place remove", "FILTER PLACE --yes --cluster"),
        (
            "filter alter",
            "--cluster --window --capacity --fpr --memory --kind --slicing --lateness --ticks --growth --new-secret --seed --plan \
             --no-wait --finish --yes --json",
        ),
        (
            "filter create",
            "--cluster --window --slicing --clock --lookup --answer --retry-horizon --if-absent --tree --copies",
        ),
        ("access", "grant revoke list check enable disable observe security"),
        ("access limit-filters", "NAMES --filters --memory"),
        ("access token", "new list revoke --token-file"),
        ("access token new", "WHO --expires 90d --out --json"),
        ("access grant", "--filter --allow --cluster --tls-ca"),
        ("access check", "WHO VERB FILTER"),
        ("certs", "--out --nodes --clients --admin --hosts --days"),
        ("plan", "--capacity --fpr --window --kind --lateness --ticks --nodes --failures --max-fpr --json"),
    ] {
        let help = explained(firstseen(), command, words);
        assert!(!help.contains("--end-with"), "{command} shows what only `up` needs");
        let tls = help.split_once("\nTLS:\n").map_or("", |(_, below)| below);
        let section = tls.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
        let is_other =
            |line: &&str| line.starts_with("      --") && !line.starts_with("      --t") || line.starts_with("  <");
        assert_eq!(section.filter(is_other).collect::<Vec<_>>(), [""; 0], "{command}: no flags for TLS");
    }
}

/// Checks that the help of a command contains these words and no long lines. Returns the help text.
fn explained(mut binary: std::process::Command, command: &str, words: &str) -> String {
    binary.args(command.split(' ')).arg("--help");
    let help = text(binary);
    for word in words.split(' ') {
        assert!(help.contains(word), "{command}: {word} is not in:\n{help}");
    }
    let longest = help.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "{command}: a line of {longest:?} characters");
    help
}

#[test]
fn commands_of_the_laboratory_explain_themselves() {
    for (command, words) in [
        ("generate", "--events --keys --rate --burst --sites --home-share --late-share --late-max --seed --format"),
        ("eval", "EXPERIMENT --seed --runs --out --log --log-format --quick --json 20] Smaller codes"),
        ("bench", "cluster Redis tree durability copies moves slicings rivals"),
        ("bench copies", "--kind --events --runs --batch --json"),
        ("bench rights", "--events --runs --batch --json"),
        ("bench moves", "--kind --events --calls-per-s --quiet-s --json"),
        ("bench slicings", "--nodes --slicing --copies --durability --events --runs --batch --json"),
        ("bench tree", "--events --delay-ms --runs --json"),
        ("bench rivals", "--keys --runs --system --json cuckoo-1e-3 cuckoo-1e-8 generations map redis cuckoo-clock"),
        ("bench cluster", "--kind --events --runs --batch --calls-per-s --no-redis --no-tls --json"),
        ("chaos", "run list"),
        ("figures", "rivals cluster --pages-only --root"),
        (
            "simulate",
            "--seeds --storms --endpoints --kind --claims --rights --trace --without --results --scale --picture",
        ),
    ] {
        explained(firstseen_lab(), command, words);
    }
    let mut command = firstseen_lab();
    command.arg("--help");
    let help = text(command);
    for name in ["bench", "eval", "generate", "chaos", "simulate", "figures", "completions", "man"] {
        assert!(help.contains(&format!("\n  {name} ")), "{name} is not in:\n{help}");
    }
}

#[test]
fn commands_that_have_moved_to_the_laboratory_are_found_again() {
    for command in ["bench cluster --no-redis", "chaos run kill", "eval all", "generate --seed 1"] {
        let name = command.split(' ').next().expect("a word");
        Folder::new().run(command).fails(2, &[&format!("type `firstseen-lab {name}`")]);
    }
}

#[test]
fn examples_can_be_pasted() {
    for (command, examples) in [("dedup", 5), ("plan", 3), ("filter create", 3)] {
        for asks in ["-h", "--help"] {
            let mut asked = firstseen();
            asked.args(command.split(' ')).arg(asks);
            let help = text(asked);
            let lines: Vec<&str> = help.lines().take_while(|line| !line.is_empty()).collect();
            let is_command = |line: &str| line.starts_with("firstseen ") || line.starts_with("tail -");
            let commands = lines.iter().filter(|line| is_command(line)).count();
            assert_eq!(commands, examples, "{command} {asks}:\n{help}");
            let is_whole = |line: &&str| is_command(line) || line.starts_with("# ") || line.starts_with("`-h` ");
            assert!(lines.iter().all(is_whole), "a part of a command, which a shell would run: {lines:?}");
            assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
        }
    }
}

#[test]
fn making_a_filter_is_shown_before_its_flags_and_old_spellings_are_taken() {
    let run = |flags: &str| {
        text({
            let mut command = firstseen();
            command.args(flags.split(' '));
            command
        })
    };
    let help = run("filter create --help");
    assert!(help.find("firstseen filter create clicks --cluster") < help.find("Usage:"), "{help}");
    let short = run("filter create -h");
    assert!(short.lines().count() < 90 && !short.contains("--set-min") && short.contains("--copies"), "{short}");
    let plan = |flag: &str| run(&format!("plan {flag} 10M --window 24h"));
    assert_eq!(plan("--events-per-window"), plan("--capacity"));
}

#[test]
fn every_flag_says_something() {
    let help = text(dedup("-h"));
    for line in help.lines().filter(|line| line.trim_start().starts_with("--")) {
        assert!(line.split("  ").filter(|part| !part.trim().is_empty()).count() >= 1, "{line}");
    }
    assert!(help.lines().count() < 140 && !help.contains("--stable-max"), "rare flags are left to --help:\n{help}");
    assert!(!help.contains("<GROW_BY>") && !help.contains("[<RULE>]"), "a flag shows its field's name:\n{help}");
}

#[test]
fn the_commands_are_listed() {
    let mut command = firstseen();
    command.arg("--help");
    let help = text(command);
    for name in
        ["dedup", "estimate", "plan", "up", "top", "node", "cluster", "filter", "access", "certs", "completions", "man"]
    {
        assert!(help.contains(&format!("\n  {name} ")), "{name} is not in:\n{help}");
    }
    let mut command = firstseen();
    command.arg("--version");
    assert!(text(command).starts_with("firstseen "));
}

#[test]
fn a_command_that_does_not_exist_is_refused() {
    let mut command = firstseen();
    let output = command.arg("dedupe").output().expect("the binary");
    let ran =
        Ran { code: output.status.code(), out: String::new(), err: String::from_utf8_lossy(&output.stderr).into() };
    ran.fails(2, &["dedup"]);
}
