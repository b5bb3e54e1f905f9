//! Reproduces Figures 9(a) and 9(b) of Koloniari et al. 2011, section 7. The figures show which share of the events
//! that a sliding window calls duplicates are true duplicates, by the number of equal timers of the event.
//!
//! The experiment sends two windows of distinct events to a production filter, and then reads the timers of its slices
//! directly. It does not use the verdicts of the equal-timers heuristic, so the heuristic is off.

use firstseen_filter::rates::{plain, timing};
use firstseen_filter::{FilterSecret, FilterSlice, FilterSpec, Kind, Stamp, UnitNumber, Verdict, Window, positions_of};
use firstseen_routing::{Prober, SlicedDefinition};

use super::timer_groups::{TimerGroups, over_loads};
use super::{k11, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{count, distinct, pooled, shaped, unseen};
use crate::stats::Counts;
use crate::stream::Event;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sliding",
    title: "Sliding windows: true duplicates by number of equal timers",
    paragraph: "In a sliding window of timers, an event is called a duplicate if all its timers are running. If the \
                event itself has set the timers, those that no later event has raised are equal. If other events have \
                set them, hardly any two timers are equal. An event with more equal timers is therefore more likely to \
                be a true duplicate. In a small horizontal slice, two timers of a false positive more often come from \
                the same event, so that a pair of equal timers is weaker evidence there.",
    reads_logs: None,
    measure,
};

pub(super) const HASHES: u32 = 8;
/// False-positive rate for which the filters are sized. It is the smallest rate of Koloniari et al.
pub(super) const RATE: f64 = 0.02;
pub(super) const GROUPS: u32 = 10;
pub(super) const CUTS: [(&str, &str, u32); 2] = [("vertical", "none", 1), ("horizontal", "horizontal:10", GROUPS)];

/// Size of the window in ticks. A tick is a millisecond and has one event.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) window_ticks: u64,
}

impl Size {
    /// Returns the number of timers (m) of all slices together.
    pub(super) fn cells(&self) -> u64 {
        plain::cells(self.window_ticks as f64, RATE, HASHES) as u64
    }

    pub(super) fn spec(&self, equal_timers: u32) -> FilterSpec {
        let window = Window::Duration(self.window_ticks);
        let timers = shaped(Kind::Timing, window, self.cells(), HASHES);
        FilterSpec { cell_bits: Some(16), equal_timers, lateness_ms: Some(0), ..timers }
    }

    /// Returns a model of the timers of a slice that has received `live` events within a window. An event that is
    /// called a duplicate sets no timers, and the threshold k' (`equal_timers`) decides how often that happens. If k'
    /// is 0 or 1, the model takes into account that some events are false positives. If k' is greater, hardly any event
    /// is called a duplicate, so the model assumes that every event sets its timers.
    pub(super) fn groups(&self, slices: u32, live: f64, equal_timers: u32) -> TimerGroups {
        let cells = self.cells() as f64 / f64::from(slices);
        let hits = f64::from(HASHES) * live / cells;
        let (fill, refused) = match equal_timers {
            0 | 1 => {
                let rate = timing::delivered_classic(cells, HASHES, live);
                let fill = rate.powf(1.0 / f64::from(HASHES));
                (fill, rate / fill)
            }
            _ => (plain::fill(cells, HASHES, live), 0.0),
        };
        TimerGroups { cells, hashes: HASHES, fill, raises: hits * (1.0 - refused) }
    }
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let window_ticks: u64 = run.scale.pick(16_000, 16_000, 8_000);
    let size = Size { window_ticks };
    let counts = run.trials(|seed| {
        let mut counts = Vec::new();
        for (_, slicing, _) in CUTS {
            counts.extend(counted(size, slicing, seed)?);
        }
        Ok(counts)
    })?;
    let series = CUTS.iter().enumerate().map(|(cut, (name, _, slices))| {
        Readings::new(
            format!("measured, {name}"),
            FORMULA,
            (1..=HASHES).map(|equal| {
                Reading::new(
                    f64::from(equal),
                    pooled(&counts, cut * HASHES as usize + equal as usize - 1),
                    expected(size, *slices, equal),
                )
            }),
        )
    });
    Ok(Findings {
        source: k11("sections 4 and 7", "Figures 9(a), 9(b)"),
        parameters: vec![
            parameter("window (ticks of 1 ms with one event each)", window_ticks),
            parameter("timers (m)", size.cells()),
            parameter("hash functions (k)", HASHES),
            parameter("horizontal slices", GROUPS),
            parameter("rate of the filter", RATE),
        ],
        sheets: vec![Sheet::new(
            "Figure 9(a), 9(b): true duplicates of those called so",
            Axis::linear("equal timers of an event, of 8"),
            Axis::linear("true duplicates (share of events called duplicates)"),
            series,
        )],
        notes: vec![
            "Half of the keys that this experiment looks up were delivered within the window, with all ages equally \
             likely, and the other half are new. The log of Koloniari et al. has five repeats for each new URL, so \
             their shares of true duplicates are higher."
                .to_owned(),
            "Koloniari et al. give (1 - e^(-k/m))^k as the probability that an unseen key finds k equal timers. This \
             is the probability that one particular event has set all k timers. Any of the n events of a window may \
             have set them, so the probability is about n times as high. The figure shows fewer than k equal timers, \
             which this experiment calculates separately. The text of Koloniari et al. does not print the numbers of \
             the figure."
                .to_owned(),
        ],
    })
}

const FORMULA: &str = "the share T/(T+F) of true duplicates among the duplicates that have u equal timers. T is the \
probability that an event was recorded and that exactly u of its timers were not raised by later events, averaged \
over all ages in the window. F is the probability of a false duplicate, which is p^k multiplied by the probability \
that a single event has set u of the timers (Koloniari et al. 2011, section 4, with the factor n)";

fn expected(size: Size, slices: u32, equal: u32) -> f64 {
    let mean_load = size.window_ticks as f64 / f64::from(slices);
    if slices == 1 {
        let groups = size.groups(slices, mean_load, 0);
        let is_true = true_share(&groups, equal);
        return is_true / (is_true + false_share(&groups, equal));
    }
    // A slice with more events also has proportionally more of the delivered keys.
    let is_true = over_loads(mean_load, |load| load / mean_load * true_share(&size.groups(slices, load, 0), equal));
    let is_false = over_loads(mean_load, |load| false_share(&size.groups(slices, load, 0), equal));
    is_true / (is_true + is_false)
}

/// Returns the share of a window's keys that were delivered and have exactly `equal` equal timers.
fn true_share(groups: &TimerGroups, equal: u32) -> f64 {
    let more = if equal == HASHES { 0.0 } else { groups.delivered(equal + 1) };
    (1.0 - groups.unseen(1)) * (groups.delivered(equal) - more)
}

/// Returns the share of unseen keys whose timers are all alive, with exactly `equal` of them equal.
fn false_share(groups: &TimerGroups, equal: u32) -> f64 {
    let more = if equal == HASHES { 0.0 } else { groups.unseen(equal + 1) };
    (groups.unseen(equal) - more).max(0.0)
}

/// Slices whose timers can be read.
struct Watched {
    slices: Vec<FilterSlice>,
    prober: Prober,
    secret: FilterSecret,
    positions: Vec<u64>,
    expiries: Vec<UnitNumber>,
}

impl Watched {
    fn new(size: Size, slicing: &str, seed: u64) -> Result<Self, EvalError> {
        let definition = SlicedDefinition::new(&size.spec(0), slicing.parse()?)?;
        let prober = Prober::new(&definition)?;
        let slice = definition.slice()?;
        let slices = (0..prober.groups()).map(|_| FilterSlice::build(&slice)).collect::<Result<_, _>>()?;
        let secret = FilterSecret::from_seed(seed);
        Ok(Self { slices, prober, secret, positions: Vec::new(), expiries: Vec::new() })
    }

    fn is_delivered(&mut self, event: Event) -> bool {
        let digest = self.secret.digest(&event.key.to_le_bytes());
        let mut verdict = [Verdict::Undecided];
        let slice = &mut self.slices[self.prober.group(digest) as usize];
        slice.observe_batch(&[digest], &[Stamp::on_time(UnitNumber(event.time_ms))], &mut verdict);
        verdict[0] == Verdict::FirstSeen
    }

    /// Returns the size of the largest group of equal timers of an event, or `None` if not all its timers are alive at
    /// its time.
    fn equal_timers(&mut self, event: Event) -> Option<u32> {
        let digest = self.secret.digest(&event.key.to_le_bytes());
        let slice = &mut self.slices[self.prober.group(digest) as usize];
        let stamp = Stamp::on_time(UnitNumber(event.time_ms));
        slice.advance(stamp.unit);
        positions_of(digest, slice.geometry(), &mut self.positions);
        self.expiries.clear();
        slice.push_expiries(slice.newest_generation(), &self.positions, stamp, &mut self.expiries);
        if self.expiries.contains(&UnitNumber::FIRST) {
            return None;
        }
        let equal = self.expiries.iter().map(|one| self.expiries.iter().filter(|other| *other == one).count() as u32);
        equal.max()
    }
}

/// Performs one run. For each number of equal timers, counts the delivered keys among all keys that are called
/// duplicates.
fn counted(size: Size, slicing: &str, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut watched = Watched::new(size, slicing, seed)?;
    let mut delivered = Vec::new();
    let mut now_ms = 0;
    for event in distinct(2 * size.window_ticks, seed)? {
        now_ms = event.time_ms + 1;
        if watched.is_delivered(event) {
            delivered.push(event);
        }
    }
    let mut counts = vec![Counts::default(); HASHES as usize];
    let in_window = delivered.into_iter().filter(|event| event.time_ms + size.window_ticks >= now_ms);
    let unseen = unseen(size.window_ticks, seed)?;
    for (event, is_true) in in_window.map(|event| (event, true)).chain(unseen.map(|event| (event, false))) {
        if let Some(equal) = watched.equal_timers(Event { time_ms: now_ms, ..event }) {
            count(&mut counts[equal as usize - 1], is_true);
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use crate::stats::Judged;

    #[test]
    fn more_equal_timers_are_surer_duplicates() {
        let run = Run::alone(11, 4, Scale::Tiny);
        let document = EXPERIMENT.run(&run).unwrap();
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        for series in &document.panels[0].series {
            assert!(series.points[0].mean < 0.95 && series.points[3].mean > 0.99, "{series:?}");
        }
    }
}
