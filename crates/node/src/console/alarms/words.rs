//! Formats the texts of alarms. This module rounds numbers for human readers, quotes names for use in a shell, and
//! explains reasons in words. A quoted name remains a single shell word, whatever characters it contains, so an
//! operator can copy a command from an alarm and run it.

/// Quotes a name so that it is a single word in a shell.
pub(super) fn word(name: &str) -> String {
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-@:/],".contains(letter));
    if is_plain && !name.is_empty() && !name.starts_with('-') {
        return name.to_owned();
    }
    // A name that begins with a hyphen or contains a line break is also quoted.
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// Formats a duration in the largest unit with a nonzero integer part, such as `3d`, `5h`, `12min` or `40s`.
pub(super) fn duration(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let unit = units.into_iter().find(|(length, _)| seconds >= *length);
    unit.map_or_else(|| format!("{seconds}s"), |(length, unit)| format!("{}{unit}", seconds / length))
}

/// Formats a number of bytes, such as `1.5 GiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let digits = usize::from(unit > 0 && value < 100.0);
    format!("{value:.digits$} {}", units[unit])
}

/// Formats a number with thousands separators, such as `1,234,567`.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a share as a percentage, such as `82 %`. The percentage is rounded down.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", (share * 100.0).floor())
}

/// Explains a reason for undecided events, and what helps against it.
pub(super) fn reason(reason: &str) -> &'static str {
    match reason {
        "full" => "the filter is full; increase its capacity",
        "late" => "they are older than the window plus the lateness; check their source",
        "future" => "they are further ahead of the clock than allowed, or have no time; check their source",
        "overloaded" => "a node is overloaded; add nodes or cores, or send fewer events",
        "too_old" => "they were sent again after the retry horizon",
        "unknown" => "a reply was lost, or a slice could not be asked in time",
        "not_ready" => "a node does not hold the slice yet, or is about to stop",
        "invalid" => "a client breaks the protocol; see its log",
        "slices_down" => "too few of their slices are available and complete; start the nodes that are down",
        "name_reused" => "an idempotency key was used for another event; use other keys when the topic changes",
        "cut_off" => "a node has not heard from a majority recently, so it records no events",
        "clock_skew" => "the clock of a node is wrong and is not used for events; correct it",
        "claims_unknown" => {
            "their node has just started or taken over, and another consumer may still hold them; this ends after the \
             longest possible claim"
        }
        "forbidden" => "the producer does not have the required right; grant it",
        _ => "see the page on operations",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_word() {
        let plain = ["clicks", "clicks@athens", "a.example:7400", "restoring:x"];
        assert_eq!(plain.map(word), plain.map(str::to_owned));
        assert_eq!(word("a b"), "'a b'");
        assert_eq!(word("x; rm -rf ~"), "'x; rm -rf ~'");
        assert_eq!(word("it's $(date)"), r"'it'\''s $(date)'");
        assert_eq!(["", "-f", "[::1]:7400"].map(word), ["''", "'-f'", "'[::1]:7400'"]);
    }

    #[test]
    fn figures_are_short() {
        assert_eq!([0, 59, 60, 7_199, 90_000].map(duration), ["0s", "59s", "1min", "1h", "1d"]);
        assert_eq!([0, 1_000, 1_536, 200 << 20].map(bytes), ["0 B", "1000 B", "1.5 KiB", "200 MiB"]);
        assert_eq!([7, 1_000, 1_234_567].map(count), ["7", "1,000", "1,234,567"]);
        assert_eq!([0.829, 1.0].map(percent), ["82 %", "100 %"]);
    }
}
