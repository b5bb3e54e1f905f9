//! The results of one experiment: the JSON document of `firstseen-lab eval`.
//!
//! Promises: every number of the picture is in the document, and every point that has an expected value is judged; the
//! more points a document has, the wider their bands are. Must not know: how points were measured, pictures.

use serde::{Deserialize, Serialize};

pub use firstseen_picture::{Axis, Line, Panel, Point, Series};

use crate::stats::{Estimate, Judged, SHOWN};

/// The place in a paper of the figure that is reproduced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Authors, title, venue and year.
    pub paper: String,
    /// Its section.
    pub section: String,
    /// Its figure or table.
    pub figure: String,
}

impl Source {
    /// The reference in one line.
    pub fn words(&self) -> String {
        let parts = [&self.paper, &self.section, &self.figure].map(String::as_str);
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// A number that an experiment was run with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name, with its unit where it has one.
    pub name: String,
    /// Its value.
    pub value: serde_json::Value,
}

/// One experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The name by which the command line asks for it.
    pub name: String,
    /// Its title, in a few words.
    pub title: String,
    /// What it shows, in one paragraph.
    pub paragraph: String,
    /// The figure that it reproduces.
    pub source: Source,
    /// The parameters of its runs.
    pub parameters: Vec<Parameter>,
    /// Seeds of the runs; every point is measured with each of them.
    pub seeds: Vec<u64>,
    /// The results.
    pub panels: Vec<Panel>,
    /// Where and why the paper differs.
    pub notes: Vec<String>,
}

impl Document {
    /// All measured points.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points)
    }

    /// Points that are out, with the titles of their panels and the names of their series.
    pub fn out(&self) -> impl Iterator<Item = (&str, &str, &Point)> {
        let series =
            self.panels.iter().flat_map(|panel| panel.series.iter().map(|series| (panel.title.as_str(), series)));
        let points = series
            .flat_map(|(panel, series)| series.points.iter().map(move |point| (panel, series.name.as_str(), point)));
        points.filter(|(_, _, point)| point.verdict == Judged::Out)
    }

    /// How many points are judged so.
    pub fn count(&self, judged: Judged) -> usize {
        self.points().filter(|point| point.verdict == judged).count()
    }
}

/// A point that is not judged yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Place on the axis.
    pub x: f64,
    /// The measured value.
    pub estimate: Estimate,
    /// The value by the formula.
    pub expected: Option<f64>,
    /// The value in the paper.
    pub printed: Option<f64>,
}

/// A series that is not judged yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Readings {
    /// As in [`Series`].
    pub name: String,
    /// As in [`Series`].
    pub formula: Option<String>,
    /// In the order of x.
    pub points: Vec<Reading>,
}

/// A panel that is not judged yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// As in [`Panel`].
    pub title: String,
    /// As in [`Panel`].
    pub x: Axis,
    /// As in [`Panel`].
    pub y: Axis,
    /// As in [`Panel`].
    pub series: Vec<Readings>,
    /// As in [`Panel`].
    pub lines: Vec<Line>,
}

/// Judges every reading that has an expected value; the bands are those of so many points.
pub fn judged(sheets: Vec<Sheet>) -> Vec<Panel> {
    let readings = sheets.iter().flat_map(|sheet| &sheet.series).flat_map(|series| &series.points);
    let judged = readings.filter(|reading| reading.expected.is_some()).count();
    let point = |reading: Reading| {
        let (low, high) = reading.estimate.interval(SHOWN);
        Point {
            x: reading.x,
            mean: reading.estimate.mean,
            low,
            high,
            samples: reading.estimate.samples,
            expected: reading.expected,
            printed: reading.printed,
            verdict: match reading.expected {
                Some(expected) => reading.estimate.judge(expected, judged),
                None => Judged::NotJudged,
            },
        }
    };
    let series = |series: Readings| Series {
        name: series.name,
        formula: series.formula,
        points: series.points.into_iter().map(point).collect(),
    };
    let panel = |sheet: Sheet| Panel {
        title: sheet.title,
        x: sheet.x,
        y: sheet.y,
        series: sheet.series.into_iter().map(series).collect(),
        lines: sheet.lines,
    };
    sheets.into_iter().map(panel).collect()
}
