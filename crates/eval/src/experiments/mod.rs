//! The table of experiments.
//!
//! The names of experiments are unique.
//!
//! This module does not depend on pictures or on how runs are distributed over threads.

mod balance;
mod burst;
mod checking;
mod climbing;
mod cuckoo;
mod cuts;
mod data;
mod decay;
mod equal_timers;
mod faults;
mod general_slicing;
mod growth;
mod jumping;
mod landmark;
mod logged;
mod memory;
mod optimum_k;
mod pipelining;
mod real_jumping;
mod real_landmark;
mod slicing;
mod sliding;
mod stable;
mod substrings;
mod timer_groups;
mod timers;
mod tree;

use crate::document::{Parameter, Source};
use crate::experiment::Experiment;

/// All experiments, in the order of the page.
pub const EXPERIMENTS: &[Experiment] = &[
    landmark::EXPERIMENT,
    real_landmark::EXPERIMENT,
    jumping::EXPERIMENT,
    real_jumping::EXPERIMENT,
    optimum_k::EXPERIMENT,
    substrings::EXPERIMENT,
    data::EXPERIMENT,
    slicing::EXPERIMENT,
    general_slicing::EXPERIMENT,
    pipelining::EXPERIMENT,
    timers::EXPERIMENT,
    faults::EXPERIMENT,
    sliding::EXPERIMENT,
    equal_timers::EXPERIMENT,
    growth::EXPERIMENT,
    tree::EXPERIMENT,
    stable::EXPERIMENT,
    decay::EXPERIMENT,
    cuckoo::EXPERIMENT,
    memory::EXPERIMENT,
];

/// Returns the experiment with the given name.
pub fn named(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

/// Numbers of hash functions that Metwally et al. 2005, section 6, use.
const M05_HASHES: std::ops::RangeInclusive<u32> = 4..=10;

/// Returns `2^-k` by the number of hash functions, which is the rate of a full filter in Metwally et al. 2005.
fn halved_by_hashes() -> impl Iterator<Item = (f64, f64)> {
    M05_HASHES.map(|hashes| (f64::from(hashes), 0.5f64.powi(hashes as i32)))
}

fn m05(section: &str, figure: &str) -> Source {
    let paper = "Metwally, Agrawal, El Abbadi: Duplicate Detection in Click Streams. WWW 2005 (M05)";
    Source { paper: paper.to_owned(), section: section.to_owned(), figure: figure.to_owned() }
}

fn k11(section: &str, figure: &str) -> Source {
    let paper = "Koloniari, Ntarmos, Souravlias, Pitoura: One is Enough: Distributed Filtering for Duplicate Elimination. \
                 CIKM 2011 (K11)";
    Source { paper: paper.to_owned(), section: section.to_owned(), figure: figure.to_owned() }
}

fn s24(section: &str, figure: &str) -> Source {
    let paper =
        "Slides that measure the Stable Bloom filter of Deng and Rafiei (2006) with URLs of Common Crawl. 2024 (S24)";
    Source { paper: paper.to_owned(), section: section.to_owned(), figure: figure.to_owned() }
}

fn parameter(name: &str, value: impl Into<serde_json::Value>) -> Parameter {
    Parameter { name: name.to_owned(), value: value.into() }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::OnceLock;

    use super::*;
    use crate::Document;
    use crate::experiment::{Run, Scale};
    use crate::stats::Judged;

    fn tiny(experiment: &Experiment, seed: u64) -> Document {
        experiment.run(&Run::alone(seed, 4, Scale::Tiny)).unwrap()
    }

    /// Returns the results of the experiment with the given name. An experiment is measured once for all tests that use
    /// its results.
    pub(super) fn found(name: &str) -> &'static Document {
        static FOUND: [OnceLock<Document>; EXPERIMENTS.len()] = [const { OnceLock::new() }; EXPERIMENTS.len()];
        let place = EXPERIMENTS.iter().position(|experiment| experiment.name == name).unwrap();
        FOUND[place].get_or_init(|| tiny(&EXPERIMENTS[place], 1))
    }

    #[test]
    fn every_experiment_is_found_by_its_name_and_no_other() {
        let names: HashSet<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
        assert!(named("landmark").is_some_and(|experiment| experiment.name == "landmark") && named("none").is_none());
    }

    #[test]
    fn the_kept_results_are_of_all_experiments_and_none_is_out() {
        let kept = include_str!("../../../../docs/reference/results/README.md");
        for Experiment { name, title, .. } in EXPERIMENTS {
            let row = format!("\n| `{name}` | {title} | ");
            assert!(kept.contains(&row) && kept.contains(&format!("\n## {name}: {title}\n")), "{name}: make them anew");
        }
        assert!(!kept.contains("**out**") && kept.contains("| a key of Redis"));
        let mut tables = kept.split("\n|---|---|---|---|---|---|---|").skip(1);
        assert!(tables.all(|table| table.starts_with("\n| ")), "a table without a row");
    }

    /// Checks that every experiment is in band and has a picture.
    fn are_in_band(experiments: &[Experiment]) {
        for experiment in experiments {
            let document = found(experiment.name);
            assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
            assert!(document.count(Judged::In) > 0, "{} judges nothing", experiment.name);
            let json = serde_json::to_string(document).unwrap();
            assert_eq!(serde_json::from_str::<Document>(&json).unwrap(), *document, "every number is finite");
            let picture = firstseen_picture::svg(&document.panels).unwrap();
            assert!(!picture.contains("NaN"), "{}", experiment.name);
        }
    }

    #[test]
    fn the_first_half_of_all_experiments_is_in_band() {
        are_in_band(&EXPERIMENTS[..EXPERIMENTS.len() / 2]);
    }

    #[test]
    fn the_second_half_of_all_experiments_is_in_band() {
        are_in_band(&EXPERIMENTS[EXPERIMENTS.len() / 2..]);
    }

    #[test]
    fn the_same_seed_gives_the_same_document_and_another_seed_another_one() {
        let [first, again, other] = [5, 5, 6].map(|seed| serde_json::to_string(&tiny(&EXPERIMENTS[0], seed)).unwrap());
        assert_eq!(first, again);
        assert_ne!(first, other);
    }

    #[test]
    fn a_formula_that_is_wrong_is_flagged() {
        // This is the mistake of Metwally et al. 2005: the rate of a full filter as the expected value for a whole
        // stream.
        let mut findings = (landmark::EXPERIMENT.measure)(&Run::alone(1, 4, Scale::Tiny)).unwrap();
        for reading in
            findings.sheets.iter_mut().flat_map(|sheet| &mut sheet.series).flat_map(|series| &mut series.points)
        {
            reading.expected = Some(0.5f64.powf(reading.x));
        }
        let panels = crate::document::judged(findings.sheets);
        let points = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
        for point in points.filter(|point| point.x <= 8.0) {
            assert_eq!(point.verdict, Judged::Out, "{point:?}");
        }
    }
}
