//! Legend of a panel, to the right of its plot. The legend explains what the shapes and curves of the plot mean. It
//! contains no formulas, because the page around the picture prints them.
//!
//! The legend of a panel has one entry for every series and one for every line. Long names are wrapped, but never
//! truncated.

use plotters::prelude::*;

use super::{Area, Drawn, FONT, marks};
use crate::{Judged, Panel};
use marks::{Mark, Style};

const LEFT: i32 = 8;
/// Length of a sample of a curve, in pixels.
const SAMPLE: i32 = 40;
/// Horizontal position at which texts start, in pixels.
const TEXT: i32 = 56;
const ROW: i32 = 18;
/// Typical width of a letter in a text of this size, in pixels. The actual width depends on the fonts of the viewer.
pub(super) const LETTER: u32 = 7;

/// Vertical center of the first row, in pixels.
const TOP: i32 = 16;
/// Gap between entries, in pixels.
const GAP: i32 = 3;

/// Symbol to the left of a text.
enum Sign {
    Series(usize),
    Line(usize),
    Expected,
    Printed(usize),
    Interval,
    Out,
    None,
}

/// Returns the entries of the legend, from top to bottom.
fn entries(panel: &Panel) -> Vec<(Sign, String)> {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let series = panel.series.iter().enumerate().map(|(index, series)| (Sign::Series(index), series.name.clone()));
    let lines = panel.lines.iter().enumerate().map(|(index, line)| (Sign::Line(index), line.name.clone()));
    let mut entries: Vec<_> = series.chain(lines).collect();
    if points.clone().any(|point| point.expected.is_some()) {
        entries.push((Sign::Expected, "thick line: expected (formula or model)".to_owned()));
    }
    let printed = panel.series.iter().position(|series| series.points.iter().any(|point| point.printed.is_some()));
    entries.extend(printed.map(|series| (Sign::Printed(series), "crossed: printed in the paper".to_owned())));
    if points.clone().any(|point| point.low < point.high) {
        entries.push((Sign::Interval, "95 % interval of the mean over seeds".to_owned()));
    }
    if points.clone().any(|point| point.verdict == Judged::Out) {
        entries.push((Sign::Out, "ringed: out".to_owned()));
    }
    if panel.y.is_log && points.clone().any(|point| point.mean == 0.0) {
        entries.push((Sign::None, "A bar without a sign: none found.".to_owned()));
    }
    if panel.series.len() > 1 {
        entries.push((Sign::None, "Series stand a little beside each other, where they share a place.".to_owned()));
    }
    entries
}

/// Returns the number of letters in a row of a legend that is `width` pixels wide.
fn letters(width: u32) -> usize {
    (width.saturating_sub(TEXT as u32) / LETTER) as usize
}

/// Returns the height of the legend of a panel in pixels, if the legend is `width` pixels wide.
pub(super) fn height(width: u32, panel: &Panel) -> u32 {
    let entries = entries(panel);
    let heights = entries.iter().map(|(_, text)| ROW * rows(text, letters(width)).len() as i32 + GAP);
    (TOP + heights.sum::<i32>()) as u32
}

/// Draws the legend of a panel with a width of `width` pixels.
pub(super) fn draw(area: &Area<'_>, width: u32, panel: &Panel) -> Drawn {
    let mut top = TOP;
    let font = (FONT, 14).into_font();
    for (sign, text) in entries(panel) {
        draw_sign(area, top, sign, panel)?;
        for row in rows(&text, letters(width)) {
            area.draw(&Text::new(row, (TEXT, top - 8), font.clone())).map_err(|error| error.to_string())?;
            top += ROW;
        }
        top += GAP;
    }
    Ok(())
}

fn draw_sign(area: &Area<'_>, top: i32, sign: Sign, panel: &Panel) -> Drawn {
    let middle = (LEFT + SAMPLE / 2, top);
    match sign {
        Sign::Series(index) => {
            let style = Style::of_series(index);
            if panel.series[index].points.iter().any(|point| point.expected.is_some()) {
                marks::sample(area, (LEFT, top), SAMPLE, style)?;
            }
            marks::shape(area, middle, style, Mark::Measured)
        }
        Sign::Line(index) => marks::sample(area, (LEFT, top), SAMPLE, Style::of_line(index)),
        Sign::Expected => marks::sample(area, (LEFT, top), SAMPLE, Style::of_any()),
        Sign::Printed(index) => marks::shape(area, middle, Style::of_series(index), Mark::Printed),
        Sign::Interval => marks::bar(area, (middle.0, top + 7), (middle.0, top - 7), Style::of_any()),
        Sign::Out => marks::ring(area, middle),
        Sign::None => Ok(()),
    }
}

/// Wraps a text into rows of at most `letters` letters. The text is wrapped between words, unless a word is longer than
/// a row.
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
