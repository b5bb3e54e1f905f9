//! Formats numbers and texts for the cells of a terminal display. A number that is not known is shown as a dash. A text
//! is cut to the width of its column. Control characters in a text are escaped, because they could move the cursor of
//! the terminal.

/// Text for an unknown value.
pub(super) const UNKNOWN: &str = "-";

/// Characters for the values of a series, from the lowest to the highest.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns a number in short form, such as `12.3k`.
pub(super) fn brief(value: Option<f64>) -> String {
    let Some(value) = value else { return UNKNOWN.to_owned() };
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) if value / size < 100.0 => format!("{:.1}{unit}", value / size),
        Some((size, unit)) => format!("{:.0}{unit}", value / size),
        None if value > 0.0 && value < 10.0 => format!("{value:.1}"),
        None => format!("{value:.0}"),
    }
}

/// Returns a share as a percentage, such as `82%`.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| UNKNOWN.to_owned(), |share| format!("{:.0}%", (share * 100.0).floor()))
}

/// Returns a duration in milliseconds, such as `3.7ms`.
pub(super) fn ms(value: Option<f64>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(value) if value >= 1000.0 => format!("{:.1}s", value / 1000.0),
        Some(value) if value >= 10.0 => format!("{value:.0}ms"),
        Some(value) => format!("{value:.1}ms"),
    }
}

/// Returns an amount of memory, such as `1.5G`.
pub(super) fn bytes(value: Option<u64>) -> String {
    let Some(value) = value else { return UNKNOWN.to_owned() };
    let mut scaled = value as f64;
    let mut units = ["B", "K", "M", "G", "T", "P"].into_iter();
    let mut unit = units.next();
    while scaled >= 1024.0 {
        (scaled, unit) = (scaled / 1024.0, units.next());
    }
    let digits = usize::from(unit != Some("B") && scaled < 10.0);
    format!("{scaled:.digits$}{}", unit.unwrap_or("E"))
}

/// Returns a duration with its sign, such as `+12ms`.
pub(super) fn signed_ms(value: Option<i64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:+}ms"))
}

/// Returns the text with control characters escaped, because they could move the cursor.
pub(super) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            cleaned.extend(letter.escape_default());
        } else {
            cleaned.push(letter);
        }
    }
    cleaned
}

/// Returns the last values of a series, one character each. An unknown value is a blank.
pub(super) fn line(steps: &[Option<f64>], letters: usize) -> String {
    let shown = &steps[steps.len().saturating_sub(letters)..];
    let most = shown.iter().flatten().copied().fold(0.0, f64::max);
    let letters = shown.iter().map(|step| match step {
        None => ' ',
        Some(step) if most > 0.0 => STEPS[((step / most * 7.0).round() as usize).min(7)],
        Some(_) => STEPS[0],
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_unknown_ones_are_dashes() {
        let rates = [Some(0.0), Some(3.25), Some(999.0), Some(12_345.0), Some(250e6), None];
        assert_eq!(rates.map(brief), ["0", "3.2", "999", "12.3k", "250M", "-"]);
        assert_eq!([Some(0.829), None].map(percent), ["82%", "-"]);
        assert_eq!([Some(0.42), Some(37.2), Some(1_500.0), None].map(ms), ["0.4ms", "37ms", "1.5s", "-"]);
        assert_eq!([Some(12), Some(1 << 20), Some(200 << 20), None].map(bytes), ["12B", "1.0M", "200M", "-"]);
        assert_eq!([Some(3), Some(-20), None].map(signed_ms), ["+3ms", "-20ms", "-"]);
    }

    #[test]
    fn a_line_shows_the_newest_steps() {
        assert_eq!(line(&[Some(9.0), Some(0.0), None, Some(4.0), Some(8.0)], 4), "▁ ▅█");
        assert_eq!(line(&[Some(0.0), Some(0.0)], 4), "▁▁");
        assert_eq!(clean("a\u{1b}[2J\nb ü"), "a\\u{1b}[2J\\nb ü");
    }
}
