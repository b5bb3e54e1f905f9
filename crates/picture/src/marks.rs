//! Appearance of points, bars and curves. The plot and its legend use the same styles. Series differ in their shapes
//! and dashes as well as in their colors, so they can be distinguished in a greyscale print.

use plotters::prelude::*;

use super::{Area, Chart, Drawn};

/// Half the width of the ends of a bar, in pixels.
const CAP: i32 = 4;
/// Half the width of the cross in a printed value, in pixels.
const CROSS: i32 = 4;
/// Radius of the ring around a point that does not agree with its expected value, in pixels.
const RING: i32 = 12;
/// Lengths of dashes and gaps, in pixels.
const DASHES: [(i32, i32); 5] = [(8, 4), (3, 3), (12, 3), (5, 7), (2, 5)];
/// Solid line, without gaps.
const SOLID: (i32, i32) = (i32::MAX, 0);
/// Number of different outlines.
const SHAPES: usize = 6;
/// Colors of series. They are dark enough to be seen on white. In greyscale, series differ by their shapes and dashes.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 70, 140),
    RGBColor(200, 80, 0),
    RGBColor(0, 125, 90),
    RGBColor(150, 40, 110),
    RGBColor(90, 90, 90),
    RGBColor(20, 20, 20),
];

/// Appearance of a series or line.
#[derive(Clone, Copy)]
pub(super) struct Style {
    color: RGBColor,
    shape: usize,
    /// Whether the shape is filled and small. Otherwise it is hollow and larger, so that neither of two overlapping
    /// shapes hides the other.
    is_filled: bool,
    dash: (i32, i32),
    /// Width of curves, in pixels.
    width: u32,
    /// Half the size of a hollow shape, in pixels. Filled shapes are smaller.
    hollow: i32,
}

/// Number of points from which on a series is drawn with smaller shapes.
const MANY: usize = 20;

/// Kind of value that a shape represents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Measured value.
    Measured,
    /// Value printed in a paper, drawn as a hollow, crossed-out shape.
    Printed,
}

impl Style {
    /// Returns the style of a series. Shapes repeat after six series, but with a different filling.
    pub(super) fn of_series(index: usize) -> Self {
        Self {
            color: COLORS[index % COLORS.len()],
            shape: index,
            is_filled: (index + index / SHAPES).is_multiple_of(2),
            dash: DASHES[index % DASHES.len()],
            width: 2,
            hollow: 6,
        }
    }

    /// Returns the style for a series with this number of points. Series with many points have smaller shapes.
    pub(super) fn of_points(self, points: usize) -> Self {
        if points < MANY { self } else { Self { hollow: 4, ..self } }
    }

    /// Returns the style of a line that does not connect measurements, such as a limit. The line is thin and grey. The
    /// first such line of a panel is solid, the second line is dotted, and all further lines are dashed.
    pub(super) fn of_line(index: usize) -> Self {
        let dash = if index == 0 { SOLID } else { (4 * index as i32 - 3, 3) };
        Self { color: RGBColor(100, 100, 100), shape: 0, is_filled: true, dash, width: 1, hollow: 6 }
    }

    /// Returns a style that represents all series in the legend.
    pub(super) fn of_any() -> Self {
        Self { color: RGBColor(60, 60, 60), ..Self::of_series(0) }
    }
}

/// Returns the outline of a shape around the origin, in pixels. `None` means a circle.
fn outline(shape: usize, size: i32) -> Option<Vec<(i32, i32)>> {
    let s = size;
    match shape % SHAPES {
        0 => None,
        1 => Some(vec![(-s, -s), (s, -s), (s, s), (-s, s)]),
        2 => Some(vec![(0, -s - 1), (s + 1, s), (-s - 1, s)]),
        3 => Some(vec![(0, -s - 2), (s + 2, 0), (0, s + 2), (-s - 2, 0)]),
        4 => Some(vec![(-s - 1, -s), (s + 1, -s), (0, s + 1)]),
        _ => Some(vec![(-s, 0), (-s / 2, -s), (s / 2, -s), (s, 0), (s / 2, s), (-s / 2, s)]),
    }
}

/// Draws a curve, which is dashed unless it is the first of the lines.
pub(super) fn line(chart: &mut Chart<'_, '_>, places: Vec<(f64, f64)>, style: Style) -> Drawn {
    let stroke = style.color.stroke_width(style.width);
    let drawn = match style.dash {
        SOLID => chart.draw_series(LineSeries::new(places, stroke)).map(|_| ()),
        (dash, gap) => chart.draw_series(DashedLineSeries::new(places, dash, gap, stroke)).map(|_| ()),
    };
    drawn.map_err(|error| error.to_string())
}

/// Positions of a measured point and of its interval on the vertical axis.
pub(super) struct Bar {
    pub(super) low: f64,
    /// Position of the mean. `None` means that the mean has no place on the axis.
    pub(super) mean: Option<f64>,
    pub(super) high: f64,
}

/// Draws a measured point with its bar, shifted to the right by `shift` pixels.
pub(super) fn measured(chart: &Chart<'_, '_>, x: f64, points: Bar, shift: i32, style: Style) -> Drawn {
    let area = chart.plotting_area().strip_coord_spec();
    let Bar { low, mean, high } = points;
    // An exact value has no interval.
    if low < high {
        bar(&area, inside(chart, (x, low), shift), inside(chart, (x, high), shift), style)?;
    }
    match mean {
        Some(mean) => shape(&area, inside(chart, (x, mean), shift), style, Mark::Measured),
        None => Ok(()),
    }
}

/// Draws a ring around a point that does not agree with its expected value.
pub(super) fn out(chart: &Chart<'_, '_>, place: (f64, f64), shift: i32) -> Drawn {
    ring(&chart.plotting_area().strip_coord_spec(), inside(chart, place, shift))
}

/// Draws a ring that is large enough to enclose a shape.
pub(super) fn ring(area: &Area<'_>, at: (i32, i32)) -> Drawn {
    area.draw(&Circle::new(at, RING, BLACK.stroke_width(2))).map_err(|error| error.to_string())
}

/// Draws the value that a paper prints for a measured point.
pub(super) fn printed(chart: &Chart<'_, '_>, place: (f64, f64), shift: i32, style: Style) -> Drawn {
    shape(&chart.plotting_area().strip_coord_spec(), inside(chart, place, shift), style, Mark::Printed)
}

/// Converts a position in the chart to pixels in its plot.
fn inside(chart: &Chart<'_, '_>, place: (f64, f64), shift: i32) -> (i32, i32) {
    let (columns, rows) = chart.plotting_area().get_pixel_range();
    let (x, y) = chart.backend_coord(&place);
    (x - columns.start + shift, y - rows.start)
}

/// Draws a thin bar with end caps between two positions in pixels.
pub(super) fn bar(area: &Area<'_>, low: (i32, i32), high: (i32, i32), style: Style) -> Drawn {
    let ends = [low, high].map(|(x, y)| [(x - CAP, y), (x + CAP, y)]);
    for stroke in [[low, high], ends[0], ends[1]] {
        area.draw(&PathElement::new(stroke.to_vec(), style.color)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Draws the shape of a series at a position in pixels.
pub(super) fn shape(area: &Area<'_>, at: (i32, i32), style: Style, mark: Mark) -> Drawn {
    let (size, look): (i32, ShapeStyle) = match (mark, style.is_filled) {
        (Mark::Printed, _) => (7, style.color.stroke_width(1)),
        (Mark::Measured, true) => (style.hollow * 2 / 3, style.color.filled()),
        (Mark::Measured, false) => (style.hollow, style.color.stroke_width(2)),
    };
    let drawn = match outline(style.shape, size) {
        None => area.draw(&Circle::new(at, size, look)),
        Some(corners) => {
            let mut corners: Vec<_> = corners.into_iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect();
            if look.filled {
                area.draw(&Polygon::new(corners, look))
            } else {
                corners.push(corners[0]);
                area.draw(&PathElement::new(corners, look))
            }
        }
    };
    drawn.map_err(|error| error.to_string())?;
    if mark == Mark::Printed {
        let (x, y) = at;
        for slope in [CROSS, -CROSS] {
            let stroke = vec![(x - CROSS, y - slope), (x + CROSS, y + slope)];
            area.draw(&PathElement::new(stroke, look)).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Draws a sample of a curve for the legend, which starts at a position in pixels.
pub(super) fn sample(area: &Area<'_>, from: (i32, i32), length: i32, style: Style) -> Drawn {
    let (dash, gap) = style.dash;
    let mut start = 0;
    while start < length {
        let stroke = vec![(from.0 + start, from.1), (from.0 + length.min(start.saturating_add(dash)), from.1)];
        let look = style.color.stroke_width(style.width);
        area.draw(&PathElement::new(stroke, look)).map_err(|error| error.to_string())?;
        start = start.saturating_add(dash).saturating_add(gap);
    }
    Ok(())
}
