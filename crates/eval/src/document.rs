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

impl Reading {
    /// A reading that is judged by an expected value.
    pub(crate) fn new(x: impl Into<f64>, estimate: Estimate, expected: f64) -> Self {
        Self { x: x.into(), estimate, expected: Some(expected), printed: None }
    }

    /// A reading without an expected value.
    pub(crate) fn unjudged(x: impl Into<f64>, estimate: Estimate) -> Self {
        Self { x: x.into(), estimate, expected: None, printed: None }
    }

    /// The same with the value in the paper, if it has one.
    pub(crate) fn printed(self, printed: Option<f64>) -> Self {
        Self { printed, ..self }
    }
}

impl Readings {
    /// A series with a formula.
    pub(crate) fn new(
        name: impl Into<String>,
        formula: impl Into<String>,
        points: impl IntoIterator<Item = Reading>,
    ) -> Self {
        Self { name: name.into(), formula: Some(formula.into()), points: points.into_iter().collect() }
    }

    /// A series without a formula.
    pub(crate) fn unjudged(name: impl Into<String>, points: impl IntoIterator<Item = Reading>) -> Self {
        Self { name: name.into(), formula: None, points: points.into_iter().collect() }
    }
}

impl Sheet {
    /// A panel without lines.
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis, series: impl IntoIterator<Item = Readings>) -> Self {
        Self { title: title.into(), x, y, series: series.into_iter().collect(), lines: Vec::new() }
    }

    /// The same with a further line.
    pub(crate) fn with_line(mut self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.lines.push(Line { name: name.into(), points: points.into_iter().collect() });
        self
    }

    /// The same with these lines.
    pub(crate) fn with_lines(self, lines: Vec<Line>) -> Self {
        Self { lines, ..self }
    }
}

/// Judges every reading that has an expected value; the bands are those of so many points.
pub fn judged(sheets: Vec<Sheet>) -> Vec<Panel> {
    let readings = sheets.iter().flat_map(|sheet| &sheet.series).flat_map(|series| &series.points);
    let judged = readings.filter(|reading| reading.expected.is_some()).count();
    let panels = sheets.into_iter().map(|sheet| Panel {
        title: sheet.title,
        x: sheet.x,
        y: sheet.y,
        series: sheet.series.into_iter().map(|series| series.judged(judged)).collect(),
        lines: sheet.lines,
    });
    panels.collect()
}

impl Readings {
    /// The series with its points judged, where so many points are.
    fn judged(self, judged: usize) -> Series {
        let points = self.points.into_iter().map(|reading| reading.judged(judged)).collect();
        Series { name: self.name, formula: self.formula, points }
    }
}

impl Reading {
    fn judged(self, judged: usize) -> Point {
        let (low, high) = self.estimate.interval(SHOWN);
        Point {
            x: self.x,
            mean: self.estimate.mean,
            low,
            high,
            samples: self.estimate.samples,
            expected: self.expected,
            printed: self.printed,
            verdict: match self.expected {
                Some(expected) => self.estimate.judge(expected, judged),
                None => Judged::NotJudged,
            },
        }
    }
}
