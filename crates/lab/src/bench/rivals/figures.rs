//! The figures of systems side by side, and how they are printed.
//!
//! Promises: only what was measured; medians of the runs. Must not know: how figures were measured.

use std::io::{self, Write};

use serde::Serialize;

use super::super::figures::Measured;
use super::{Measurement, System};
use firstseen_cli::text::numbers::grouped;
use firstseen_cli::text::size::ByteSize;
use firstseen_cli::text::table::Table;

/// One system.
#[derive(Debug, Serialize)]
pub(super) struct RivalFigures {
    pub(super) system: System,
    pub(super) memory_bytes: Option<u64>,
    pub(super) peak_bytes: Option<u64>,
    pub(super) new_ns: Measured,
    pub(super) new_core_ns: Measured,
    pub(super) known_ns: Measured,
    pub(super) known_core_ns: Measured,
    pub(super) wrong_keys: u64,
    pub(super) forgotten_keys: u64,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) keys: u64,
    pub(super) key_bytes: usize,
    pub(super) window_ms: u64,
    pub(super) runs: u32,
    pub(super) rivals: Vec<RivalFigures>,
}

/// The columns: `ns` by the clock, `core ns` of all cores.
const HEADING: [&str; 10] = [
    "",
    "memory",
    "peak",
    "bytes a key",
    "ns, new",
    "ns, known",
    "core ns, new",
    "core ns, known",
    "new called known",
    "forgotten",
];

/// The middle one; that of the upper half where there are two.
fn median<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort();
    let middle = values.len() / 2;
    values.into_iter().nth(middle)
}

impl RivalFigures {
    /// Of at least one measurement.
    pub(super) fn of(system: System, measurements: &[Measurement]) -> Option<Self> {
        let time = |value: fn(&Measurement) -> f64| Measured::of(measurements.iter().map(value).collect());
        Some(Self {
            system,
            memory_bytes: median(measurements.iter().map(|measurement| measurement.memory_bytes))?,
            peak_bytes: median(measurements.iter().map(|measurement| measurement.peak_bytes))?,
            new_ns: time(|measurement| measurement.new_ns),
            new_core_ns: time(|measurement| measurement.new_core_ns),
            known_core_ns: time(|measurement| measurement.known_core_ns),
            known_ns: time(|measurement| measurement.known_ns),
            wrong_keys: median(measurements.iter().map(|measurement| measurement.wrong))?,
            forgotten_keys: median(measurements.iter().map(|measurement| measurement.forgotten))?,
        })
    }
}

impl System {
    fn words(self) -> &'static str {
        match self {
            Self::Cuckoo1e3 => "firstseen, cuckoo, 0.1 %",
            Self::Cuckoo1e8 => "firstseen, cuckoo, 1e-8",
            Self::Generations => "firstseen, generations, 0.1 %",
            Self::Map => "HashMap of key to expiry",
            Self::Redis => "Redis, SET NX EX",
            Self::CuckooClock => "crate cuckoo-clock, 0.1 %",
        }
    }
}

impl Figures {
    /// Prints the figures for people.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { keys, key_bytes, window_ms, runs, rivals } = self;
        writeln!(
            out,
            "{} keys of {key_bytes} bytes in a window of {} minutes, medians of {runs} (least to greatest), each in a process of \
             its own",
            grouped(*keys),
            window_ms / 60_000
        )?;
        let mut table = Table::new(&HEADING);
        for rival in rivals {
            let size = |bytes: Option<u64>| bytes.map_or("?".to_owned(), |bytes| ByteSize(bytes).to_string());
            let of_key = |bytes: u64| format!("{:.1}", bytes as f64 / *keys as f64);
            let time =
                |Measured { median, least, greatest }: &Measured| format!("{median:.0} ({least:.0} to {greatest:.0})");
            table.row([
                rival.system.words().to_owned(),
                size(rival.memory_bytes),
                size(rival.peak_bytes),
                rival.memory_bytes.map_or("?".to_owned(), of_key),
                time(&rival.new_ns),
                time(&rival.known_ns),
                time(&rival.new_core_ns),
                time(&rival.known_core_ns),
                grouped(rival.wrong_keys),
                grouped(rival.forgotten_keys),
            ]);
        }
        write!(out, "{}", table.text())
    }
}
