//! What the shapes and curves of a panel stand for, right of its plot. Formulas stand on the page.
//!
//! Promises: one entry for every series and what belongs to it, and one for every line; long names are broken, not cut. Must
//! not know: axes.

use plotters::prelude::*;

use super::{Area, Drawn, FONT, marks};
use crate::document::Panel;
use marks::Style;

const LEFT: i32 = 8;
/// Where texts start.
const TEXT: i32 = 56;
const ROW: i32 = 18;
/// Letters that a row has room for.
const LETTERS: usize = 40;

/// Draws the legend of a panel.
pub(super) fn draw(area: &Area<'_>, panel: &Panel) -> Drawn {
    let mut top = 52;
    for (index, series) in panel.series.iter().enumerate() {
        let style = Style::of_series(index);
        marks::shape(area, (LEFT + 20, top), style, true)?;
        text(area, &mut top, &series.name)?;
        if series.points.iter().any(|point| point.expected.is_some()) {
            marks::sample(area, (LEFT, top), 40, style)?;
            text(area, &mut top, "expected by formula")?;
        }
        if series.points.iter().any(|point| point.printed.is_some()) {
            marks::shape(area, (LEFT + 20, top), style, false)?;
            text(area, &mut top, "printed in the paper")?;
        }
        top += 4;
    }
    if !panel.series.is_empty() {
        marks::bar(area, (LEFT + 20, top + 7), (LEFT + 20, top - 7))?;
        text(area, &mut top, "95 % interval of the mean over seeds")?;
    }
    for (index, line) in panel.lines.iter().enumerate() {
        marks::sample(area, (LEFT, top), 40, Style::of_line(index))?;
        text(area, &mut top, &line.name)?;
    }
    Ok(())
}

/// Writes in as many rows as it takes, beside `top`, which moves below.
fn text(area: &Area<'_>, top: &mut i32, what: &str) -> Drawn {
    let style = (FONT, 14).into_font();
    for row in rows(what) {
        area.draw(&Text::new(row, (TEXT, *top - 8), style.clone())).map_err(|error| error.to_string())?;
        *top += ROW;
    }
    Ok(())
}

fn rows(what: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in what.split_whitespace() {
        let room = rows.last().map_or(0, |row| row.chars().count());
        if room > 0 && room + 1 + word.chars().count() > LETTERS {
            rows.push(String::new());
        }
        if let Some(row) = rows.last_mut() {
            if !row.is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_broken_between_words() {
        let broken = rows("a name that is far too long for one row of the legend of a panel");
        assert!(broken.len() == 2 && broken.iter().all(|row| row.len() <= LETTERS), "{broken:?}");
        assert_eq!(rows("short"), ["short"]);
    }
}
