//! Results of the comparison with other systems, and their output. The results are medians of the runs.

use std::io::{self, Write};

use firstseen_cli::text::numbers::grouped;
use firstseen_cli::text::size::ByteSize;
use firstseen_cli::text::table::Table;
use serde::Serialize;

use super::super::figures::Measured;
use super::super::{Figures, PageTable};
use super::{Measurement, System};

/// Results of one system.
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

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub(in super::super) struct RivalsFigures {
    pub(super) keys: u64,
    pub(super) key_bytes: usize,
    pub(super) window_ms: u64,
    pub(super) runs: u32,
    pub(super) rivals: Vec<RivalFigures>,
}

/// Heading of the output. `ns` is elapsed time, and `core ns` is CPU time of all cores.
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

/// Returns the median. For an even number of values, it is the smallest value of the upper half.
fn median<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort();
    let middle = values.len() / 2;
    values.into_iter().nth(middle)
}

impl RivalFigures {
    /// Returns the results of a system, or `None` if there is no measurement.
    pub(super) fn of(system: System, measurements: &[Measurement]) -> Option<Self> {
        Some(Self {
            system,
            memory_bytes: median(measurements.iter().map(|measurement| measurement.memory_bytes))?,
            peak_bytes: median(measurements.iter().map(|measurement| measurement.peak_bytes))?,
            new_ns: Measured::of(measurements.iter().map(|measurement| measurement.new_ns).collect()),
            new_core_ns: Measured::of(measurements.iter().map(|measurement| measurement.new_core_ns).collect()),
            known_core_ns: Measured::of(measurements.iter().map(|measurement| measurement.known_core_ns).collect()),
            known_ns: Measured::of(measurements.iter().map(|measurement| measurement.known_ns).collect()),
            wrong_keys: median(measurements.iter().map(|measurement| measurement.wrong))?,
            forgotten_keys: median(measurements.iter().map(|measurement| measurement.forgotten))?,
        })
    }
}

/// Formats an amount of memory as text.
fn size(bytes: Option<u64>) -> String {
    bytes.map_or("?".to_owned(), |bytes| ByteSize(bytes).to_string())
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

impl Figures for RivalsFigures {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
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
            table.row([
                rival.system.words().to_owned(),
                size(rival.memory_bytes),
                size(rival.peak_bytes),
                rival.memory_bytes.map_or("?".to_owned(), |bytes| format!("{:.1}", bytes as f64 / *keys as f64)),
                rival.new_ns.rounded(),
                rival.known_ns.rounded(),
                rival.new_core_ns.rounded(),
                rival.known_core_ns.rounded(),
                grouped(rival.wrong_keys),
                grouped(rival.forgotten_keys),
            ]);
        }
        write!(out, "{}", table.text())
    }

    fn tables(&self) -> Vec<PageTable> {
        let short = self.rivals.iter().map(|rival| {
            let time = format!("{:.0} ns", rival.new_core_ns.median);
            vec![rival.system.words().to_owned(), size(rival.memory_bytes), time]
        });
        let whole = self.rivals.iter().map(|rival| {
            let of_key = rival.memory_bytes.map(|bytes| format!("{:.1}", bytes as f64 / self.keys as f64));
            vec![
                rival.system.words().to_owned(),
                size(rival.memory_bytes),
                of_key.unwrap_or_default(),
                rival.new_core_ns.rounded(),
                rival.known_core_ns.rounded(),
                grouped(rival.wrong_keys),
                grouped(rival.forgotten_keys),
            ]
        });
        vec![
            PageTable::new("rivals", &["", "memory", "core time a new key"], short),
            PageTable::new("rivals-whole", &WHOLE, whole),
        ]
    }
}

/// Heading of the table in docs/reference/performance.md.
const WHOLE: [&str; 7] =
    ["system", "memory", "bytes a key", "core ns, new", "core ns, known", "new keys called known", "forgotten"];
