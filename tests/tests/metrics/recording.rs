//! Records samples of a run in the form that promtool reads, and evaluates alert rules on them.
//!
//! - A gauge keeps its scraped value until the next scrape. A counter increases in equal steps until the next scrape. A
//!   series that is missing in a scrape is absent from then on.
//! - The test assigns a minute of the recording to each scrape. These are not minutes of the run, because alerts wait
//!   for longer than a test can.
//! - The clock of promtool begins at 0, so dates are relative to the first scrape.
//!
//! This module does not depend on how nodes are started.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use super::exposition::{Labels, Samples};
use super::scrape::scrape;
use crate::run::Folder;

/// Scrapes of several nodes, with the minutes that they stand for.
pub(crate) struct Recording {
    nodes: Vec<String>,
    scrapes: Vec<(u64, Samples)>,
}

impl Recording {
    /// Creates an empty recording of the nodes with these addresses.
    pub(crate) fn of(nodes: &[String]) -> Self {
        Self { nodes: nodes.to_vec(), scrapes: Vec::new() }
    }

    /// Scrapes all nodes, and records the samples for `minute`.
    pub(crate) fn scrape(&mut self, minute: u64) {
        let mut all = Samples::new();
        for (number, address) in self.nodes.iter().enumerate() {
            let here = scrape(address);
            let labels = |labels: Labels| {
                let own = [("instance", format!("node-{number}")), ("job", "firstseen".to_owned())];
                labels.into_iter().chain(own.map(|(name, value)| (name.to_owned(), value))).collect::<Labels>()
            };
            let is_up = if here.is_some() { 1.0 } else { 0.0 };
            all.insert(("up".to_owned(), labels(Labels::new())), is_up);
            let begun_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("a date").as_secs_f64();
            all.extend(here.unwrap_or_default().into_iter().map(|((name, of), value)| {
                let value = if name.ends_with("_timestamp_seconds") { value - begun_s } else { value };
                ((name, labels(of)), value)
            }));
        }
        self.scrapes.push((minute, all));
    }

    /// Returns the series, each with its values minute by minute.
    fn series(&self) -> String {
        let names: BTreeSet<_> = self.scrapes.iter().flat_map(|(_, samples)| samples.keys()).collect();
        let mut text = String::new();
        for key @ (name, labels) in names {
            let is_counter = ["_total", "_bucket", "_count", "_sum"].iter().any(|ending| name.ends_with(ending));
            let mut values = Vec::new();
            for (at, (minute, samples)) in self.scrapes.iter().enumerate() {
                let (value, next) = (samples.get(key), self.scrapes.get(at + 1));
                let minutes = next.map_or(1, |(next, _)| next - minute);
                for passed in 0..minutes {
                    let step = passed as f64 / minutes as f64;
                    let later = next.and_then(|(_, samples)| samples.get(key)).filter(|_| is_counter);
                    values.push(match (value, later) {
                        (None, _) => "_".to_owned(),
                        (Some(value), Some(later)) if later >= value => (value + (later - value) * step).to_string(),
                        (Some(value), _) => value.to_string(),
                    });
                }
            }
            let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
            let series = format!("{name}{{{}}}", labels.join(","));
            let _ = writeln!(text, "  - series: '{series}'\n    values: '{}'", values.join(" "));
        }
        text
    }

    /// Checks with promtool which alerts of the file `rules` fire at each of the given minutes of the recording. The
    /// alert about the disk space of the machine is ignored, because the test has no influence on it.
    ///
    /// # Panics
    /// Panics if other alerts fire.
    pub(crate) fn assert_alerts(&self, rules: &str, expected: &[(u64, &[&str])]) {
        // The disk belongs to the machine, so the run does not determine how full it is.
        self.check(rules, "alertname!=\"FirstseenDiskNearlyFull\"", expected);
    }

    /// Checks one alert of the file `rules`, whatever other alerts do: a minute at which it is silent, and a minute at
    /// which it fires.
    ///
    /// # Panics
    /// Panics if the alert behaves differently.
    pub(crate) fn assert_only_alert(&self, rules: &str, alert: &str, silent: u64, firing: u64) {
        self.check(rules, &format!("alertname={alert:?}"), &[(silent, &[]), (firing, &[alert])]);
    }

    fn check(&self, rules: &str, meant: &str, expected: &[(u64, &[&str])]) {
        let folder = Folder::new();
        let mut test =
            format!("rule_files: [{rules:?}]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n");
        test += &self.series();
        test += "  promql_expr_test:\n";
        for (minute, alerts) in expected {
            let expression = format!("group by (alertname) (ALERTS{{alertstate=\"firing\",{meant}}})");
            let alerts: BTreeSet<_> = alerts.iter().collect();
            let samples = if alerts.is_empty() { " []" } else { "" };
            let _ = writeln!(test, "  - expr: '{expression}'\n    eval_time: {minute}m\n    exp_samples:{samples}");
            for alert in alerts {
                let _ = writeln!(test, "    - labels: '{{alertname=\"{alert}\"}}'\n      value: 1");
            }
        }
        folder.write("recorded.yaml", &test);
        let ran =
            Command::new("promtool").args(["test", "rules", "recorded.yaml"]).current_dir(folder.path("")).output();
        let ran = ran.expect("promtool");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{said}");
    }
}

/// Returns whether promtool is installed. Prints a notice if it is not.
pub(crate) fn has_promtool() -> bool {
    let is_there = Command::new("promtool").arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !is_there {
        eprintln!("promtool is not installed: alerts are not evaluated (Debian: apt install prometheus)");
    }
    is_there
}
