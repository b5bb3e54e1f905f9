//! Extracts the names of metrics that the dashboard, the alerts and the pages use, and the sections of the runbook.
//!
//! Names are extracted exactly as they are written in the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

/// Files that name metrics, all of which must exist.
pub(crate) const FILES: [&str; 5] = [
    "contrib/grafana.json",
    "contrib/alerts.yaml",
    "docs/how-to/filters-over-many-sites.md",
    "docs/how-to/runbook.md",
    "docs/reference/metrics.md",
];

/// Words in these files that begin like a metric but are not metrics.
const NO_METRICS: [&str; 1] = ["firstseen_client"];

pub(crate) fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)
}

pub(crate) fn text(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the metrics that a text names.
pub(crate) fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let is_metric = |word: &&str| word.starts_with("firstseen_") || word.starts_with("process_");
    let is_known = |word: &&str| !NO_METRICS.contains(word) && !word.ends_with('_');
    words.filter(is_metric).filter(is_known).map(str::to_owned).collect()
}

/// Alert rule, with its name and its annotations.
pub(crate) struct Alert {
    pub(crate) name: String,
    pub(crate) severity: String,
    pub(crate) waits: String,
    pub(crate) summary: String,
    pub(crate) runbook: String,
}

/// Returns all alert rules.
pub(crate) fn alerts() -> Vec<Alert> {
    let files = YamlLoader::load_from_str(&text("contrib/alerts.yaml")).expect("YAML");
    let list = |yaml: &Yaml, key: &str| yaml[key].as_vec().cloned().unwrap_or_else(|| panic!("no {key}"));
    let word = |yaml: &Yaml, key: &str| yaml[key].as_str().unwrap_or_default().to_owned();
    let rules = list(&files[0], "groups").into_iter().flat_map(|group| list(&group, "rules"));
    let alert = |rule: Yaml| Alert {
        name: word(&rule, "alert"),
        severity: word(&rule["labels"], "severity"),
        waits: word(&rule, "for"),
        summary: word(&rule["annotations"], "summary"),
        runbook: word(&rule["annotations"], "runbook_url"),
    };
    rules.map(alert).collect()
}

#[test]
fn every_alert_has_a_section_and_every_section_an_alert() {
    let page = text("docs/how-to/runbook.md");
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    let titles: BTreeSet<&str> = sections.iter().filter_map(|section| section.lines().next()).collect();
    assert_eq!(names, titles);
    assert_eq!(names.len(), alerts.len(), "each name once");
    for part in ["**Meaning.**", "**Check.**", "**Command.**"] {
        let lacks = sections.iter().find(|section| !section.contains(part));
        assert_eq!(lacks, None, "{part}");
    }
    for Alert { name, severity, waits, summary, runbook } in &alerts {
        assert_eq!(*runbook, format!("docs/how-to/runbook.md#{}", name.to_ascii_lowercase()));
        assert!(["warning", "critical"].contains(&severity.as_str()), "{name}: {severity}");
        assert!(!waits.is_empty() && summary.ends_with('.'), "{name}: {waits}, {summary}");
    }
    let tested = text("contrib/alerts_test.yaml");
    let untested = names.iter().find(|name| !tested.contains(&format!("{name}\"}}")));
    assert_eq!(untested, None, "contrib/alerts_test.yaml lets every alert fire");
    let runs = fs::read_dir(path("tests/tests/metrics")).expect("the folder of these tests");
    let runs = runs.map(|run| run.expect("a file").path());
    let runs = runs.filter(|run| run.file_name().is_some_and(|name| name.to_string_lossy().starts_with("fires")));
    let runs: String = runs.map(|run| fs::read_to_string(run).expect("a text")).collect();
    let uncaused = names.iter().find(|name| !runs.contains(&format!("\"{name}\"")));
    assert_eq!(uncaused, None, "a run causes every alert");
}

#[test]
fn every_panel_asks_the_data_source_that_is_chosen() {
    let dashboard: Value = serde_json::from_str(&text("contrib/grafana.json")).expect("JSON");
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    assert!(variables.iter().any(|variable| variable["type"] == "datasource" && variable["name"] == "datasource"));
    let panels = dashboard["panels"].as_array().expect("panels");
    let rows: Vec<&str> =
        panels.iter().filter(|panel| panel["type"] == "row").filter_map(|row| row["title"].as_str()).collect();
    assert_eq!(rows, ["Overview", "Filters", "Nodes", "Redis endpoint", "HTTP endpoint", "Claims"]);
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each number once");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let targets = panel["targets"].as_array().expect("targets");
        let is_asked = |target: &Value| target["expr"].as_str().is_some_and(|asked| !metrics(asked).is_empty());
        assert!(!targets.is_empty() && targets.iter().all(is_asked), "{panel}");
    }
}
