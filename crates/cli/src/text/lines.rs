//! Breaks long values into several lines of a report for users. A line has at most a hundred characters, unless the
//! value has a longer part that cannot be broken.

/// Width in characters of the name in front of a value.
pub(crate) const NAME_WIDTH: usize = 14;
/// Maximum width of a line in characters, if the value can be broken.
const LINE_WIDTH_MAX: usize = 100;

/// Returns a value on as many lines as it needs. A value is broken after commas. The report prints the name of the
/// value in front of the first line, so the other lines are indented by the width of the name.
pub(crate) fn wrapped(value: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (number, line) in value.lines().enumerate() {
        let mut width = if number == 0 { NAME_WIDTH + 1 } else { 0 };
        lines.push(String::new());
        for part in line.split_inclusive(", ") {
            let part_width = part.trim_end().chars().count();
            let text = lines.last_mut().filter(|text| text.is_empty() || width + part_width <= LINE_WIDTH_MAX);
            match text {
                Some(text) => text.push_str(part),
                None => {
                    width = NAME_WIDTH + 1;
                    lines.push(format!("{:width$}{part}", ""));
                }
            }
            width += part.chars().count();
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// Returns `text` in lines of at most a hundred characters, broken at blanks. Lines after the first are indented by
/// `indent` blanks.
#[cfg(feature = "full")]
pub fn folded(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LINE_WIDTH_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{:indent$}{word}", "")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_parted_behind_commas() {
        let value = "timing, m 33024 of 8 bits, k 6, blocked 2, time in steps of 11m 15s, room for 3,036 events, window 1d, seed 1";
        let text = wrapped(value);
        assert_eq!(text.replace("\n               ", " "), value);
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(matches!(widths[..], [..=85, ..=100]), "{text}");
        let two_lines = format!("tp 1, fp 2\n{:15}fpr 0.2490 %, by events 0.2462 %, fnr 0 %, f1 0.9947", "");
        assert_eq!(wrapped(&two_lines), two_lines);
        assert_eq!(wrapped("short, and so on"), "short, and so on");
        assert_eq!(wrapped(&"x".repeat(300)), "x".repeat(300));
    }
}
