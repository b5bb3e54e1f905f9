//! Stores the result of each simulated seed as a line in a file, so that an interrupted series of seeds can be
//! continued. Later runs of the program append lines to the same file. A seed that already has a complete line is not
//! simulated again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use firstseen_checker::history::CellsRead;
use firstseen_sim::faults::counts;
use firstseen_sim::run::Run;

/// Results of seeds.
pub(super) struct Results {
    file: Option<File>,
    /// Name of the family of scenarios. Lines of other families are ignored.
    name: String,
    done: BTreeSet<u64>,
    total: Total,
}

/// Sums over all seeds of this run of the program.
#[derive(Clone, Debug, Default)]
struct Total {
    seeds: u64,
    calls: u64,
    simulated: Duration,
    elapsed: Duration,
    fired: BTreeMap<String, u64>,
    cells: CellsRead,
}

impl Results {
    /// Reads the lines of `name` from the file at `path`, so that a run can continue. Without a path, no results are
    /// stored.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub(super) fn open(path: Option<&Path>, name: String) -> io::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { file: None, name, done: BTreeSet::new(), total: Total::default() });
        };
        let file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
        let mut done = BTreeSet::new();
        for line in BufReader::new(&file).lines() {
            let line = line?;
            let mut words = line.split_whitespace();
            if words.next() == Some(name.as_str()) && line.ends_with(" ms") {
                done.extend(words.next().and_then(|seed| seed.parse::<u64>().ok()));
            }
        }
        Ok(Self { file: Some(file), name, done, total: Total::default() })
    }

    /// Returns whether a seed has already been run.
    pub(super) fn has(&self, seed: u64) -> bool {
        self.done.contains(&seed)
    }

    /// Adds the result of a seed: the number of violations, and the duration of the run.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(super) fn add(&mut self, seed: u64, run: &Run, faults: usize, elapsed: Duration) -> io::Result<()> {
        let calls = run.history.calls.len();
        let simulated_ms = run.simulated.as_millis();
        let total = &mut self.total;
        total.seeds += 1;
        total.calls += calls as u64;
        total.simulated += run.simulated;
        total.elapsed += elapsed;
        total.cells.add(&run.history.cells);
        for (fault, times) in counts(&run.happened) {
            *total.fired.entry(format!("{fault:?}")).or_default() += times;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        writeln!(file, "{} {seed} {faults} faults, {calls} calls, {simulated_ms} ms", self.name)
    }

    /// Returns the sums in two lines, and a third line if cells were read.
    pub(super) fn total(&self) -> String {
        let Total { seeds, calls, simulated, elapsed, fired, cells } = &self.total;
        let simulated_s = simulated.as_secs_f64();
        let elapsed_s = elapsed.as_secs_f64();
        let speed = simulated_s / elapsed_s.max(1e-9);
        let cells = if cells.copies > 0 { format!("\nin the end: {cells}") } else { String::new() };
        format!(
            "{seeds} seeds, {calls} calls, {simulated_s:.0} simulated seconds in {elapsed_s:.0}: {speed:.1} a second of \
             one core\nhappened: {fired:?}{cells}"
        )
    }
}
