//! What a picture shows: panels with their axes, measured series and lines.
//!
//! Promises: serialized, a panel keeps every number. Must not know: how panels are drawn or measured.

use serde::{Deserialize, Serialize};

/// How one point is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// As expected, within chance.
    In,
    /// Not as expected.
    Out,
    /// There is no expected value.
    NotJudged,
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
