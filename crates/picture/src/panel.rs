//! Data types for the contents of a picture. A picture consists of panels, and each panel has two axes, series of
//! measured points, and lines.
//!
//! Panels can be serialized. All numbers are preserved exactly, so a program can store measured values and draw the
//! same picture again later.

use serde::{Deserialize, Serialize};

/// Result of comparing a point with its expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// The measured value agrees with the expected value, within statistical error.
    In,
    /// The measured value does not agree with the expected value.
    Out,
    /// The point has no expected value.
    NotJudged,
}

/// Axis of a panel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Quantity on the axis, with its unit.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub is_log: bool,
}

impl Axis {
    /// Creates a linear axis, on which equal distances represent equal differences.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: false }
    }

    /// Creates a logarithmic axis, on which equal distances represent equal ratios.
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: true }
    }
}

/// Point of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Measured value, as the mean over all seeds.
    pub mean: f64,
    /// Lower end of the 95 % interval of the mean.
    pub low: f64,
    /// Upper end of the 95 % interval of the mean.
    pub high: f64,
    /// Number of events, or of other counted items, over all seeds together.
    pub samples: u64,
    /// Value according to the formula of the series.
    pub expected: Option<f64>,
    /// Value that the paper prints.
    pub printed: Option<f64>,
    /// Whether the measured value agrees with the expected value.
    pub verdict: Judged,
}

/// Points that were measured in the same way and that have the same formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Short description of the measured quantity for the legend.
    pub name: String,
    /// Formula of the expected values, with its source. `None` means that there are no expected values.
    pub formula: Option<String>,
    /// Points in ascending order of x.
    pub points: Vec<Point>,
}

/// Line without measurements, for example another formula or a bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Short description of the line for the legend.
    pub name: String,
    /// Pairs of x and y, in ascending order of x.
    pub points: Vec<(f64, f64)>,
}

/// Panel with one pair of axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Title of the panel.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Measured series.
    pub series: Vec<Series>,
    /// Lines without measurements.
    pub lines: Vec<Line>,
}
