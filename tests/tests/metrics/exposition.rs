//! Strict parser of metrics in two text formats. It rejects everything that the specifications of Prometheus and
//! OpenMetrics forbid.
//!
//! For example, the parser checks the following rules:
//!
//! - Each metric family occurs once, with its help text and its type.
//! - Each series occurs once, and its labels are escaped.
//! - The names of counters end in `_total`.
//! - The buckets of a histogram are cumulative, and the last bucket contains all samples.
//!
//! This module does not know which metrics exist.

use std::collections::{BTreeMap, BTreeSet};

/// Format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Prometheus,
    OpenMetrics,
}

/// Labels of a series, with their values.
pub(crate) type Labels = BTreeMap<String, String>;

/// Samples of a text, by name and labels.
pub(crate) type Samples = BTreeMap<(String, Labels), f64>;

/// Metric family whose lines are being read.
#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    samples: Samples,
}

/// Parses `text`, and returns its samples.
pub(crate) fn read(text: &str, format: Format) -> Result<Samples, String> {
    let body = match format {
        Format::Prometheus => text,
        Format::OpenMetrics => text.strip_suffix("# EOF\n").ok_or("no end")?,
    };
    if !body.ends_with('\n') {
        return Err("a line without an end".to_owned());
    }
    let (mut all, mut names, mut family) = (Samples::new(), BTreeSet::new(), Family::default());
    for line in body.lines() {
        let said = |what: &str| format!("{what}: {line}");
        if let Some(help) = line.strip_prefix("# HELP ") {
            end(&mut all, std::mem::take(&mut family), format)?;
            let (name, words) = help.split_once(' ').ok_or_else(|| said("no help"))?;
            unescaped(words, false).ok_or_else(|| said("escapes"))?;
            if !is_name(name) || words.is_empty() || !names.insert(name.to_owned()) {
                return Err(said("a name or a help, or the family comes twice"));
            }
            family.name = name.to_owned();
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').ok_or_else(|| said("no type"))?;
            let is_kind = ["counter", "gauge", "histogram"].contains(&kind);
            if name != family.name || !family.kind.is_empty() || !is_kind || !family.samples.is_empty() {
                return Err(said("a type that is out of place"));
            }
            family.kind = kind.to_owned();
        } else if let Some(unit) = line.strip_prefix("# UNIT ") {
            let (name, unit) = unit.split_once(' ').ok_or_else(|| said("no unit"))?;
            if format == Format::Prometheus || name != family.name || !name.ends_with(&format!("_{unit}")) {
                return Err(said("a unit that is out of place"));
            }
        } else {
            let (name, labels, value) = sample(line).ok_or_else(|| said("no sample"))?;
            if family.kind.is_empty() || !family.has(&name, format) {
                return Err(said("a sample of another family"));
            }
            if family.samples.insert((name, labels), value).is_some() {
                return Err(said("a series twice"));
            }
        }
    }
    end(&mut all, family, format)?;
    Ok(all)
}

impl Family {
    /// Returns whether a sample with this name belongs to the family.
    fn has(&self, sample: &str, format: Format) -> bool {
        let Some(ending) = sample.strip_prefix(self.name.as_str()) else { return false };
        match (self.kind.as_str(), format) {
            ("counter", Format::OpenMetrics) => ending == "_total",
            ("counter", Format::Prometheus) => ending.is_empty() && sample.ends_with("_total"),
            ("histogram", _) => ["_bucket", "_sum", "_count"].contains(&ending),
            _ => ending.is_empty() && !sample.ends_with("_total"),
        }
    }
}

/// Checks a family after its last line.
fn end(all: &mut Samples, family: Family, format: Format) -> Result<(), String> {
    let Family { name, kind, samples } = family;
    if name.is_empty() {
        return Ok(());
    }
    if kind.is_empty() || samples.is_empty() || (format == Format::OpenMetrics && name.ends_with("_total")) {
        return Err(format!("{name}: no type, no sample, or the name of a sample"));
    }
    if kind == "counter" && samples.values().any(|value| !value.is_finite() || *value < 0.0) {
        return Err(format!("{name}: a counter that is no count"));
    }
    if kind == "histogram" {
        histogram(&name, &samples)?;
    }
    all.extend(samples);
    Ok(())
}

/// Checks that the buckets of a histogram are cumulative, and that the last bucket contains all samples.
fn histogram(name: &str, samples: &Samples) -> Result<(), String> {
    let mut buckets = BTreeMap::<Labels, Vec<(f64, f64)>>::new();
    let (bucket, sum, count) = (format!("{name}_bucket"), format!("{name}_sum"), format!("{name}_count"));
    for ((sample, labels), value) in samples {
        let mut others = labels.clone();
        let bound = others.remove("le");
        match (sample == &bucket, bound) {
            (true, Some(bound)) => {
                let bound = number(&bound).ok_or_else(|| format!("{name}: a bound {bound}"))?;
                buckets.entry(others).or_default().push((bound, *value));
            }
            (false, None) => {}
            _ => return Err(format!("{name}: `le` belongs to buckets")),
        }
    }
    let series = samples.keys().filter(|(sample, _)| *sample == count).count();
    if buckets.len() != series {
        return Err(format!("{name}: {series} counts and {} sets of buckets", buckets.len()));
    }
    for (labels, mut buckets) in buckets {
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let is_cumulative = buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        let last = buckets.last().copied().filter(|(bound, _)| *bound == f64::INFINITY);
        let counted = samples.get(&(count.clone(), labels.clone())).copied();
        let has_sum = samples.contains_key(&(sum.clone(), labels));
        if !is_cumulative || last.map(|(_, all)| all) != counted || counted.is_none() || !has_sum {
            return Err(format!("{name}: buckets that do not add up: {buckets:?}, {counted:?}"));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.chars().all(is_letter) && !name.starts_with(|letter: char| letter.is_ascii_digit()) && !name.is_empty()
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// Parses the name, the labels and the value of a line.
fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let (name, labels, value) = match line.find('{') {
        None => {
            let (name, value) = line.split_once(' ')?;
            (name, Labels::new(), value)
        }
        Some(open) => {
            let (labels, rest) = labels(&line[open + 1..])?;
            (&line[..open], labels, rest.strip_prefix(' ')?)
        }
    };
    is_name(name).then_some(())?;
    Some((name.to_owned(), labels, number(value)?))
}

/// Parses labels up to their closing brace. Returns the labels and the rest of the line.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let mut is_escaped = false;
        let end = after.find(|letter| {
            let ends = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            ends
        })?;
        let value = unescaped(&after[..end], true)?;
        if !is_name(name) || labels.insert(name.to_owned(), value).is_some() {
            return None;
        }
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((labels, rest.strip_prefix('}')?)),
        }
    }
}

/// Removes the escapes of a text. Returns `None` if they are not those of the format. Quotes are escaped only in
/// labels.
fn unescaped(text: &str, is_label: bool) -> Option<String> {
    let (mut plain, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                escaped @ ('\\' | '"') => escaped,
                _ => return None,
            },
            '"' if is_label => return None,
            letter => letter,
        });
    }
    Some(plain)
}

#[test]
fn what_the_formats_forbid_is_refused() {
    let good = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"\\\"\\\\\\n,}\",y=\"\"} 1\na_total 2\n# HELP h H.\n\
                # TYPE h histogram\nh_sum 3\nh_count 2\nh_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 2\n";
    let samples = read(good, Format::Prometheus).expect("a good text");
    let odd = Labels::from([("x".to_owned(), "\"\\\n,}".to_owned()), ("y".to_owned(), String::new())]);
    assert_eq!(samples.get(&("a_total".to_owned(), odd)), Some(&1.0));
    let newer = good.replace("a_total A", "a A").replace("a_total counter", "a counter") + "# EOF\n";
    assert_eq!(read(&newer, Format::OpenMetrics), Ok(samples));
    for (from, to) in [
        ("# TYPE a_total counter\n", ""),
        ("# HELP h H.\n", "# HELP a_total A.\n"),
        ("# TYPE h histogram", "# TYPE h summary"),
        ("a_total 2", "a_total{x=\"\\\"\\\\\\n,}\",y=\"\"} 1"),
        ("a_total 2", "a_total -2"),
        ("a_total 2", "a 2"),
        ("a_total 2", "a_total two"),
        ("a_total 2", "a_total{x=\"\\t\"} 2"),
        ("a_total 2", "a_total{x=\"1\",x=\"2\"} 2"),
        ("a_total 2", "b_total 2"),
        ("{le=\"1.0\"} 1", "{le=\"1.0\"} 3"),
        ("h_bucket{le=\"+Inf\"} 2\n", ""),
        ("h_count 2", "h_count 1"),
        ("h_sum 3\n", ""),
        ("h_sum 3", "h_sum{le=\"1\"} 3"),
        ("# HELP h", "# UNIT a_total s\n# HELP h"),
    ] {
        assert!(good.contains(from) && read(&good.replacen(from, to, 1), Format::Prometheus).is_err(), "{to}");
    }
    assert!(read(good, Format::OpenMetrics).is_err() && read(&newer, Format::Prometheus).is_err());
}
