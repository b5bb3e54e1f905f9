//! A document as a picture: SVG, one panel under the other.
//!
//! Promises: every measured point with its 95 % bar, every expected value, every printed one and every line of the document is
//! drawn; series are told apart by shape and dashes, so that grey suffices; the legend stands right of the plot and covers
//! nothing. Needs no fonts: the viewer's are used. Must not know: how anything was measured, files.

mod legend;
mod marks;
mod scale;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::document::{Document, Panel};
use marks::Style;
use scale::{Places, Scale};

/// Width of a picture, in pixels.
const WIDTH: u32 = 1080;
/// Height of a panel, in pixels.
const PANEL_HEIGHT: u32 = 440;
/// Of the width, what the legend has.
const LEGEND_WIDTH: u32 = 360;
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane = Cartesian2d<Places, Places>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;
/// What drawing says; into a text nothing can fail but formatting itself.
type Drawn = Result<(), String>;

/// The picture of a document.
///
/// # Errors
/// What the drawing library says.
pub fn svg(document: &Document) -> Result<String, String> {
    let mut text = String::new();
    let panels = document.panels.len().max(1);
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, PANEL_HEIGHT * panels as u32)).into_drawing_area();
        root.fill(&WHITE).map_err(|error| error.to_string())?;
        for (area, panel) in root.split_evenly((panels, 1)).iter().zip(&document.panels) {
            draw(area, panel)?;
        }
        root.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

fn draw(area: &Area<'_>, panel: &Panel) -> Drawn {
    let (plot, legend) = area.split_horizontally(WIDTH - LEGEND_WIDTH);
    let x = Scale::of(panel.x.is_log, horizontal(panel), false);
    let y = Scale::of(panel.y.is_log, vertical(panel), true);
    let mut chart = ChartBuilder::on(&plot)
        .caption(&panel.title, (FONT, 19))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(78)
        .build_cartesian_2d(x.places(), y.places())
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_desc(panel.x.label.as_str())
        .y_desc(panel.y.label.as_str())
        .x_labels(x.ticks())
        .y_labels(y.ticks())
        .x_label_formatter(&|place| x.label(*place))
        .y_label_formatter(&|place| y.label(*place))
        .axis_desc_style((FONT, 15))
        .label_style((FONT, 14))
        .draw()
        .map_err(|error| error.to_string())?;
    for (index, line) in panel.lines.iter().enumerate() {
        let places = line.points.iter().map(|(at, value)| (x.place(*at), y.place(*value)));
        marks::line(&mut chart, places.collect(), Style::of_line(index))?;
    }
    for (index, series) in panel.series.iter().enumerate() {
        let style = Style::of_series(index);
        let expected = series.points.iter().filter_map(|point| Some((x.place(point.x), y.place(point.expected?))));
        marks::line(&mut chart, expected.collect(), style)?;
        for point in &series.points {
            let at = x.place(point.x);
            let [low, mean, high] = [point.low, point.mean, point.high].map(|value| y.place(value));
            // Of nothing found a logarithmic axis shows the bar alone.
            marks::measured(&mut chart, at, (low, y.has(point.mean).then_some(mean), high), style)?;
            if let Some(printed) = point.printed {
                marks::printed(&mut chart, (at, y.place(printed)), style)?;
            }
        }
    }
    legend::draw(&legend, panel)
}

fn horizontal(panel: &Panel) -> Vec<f64> {
    let points = panel.series.iter().flat_map(|series| &series.points).map(|point| point.x);
    let lines = panel.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
    points.chain(lines).collect()
}

fn vertical(panel: &Panel) -> Vec<f64> {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let values = points.flat_map(|point| {
        // On a logarithmic axis an interval that goes down to nothing must not decide how far the axis goes.
        let low = if panel.y.is_log && point.low < point.mean / 100.0 { point.mean } else { point.low };
        [Some(low), Some(point.mean), Some(point.high), point.expected, point.printed].into_iter().flatten()
    });
    let lines = panel.lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y);
    values.chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Axis, Line, Point, Series, Source};
    use crate::stats::Verdict;

    fn document(is_log: bool) -> Document {
        let point = |x: f64, expected| Point {
            x,
            mean: 0.1 / x,
            low: 0.09 / x,
            high: 0.11 / x,
            samples: 10,
            expected,
            printed: expected,
            verdict: Verdict::In,
        };
        let series = |name: &str, expected| Series {
            name: name.to_owned(),
            formula: Some("0.1 / x".to_owned()),
            points: [1.0, 2.0, 3.0].map(|x| point(x, expected)).to_vec(),
        };
        let axis = if is_log { Axis::log("share") } else { Axis::linear("share") };
        Document {
            name: "test".to_owned(),
            title: "Test".to_owned(),
            paragraph: String::new(),
            source: Source { paper: String::new(), section: String::new(), figure: String::new() },
            parameters: Vec::new(),
            seeds: vec![1, 2],
            panels: vec![Panel {
                title: "Rates < bounds".to_owned(),
                x: Axis::linear("hash functions"),
                y: axis,
                series: vec![series("first", Some(0.05)), series("second", None)],
                lines: vec![Line { name: "bound".to_owned(), points: vec![(1.0, 0.2), (3.0, 0.2)] }],
            }],
            notes: Vec::new(),
        }
    }

    #[test]
    fn both_curves_their_bars_and_what_is_printed_are_drawn() {
        for is_log in [false, true] {
            let text = svg(&document(is_log)).unwrap();
            // Three points of either series with three strokes of a bar; the legend has one bar.
            assert_eq!(text.matches(marks::BAR_COLOR_WIDTH).count(), 3 * 2 * 3 + 3, "bars, log {is_log}");
            let circles = text.matches("<circle").count();
            assert_eq!(circles, 3 + 1 + 3 + 1, "the first series' measured and printed points, log {is_log}");
            for label in ["first", "second", "bound", "hash functions", "share", "Rates &lt; bounds", "expected"] {
                assert!(text.contains(label), "{label} is not in the picture");
            }
            assert!(!text.contains("NaN") && !text.contains("inf"), "a point has no place");
        }
    }

    #[test]
    fn expected_curves_are_dashed() {
        let with = svg(&document(true)).unwrap();
        let mut document = document(true);
        document.panels[0].series[0].points.iter_mut().for_each(|point| point.expected = None);
        let without = svg(&document).unwrap();
        assert!(with.matches("<polyline").count() > without.matches("<polyline").count() + 20);
    }

    #[test]
    fn nothing_measured_is_drawn_without_harm() {
        let mut empty = document(true);
        empty.panels[0].series[0].points.iter_mut().for_each(|point| (point.low, point.mean) = (0.0, 0.0));
        assert!(!svg(&empty).unwrap().contains("NaN"));
        empty.panels[0].series.clear();
        empty.panels[0].lines.clear();
        assert!(svg(&empty).unwrap().contains("<svg"));
    }
}
