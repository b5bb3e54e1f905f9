//! The results of one experiment: the JSON document of `firstseen eval`.
//!
//! Promises: every number of the picture is in the document, and every point that has an expected value is judged; the
//! more points a document has, the wider their bands are. Must not know: how points were measured, pictures.

use serde::{Deserialize, Serialize};

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

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity on the axis, with its unit.
    pub label: String,
    /// Whether it is logarithmic.
    pub is_log: bool,
}

impl Axis {
    /// Equal distances for equal differences.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: false }
    }

    /// Equal distances for equal ratios.
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: true }
    }
}

/// One place of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Place on the axis.
    pub x: f64,
    /// Measured, mean over seeds.
    pub mean: f64,
    /// Lower end of the 95 % interval of the mean.
    pub low: f64,
    /// Upper end, likewise.
    pub high: f64,
    /// Events, or other things that were counted, over all seeds together.
    pub samples: u64,
    /// The value by the formula of the series.
    pub expected: Option<f64>,
    /// The value in the paper.
    pub printed: Option<f64>,
    /// Whether the measured agrees with the expected.
    pub verdict: Judged,
}

/// Points that are measured in one way, with one formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What is measured, in a few words: the legend.
    pub name: String,
    /// The formula of the expected values, with its source; none where there is none.
    pub formula: Option<String>,
    /// In the order of x.
    pub points: Vec<Point>,
}

/// A line without measurements: another formula, a bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// What it shows: the legend.
    pub name: String,
    /// x and y, in the order of x.
    pub points: Vec<(f64, f64)>,
}

/// One pair of axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// What was measured.
    pub series: Vec<Series>,
    /// Lines without measurements.
    pub lines: Vec<Line>,
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
