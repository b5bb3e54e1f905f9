//! Renders all documents as one HTML page, which links the pictures by their names.
//!
//! The page begins with a summary of the judgements, and ends with a list of the figures of the papers that no
//! experiment reproduces, with the reasons. It needs no other files than the pictures in the same directory. Every text
//! from a document is escaped, so no text can change the structure of the page.
//!
//! This module does not read or write files.

use std::fmt::Write;

use serde_json::Value;

use crate::document::{Document, Panel, Parameter, Series};
use crate::number::number;
use crate::stats::Judged;

/// Figures of the papers that no experiment reproduces, with the reason.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    (
        "Other decay functions (Cheng et al., Efficient Web Profiling by Time-Decaying Bloom Filters)",
        "Cheng et al. list linear, polynomial and window decay in addition to the exponential decay that they use. This \
         project implements only exponential decay, because no other function lets all counters decay together at the \
         end of an epoch.",
    ),
    (
        "Latency of memory modules (Metwally et al. 2005, 5.2.1)",
        "Metwally et al. give each hash function its own part of the memory, so that the memory modules of one machine \
         can work at the same time. This project implements that layout (`partitioned`, experiment `landmark`), but \
         measures no latency, because the hardware and not the filter decides how memory modules overlap.",
    ),
];

/// Marker of pages that this module has created.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"firstseen eval\">";

/// Maximum number of formulas that an experiment shows at once. Longer lists are collapsed.
const SHOWN_MAX: usize = 2;

/// Facts about a run that its page states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// When, where and how the page was made, in one sentence. The text may be empty.
    pub made: String,
    /// Number of experiments that were requested but have not ended.
    pub not_ended: usize,
}

/// Returns the file name of an experiment's picture, which the page links.
pub fn picture_name(experiment: &str) -> String {
    format!("{experiment}.svg")
}

/// Returns the file name of an experiment's JSON document, which the page links.
pub fn document_name(experiment: &str) -> String {
    format!("{experiment}.json")
}

/// Returns the page with all documents.
pub fn html(heading: &Heading, documents: &[Document]) -> String {
    let mut page = HEAD.replace("{GENERATOR}", GENERATOR);
    if !heading.made.is_empty() {
        push(&mut page, format_args!("<p>{}</p>\n", escaped(&heading.made)));
    }
    summary(&mut page, heading, documents);
    documents.iter().for_each(|document| section(&mut page, document));
    page.push_str("<h2>What the papers name and this page leaves out</h2>\n<dl>\n");
    for (what, why) in LEFT_OUT {
        push(&mut page, format_args!("<dt>{}</dt><dd>{}</dd>\n", escaped(what), escaped(why)));
    }
    page.push_str("</dl>\n</body>\n</html>\n");
    page
}

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
{GENERATOR}
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>firstseen: the papers reproduced</title>
<style>
body { font-family: sans-serif; max-width: 95em; margin: 2em auto; padding: 0 1em; line-height: 1.4; }
.wide { overflow-x: auto; } table { border-collapse: collapse; } td, th { border: 1px solid #aaa; padding: 0.2em 0.6em; text-align: left; }
p, dl { max-width: 70em; } p { overflow-wrap: anywhere; } p.wide { max-width: none; } img { max-width: 100%; }
dt { font-weight: bold; } summary { cursor: pointer; } .out { font-weight: bold; text-decoration: underline; }
</style>
</head>
<body>
<h1>The papers reproduced</h1>
<p>This page compares measurements of the filters of this project with the values that a formula predicts, or that a
simulation with randomly drawn positions predicts if there is no formula. Each measurement is repeated with several
seeds. A point is out if it lies outside a band around the predicted value. If the prediction is correct, a point
lies in its band with the probability 1 - 10<sup>-3</sup> / (judged points of the experiment). A point that was
measured precisely enough is also out if it differs from the predicted value by more than 10 %.</p>
";

fn summary(page: &mut String, heading: &Heading, documents: &[Document]) {
    let [within, out] =
        [Judged::In, Judged::Out].map(|judged| documents.iter().map(|document| document.count(judged)).sum::<usize>());
    let words = match out {
        0 if within == 0 => "No point is judged.".to_owned(),
        0 => format!("All {within} judged points are in."),
        out => format!("{out} of {} judged points are <span class=\"out\">out</span>.", within + out),
    };
    let missing = match heading.not_ended {
        0 => String::new(),
        some => format!(" {some} of {} experiments did not end.", some + documents.len()),
    };
    push(page, format_args!("<p id=\"summary\">{words}{missing}</p>\n<div class=\"wide\"><table>\n"));
    page.push_str("<tr><th>experiment</th><th>shows</th><th>in</th><th>out</th><th>not judged</th></tr>\n");
    for document in documents {
        let name = escaped(&document.name);
        let title = escaped(&document.title);
        let [within, out, unjudged] = [Judged::In, Judged::Out, Judged::NotJudged].map(|kind| document.count(kind));
        let out = match out {
            0 => "<td>0</td>".to_owned(),
            out => format!("<td class=\"out\"><a href=\"#{name}-out\">{out}</a></td>"),
        };
        push(
            page,
            format_args!(
                "<tr><td><a href=\"#{name}\">{name}</a></td><td>{title}</td><td>{within}</td>{out}\
                 <td>{unjudged}</td></tr>\n"
            ),
        );
    }
    page.push_str("</table></div>\n");
}

fn section(page: &mut String, document: &Document) {
    let name = escaped(&document.name);
    let title = escaped(&document.title);
    let source = &document.source;
    push(page, format_args!("<h2 id=\"{name}\">{title}</h2>\n<p>{}</p>\n", escaped(&document.paragraph)));
    let picture = escaped(&picture_name(&document.name));
    // On a narrow screen the picture scrolls, because it would be unreadable if it were scaled down.
    let width_min = firstseen_picture::width(&document.panels) * 3 / 4;
    push(
        page,
        format_args!(
            "<p class=\"wide\"><img src=\"{picture}\" alt=\"{title}\" style=\"min-width: {width_min}px\"></p>\n"
        ),
    );
    let source = escaped(&source.words());
    let numbers = escaped(&document_name(&document.name));
    push(page, format_args!("<p>Source: {source}. Numbers: <a href=\"{numbers}\">{numbers}</a>.</p>\n"));
    push(
        page,
        format_args!("<p>{} seeds; {}.</p>\n", document.seeds.len(), escaped(&parameters(&document.parameters))),
    );
    expectations(page, document);
    for note in &document.notes {
        push(page, format_args!("<p>{}</p>\n", escaped(note)));
    }
    outliers(page, document);
}

/// Returns the parameters of an experiment as one line of text.
pub(crate) fn parameters(parameters: &[Parameter]) -> String {
    let all = parameters.iter().map(|parameter| format!("{}: {}", parameter.name, words(&parameter.value)));
    all.collect::<Vec<_>>().join("; ")
}

/// Formats a number with at most four digits.
fn shortest(value: f64) -> String {
    let [whole, rounded] = [value.to_string(), number(value)];
    if whole.len() < rounded.len() { whole } else { rounded }
}

/// Formats a value as people write it.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Number(value) if value.is_f64() => value.as_f64().map(shortest).unwrap_or_default(),
        value => value.to_string(),
    }
}

fn expectations(page: &mut String, document: &Document) {
    let formulas = formulas(document);
    let is_long = formulas.len() > SHOWN_MAX;
    if is_long {
        page.push_str("<details><summary>What is expected</summary>\n");
    }
    for (introduction, formula) in &formulas {
        push(
            page,
            format_args!("<p>{}</p>\n<p>The expected value is {}.</p>\n", escaped(introduction), escaped(formula)),
        );
    }
    if is_long {
        page.push_str("</details>\n");
    }
}

/// Returns each formula of a document once, together with a sentence that introduces it. If the document has several
/// formulas, the sentence names the series whose expected values the formula gives.
pub(crate) fn formulas(document: &Document) -> Vec<(String, &str)> {
    let all: Vec<_> =
        document.panels.iter().flat_map(|panel| panel.series.iter().map(move |series| (panel, series))).collect();
    let mut formulas: Vec<&str> = Vec::new();
    for formula in all.iter().filter_map(|(_, series)| series.formula.as_deref()) {
        if !formulas.contains(&formula) {
            formulas.push(formula);
        }
    }
    let is_one = formulas.len() == 1;
    let introduced = formulas.into_iter().map(|formula| {
        let of_formula = all.iter().filter(|(_, series)| series.formula.as_deref() == Some(formula));
        let words = if is_one { String::new() } else { of_series(&all, of_formula) };
        (format!("How the expected values{words} are calculated:"), formula)
    });
    introduced.collect()
}

/// Returns text that names the series `chosen`, so that a reader can tell them from the other series in `all`. Two
/// series can have the same name but different formulas. In that case, the text also contains the titles of their
/// panels.
fn of_series<'a>(all: &[(&'a Panel, &'a Series)], chosen: impl Iterator<Item = &'a (&'a Panel, &'a Series)>) -> String {
    let mut clear: Vec<&str> = Vec::new();
    let mut by_panel: Vec<(&str, Vec<&str>)> = Vec::new();
    for (panel, series) in chosen {
        let is_clear = all.iter().all(|(_, other)| other.name != series.name || other.formula == series.formula);
        let names = if is_clear {
            &mut clear
        } else {
            let place = by_panel.iter().position(|(title, _)| *title == panel.title).unwrap_or_else(|| {
                by_panel.push((panel.title.as_str(), Vec::new()));
                by_panel.len() - 1
            });
            &mut by_panel[place].1
        };
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    let mut parts = Vec::new();
    if !clear.is_empty() {
        parts.push(format!(" of the series {}", listed(&clear)));
    }
    // Panels with the same series are named together.
    while let Some((_, names)) = by_panel.first().cloned() {
        let titles: Vec<&str> = by_panel.iter().filter(|(_, other)| *other == names).map(|(title, _)| *title).collect();
        by_panel.retain(|(_, other)| *other != names);
        parts.push(format!(" of the series {} in {}", listed(&names), listed(&titles)));
    }
    parts.join(", and")
}

/// Returns texts in quotes, as a list with commas and "and".
fn listed(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn outliers(page: &mut String, document: &Document) {
    if document.count(Judged::Out) == 0 {
        return;
    }
    let heading =
        ["out", "series", "x", "measured", "95 %", "expected"].map(|name| format!("<th>{name}</th>")).concat();
    let name = escaped(&document.name);
    push(page, format_args!("<div class=\"wide\" id=\"{name}-out\"><table>\n<tr>{heading}</tr>\n"));
    for (panel, series, point) in document.out() {
        let panel = escaped(panel);
        let series = escaped(series);
        let expected = point.expected.unwrap_or(f64::NAN);
        push(
            page,
            format_args!(
                "<tr><td>{panel}</td><td>{series}</td><td>{}</td><td>{}</td><td>{} to {}</td><td>{}</td></tr>\n",
                number(point.x),
                number(point.mean),
                number(point.low),
                number(point.high),
                number(expected)
            ),
        );
    }
    page.push_str("</table></div>\n");
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = page.write_fmt(text);
}

/// Escapes all characters that HTML would interpret, including those that matter within quotes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::{Axis, Point, Source};

    fn document(verdict: Judged) -> Document {
        let point =
            Point { x: 4.0, mean: 0.5, low: 0.4, high: 0.6, samples: 3, expected: Some(0.1), printed: None, verdict };
        let evil = "<script>alert('x' & \"y\")</script>".to_owned();
        Document {
            name: "evil\"name".to_owned(),
            title: evil.clone(),
            paragraph: evil.clone(),
            source: Source { paper: evil.clone(), section: evil.clone(), figure: evil.clone() },
            parameters: vec![Parameter { name: evil.clone(), value: evil.clone().into() }],
            seeds: vec![1, 2],
            panels: vec![Panel {
                title: evil.clone(),
                x: Axis::linear("x"),
                y: Axis::log("y"),
                series: vec![Series { name: evil.clone(), formula: Some(evil.clone()), points: vec![point] }],
                lines: Vec::new(),
            }],
            notes: vec![evil],
        }
    }

    #[test]
    fn no_text_of_a_document_is_taken_for_html() {
        let heading = Heading { made: "<b>now</b>".to_owned(), not_ended: 2 };
        let page = html(&heading, &[document(Judged::Out)]);
        assert!(page.contains("2 of 3 experiments did not end."), "{page}");
        assert!(!page.contains("<script") && !page.contains("<b>now") && !page.contains("evil\"name"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)").count(), 13, "{page}");
    }

    #[test]
    fn values_are_shown_as_people_write_them() {
        let shown =
            [json!("all"), json!(2_450_000), json!([2, 1.234_567_8, 0.9]), json!(true)].map(|value| words(&value));
        assert_eq!(shown, ["all", "2450000", "2, 1.235, 0.9", "true"]);
    }

    #[test]
    fn a_formula_stands_once_and_a_point_that_is_out_under_its_panel() {
        let mut document = document(Judged::Out);
        let named = |name: &str, formula: &str, of: &Series| Series {
            name: name.to_owned(),
            formula: Some(formula.to_owned()),
            ..of.clone()
        };
        let one = document.panels[0].series[0].clone();
        let panel = |title: &str, series| Panel { title: title.to_owned(), series, ..document.panels[0].clone() };
        let first = panel("one", vec![named("a", "f", &one), named("b", "f", &one)]);
        let second = panel("two", vec![named("a", "f", &one), named("b", "g", &one)]);
        document.panels = vec![first.clone(), first.clone()];
        let page = html(&Heading::default(), &[document.clone()]);
        assert_eq!(page.matches("<p>The expected value is f.</p>").count(), 1, "{page}");
        assert_eq!(page.matches("<tr><td>one</td><td>a</td><td>4</td>").count(), 2, "{page}");
        document.panels = vec![first, second];
        let page = html(&Heading::default(), &[document]);
        assert!(
            page.contains(
                "<p>How the expected values of the series &quot;a&quot;, and of the series &quot;b&quot; in \
                 &quot;one&quot; are calculated:</p>\n\
                 <p>The expected value is f.</p>\n\
                 <p>How the expected values of the series &quot;b&quot; in &quot;two&quot; are calculated:</p>\n\
                 <p>The expected value is g.</p>"
            ),
            "{page}"
        );
    }

    #[test]
    fn panels_with_the_same_series_are_named_together() {
        let document = document(Judged::In);
        let series = document.panels[0].series[0].clone();
        let named = |name: &str, formula: &str| Series {
            name: name.to_owned(),
            formula: Some(formula.to_owned()),
            ..series.clone()
        };
        let panel = |title: &str, formula: &str| Panel {
            title: title.to_owned(),
            series: vec![named("a", formula), named("b", formula)],
            ..document.panels[0].clone()
        };
        let panels = vec![panel("one", "f"), panel("two", "f"), panel("three", "f"), panel("four", "g")];
        let document = Document { panels, ..document.clone() };
        let introductions: Vec<String> = formulas(&document).into_iter().map(|(words, _)| words).collect();
        assert_eq!(
            introductions,
            [
                "How the expected values of the series \"a\" and \"b\" in \"one\", \"two\" and \"three\" are calculated:",
                "How the expected values of the series \"a\" and \"b\" in \"four\" are calculated:"
            ]
        );
    }

    #[test]
    fn the_summary_counts_and_what_is_out_is_shown() {
        let page = html(&Heading::default(), &[document(Judged::Out), document(Judged::In)]);
        assert!(page.contains("1 of 2 judged points are <span class=\"out\">out</span>"));
        assert!(page.contains("<td>0.5000</td><td>0.4000 to 0.6000</td><td>0.1000</td>"));
        let page = html(&Heading::default(), &[document(Judged::In), document(Judged::In)]);
        assert!(page.contains("All 2 judged points are in."));
        assert!(page.contains("What the papers name and this page leaves out") && page.contains("decay functions"));
    }
}
