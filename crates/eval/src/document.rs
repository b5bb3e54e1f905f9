//! Results of one experiment, as the JSON document of `firstseen-lab eval`.
//!
//! A document contains every number that its picture shows. If a measured point has an expected value, the point must
//! lie within a band around that value. Even if all formulas are correct, a few points would lie outside narrow bands
//! by chance, and a long document has more points that could do so. The bands are therefore wider in a document with
//! more points.
//!
//! This module does not depend on pictures or on how points were measured.

use serde::{Deserialize, Serialize};

pub use firstseen_picture::{Axis, Line, Panel, Point, Series};

use crate::stats::{Estimate, Judged, SHOWN};

/// Place in a paper of the figure that an experiment reproduces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Authors, title, venue and year of the paper.
    pub paper: String,
    /// Section of the paper.
    pub section: String,
    /// Figure or table of the paper.
    pub figure: String,
}

impl Source {
    /// Returns the reference as one line of text.
    pub fn words(&self) -> String {
        let parts = [&self.paper, &self.section, &self.figure].map(String::as_str);
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// Parameter with which an experiment was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Name of the parameter, with its unit if it has one.
    pub name: String,
    /// Value of the parameter.
    pub value: serde_json::Value,
}

/// Results of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Name of the experiment on the command line.
    pub name: String,
    /// Short title of the experiment.
    pub title: String,
    /// Description of what the experiment shows, in one paragraph.
    pub paragraph: String,
    /// Figure that the experiment reproduces.
    pub source: Source,
    /// Parameters of the runs.
    pub parameters: Vec<Parameter>,
    /// Seeds of the runs. Every point is measured with each seed.
    pub seeds: Vec<u64>,
    /// Measured results.
    pub panels: Vec<Panel>,
    /// Notes that say where the paper differs, and why.
    pub notes: Vec<String>,
}

impl Document {
    /// Returns all measured points.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points)
    }

    /// Returns the points outside their bands, each with the title of its panel and the name of its series.
    pub fn out(&self) -> impl Iterator<Item = (&str, &str, &Point)> {
        let series =
            self.panels.iter().flat_map(|panel| panel.series.iter().map(|series| (panel.title.as_str(), series)));
        let points = series
            .flat_map(|(panel, series)| series.points.iter().map(move |point| (panel, series.name.as_str(), point)));
        points.filter(|(_, _, point)| point.verdict == Judged::Out)
    }

    /// Returns the number of points with the given judgement.
    pub fn count(&self, judged: Judged) -> usize {
        self.points().filter(|point| point.verdict == judged).count()
    }
}

/// Measured point that has not been judged yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Position on the x axis.
    pub x: f64,
    /// Measured value.
    pub estimate: Estimate,
    /// Expected value according to the formula.
    pub expected: Option<f64>,
    /// Value in the paper.
    pub printed: Option<f64>,
}

/// Series of points that have not been judged yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Readings {
    /// Name, as in [`Series`].
    pub name: String,
    /// Formula, as in [`Series`].
    pub formula: Option<String>,
    /// Points, in the order of x.
    pub points: Vec<Reading>,
}

/// Panel whose points have not been judged yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// Title, as in [`Panel`].
    pub title: String,
    /// Axis, as in [`Panel`].
    pub x: Axis,
    /// Axis, as in [`Panel`].
    pub y: Axis,
    /// Series, as in [`Panel`].
    pub series: Vec<Readings>,
    /// Lines, as in [`Panel`].
    pub lines: Vec<Line>,
}

impl Reading {
    /// Creates a reading that is judged by an expected value.
    pub(crate) fn new(x: impl Into<f64>, estimate: Estimate, expected: f64) -> Self {
        Self { x: x.into(), estimate, expected: Some(expected), printed: None }
    }

    /// Creates a reading without an expected value, which is not judged.
    pub(crate) fn unjudged(x: impl Into<f64>, estimate: Estimate) -> Self {
        Self { x: x.into(), estimate, expected: None, printed: None }
    }

    /// Returns the reading with the value in the paper, if there is one.
    pub(crate) fn printed(self, printed: Option<f64>) -> Self {
        Self { printed, ..self }
    }
}

impl Readings {
    /// Creates a series with a formula.
    pub(crate) fn new(
        name: impl Into<String>,
        formula: impl Into<String>,
        points: impl IntoIterator<Item = Reading>,
    ) -> Self {
        Self { name: name.into(), formula: Some(formula.into()), points: points.into_iter().collect() }
    }

    /// Creates a series without a formula.
    pub(crate) fn unjudged(name: impl Into<String>, points: impl IntoIterator<Item = Reading>) -> Self {
        Self { name: name.into(), formula: None, points: points.into_iter().collect() }
    }
}

impl Sheet {
    /// Creates a panel without lines.
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis, series: impl IntoIterator<Item = Readings>) -> Self {
        Self { title: title.into(), x, y, series: series.into_iter().collect(), lines: Vec::new() }
    }

    /// Returns the panel with one further line.
    pub(crate) fn with_line(mut self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.lines.push(Line { name: name.into(), points: points.into_iter().collect() });
        self
    }

    /// Returns the panel with the given lines.
    pub(crate) fn with_lines(self, lines: Vec<Line>) -> Self {
        Self { lines, ..self }
    }
}

/// Judges every reading that has an expected value. The width of the bands depends on the number of these readings.
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
    /// Returns the series with its points judged. `judged` is the number of judged points in the whole document.
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
