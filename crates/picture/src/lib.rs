//! Draws panels as an SVG picture. The panels are below each other, or in two columns if there are many.
//!
//! # Guarantees
//!
//! - Every measured point with its 95 % interval, every expected value, every printed value and every line of a panel
//!   is drawn.
//! - Series differ in their shapes and dashes, so that they can be distinguished in a greyscale print. Series with
//!   points at the same place are drawn next to each other.
//! - The legend is to the right of the plot and covers nothing.
//! - The picture contains no fonts. It uses the fonts of the viewer.
//!
//! This crate does not depend on how the values were measured, and does not access files.

mod legend;
mod marks;
mod panel;
mod scale;

use plotters::coord::Shift;
use plotters::prelude::*;

use marks::Style;
pub use panel::{Axis, Judged, Line, Panel, Point, Series};
use scale::{Places, Scale};

/// Height of a panel in pixels, unless its legend needs more.
const PANEL_HEIGHT: u32 = 440;
/// Space below a legend, in pixels.
const FOOT: u32 = 16;
/// Maximum number of panels in a single column. More panels are placed in two columns.
const ONE_COLUMN_MAX: usize = 4;
/// Maximum distance between series that share a place, in pixels.
const SHIFT_MAX: f64 = 5.0;
/// Font size of a title, in pixels.
const TITLE: u32 = 19;
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane = Cartesian2d<Places, Places>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;
/// Result of drawing. The picture is written to a string, so formatting is the only operation that can fail.
type Drawn = Result<(), String>;

/// Placement of the panels, in pixels.
#[derive(Clone, Copy)]
struct Layout {
    columns: usize,
    panel_width: u32,
    /// Width of the legend, which is a part of the panel's width.
    legend_width: u32,
}

impl Layout {
    fn of(panels: usize) -> Self {
        if panels > ONE_COLUMN_MAX {
            Self { columns: 2, panel_width: 760, legend_width: 270 }
        } else {
            Self { columns: 1, panel_width: 1080, legend_width: 360 }
        }
    }
}

impl Layout {
    /// Returns the height of a row of panels in pixels. Each panel must have room for its title and its legend.
    fn height(self, row: &[Panel]) -> u32 {
        let heights =
            row.iter().map(|panel| title_height(&self.title(panel)) + legend::height(self.legend_width, panel) + FOOT);
        heights.fold(PANEL_HEIGHT, u32::max)
    }

    /// Returns the rows of a panel's title.
    fn title(self, panel: &Panel) -> Vec<String> {
        legend::rows(&panel.title, (self.panel_width * 14 / (legend::LETTER * TITLE)) as usize)
    }
}

fn title_height(rows: &[String]) -> u32 {
    14 + rows.len() as u32 * (TITLE + 3)
}

/// Returns the width of the picture of `panels` in pixels.
pub fn width(panels: &[Panel]) -> u32 {
    let layout = Layout::of(panels.len());
    layout.panel_width * layout.columns as u32
}

/// Draws `panels` and returns the SVG text.
///
/// # Errors
/// Returns the errors of the drawing library.
pub fn svg(panels: &[Panel]) -> Result<String, String> {
    let mut text = String::new();
    let layout = Layout::of(panels.len());
    {
        let height = panels.chunks(layout.columns).map(|row| layout.height(row)).sum::<u32>().max(PANEL_HEIGHT);
        let root = SVGBackend::with_string(&mut text, (width(panels), height)).into_drawing_area();
        root.fill(&WHITE).map_err(|error| error.to_string())?;
        let mut rest = root.clone();
        for row in panels.chunks(layout.columns) {
            let (areas, below) = rest.split_vertically(layout.height(row));
            for (area, panel) in areas.split_evenly((1, layout.columns)).iter().zip(row) {
                draw(area, panel, layout)?;
            }
            rest = below;
        }
        root.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

fn draw(area: &Area<'_>, panel: &Panel, layout: Layout) -> Drawn {
    let titles = layout.title(panel);
    for (row, title) in (0..).zip(&titles) {
        let place = (16, 12 + row * (TITLE as i32 + 3));
        area.draw(&Text::new(title.as_str(), place, (FONT, TITLE))).map_err(|error| error.to_string())?;
    }
    let (_, area) = area.split_vertically(title_height(&titles));
    let (plot, legend) = area.split_horizontally(layout.panel_width - layout.legend_width);
    let x = Scale::of(panel.x.is_log, horizontal(panel), false).labelled(&measured(panel));
    let y = Scale::of(panel.y.is_log, vertical(panel), true);
    let mut chart = ChartBuilder::on(&plot)
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
    curves(&mut chart, panel, &x, &y)?;
    points(&chart, panel, &x, &y)?;
    legend::draw(&legend, layout.legend_width, panel)
}

/// Draws all lines and expected values, which are below the points.
fn curves(chart: &mut Chart<'_, '_>, panel: &Panel, x: &Scale, y: &Scale) -> Drawn {
    for (index, line) in panel.lines.iter().enumerate() {
        let places = line.points.iter().map(|(at, value)| (x.place(*at), y.place(*value)));
        marks::line(chart, places.collect(), Style::of_line(index))?;
    }
    let (pixels, _) = chart.plotting_area().get_pixel_range();
    let pixel = x.length() / f64::from((pixels.end - pixels.start).max(1));
    let shifts = shifts(chart, panel, x);
    for (index, (series, shift)) in panel.series.iter().zip(shifts).enumerate() {
        // The curve passes through the places at which the points are drawn, so it is shifted like the points.
        let right = f64::from(shift) * pixel;
        let points = series.points.iter();
        let expected = points.filter_map(|point| Some((x.place(point.x) + right, y.place(point.expected?))));
        marks::line(chart, expected.collect(), Style::of_series(index))?;
    }
    Ok(())
}

/// Draws the measured values and the values printed in papers.
fn points(chart: &Chart<'_, '_>, panel: &Panel, x: &Scale, y: &Scale) -> Drawn {
    let shifts = shifts(chart, panel, x);
    for (index, (series, shift)) in panel.series.iter().zip(shifts).enumerate() {
        let style = Style::of_series(index).of_points(series.points.len());
        for point in &series.points {
            let at = x.place(point.x);
            let [low, mean, high] = [point.low, point.mean, point.high].map(|value| y.place(value));
            // A mean of zero has no place on a logarithmic axis, so only the bar of its interval is drawn.
            let bar = marks::Bar { low, mean: y.has(point.mean).then_some(mean), high };
            marks::measured(chart, at, bar, shift, style)?;
            if point.verdict == Judged::Out {
                marks::out(chart, (at, mean), shift)?;
            }
            if let Some(printed) = point.printed {
                marks::printed(chart, (at, y.place(printed)), shift, style)?;
            }
        }
    }
    Ok(())
}

/// Returns how far each series is shifted to the right, in pixels.
fn shifts(chart: &Chart<'_, '_>, panel: &Panel, x: &Scale) -> Vec<i32> {
    let places: Vec<i32> =
        measured(panel).into_iter().map(|value| chart.backend_coord(&(x.place(value), 0.0)).0).collect();
    (0..panel.series.len()).map(|index| shift(index, panel.series.len(), &places)).collect()
}

/// Returns how far a series is shifted to the right, in pixels. The shifts are so small that all series fit between two
/// neighbouring `places`.
fn shift(index: usize, count: usize, places: &[i32]) -> i32 {
    let gap = places.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(i32::MAX);
    let step = SHIFT_MAX.min(f64::from(gap) / (count + 1) as f64);
    ((index as f64 - (count as f64 - 1.0) / 2.0) * step).round() as i32
}

/// Returns the values of the horizontal axis at which something was measured, without repetitions and in ascending
/// order.
fn measured(panel: &Panel) -> Vec<f64> {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let mut values: Vec<f64> = points.map(|point| point.x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn horizontal(panel: &Panel) -> Vec<f64> {
    let points = panel.series.iter().flat_map(|series| &series.points).map(|point| point.x);
    let lines = panel.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
    points.chain(lines).collect()
}

fn vertical(panel: &Panel) -> Vec<f64> {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let values = points.flat_map(|point| {
        // On a logarithmic axis, the lower end of an interval near zero would extend the axis too far.
        let low = if panel.y.is_log && point.low < point.mean / 100.0 { point.mean } else { point.low };
        [Some(low), Some(point.mean), Some(point.high), point.expected, point.printed].into_iter().flatten()
    });
    let lines = panel.lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y);
    values.chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panels(is_log: bool) -> Vec<Panel> {
        let point = |x: f64, expected| Point {
            x,
            mean: 0.1 / x,
            low: 0.09 / x,
            high: 0.11 / x,
            samples: 10,
            expected,
            printed: expected,
            verdict: Judged::In,
        };
        let series = |name: &str, expected| Series {
            name: name.to_owned(),
            formula: Some("0.1 / x".to_owned()),
            points: [1.0, 2.0, 3.0].map(|x| point(x, expected)).to_vec(),
        };
        let axis = if is_log { Axis::log("share") } else { Axis::linear("share") };
        vec![Panel {
            title: "Rates < bounds".to_owned(),
            x: Axis::linear("hash functions"),
            y: axis,
            series: vec![series("first", Some(0.05)), series("second", None)],
            lines: vec![Line { name: "bound".to_owned(), points: vec![(1.0, 0.2), (3.0, 0.2)] }],
        }]
    }

    #[test]
    fn both_curves_their_bars_and_what_is_printed_are_drawn() {
        for is_log in [false, true] {
            let text = svg(&panels(is_log)).unwrap();
            // The second series has three points, and the bar of each point has three strokes.
            let stroke = "stroke=\"#C85000\" stroke-width=\"1\"";
            assert_eq!(text.matches(stroke).count(), 3 * 3, "bars, log {is_log}");
            let circles = text.matches("<circle").count();
            assert_eq!(circles, 3 + 1 + 3 + 1, "the first series' measured and printed points, log {is_log}");
            for label in [
                "first",
                "second",
                "bound",
                "hash functions",
                "share",
                "Rates &lt; bounds",
                "expected (formula or model)",
            ] {
                assert!(text.contains(label), "{label} is not in the picture");
            }
            assert!(!text.contains("NaN") && !text.contains("inf"), "a point has no position on the axis");
        }
    }

    #[test]
    fn what_is_out_is_ringed_and_said_so() {
        let mut panels = panels(false);
        let before = svg(&panels).unwrap();
        panels[0].series[1].points[2].verdict = Judged::Out;
        let after = svg(&panels).unwrap();
        let rings = |text: &str| text.matches("r=\"12\"").count();
        assert_eq!((rings(&before), rings(&after)), (0, 2), "one ring for the point and one for the legend");
        assert!(after.contains("ringed: out") && !before.contains("ringed"));
    }

    #[test]
    fn a_panel_is_as_high_as_its_legend_needs() {
        let mut panels = panels(false);
        let heights = |panels: &[Panel]| svg(panels).unwrap().split_once("height=\"").unwrap().1[..4].to_owned();
        assert!(heights(&panels).starts_with("440"));
        let of_log = |log: u32| Series { name: format!("clients of log {log}"), ..panels[0].series[0].clone() };
        panels[0].series = (0..40).map(of_log).collect();
        let text = svg(&panels).unwrap();
        let height: u32 = heights(&panels).trim_matches('"').parse().unwrap();
        let lowest = text.split(" y=\"").skip(1).filter_map(|text| text.split('"').next()?.parse::<u32>().ok()).max();
        assert!(height > 40 * 20 && lowest.is_some_and(|lowest| lowest + 10 < height), "{height} {lowest:?}");
        assert!(text.contains("clients of log 39"));
    }

    #[test]
    fn series_at_one_place_stand_side_by_side_and_keep_away_from_the_next_place() {
        let shifts = |count, places: &[i32]| (0..count).map(|index| shift(index, count, places)).collect::<Vec<_>>();
        assert_eq!(shifts(1, &[0, 100]), [0]);
        assert_eq!(shifts(3, &[0, 100]), [-5, 0, 5]);
        assert_eq!(shifts(3, &[0, 8, 100]), [-2, 0, 2]);
        assert_eq!(shifts(2, &[]).len(), 2);
    }

    #[test]
    fn axes_are_labelled_where_something_was_measured() {
        let mut panels = panels(false);
        let panel = &mut panels[0];
        panel.lines.clear();
        let is_label = |text: &str, label: &str| text.lines().any(|line| line.trim() == label);
        let text = svg(&panels).unwrap();
        assert!(["1", "2", "3"].iter().all(|label| is_label(&text, label)) && !is_label(&text, "1.5"), "{text}");
        panels[0].x = Axis::log("slices (S)");
        for series in &mut panels[0].series {
            for (point, x) in series.points.iter_mut().zip([10.0, 40.0, 80.0]) {
                point.x = x;
            }
        }
        let text = svg(&panels).unwrap();
        assert!(["10", "40", "80"].iter().all(|label| is_label(&text, label)) && !is_label(&text, "20"), "{text}");
    }

    #[test]
    fn many_panels_stand_in_two_columns() {
        let mut panels = panels(true);
        let height = |panels: &[Panel]| {
            let text = svg(panels).unwrap();
            text.split("height=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<u32>().ok())
        };
        let panel = panels[0].clone();
        panels = vec![panel.clone(); 4];
        assert_eq!(height(&panels), Some(4 * PANEL_HEIGHT));
        panels = vec![panel; 5];
        assert_eq!(height(&panels), Some(3 * PANEL_HEIGHT));
    }

    #[test]
    fn expected_curves_are_dashed() {
        let with = svg(&panels(true)).unwrap();
        let mut panels = panels(true);
        panels[0].series[0].points.iter_mut().for_each(|point| point.expected = None);
        let without = svg(&panels).unwrap();
        assert!(with.matches("<polyline").count() > without.matches("<polyline").count() + 20);
    }

    #[test]
    fn nothing_measured_is_drawn_without_harm_and_said() {
        for is_log in [true, false] {
            let mut empty = panels(is_log);
            assert!(!svg(&empty).unwrap().contains("none found"));
            empty[0].series[0].points.iter_mut().for_each(|point| (point.low, point.mean) = (0.0, 0.0));
            let text = svg(&empty).unwrap();
            assert!(!text.contains("NaN"));
            assert_eq!(text.contains("none found"), is_log, "only a logarithmic axis has no position for zero");
        }
        let mut empty = panels(true);
        empty[0].series.clear();
        empty[0].lines.clear();
        assert!(svg(&empty).unwrap().contains("<svg"));
    }
}
