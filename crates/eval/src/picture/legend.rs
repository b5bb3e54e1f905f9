//! What the shapes and curves of a panel stand for, right of its plot. Formulas stand on the page.
//!
//! Promises: one entry for every series, and one for every line; long names are broken, not cut. Must not know: axes.

use plotters::prelude::*;

use super::{Area, Drawn, FONT, marks};
use crate::document::Panel;
use marks::{Mark, Style};

const LEFT: i32 = 8;
/// Length of a piece of a curve.
const SAMPLE: i32 = 40;
/// Where texts start.
const TEXT: i32 = 56;
const ROW: i32 = 18;
/// Width of a letter of a text of this size, in pixels, as a rule: fonts are the viewer's.
pub(super) const LETTER: u32 = 7;

/// Draws the legend of a panel, `width` pixels wide.
pub(super) fn draw(area: &Area<'_>, width: u32, panel: &Panel) -> Drawn {
    let mut legend = Legend { area, letters: (width.saturating_sub(TEXT as u32) / LETTER) as usize, top: 16 };
    let points = || panel.series.iter().flat_map(|series| &series.points);
    for (index, series) in panel.series.iter().enumerate() {
        let style = Style::of_series(index);
        if series.points.iter().any(|point| point.expected.is_some()) {
            marks::sample(area, (LEFT, legend.top), SAMPLE, style)?;
        }
        marks::shape(area, (LEFT + SAMPLE / 2, legend.top), style, Mark::Measured)?;
        legend.text(&series.name)?;
    }
    for (index, line) in panel.lines.iter().enumerate() {
        marks::sample(area, (LEFT, legend.top), SAMPLE, Style::of_line(index))?;
        legend.text(&line.name)?;
    }
    legend.top += ROW / 2;
    if points().any(|point| point.expected.is_some()) {
        marks::sample(area, (LEFT, legend.top), SAMPLE, Style::of_any())?;
        legend.text("thick line: expected (formula or model)")?;
    }
    if let Some(index) =
        panel.series.iter().position(|series| series.points.iter().any(|point| point.printed.is_some()))
    {
        marks::shape(area, (LEFT + SAMPLE / 2, legend.top), Style::of_series(index), Mark::Printed)?;
        legend.text("crossed: printed in the paper")?;
    }
    if points().next().is_some() {
        let middle = LEFT + SAMPLE / 2;
        marks::bar(area, (middle, legend.top + 7), (middle, legend.top - 7), Style::of_any())?;
        legend.text("95 % interval of the mean over seeds")?;
    }
    if panel.y.is_log && points().any(|point| point.mean == 0.0) {
        legend.text("A bar without a sign: none found.")?;
    }
    if panel.series.len() > 1 {
        legend.text("Series stand a little beside each other, where they share a place.")?;
    }
    Ok(())
}

/// Rows of text beside each other's signs, from the top down.
struct Legend<'a, 'b> {
    area: &'a Area<'b>,
    /// That a row has room for.
    letters: usize,
    /// Middle of the next row, in pixels.
    top: i32,
}

impl Legend<'_, '_> {
    /// Writes in as many rows as it takes.
    fn text(&mut self, what: &str) -> Drawn {
        let style = (FONT, 14).into_font();
        for row in rows(what, self.letters) {
            self.area.draw(&Text::new(row, (TEXT, self.top - 8), style.clone())).map_err(|error| error.to_string())?;
            self.top += ROW;
        }
        self.top += 3;
        Ok(())
    }
}

/// Rows of so many letters at most, broken between words where words are not longer than a row.
pub(super) fn rows(what: &str, letters: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in what.split_whitespace() {
        let word: Vec<char> = word.chars().collect();
        for (part, piece) in word.chunks(letters.max(1)).enumerate() {
            let room = rows.last().map_or(0, |row| row.chars().count());
            if part > 0 || room > 0 && room + 1 + piece.len() > letters {
                rows.push(String::new());
            }
            if let Some(row) = rows.last_mut() {
                if !row.is_empty() {
                    row.push(' ');
                }
                row.extend(piece);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_broken_between_words() {
        let broken = rows("a name that is far too long for one row of the legend of a panel", 40);
        assert!(broken.len() == 2 && broken.iter().all(|row| row.len() <= 40), "{broken:?}");
        assert_eq!(rows("short", 40), ["short"]);
        let one_word = rows(&format!("keys of {}", "long".repeat(50)), 40);
        assert!(one_word.len() == 6 && one_word.iter().all(|row| row.len() <= 40), "{one_word:?}");
    }
}
