//! `firstseen eval`: numbers, pictures and a page; whether a browser shows them.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::run::{Folder, example};

/// Decides what CI draws.
const SEED: u64 = 1;
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn document(folder: &Folder, arguments: &str) -> Value {
    let ran = folder.run(&format!("eval {arguments} --json"));
    assert_eq!(ran.code, Some(0), "{}{}", ran.err, ran.out);
    serde_json::from_str(&ran.out).expect("one JSON document")
}

fn names(report: &Value) -> Vec<&str> {
    let experiments = report["experiments"].as_array().expect("experiments");
    experiments.iter().filter_map(|experiment| experiment["name"].as_str()).collect()
}

#[test]
fn everything_is_where_the_formulas_put_it_and_on_the_page() {
    let folder = Folder::new();
    let report = document(&folder, &format!("all --quick --seed {SEED} --out page"));
    let names = names(&report);
    assert!(names.len() >= 17, "{names:?}");
    println!("{} experiments in {} s: {names:?}", names.len(), report["seconds"]);
    let page = folder.read("page/index.html");
    assert!(page.contains("judged points are in") && folder.read("page/results.md").contains("| in |"));
    for name in &names {
        assert!(page.contains(&format!("src=\"{name}.svg\"")), "{name} is not on the page");
        assert!(folder.read(&format!("page/{name}.svg")).starts_with("<svg"), "{name} has no picture");
        let written: Value = serde_json::from_str(&folder.read(&format!("page/{name}.json"))).expect("JSON");
        assert_eq!(written["name"].as_str(), Some(*name));
    }
    match BROWSERS.iter().find(|browser| is_there(browser)) {
        Some(browser) => assert_eq!(shown(browser, &folder), format!("{0} of {0}", names.len())),
        None => println!("no Chromium is installed: whether the pictures load is not checked"),
    }
}

fn is_there(browser: &str) -> bool {
    let asked = Command::new(browser).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// How many pictures of the page a browser has loaded, of how many, in its own words.
fn shown(browser: &str, folder: &Folder) -> String {
    let counted = "<script>onload = () => { const all = [...document.images]; document.title = \
                   all.filter(one => one.complete && one.naturalWidth > 300).length + ' of ' + all.length; }</script></body>";
    folder.write("page/counted.html", folder.read("page/index.html").replace("</body>", counted));
    let at = format!("file://{}", folder.path("page/counted.html").display());
    let flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom"];
    let profile = format!("--user-data-dir={}", folder.path("profile").display());
    let output = Command::new(browser).args(flags).arg(profile).arg(at).output().expect("a browser");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    title.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}

#[test]
fn a_seed_gives_the_same_numbers_again() {
    let folder = Folder::new();
    let ask =
        |seed| document(&folder, &format!("general-slicing --quick --runs 5 --seed {seed}"))["experiments"].clone();
    assert_eq!(ask(5), ask(5));
    assert_ne!(ask(5), ask(6));
    assert!(!folder.has("general-slicing.json"), "nothing is written that was not asked for");
}

#[test]
fn a_real_log_is_measured() {
    let folder = Folder::new();
    let log = format!("--log {} --log-format tsv", example("nasa_19950801.tsv.gz"));
    let report = document(&folder, &format!("real-landmark slicing --quick --runs 5 --seed {SEED} {log}"));
    assert_eq!(names(&report), ["real-landmark", "slicing"]);
    assert!(report.to_string().contains("nasa_19950801"), "it is named");
    folder.write("log", "nonsense\n");
    folder.run("eval real-landmark --log log").fails(2, &["log holds no request"]);
    folder.run("eval real-landmark --log absent").fails(2, &["absent"]);
}

#[test]
fn mistakes_are_told_before_anything_is_measured() {
    let folder = Folder::new();
    folder.run("eval landmrak").fails(2, &["no experiment `landmrak`", "did you mean `landmark`?"]);
    folder.run("eval landmark --runs 1").fails(2, &["--runs"]);
    std::fs::create_dir(folder.path("taken")).expect("a folder");
    folder.write("taken/notes", "mine");
    folder.run("eval landmark --quick --out taken").fails(2, &["taken holds something else", "--out"]);
    folder.write("taken/index.html", "<title>mine</title>");
    folder.run("eval landmark --quick --out taken").fails(2, &["taken holds something else", "--out"]);
    assert_eq!(folder.read("taken/index.html"), "<title>mine</title>");
    let listed = folder.run("eval");
    assert!(listed.code == Some(0) && listed.out.contains("landmark") && listed.out.contains("eval all"), "{listed:?}");
}
