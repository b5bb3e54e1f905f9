//! All documents on one page: HTML that links the pictures by their names.
//!
//! Promises: every text from a document is escaped; the summary of verdicts stands on top; figures of the papers that
//! no experiment shows are listed with the reason. The page needs nothing but the pictures beside it. Must not know:
//! files.

use std::fmt::Write;

use serde_json::Value;

use crate::document::{Document, Parameter};
use crate::number::number;
use crate::stats::Judged;

/// Figures of the papers that no experiment shows, with the reason.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    (
        "Other decay functions (Cheng et al., Efficient Web Profiling by Time-Decaying Bloom Filters)",
        "The paper lists linear, polynomial and window decay and uses the exponential one; only that one lets counters decay \
         together at the end of an epoch, and only that one is built.",
    ),
    (
        "Latency of memory modules (Metwally et al. 2005, 5.2.1)",
        "Separate hash spaces let modules of one machine work at the same time. The layout is built (partitioned, experiment \
         landmark); how modules overlap is a matter of the hardware, which a filter cannot choose.",
    ),
];

/// The mark of pages that this module has made.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"firstseen eval\">";

/// Formulas of an experiment that are shown at once; more are behind a click.
const SHOWN_MAX: usize = 2;

/// The facts about a run that its page names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// When, where and how the page was made, in one sentence; may be empty.
    pub made: String,
    /// Experiments that were asked for, and have not ended.
    pub not_ended: usize,
}

/// The file name of an experiment's picture, which the page links.
pub fn picture_name(experiment: &str) -> String {
    format!("{experiment}.svg")
}

/// The file name of an experiment's JSON, which the page links.
pub fn document_name(experiment: &str) -> String {
    format!("{experiment}.json")
}

/// The page of all documents.
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
<p>Filters are the production ones (what they are compared with is named), measured over several seeds, beside what a formula
expects, or a model whose places are drawn where no formula is known. A point is out where it lies outside the band of
1 - 10<sup>-3</sup> / (judged points of the experiment), or more than 10 % off where it was measured well enough to tell.</p>
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
    // On a narrow screen a picture is scrolled, not shrunk until it cannot be read.
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

/// The parameters of an experiment, in one line.
pub(crate) fn parameters(parameters: &[Parameter]) -> String {
    let all = parameters.iter().map(|parameter| format!("{}: {}", parameter.name, words(&parameter.value)));
    all.collect::<Vec<_>>().join("; ")
}

/// Four digits at most.
fn shortest(value: f64) -> String {
    let [whole, rounded] = [value.to_string(), number(value)];
    if whole.len() < rounded.len() { whole } else { rounded }
}

/// A value as people write it.
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
    for (of, formula) in &formulas {
        push(page, format_args!("<p>Expected{}: {}.</p>\n", escaped(of), escaped(formula)));
    }
    if is_long {
        page.push_str("</details>\n");
    }
}

/// Each formula once, after " of " and the series that it belongs to, where those are not all.
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
    let with_names = formulas.into_iter().map(|formula| {
        let mut names: Vec<String> = Vec::new();
        for (panel, series) in all.iter().filter(|(_, series)| series.formula.as_deref() == Some(formula)) {
            // A series' name is clear where no other series of that name has another formula.
            let is_clear = all.iter().all(|(_, other)| other.name != series.name || other.formula == series.formula);
            let name = if is_clear { series.name.clone() } else { format!("{}, {}", panel.title, series.name) };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (if is_one { String::new() } else { format!(" of {}", names.join("; ")) }, formula)
    });
    with_names.collect()
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

/// A text in which nothing is taken for HTML, also within quotes.
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
    use crate::document::{Axis, Panel, Point, Series, Source};

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
        assert_eq!(page.matches("<p>Expected: f.</p>").count(), 1, "{page}");
        assert_eq!(page.matches("<tr><td>one</td><td>a</td><td>4</td>").count(), 2, "{page}");
        document.panels = vec![first, second];
        let page = html(&Heading::default(), &[document]);
        assert!(page.contains("<p>Expected of a; one, b: f.</p>\n<p>Expected of two, b: g.</p>"), "{page}");
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
