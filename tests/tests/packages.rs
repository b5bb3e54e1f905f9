//! Tests of everything that is shipped with the binary: man pages, shell completions, a systemd unit, and manifests for
//! Kubernetes. The tests also build the crates that are published.
//!
//! If a test needs a tool that is not installed, it prints a notice and checks nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::CommandFactory;
use firstseen_cli::args::Cli;
use firstseen_lab::args::Lab;
use yaml_rust2::{Yaml, YamlLoader};

use crate::run::{Folder, firstseen};

const NODES: [&str; 3] = ["firstseen-0", "firstseen-1", "firstseen-2"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a program at the top of the repository and returns its output. Returns `None` if the program is not installed.
fn of_tool(program: &str, args: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(args).current_dir(root()).output();
    if output.is_err() {
        println!("NOT CHECKED: {program} is not installed");
    }
    output.ok()
}

/// Returns the documents in a file of manifests.
fn manifests(file: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&text(&format!("contrib/kubernetes/{file}"))).unwrap()
}

fn words(list: &Yaml) -> Vec<&str> {
    list.as_vec().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn every_command_has_a_man_page() {
    fn pages(command: &clap::Command, above: &str, names: &mut Vec<String>) {
        let name = format!("{above}{}", command.get_name());
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
        shown.for_each(|below| pages(below, &format!("{name}-"), names));
        names.push(format!("{name}.1"));
    }
    let folder = Folder::new();
    folder.run("man --out pages").ok();
    folder.run_lab("man --out pages").ok();
    let mut expected = Vec::new();
    pages(&Cli::command(), "", &mut expected);
    pages(&Lab::command(), "", &mut expected);
    expected.sort();
    let mut written: Vec<String> = fs::read_dir(folder.path("pages"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    written.sort();
    assert_eq!(written, expected);
    let dedup = folder.read("pages/firstseen-dedup.1");
    for said in [".SH EXAMPLES", "\\&firstseen dedup access.log > once.log", "\\-\\-cell\\-bits", "firstseen\\-dedup"] {
        assert!(dedup.contains(said), "{said} is not in:\n{dedup}");
    }
    folder.write("file", "");
    folder.run("man --out file").fails(1, &["file"]);
}

#[test]
fn shells_complete_commands_and_flags() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = folder.run(&format!("completions {shell}")).ok().out;
        assert!(["safe-to-stop", "retry-horizon", "cell-bits"].iter().all(|word| script.contains(word)), "{shell}");
        folder.write(shell, script);
        let script = folder.run_lab(&format!("completions {shell}")).ok().out;
        assert!(["firstseen-lab", "rivals", "wrong-clocks"].iter().all(|word| script.contains(word)), "{shell}");
    }
    folder.run("completions tcsh").fails(2, &["bash"]);
    let script = folder.path("bash");
    if let Some(output) = of_tool("bash", &["-n", script.to_str().unwrap()]) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_unit_starts_what_the_binary_knows_in_a_tight_sandbox() {
    let unit = text("contrib/deb/firstseen.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/firstseen ")).unwrap();
    let folder = Folder::new();
    folder.write("node.toml", text("contrib/deb/node.toml"));
    let check = start.replace("/etc/firstseen/", "") + " --check-config --set data_dir=data";
    folder.run(&check).fails(2, &["data does not exist", "--create"]);
    fs::create_dir(folder.path("data")).unwrap();
    folder.run(&check).fails(2, &["is no node's yet", "`new-node`"]);
    folder.write("data/new-node", "");
    assert!(folder.run(&check).ok().out.contains("a node `node-1` can be started with this"));
    // The threshold is an exposure score below 3 of 10.
    let judge = ["security", "--offline=true", "--threshold=30", "--no-pager", "contrib/deb/firstseen.service"];
    if let Some(output) = of_tool("systemd-analyze", &judge) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn the_example_configuration_is_as_good_with_what_it_leaves_out() {
    let folder = Folder::new();
    folder.run("certs --out . --nodes node-1").ok();
    let whole: String = text("contrib/deb/node.toml").lines().fold(String::new(), |text, line| {
        // A commented line is a setting if `=` is its second word, or if it begins a section.
        let setting =
            line.strip_prefix("# ").filter(|rest| rest.starts_with('[') || rest.split_whitespace().nth(1) == Some("="));
        text + setting.unwrap_or(line) + "\n"
    });
    assert!(whole.contains("\n[tls]\nca = ") && whole.contains("\nadvertise = "), "{whole}");
    folder.write("node.toml", whole.replace("/var/log/firstseen/", ""));
    folder.run("node --config node.toml --check-config --create --set data_dir=data").ok();
}

#[test]
fn nodes_in_kubernetes_are_started_with_what_the_binary_knows() {
    let folder = Folder::new();
    folder.run(&format!("certs --out certs --nodes {} --admin", NODES.join(","))).ok();
    let documents = manifests("nodes.yaml");
    let set = documents.iter().find(|document| document["kind"].as_str() == Some("StatefulSet")).unwrap();
    assert_eq!(set["spec"]["replicas"].as_i64(), i64::try_from(NODES.len()).ok());
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    folder.write("node.toml", text("contrib/kubernetes/node.toml").replace("\"/", "\""));
    for node in NODES {
        let args = words(&container["args"]).join(" ").replace("$(POD)", node);
        let args = args.replace("/etc/firstseen/", "").replace("=/certs/", "=certs/");
        let checked = folder.run(&format!("{args} --check-config")).ok();
        assert!(checked.out.contains(&format!("a node `{node}` can be started with this")), "{}", checked.out);
    }
    let port = |name: &str| {
        let ports = container["ports"].as_vec().unwrap().iter();
        ports
            .filter(|port| port["name"].as_str() == Some(name))
            .find_map(|port| port["containerPort"].as_i64())
            .unwrap()
    };
    let config = text("contrib/kubernetes/node.toml");
    for (key, name) in [("listen", "grpc"), ("http_listen", "http")] {
        assert!(config.contains(&format!("\n{key} = \"0.0.0.0:{}\"\n", port(name))), "{key}");
    }
    let page = text("docs/reference/metrics.md");
    for (probe, path) in [("startupProbe", "/startupz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")] {
        assert_eq!(container[probe]["httpGet"]["path"].as_str(), Some(path));
        assert!(page.contains(&format!("`{path}`")), "{path}");
    }
}

#[test]
fn the_cluster_in_kubernetes_is_formed_of_all_nodes() {
    let documents = manifests("form.yaml");
    let args = words(&documents[0]["spec"]["template"]["spec"]["containers"][0]["args"]);
    let (flags, places): (Vec<&str>, Vec<&str>) = args.into_iter().partition(|word| word.starts_with("--"));
    let nodes = NODES.map(|node| format!("{node}.firstseen:7400"));
    assert_eq!(places, ["cluster", "form"].into_iter().chain(nodes.iter().map(String::as_str)).collect::<Vec<_>>());
    let mut help = firstseen();
    let help = String::from_utf8(help.args(["cluster", "form", "--help"]).output().unwrap().stdout).unwrap();
    let is_known = |flag: &&str| help.contains(&format!("{} <", flag.split('=').next().unwrap_or_default()));
    assert!(flags.len() == 3 && flags.iter().all(is_known), "{flags:?}:\n{help}");
}

#[test]
fn manifests_are_what_kubernetes_takes() {
    let Some(rendered) = of_tool("kubectl", &["kustomize", "contrib/kubernetes"]) else { return };
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let folder = Folder::new();
    folder.write("all.yaml", &rendered.stdout);
    // `pip install kubernetes-validate` includes the schemas.
    let file = folder.path("all.yaml");
    let Some(judged) = of_tool("kubernetes-validate", &["--strict", file.to_str().unwrap()]) else { return };
    let said = String::from_utf8_lossy(&judged.stdout) + String::from_utf8_lossy(&judged.stderr);
    assert!(judged.status.success() && said.matches(" passed for resource ").count() == 5, "{said}");
}

#[test]
fn packages_have_the_version_of_the_binary() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, said) in [
        ("contrib/deb/changelog", format!("firstseen ({version}-1)")),
        ("contrib/kubernetes/kustomization.yaml", format!("newTag: {version}\n")),
        ("justfile", format!("\"firstseen:{version}\"")),
        ("CHANGELOG.md", format!("## [{version}]")),
    ] {
        assert!(text(file).contains(&said), "{file} does not say {said}");
    }
}

/// Clones what is committed into a folder of its own. Returns `None` if this is not a repository.
fn clone() -> Option<Folder> {
    let folder = Folder::new();
    let (from, to) = (root(), folder.path("clone"));
    let cloned = of_tool("git", &["clone", "--quiet", from.to_str().unwrap(), to.to_str().unwrap()])?;
    if !cloned.status.success() {
        println!("NOT CHECKED: {}", String::from_utf8_lossy(&cloned.stderr));
    }
    cloned.status.success().then_some(folder)
}

/// Runs `cargo` without the settings in the workspace's `.cargo/config.toml`, because a user of the published crates
/// does not have these settings. The build is not optimised, because the test uses its result only briefly.
fn cargo(folder: &Folder, at: &str, args: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).arg("--offline").current_dir(folder.path(at)).env("RUSTFLAGS", "");
    command.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_INCREMENTAL", "0");
    // `.ci/timed` sets this variable for tests. A crate that needs an unstable feature must not pass here.
    command.env_remove("RUSTC_BOOTSTRAP");
    let output = command.env("CARGO_TARGET_DIR", folder.path("target")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "minutes: it builds four crates from their packages"]
fn crates_that_are_published_are_whole() {
    let justfile = text("justfile");
    let line = justfile.lines().find_map(|line| line.trim().strip_prefix("cargo package ")).unwrap();
    let args: Vec<&str> = ["package"].into_iter().chain(line.split_whitespace()).collect();
    let Some(folder) = clone() else { return };
    cargo(&folder, "clone", &args);
    let packaged = fs::read_dir(folder.path("target/package")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(packaged.filter(|path| path.extension().is_some_and(|extension| extension == "crate")).count(), 4);
}

#[test]
#[ignore = "minutes: it builds everything"]
fn a_clone_can_be_installed() {
    let Some(folder) = clone() else { return };
    // The profile `dev` of this workspace optimises many crates for tests, so a plain profile is used here.
    let install = ["install", "--path", "clone/crates/cli", "--locked", "--root", "installed", "--profile", "plain"];
    let plain = ["profile.plain.inherits='release'", "profile.plain.opt-level=0"].map(|line| ["--config", line]);
    cargo(&folder, "", &[&install, plain.as_flattened()].concat());
    let version = Command::new(folder.path("installed/bin/firstseen")).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&version.stdout), format!("firstseen {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
#[ignore = "minutes: it builds a release"]
fn the_package_for_debian_is_installed_and_runs() {
    let Some(output) = of_tool("contrib/deb/check.sh", &[]) else { return };
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    println!("{said}");
    assert!(output.status.success(), "{said}");
}
