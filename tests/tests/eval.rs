//! Tests of `firstseen-lab eval`, which writes numbers, pictures and a page. The test also checks whether a browser
//! displays the pictures.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::run::{Folder, example, firstseen_lab};

/// Seed of all random numbers in CI.
const SEED: u64 = 1;
/// Marker in the head of a page that a run has written.
const GENERATOR: &str = "<meta name=\"generator\" content=\"firstseen eval\">";
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn document(folder: &Folder, arguments: &str) -> Value {
    let ran = folder.run_lab(&format!("eval {arguments} --json"));
    assert_eq!(ran.code, Some(0), "{}{}", ran.err, ran.out);
    serde_json::from_str(&ran.out).expect("one JSON document")
}

fn names(report: &Value) -> Vec<&str> {
    let experiments = report["experiments"].as_array().expect("experiments");
    experiments.iter().filter_map(|experiment| experiment["name"].as_str()).collect()
}

#[test]
#[ignore = "minutes"]
fn every_point_is_where_its_formula_puts_it_and_on_the_page() {
    let folder = Folder::new();
    let report = document(&folder, &format!("all --quick --seed {SEED} --out page"));
    let names = names(&report);
    assert!(names.len() >= 19, "{names:?}");
    println!("{} experiments in {} s: {names:?}", names.len(), report["seconds"]);
    let page = folder.read("page/index.html");
    assert!(page.contains("judged points are in") && folder.read("page/results.md").contains("| in |"));
    for name in &names {
        assert!(page.contains(&format!("src=\"{name}.svg\"")), "{name} is not on the page");
        assert!(folder.read(&format!("page/{name}.svg")).starts_with("<svg"), "{name} has no picture");
        let written: Value = serde_json::from_str(&folder.read(&format!("page/{name}.json"))).expect("JSON");
        assert_eq!(written["name"].as_str(), Some(*name));
    }
    keep(&folder);
    match BROWSERS.iter().find(|browser| is_there(browser)) {
        Some(browser) => assert_eq!(shown(browser, &folder), format!("{0} of {0}", names.len())),
        None => println!("no Chromium is installed: whether the pictures load is not checked"),
    }
}

/// Keeps the results in a folder, so that they can be compared after a change of the filters.
fn keep(folder: &Folder) {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures");
    std::fs::create_dir_all(&kept).expect("a folder");
    for entry in std::fs::read_dir(folder.path("page")).expect("the page").flatten() {
        std::fs::copy(entry.path(), kept.join(entry.file_name())).expect("a copy");
    }
    println!("the numbers are kept in {}", kept.display());
}

fn is_there(browser: &str) -> bool {
    let asked = Command::new(browser).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Returns how many pictures of the page a browser has loaded, and the number of all pictures, as the browser prints
/// them.
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
#[ignore = "minutes"]
fn a_seed_gives_the_same_numbers_again() {
    let folder = Folder::new();
    let ask = |seed| document(&folder, &format!("general-slicing --quick --seed {seed}"))["experiments"].clone();
    let first = ask(5);
    assert_eq!(first, ask(5));
    assert_ne!(first, ask(6));
    assert!(!folder.has("general-slicing.json"), "nothing is written that was not asked for");
}

/// Checks each point of every division of the log, by page and by client. Generating the streams takes most of the
/// time.
#[test]
#[ignore = "minutes"]
fn a_real_log_loads_slices_as_the_formulas_say() {
    let log = format!("--log {} --log-format tsv", example("nasa_19950801.tsv.gz"));
    let report = document(&Folder::new(), &format!("real-landmark slicing --quick --seed {SEED} {log}"));
    assert_eq!(names(&report), ["real-landmark", "slicing"]);
    assert!(
        report["experiments"][1].to_string().contains("fairness, clients of nasa_19950801"),
        "who asked is an event too"
    );
}

#[test]
fn a_real_log_is_measured() {
    let folder = Folder::new();
    let log = format!("--log {} --log-format tsv", example("nasa_19950801.tsv.gz"));
    let report = document(&folder, &format!("real-landmark --quick --seed {SEED} {log}"));
    assert_eq!(names(&report), ["real-landmark"]);
    assert!(report.to_string().contains("nasa_19950801"), "it is named");
    folder.write("log", "nonsense\n");
    folder.run_lab("eval real-landmark --log log").fails(2, &["log holds no request"]);
    folder.write("small", "host,url,time\nhost,/page,1700000000\n");
    let small = folder.run_lab("eval landmark slicing --quick --out page --log small --log-format csv");
    small.fails(2, &["log small has 1 distinct events", "slicing needs at least 1000"]);
    assert!(!folder.has("page"), "before anything is measured or written");
    folder.run_lab("eval real-landmark --log absent").fails(2, &["absent"]);
    folder.run_lab("eval real-landmark --log .").fails(2, &[". is a folder"]);
}

#[test]
fn a_log_that_no_experiment_reads_is_refused_and_readers_of_logs_are_named() {
    let folder = Folder::new();
    let log = format!("--log {} --log-format tsv", example("nasa_19950801.tsv.gz"));
    folder.run_lab(&format!("eval landmark --quick {log}")).fails(2, &["none of these", "--log", "real-landmark"]);
    let ran = folder.run_lab(&format!("eval general-slicing real-landmark --quick --seed {SEED} {log}"));
    assert!(ran.err.contains("logs are read by real-landmark\n"), "{}", ran.err);
}

#[test]
fn logs_are_read_in_each_format() {
    let folder = Folder::new();
    let (mut csv, mut jsonl) = ("host,url,time\n".to_owned(), String::new());
    for request in 0..2_000 {
        let (host, url, time) = (request % 7, request * 2 / 3, 1_700_000_000 + request);
        csv += &format!("host{host},/page{url},{time}\n");
        jsonl += &format!("{{\"host\":\"host{host}\",\"url\":\"/page{url}\",\"time\":{time}}}\n");
    }
    folder.write("log.tsv", csv.replace(',', "\t"));
    folder.write("log.csv", csv);
    folder.write("log.jsonl", jsonl);
    let counts = ["tsv", "csv", "jsonl"].map(|format| {
        let log = format!("--log log.{format} --log-format {format}");
        let report = document(&folder, &format!("real-landmark --quick --seed {SEED} {log}"));
        report["experiments"][0]["panels"][0]["series"].clone()
    });
    assert!(!counts[0].is_null() && counts.iter().all(|other| *other == counts[0]), "{counts:?}");
}

#[test]
fn a_folder_holds_one_run_and_keeps_files_of_others() {
    let folder = Folder::new();
    let run = |names: &str| {
        folder.run_lab(&format!("eval {names} --quick --seed {SEED} --out page")).ok();
    };
    run("timers general-slicing");
    folder.write("page/notes", "mine");
    folder.write("page/timers.json.part", "{");
    run("general-slicing");
    for (name, is_there) in [
        ("timers.json", false),
        ("timers.svg", false),
        ("timers.json.part", false),
        ("general-slicing.json", true),
        ("general-slicing.svg", true),
        ("index.html", true),
        ("results.md", true),
        ("notes", true),
    ] {
        assert_eq!(folder.has(&format!("page/{name}")), is_there, "{name}");
    }
}

/// Starts a run of all experiments, and waits until the first one has ended. Returns the run and its further messages.
fn begun(folder: &Folder) -> (Child, BufReader<ChildStderr>) {
    begun_with(folder, "landmark", &["all", "--log", "it's a log", "--log-format", "csv"])
}

/// Starts a run, and waits until its experiment `first` has ended.
fn begun_with(folder: &Folder, first: &str, arguments: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut command = firstseen_lab();
    let mut child = command
        .current_dir(folder.path(""))
        .args(["eval", "--quick", "--json", "--out", "page"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary");
    let mut messages = BufReader::new(child.stderr.take().expect("a pipe"));
    let ended = format!("{first}: ");
    let line = messages.by_ref().lines().map_while(Result::ok).find(|line| line.starts_with(&ended));
    assert!(line.is_some(), "the first experiment ends");
    (child, messages)
}

fn with_an_earlier_run() -> Folder {
    let folder = Folder::new();
    let log: String = (0..3_000).map(|request| format!("host,/page{request},{}\n", 1_700_000_000 + request)).collect();
    folder.write("it's a log", format!("host,url,time\n{log}"));
    folder.run_lab(&format!("eval general-slicing --quick --seed {SEED} --out page")).ok();
    assert!(folder.has("page/results.md") && folder.has("page/general-slicing.svg"));
    folder
}

#[test]
#[ignore = "minutes"]
fn a_run_that_is_killed_leaves_no_table_of_an_earlier_one() {
    let folder = with_an_earlier_run();
    let (mut child, _told) = begun(&folder);
    child.kill().and_then(|()| child.wait()).expect("a run that ends");
    assert!(!folder.has("page/results.md") && folder.read("page/index.html").contains("have not ended"));
}

#[test]
fn an_interrupted_run_prints_and_writes_the_experiments_that_have_ended() {
    let folder = with_an_earlier_run();
    let (child, _told) = begun(&folder);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("a signal");
    let ended = child.wait_with_output().expect("a run that ends");
    assert_eq!(ended.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&ended.stdout).expect("one JSON document");
    let missing = report["not_ended"].as_array().expect("those that have not ended");
    let names = names(&report);
    assert!(names.contains(&"landmark") && missing.iter().any(|name| name == "memory"), "{names:?} {missing:?}");
    let page = folder.read("page/index.html");
    assert!(
        page.contains("Not ended: ")
            && page.contains("memory</p>")
            && page.contains("20 experiments did not end")
            && folder.has("page/landmark.svg")
    );
    let quoted = "--log &quot;it&#39;s a log&quot; --log-format csv";
    assert!(page.contains(quoted), "the command can be given to a shell again: {page}");
    assert!(folder.read("page/results.md").contains("## landmark") && !folder.has("page/general-slicing.svg"));
}

#[test]
#[ignore = "minutes"]
fn results_are_printed_though_a_file_cannot_be_written() {
    let folder = Folder::new();
    let (child, mut messages) = begun_with(&folder, "timers", &["timers", "memory"]);
    // The folder is created only now, because a run begins by removing existing files.
    std::fs::create_dir_all(folder.path("page/memory.json.part")).expect("a folder where a file should be");
    let mut errors = String::new();
    messages.read_to_string(&mut errors).expect("text");
    let ended = child.wait_with_output().expect("a run that ends");
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    assert!(errors.contains("cannot write page/memory.json"), "{errors}");
    let report: Value = serde_json::from_slice(&ended.stdout).expect("one JSON document");
    assert_eq!(names(&report), ["timers", "memory"]);
    assert!(folder.read("page/index.html").contains("judged points are in"));
}

#[test]
fn a_run_ends_as_ever_where_its_messages_have_no_reader() {
    let folder = Folder::new();
    folder.shell_with_lab("firstseen-lab eval general-slicing --quick --seed 1 --out page 2> /dev/full").ok();
    assert!(folder.read("page/index.html").contains("judged points are in"));
    let ran = folder.shell_with_lab("firstseen-lab eval landmrak 2> /dev/full");
    assert_eq!(ran.code, Some(2));
}

#[test]
fn two_runs_do_not_write_into_one_folder() {
    let folder = Folder::new();
    let (mut child, _told) = begun_with(&folder, "timers", &["timers", "memory"]);
    folder.run_lab("eval landmark --quick --out page").fails(2, &["another run writes into page", "--out"]);
    assert!(folder.has("page/timers.svg"), "what the other run has written is left alone");
    child.kill().and_then(|()| child.wait()).expect("a run that ends");
}

#[test]
fn a_folder_that_cannot_be_written_into_has_one_error() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("page/index.html.part")).expect("a folder where a file should be");
    folder.write("page/index.html", format!("<!DOCTYPE html>{GENERATOR}"));
    let ran = folder.run_lab("eval general-slicing --quick --out page").fails(2, &["cannot write into page:", "--out"]);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(!ran.err.contains(".part"), "{}", ran.err);
}

#[test]
fn mistakes_are_errors_before_anything_is_measured() {
    let folder = Folder::new();
    folder.run_lab("eval landmrak").fails(2, &["no experiment `landmrak`", "did you mean `landmark`?"]);
    folder.run_lab("eval real-jumpin").fails(2, &["did you mean `real-jumping`?"]);
    folder.run_lab("eval LANDMARK").fails(2, &["did you mean `landmark`?"]);
    folder.run_lab("eval landmark --runs 19").fails(2, &["--runs"]);
    folder.run_lab("eval landmark --seed 9007199254740992").fails(2, &["--seed"]);
    folder.run_lab("eval data --log file --log-format lines").fails(2, &["choose clf, csv, tsv, jsonl"]);
    folder.write("empty", "");
    folder.run_lab("eval data --quick --log empty").fails(2, &["empty holds no record"]);
    folder.write("file", "mine");
    folder.run_lab("eval landmark --quick --out file").fails(2, &["cannot make the folder file", "--out"]);
    std::fs::create_dir(folder.path("taken")).expect("a folder");
    folder.write("taken/notes", "mine");
    folder.run_lab("eval landmark --quick --out taken").fails(2, &["taken holds something else", "--out"]);
    folder.write("taken/index.html", "<title>firstseen in production</title>");
    folder.run_lab("eval landmark --quick --out taken").fails(2, &["taken holds something else", "--out"]);
    assert_eq!(folder.read("taken/index.html"), "<title>firstseen in production</title>");
    let listed = folder.run_lab("eval --json").ok();
    let list: Vec<Value> = serde_json::from_str(&listed.out).expect("a list");
    let of_landmark = list.iter().find(|one| one["name"] == "landmark").expect("landmark");
    assert!(of_landmark["title"].as_str().is_some_and(|title| title.contains("andmark")), "{of_landmark}");
    let listed = folder.run_lab("eval");
    assert!(listed.code == Some(0) && listed.out.contains("landmark") && listed.out.contains("eval all"), "{listed:?}");
}
