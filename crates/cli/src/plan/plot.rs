//! Implements `--plot`, which draws the memory of each kind of filter as a function of the false-positive rate. Each
//! curve uses the definition that `plan` prints, with other rates. If a kind cannot reach a rate, its curve has no
//! point there.

use std::fs;
use std::path::Path;

use anyhow::Context;
use firstseen_filter::{Kind, Window};
use firstseen_picture::{Axis, Judged, Line, Panel, Point, Series};

use super::{Costs, PlanArgs, compared, kinds_for, memory, refused};
use crate::text::numbers::grouped;

/// Range of the false-positive rates that are drawn. The rates begin at one in ten and end at one in a hundred million.
/// There are `POINTS_OF_DECADE` points for each power of ten.
const LEAST_EXPONENT: i32 = -8;
const POINTS_OF_DECADE: i32 = 4;
/// Units of memory, the largest first, each with the power of two that it stands for.
const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// Draws the memory of all kinds that support `window`, or of the given kind alone, into a file.
///
/// # Errors
/// Returns an error if the file is not an `.svg` file or cannot be written, or if no kind is possible at this load.
pub(super) fn draw(args: &PlanArgs, window: &Window, kind: Option<Kind>, path: &Path) -> anyhow::Result<()> {
    if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg")) {
        return Err(refused(format!("--plot draws SVG: name the file {}.svg", path.display())));
    }
    let kinds = kinds_for(window).into_iter().filter(|(of, _)| kind.is_none_or(|kind| kind == *of));
    let mut events = 0;
    let mut series = Vec::new();
    for (kind, window) in kinds {
        let mut points = Vec::new();
        for rate in rates() {
            let asked = compared(&PlanArgs { fpr: rate, ..args.clone() }, kind, window.clone())?;
            if let Ok(costs) = Costs::of(&asked) {
                events = costs.events_per_window;
                points.push(point(rate, costs.memory_bytes as f64));
            }
        }
        if !points.is_empty() {
            series.push(Series { name: format!("{kind}, window {window}"), formula: None, points });
        }
    }
    if series.is_empty() {
        return Err(refused(format!(
            "no kind has a window `{window}` for so many events, so there is nothing to draw"
        )));
    }
    let mut lines: Vec<Line> = Vec::new();
    for reference in memory::references(events) {
        let bytes = reference.memory_bytes as f64;
        lines.push(Line { name: reference.name.to_owned(), points: rates().map(|rate| (rate, bytes)).collect() });
    }
    let unit = in_one_unit(&mut series, &mut lines);
    let panel = Panel {
        title: format!("Memory for {} different events in a window", grouped(events)),
        x: Axis::log("false positives: new events called duplicates"),
        y: Axis::log(&format!("memory, {unit}")),
        series,
        lines,
    };
    let svg = firstseen_picture::svg(&[panel]).map_err(|error| anyhow::anyhow!("the picture: {error}"))?;
    fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
}

fn rates() -> impl Iterator<Item = f64> {
    (LEAST_EXPONENT * POINTS_OF_DECADE..=-POINTS_OF_DECADE)
        .map(|step| 10f64.powf(f64::from(step) / f64::from(POINTS_OF_DECADE)))
}

fn point(x: f64, y: f64) -> Point {
    Point { x, mean: y, low: y, high: y, samples: 1, expected: None, printed: None, verdict: Judged::NotJudged }
}

/// Converts the values of all curves from bytes to one common unit, and returns the name of this unit. The unit is as
/// large as possible, so that the labels of the plot are short, but the smallest value must still be at least 0.01 in
/// this unit.
fn in_one_unit(series: &mut [Series], lines: &mut [Line]) -> &'static str {
    let least_bytes = series.iter().flat_map(|series| &series.points).map(|point| point.mean).fold(f64::MAX, f64::min);
    let fitting = UNITS.into_iter().find(|(_, bits)| least_bytes * 100.0 >= (1_u64 << bits) as f64);
    let (unit, bits) = fitting.unwrap_or(("B", 0));
    let unit_bytes = (1_u64 << bits) as f64;
    for point in series.iter_mut().flat_map(|series| &mut series.points) {
        point.mean /= unit_bytes;
        point.low /= unit_bytes;
        point.high /= unit_bytes;
    }
    for (_, bytes) in lines.iter_mut().flat_map(|line| &mut line.points) {
        *bytes /= unit_bytes;
    }
    unit
}
