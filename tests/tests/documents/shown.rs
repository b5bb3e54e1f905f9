//! Compares the output that a page shows with the real output.
//!
//! Words and numbers must be equal, except for numbers that depend on time.

/// Returns the first line of the page that is missing in `came`, where the lines must occur in the same order.
///
/// Output that a page shows is compared with the real output line by line. A line with `...` matches any number of
/// lines. Seconds, rates and ports are not compared, because they differ between machines and runs.
pub(crate) fn missing<'a>(shown: &'a str, came: &str) -> Option<&'a str> {
    let mut came = came.lines().map(normal);
    let mut lines = shown.lines().filter(|line| !line.trim().is_empty() && line.trim() != "...");
    lines.find(|line| {
        let wanted = normal(line);
        !came.any(|line| line == wanted)
    })
}

/// Removes the numbers that differ from run to run, if the line contains seconds or events per second.
fn normal(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_measured = words.iter().any(|word| matches!(*word, "s" | "s," | "ms" | "events/s"));
    let is_number = |word: &str| word.chars().any(|letter| letter.is_ascii_digit());
    let words = words.into_iter().map(|word| if is_measured && is_number(word) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn numbers_are_compared_but_for_those_of_a_clock() {
    let came = "events    10\nfirst seen 4 (40.0 %)\ntime  0.10 s, 100 events/s\n  3 a\n  2 b\n";
    assert_eq!(missing("events 10\ntime 0.22 s, 45 events/s\n  3 a\n  ...\n", came), None);
    assert_eq!(missing("events 10\nfirst seen 5 (40.0 %)\n", came), Some("first seen 5 (40.0 %)"));
    assert_eq!(missing("  3 a\nevents 10\n", came), Some("events 10"), "their order counts");
    assert_eq!(missing("  3 a\n  1 c\n", came), Some("  1 c"));
}
