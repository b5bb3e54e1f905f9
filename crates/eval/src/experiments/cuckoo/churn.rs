//! A single filter at its design load, through which new events pass for several windows.
//!
//! Runs with the same seed give the same figures. Every event of the stream gets an answer from the filter.
//!
//! This module does not depend on the alternatives with which cuckoo filters are compared.

use std::collections::HashSet;

use firstseen_filter::rates::cuckoo;
use firstseen_filter::{BucketShape, CellDefinition, CuckooCells, FilterDefinition, FilterSpec, Kind, Window};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::design_rate;
use crate::experiment::EvalError;
use crate::measure::{Subject, count};
use crate::stats::Counts;
use crate::stream::Event;

/// Number of windows before a measurement.
pub(super) const WINDOWS_BEFORE: u64 = 2;
/// Number of windows in a measurement.
pub(super) const WINDOWS_MEASURED: u64 = 4;
/// First key that no event of a stream has.
const UNSEEN: u64 = 1 << 60;

/// Size of a filter, and number of lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Number of regions that the window fills.
    pub(super) regions: u64,
    /// Number of moments at which events are looked up.
    pub(super) looks: u64,
    /// Number of events at each moment that the filter has not seen. The same number of events that it has seen are
    /// looked up as well.
    pub(super) unseen_events: u64,
}

/// Fingerprints of one shape, with a window that counts events and fills them.
#[derive(Clone, Debug)]
pub(super) struct Churn {
    pub(super) print_bits: u32,
    pub(super) time_bits: u8,
    pub(super) size: Size,
    /// Number of events in a window (W).
    pub(super) window_events: u64,
    spec: FilterSpec,
    regions: u64,
}

/// Results of one run.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Bits per event of the window.
    pub(super) bits: f64,
    /// Number of new events, and how many of them were called duplicates.
    pub(super) duplicates: Counts,
    /// Number of recorded events of the window that were looked up, and how many of them were not found.
    pub(super) missing: Counts,
    /// Share of slots that hold an event, just before a tick ends.
    pub(super) load: f64,
    /// How long events are found beyond the window.
    pub(super) edge: Edge,
}

/// Values over several moments, as shares of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) least: f64,
    pub(super) mean: f64,
    pub(super) greatest: f64,
}

/// Returns the number of ticks in a window (T - 1), if it has as many as fit.
pub(super) fn ticks(shape: BucketShape) -> f64 {
    f64::from(shape.ticks() - 1)
}

/// Returns the largest window of `steps` equal steps for which `of_window` plans at most `regions` regions.
pub(in crate::experiments) fn filling(
    regions: u64,
    steps: u64,
    of_window: impl Fn(u64) -> FilterSpec,
) -> Result<Filling, EvalError> {
    let mut least = 1;
    let mut most = 2;
    while regions_of(&of_window(most * steps).resolve()?) <= regions {
        least = most;
        most *= 2;
    }
    while most - least > 1 {
        let middle = least.midpoint(most);
        let fits = regions_of(&of_window(middle * steps).resolve()?) <= regions;
        if fits { least = middle } else { most = middle }
    }
    let window_events = least * steps;
    Ok(Filling { window_events, spec: of_window(window_events) })
}

/// Largest window that fits into a given number of regions.
pub(in crate::experiments) struct Filling {
    pub(in crate::experiments) window_events: u64,
    spec: FilterSpec,
}

fn regions_of(definition: &FilterDefinition) -> u64 {
    match &definition.cells {
        CellDefinition::Cuckoo(CuckooCells { geometry, .. }) => geometry.blocks(),
        _ => 0,
    }
}

fn event(number: u64) -> Event {
    Event { time_ms: number, key: number, site: 0 }
}

impl Churn {
    pub(super) fn new(print_bits: u32, time_bits: u8, size: Size) -> Result<Self, EvalError> {
        let shape = BucketShape::new(print_bits, time_bits);
        let window_ticks = shape.ticks() - 1;
        // The rate is slightly above the rate of this shape, so that the planner chooses it. This number of ticks needs
        // 128 bits.
        let rate = design_rate(shape) * (1.0 + 1e-9);
        let filling = filling(size.regions, u64::from(window_ticks), |events| FilterSpec {
            rate,
            capacity_events: Some(events),
            ticks: Some(window_ticks),
            ..FilterSpec::new(Kind::Cuckoo, Window::Events(events))
        })?;
        let Filling { window_events, spec } = filling;
        let regions = regions_of(&spec.resolve()?);
        Ok(Self { print_bits, time_bits, size, window_events, spec, regions })
    }

    pub(super) fn shape(&self) -> BucketShape {
        BucketShape::new(self.print_bits, self.time_bits)
    }

    pub(super) fn window_ticks(&self) -> u64 {
        u64::from(self.shape().ticks()) - 1
    }

    fn tick_events(&self) -> u64 {
        self.window_events / self.window_ticks()
    }

    pub(super) fn slots(&self) -> u64 {
        self.regions * firstseen_filter::REGION_BUCKETS as u64 * u64::from(self.shape().slots())
    }

    /// Returns the number of live events at a moment within a tick. `tick_left` is the share of the tick that is left
    /// at this moment: it is 1 at the beginning of the tick and 0 at its end. The live events are those of all ticks of
    /// the window, and those that have arrived in the current tick.
    pub(super) fn live_events(&self, tick_left: f64) -> f64 {
        let ticks = self.window_ticks() as f64;
        self.window_events as f64 * (ticks + 1.0 - tick_left) / ticks
    }

    /// Returns the share of slots that hold an event at that time. Events that are called duplicates are not recorded.
    pub(super) fn expected_load(&self, tick_left: f64) -> f64 {
        let full = self.live_events(tick_left) / self.slots() as f64;
        full * (1.0 - cuckoo::rate(self.shape(), full))
    }

    /// Returns the mean rate from one tick to the next.
    pub(super) fn expected_rate(&self) -> f64 {
        cuckoo::rate(self.shape(), self.expected_load(0.5))
    }

    /// Passes new events through a new filter.
    pub(super) fn run(&self, seed: u64) -> Result<Found, EvalError> {
        let mut stream = Stream::new(self, seed)?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let window = self.window_events;
        let tick = self.tick_events();
        let unseen_events = self.size.unseen_events;
        let begin = WINDOWS_BEFORE * window;
        let measured = WINDOWS_MEASURED * window;
        stream.observe_until(begin)?;
        let mut duplicates = Counts::default();
        let mut missing = Counts::default();
        let mut edges = Vec::new();
        for look in 0..self.size.looks {
            let moment = begin + look * (measured - tick) / self.size.looks;
            add(&mut duplicates, stream.observe_until(moment + random.random_range(0..tick))?);
            let unseen = UNSEEN + look * unseen_events;
            add(&mut duplicates, stream.subject.look_up((unseen..unseen + unseen_events).map(event))?);
            let ages: Vec<u64> = (0..unseen_events).map(|_| random.random_range(1..=window)).collect();
            stream.look_up_ages(ages, |_, is_found| count(&mut missing, !is_found))?;
            edges.push(stream.edge(window, tick)? as f64 / window as f64);
        }
        add(&mut duplicates, stream.observe_until(begin + measured)?);
        let load = stream.subject.filter.slice(0).and_then(|slice| slice.fill_and_rate(usize::MAX).0);
        Ok(Found {
            bits: 8.0 * stream.subject.filter.bytes() as f64 / window as f64,
            duplicates,
            missing,
            load: load.unwrap_or(f64::NAN),
            edge: Edge {
                least: edges.iter().copied().fold(f64::INFINITY, f64::min),
                mean: edges.iter().sum::<f64>() / edges.len() as f64,
                greatest: edges.iter().copied().fold(0.0, f64::max),
            },
        })
    }
}

/// Events of one run, and the filter that observes them.
struct Stream {
    subject: Subject,
    come: u64,
    /// Events that were falsely called duplicates. They were not recorded, so they may be called new within the window.
    mistaken: HashSet<u64>,
}

impl Stream {
    fn new(churn: &Churn, seed: u64) -> Result<Self, EvalError> {
        Ok(Self { subject: Subject::new("cuckoo", &churn.spec, "none", seed)?, come: 0, mistaken: HashSet::new() })
    }

    /// Observes events until `come` events have arrived. Returns how many were called duplicates.
    fn observe_until(&mut self, come: u64) -> Result<Counts, EvalError> {
        let mut counts = Counts::default();
        let mistaken = &mut self.mistaken;
        self.subject.observe_each((self.come..come).map(event), |event, is_duplicate| {
            count(&mut counts, is_duplicate);
            if is_duplicate {
                mistaken.insert(event.key);
            }
        })?;
        self.come = self.come.max(come);
        Ok(counts)
    }

    /// Looks up recorded events of the given ages, and calls `each` with the age and with whether the event was found.
    fn look_up_ages(
        &mut self,
        ages: impl IntoIterator<Item = u64>,
        mut each: impl FnMut(u64, bool),
    ) -> Result<(), EvalError> {
        let Self { subject, come, mistaken } = self;
        let events = ages.into_iter().map(|age| *come - age).filter(|number| !mistaken.contains(number));
        subject.look_up_each(events.map(event), |event, is_found| each(*come - event.key, is_found))
    }

    /// Returns for how long the filter still finds events after their window has ended. The time is measured in events.
    /// The function determines the greatest age up to which every event is found, and subtracts the window. The result
    /// is 0 if the filter has already forgotten an event of the last tick of the window.
    fn edge(&mut self, window: u64, tick: u64) -> Result<u64, EvalError> {
        let mut oldest = 0;
        let mut is_over = false;
        self.look_up_ages(window - tick..=window + 2 * tick, |age, is_found| {
            is_over |= !is_found;
            if !is_over {
                oldest = age;
            }
        })?;
        Ok(oldest.saturating_sub(window))
    }
}

fn add(sum: &mut Counts, counts: Counts) {
    sum.successes += counts.successes;
    sum.trials += counts.trials;
}
