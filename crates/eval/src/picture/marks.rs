//! How points, bars and curves look.
//!
//! Promises: the same style on the plot and in the legend; shapes and dashes alone tell series apart. Must not know: what they
//! stand for.

use plotters::prelude::*;

use super::{Area, Chart, Drawn};

/// Text that every stroke of an error bar has, and nothing else.
#[cfg(test)]
pub(super) const BAR_COLOR_WIDTH: &str = "stroke=\"#3C3C3C\"";
const BAR: RGBColor = RGBColor(60, 60, 60);
/// Half the width of a bar's ends, in pixels.
const CAP: i32 = 4;
/// Dash and gap, in pixels; the last one is for lines.
const DASHES: [(i32, i32); 5] = [(8, 4), (3, 3), (12, 3), (5, 7), (2, 5)];
/// Dark enough on white, and different in grey as well.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 70, 140),
    RGBColor(200, 80, 0),
    RGBColor(0, 125, 90),
    RGBColor(150, 40, 110),
    RGBColor(90, 90, 90),
    RGBColor(20, 20, 20),
];

/// How one series or line looks.
#[derive(Clone, Copy)]
pub(super) struct Style {
    color: RGBColor,
    shape: usize,
    dash: (i32, i32),
    is_solid: bool,
}

impl Style {
    pub(super) fn of_series(index: usize) -> Self {
        let dash = DASHES[index % DASHES.len()];
        Self { color: COLORS[index % COLORS.len()], shape: index, dash, is_solid: false }
    }

    /// Lines for which nothing is measured: thin and solid, or dotted from the second on.
    pub(super) fn of_line(index: usize) -> Self {
        let grey = RGBColor(120, 120, 120);
        Self { color: grey, shape: 0, dash: (1 + 4 * index as i32, 4), is_solid: index == 0 }
    }
}

/// The outline of a shape around the origin, in pixels; `None` is a circle.
fn outline(shape: usize, size: i32) -> Option<Vec<(i32, i32)>> {
    let s = size;
    match shape % 6 {
        0 => None,
        1 => Some(vec![(-s, -s), (s, -s), (s, s), (-s, s)]),
        2 => Some(vec![(0, -s - 1), (s + 1, s), (-s - 1, s)]),
        3 => Some(vec![(0, -s - 2), (s + 2, 0), (0, s + 2), (-s - 2, 0)]),
        4 => Some(vec![(-s - 1, -s), (s + 1, -s), (0, s + 1)]),
        _ => Some(vec![(-s, 0), (-s / 2, -s), (s / 2, -s), (s, 0), (s / 2, s), (-s / 2, s)]),
    }
}

/// A curve: dashed, but for the first of the lines.
pub(super) fn line(chart: &mut Chart<'_, '_>, places: Vec<(f64, f64)>, style: Style) -> Drawn {
    let stroke = style.color.stroke_width(2);
    let drawn = match style.is_solid {
        true => chart.draw_series(LineSeries::new(places, style.color.stroke_width(1))).map(|_| ()),
        false => chart.draw_series(DashedLineSeries::new(places, style.dash.0, style.dash.1, stroke)).map(|_| ()),
    };
    drawn.map_err(|error| error.to_string())
}

/// A measured point with its bar: low, mean where it has a place, high.
pub(super) fn measured(
    chart: &mut Chart<'_, '_>,
    x: f64,
    (low, mean, high): (f64, Option<f64>, f64),
    style: Style,
) -> Drawn {
    let area = chart.plotting_area().strip_coord_spec();
    let origin = area.get_pixel_range();
    let inside = |y: f64| {
        let (x, y) = chart.backend_coord(&(x, y));
        (x - origin.0.start, y - origin.1.start)
    };
    bar(&area, inside(low), inside(high))?;
    mean.map_or(Ok(()), |mean| shape(&area, inside(mean), style, true))
}

/// What a paper prints: the hollow shape of its series.
pub(super) fn printed(chart: &mut Chart<'_, '_>, place: (f64, f64), style: Style) -> Drawn {
    let area = chart.plotting_area().strip_coord_spec();
    let origin = area.get_pixel_range();
    let (x, y) = chart.backend_coord(&place);
    shape(&area, (x - origin.0.start, y - origin.1.start), style, false)
}

/// A bar with ends, between two places in pixels.
pub(super) fn bar(area: &Area<'_>, low: (i32, i32), high: (i32, i32)) -> Drawn {
    let ends = [low, high].map(|(x, y)| [(x - CAP, y), (x + CAP, y)]);
    for stroke in [[low, high], ends[0], ends[1]] {
        area.draw(&PathElement::new(stroke.to_vec(), BAR)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The shape of a series at a place in pixels: filled if measured, larger and hollow if printed.
pub(super) fn shape(area: &Area<'_>, at: (i32, i32), style: Style, is_filled: bool) -> Drawn {
    let size = if is_filled { 4 } else { 7 };
    let look: ShapeStyle = if is_filled { style.color.filled() } else { style.color.stroke_width(1) };
    let drawn = match outline(style.shape, size) {
        None => area.draw(&Circle::new(at, size, look)),
        Some(corners) => {
            let mut corners: Vec<_> = corners.into_iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect();
            if is_filled {
                area.draw(&Polygon::new(corners, look))
            } else {
                corners.push(corners[0]);
                area.draw(&PathElement::new(corners, look))
            }
        }
    };
    drawn.map_err(|error| error.to_string())
}

/// A piece of a curve between two places in pixels, for the legend.
pub(super) fn sample(area: &Area<'_>, from: (i32, i32), length: i32, style: Style) -> Drawn {
    let (dash, gap) = if style.is_solid { (length, 1) } else { style.dash };
    let width = if style.is_solid { 1 } else { 2 };
    let mut start = 0;
    while start < length {
        let stroke = vec![(from.0 + start, from.1), (from.0 + length.min(start + dash), from.1)];
        area.draw(&PathElement::new(stroke, style.color.stroke_width(width))).map_err(|error| error.to_string())?;
        start += dash + gap;
    }
    Ok(())
}
