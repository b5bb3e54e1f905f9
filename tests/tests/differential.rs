//! Random formats, windows, kinds and slicings against an exact model that keeps every key.
//!
//! A seed makes a run; a failure names it. `FIRSTSEEN_RUNS=17..18 cargo test -p firstseen-tests --test all differential`
//! repeats run 17, and `FIRSTSEEN_RUNS=0..5000` takes as long as one likes.

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::run::{Folder, Random};

const RUNS: Range<u64> = 0..60;
const EVENTS: usize = 1200;
const START_MS: u64 = 1_700_000_000_000;

/// A window as the model sees it.
#[derive(Clone, Copy, Debug)]
enum Window {
    Unbounded,
    /// What was passed on less than so many units ago is a duplicate; what was so much longer ago is not.
    Sliding {
        by_time: bool,
        length: u64,
        slack: u64,
    },
    /// Units of such a length are apart from each other.
    Landmark {
        by_time: bool,
        length: u64,
    },
}

struct Event {
    key: u64,
    time_ms: u64,
}

struct Run {
    events: Vec<Event>,
    window: Window,
    flags: String,
    format: &'static str,
}

fn run(seed: u64) -> Run {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9));
    let mut pick = |among: &[&'static str]| among[random.below(among.len() as u64) as usize];
    let format = pick(&["csv", "tsv", "jsonl"]);
    let kind = pick(&["unbounded", "timing", "generations", "counting", "landmark"]);
    let by_time = pick(&["time", "count"]) == "time";
    let slicing = pick(&["none", "horizontal:3", "vertical:4", "horizontal-vertical:2x3", "vertical-horizontal:3x2"]);
    let layout = pick(&["", "--layout classic"]);
    let length = if by_time { 1000 + random.below(60_000) } else { 2 + random.below(400) };
    let unit = if by_time { "ms" } else { "events" };
    // Ticks are a 64th of the window or less, jumps a Qth of it; what is kept too long is two of them at most.
    let (window, name, slack_parts) = match kind {
        "unbounded" => (Window::Unbounded, "unbounded".to_owned(), 1),
        "landmark" => (Window::Landmark { by_time, length }, format!("landmark:{length}{unit}"), 1),
        "timing" => (Window::Unbounded, format!("{length}{unit}"), 64),
        "generations" => (Window::Unbounded, format!("{length}{unit}"), 6),
        _ => (Window::Unbounded, format!("{length}{unit}"), 4),
    };
    let window = match kind {
        "unbounded" | "landmark" => window,
        // The queue of the last N arrivals is exact.
        "counting" if !by_time => Window::Sliding { by_time, length, slack: 0 },
        _ => Window::Sliding { by_time, length, slack: 2 * length.div_ceil(slack_parts) + 2 },
    };
    let is_cut = kind == "unbounded" || by_time;
    let may_be_vertical = kind != "counting";
    let slicing = if !is_cut || (!may_be_vertical && slicing != "horizontal:3") { "none" } else { slicing };
    let named_kind = if matches!(kind, "unbounded" | "landmark") { "bloom" } else { kind };
    let capacity = if kind == "counting" && !by_time { "" } else { "--capacity 20000" };
    let flags =
        format!("--kind {named_kind} --window {name} --slicing {slicing} {layout} {capacity} --fpr 1e-8 --seed {seed}");
    let keys = 2 + random.below(500);
    let step_ms = 1 + random.below(300);
    let mut time_ms = START_MS;
    let mut event = |_| {
        time_ms += random.below(2 * step_ms);
        Event { key: random.below(keys), time_ms }
    };
    Run { events: (0..EVENTS).map(&mut event).collect(), window, flags, format }
}

impl Run {
    /// The input; keys are spelled in several ways.
    fn input(&self) -> String {
        let mut text = String::new();
        for (number, Event { key, time_ms }) in self.events.iter().enumerate() {
            text += &match (self.format, number % 3) {
                ("csv", 0) => format!("\"key {key}\",{time_ms},{number}\n"),
                ("csv", _) => format!("key {key},{time_ms},\"{number}\"\n"),
                ("tsv", _) => format!("key {key}\t{time_ms}\t{number}\n"),
                (_, 0) => format!("{{\"n\": {number}, \"k\": \"k\\u0065y {key}\", \"t\": {time_ms}}}\n"),
                _ => format!("{{\"k\":\"key {key}\",\"t\":{time_ms},\"n\":{number}}}\n"),
            };
        }
        text
    }

    fn format_flags(&self) -> &'static str {
        match self.format {
            "csv" => "--format csv --no-header --key 1 --time 2",
            "tsv" => "--format tsv --no-header --key 1 --time 2",
            _ => "--format jsonl --key k --time t",
        }
    }

    /// Whether event `number` must be a duplicate, or first-seen, when its key was passed on last at event `last`.
    fn expected(&self, number: usize, last: Option<usize>) -> Option<bool> {
        let Some(last) = last else { return Some(false) };
        let place = |event: usize, by_time: bool| if by_time { self.events[event].time_ms } else { event as u64 };
        match self.window {
            Window::Unbounded => Some(true),
            Window::Landmark { by_time, length } => {
                Some(place(number, by_time) / length == place(last, by_time) / length)
            }
            Window::Sliding { by_time, length, slack } => match place(number, by_time) - place(last, by_time) {
                since if since < length => Some(true),
                since if since >= length + slack => Some(false),
                _ => None,
            },
        }
    }
}

fn check(seed: u64) {
    let run = run(seed);
    let folder = Folder::new();
    let input = run.input();
    if seed.is_multiple_of(2) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(input.as_bytes()).expect("memory");
        folder.write("input", encoder.finish().expect("memory"));
    } else {
        folder.write("input", &input);
    }
    let flags = format!("{} {} --duplicates again --report none input", run.format_flags(), run.flags);
    let ran = folder.dedup(&flags);
    assert_eq!(ran.code, Some(0), "run {seed}, {flags}: {}", ran.err);
    let again = folder.read("again");
    let (mut out, mut again) = (ran.out.lines().peekable(), again.lines().peekable());
    let mut last: HashMap<u64, usize> = HashMap::new();
    for (number, line) in input.lines().enumerate() {
        let is_duplicate = again.next_if_eq(&line).is_some();
        assert!(is_duplicate || out.next_if_eq(&line).is_some(), "run {seed}, {flags}: record {number} is lost");
        let key = run.events[number].key;
        let expected = run.expected(number, last.get(&key).copied());
        assert!(
            expected.is_none_or(|expected| expected == is_duplicate),
            "run {seed}, {flags}: record {number}, {line}"
        );
        if !is_duplicate {
            last.insert(key, number);
        }
    }
    assert!(out.peek().is_none() && again.peek().is_none(), "run {seed}, {flags}: more came out than went in");
}

#[test]
fn random_runs_answer_as_an_exact_model() {
    let asked = std::env::var("FIRSTSEEN_RUNS").ok();
    let asked = asked
        .as_deref()
        .and_then(|text| text.split_once(".."))
        .map(|(start, end)| start.parse().expect("a number")..end.parse().expect("a number"));
    asked.unwrap_or(RUNS).for_each(check);
}
