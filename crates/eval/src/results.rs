//! Renders all results as one Markdown text, for a repository that stores them.
//!
//! The text contains every point and line of every document, in order. For each of them, it also contains the expected
//! value and the formula of this value. Texts from documents are escaped, so that a character such as `|` cannot end a
//! cell of a table early.
//!
//! This module does not read or write files.

use std::fmt::Write;

use crate::document::{Document, Line, Point};
use crate::number::number;
use crate::page::{self, Heading, LEFT_OUT};
use crate::stats::Judged;

/// Returns the Markdown text of all documents.
///
/// ```
/// use firstseen_eval::page::Heading;
/// use firstseen_eval::results::markdown;
/// let made = "Made by `firstseen-lab eval all`.".to_owned();
/// assert!(markdown(&Heading { made, ..Heading::default() }, &[]).contains("\n\nMade by"));
/// ```
pub fn markdown(heading: &Heading, documents: &[Document]) -> String {
    let mut text = String::from("# The papers reproduced\n");
    push(&mut text, format_args!("\n{}\n", line(&heading.made)));
    text.push_str("\n| experiment | shows | in | out | not judged |\n|---|---|---|---|---|\n");
    for document in documents {
        let [within, out, open] = [Judged::In, Judged::Out, Judged::NotJudged].map(|kind| document.count(kind));
        let name = cell(&document.name);
        let title = cell(&document.title);
        push(&mut text, format_args!("| `{name}` | {title} | {within} | {out} | {open} |\n"));
    }
    documents.iter().for_each(|document| section(&mut text, document));
    text.push_str("\n## What the papers name and these results leave out\n");
    LEFT_OUT.iter().for_each(|(what, why)| push(&mut text, format_args!("\n{}: {}\n", line(what), line(why))));
    text
}

fn section(text: &mut String, document: &Document) {
    push(text, format_args!("\n## {}: {}\n", line(&document.name), line(&document.title)));
    push(text, format_args!("\nSource: {}.\n", line(&document.source.words())));
    push(text, format_args!("\n{} seeds; {}.\n", document.seeds.len(), line(&page::parameters(&document.parameters))));
    document.notes.iter().for_each(|note| push(text, format_args!("\n{}\n", line(note))));
    for panel in &document.panels {
        push(text, format_args!("\n{}; y: {}\n", line(&panel.title), line(&panel.y.label)));
        let heading = ["series", panel.x.label.as_str(), "measured", "95 %", "expected", "printed", ""].map(cell);
        push(text, format_args!("\n| {} |\n|---|---|---|---|---|---|---|\n", heading.join(" | ")));
        for series in &panel.series {
            series.points.iter().for_each(|point| row(text, &series.name, point));
        }
        for Line { name, points } in &panel.lines {
            let name = cell(name);
            points.iter().for_each(|(x, y)| {
                push(text, format_args!("| {name} | {} |  |  | {} |  |  |\n", number(*x), number(*y)));
            });
        }
    }
    for (introduction, formula) in page::formulas(document) {
        push(text, format_args!("\n{}\n\nThe expected value is {}.\n", line(&introduction), line(formula)));
    }
}

fn row(text: &mut String, series: &str, point: &Point) {
    let verdict = match point.verdict {
        Judged::In => "in",
        Judged::Out => "**out**",
        Judged::NotJudged => "",
    };
    let [x, mean, low, high] = [point.x, point.mean, point.low, point.high].map(number);
    let [expected, printed] = [point.expected, point.printed].map(|value| value.map(number).unwrap_or_default());
    let series = cell(series);
    let interval = if point.low < point.high { format!("{low} to {high}") } else { String::new() };
    push(text, format_args!("| {series} | {x} | {mean} | {interval} | {expected} | {printed} | {verdict} |\n"));
}

/// Escapes a text so that it stays within its cell.
fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}

/// Escapes a text so that it stays within its line and contains no HTML.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('&', "&amp;").replace('<', "&lt;")
}

fn push(text: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_in_its_cell() {
        assert_eq!(cell("a|b\n<c>"), "a\\|b &lt;c>");
    }
}
