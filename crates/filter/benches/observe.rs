//! Benchmark of the time that a filter takes to hash, test and record distinct events of 64 bytes on one core. Each
//! filter is compared with fastbloom's `insert` at the same capacity and false-positive rate, and with a lower bound
//! that follows from the speed of the memory. The benchmark prints the ratios that the documentation of the project
//! states.
//!
//! The lower bound ("floor") is the time that the memory accesses of an event take alone. To measure it, the benchmark
//! reads and writes random cache lines with prefetch, in memory of the same size and with pages of the same size as
//! those of the filter. For each event, it accesses as many cache lines as one block of the filter has.
//!
//! Run it with `cargo bench -p firstseen-filter --bench observe`. The figures are in `docs/reference/performance.md`.
#![allow(missing_docs)]

mod floor;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput};
use fastbloom::BloomFilter;
use firstseen_filter::{
    FilterDefinition, FilterSecret, FilterSlice, FilterSpec, Instructions, Kind, Layout, Placed, Stamp, Unit, Verdict,
    Window, WindowClock,
};
use floor::{Floor, Lines};

const EVENT_BYTES: usize = 64;
const POOL_EVENTS: usize = 1 << 20;
const BATCH_EVENTS: usize = 1024;

/// Endless supply of distinct events. The pool is rewritten for every pass.
struct Events {
    pool: Vec<[u8; EVENT_BYTES]>,
    pass: u64,
}

impl Events {
    fn new() -> Self {
        Self { pool: vec![[0; EVENT_BYTES]; POOL_EVENTS], pass: 0 }
    }

    fn next_pass(&mut self) -> &[[u8; EVENT_BYTES]] {
        self.pass += 1;
        for (index, event) in self.pool.iter_mut().enumerate() {
            event[..8].copy_from_slice(&self.pass.to_le_bytes());
            event[8..16].copy_from_slice(&(index as u64).to_le_bytes());
            event[56..].copy_from_slice(&(index as u64 ^ self.pass).to_le_bytes());
        }
        &self.pool
    }
}

/// Measures `pass` over `iterations` pools. Only the time within `pass` counts.
fn timed(iterations: u64, events: &mut Events, mut pass: impl FnMut(&[[u8; EVENT_BYTES]])) -> Duration {
    let mut elapsed = Duration::ZERO;
    for _ in 0..iterations {
        let pool = events.next_pass();
        let started = Instant::now();
        pass(pool);
        elapsed += started.elapsed();
    }
    elapsed
}

/// Filter under test, with its clock and its buffers.
struct Ours {
    definition: FilterDefinition,
    slice: FilterSlice,
    clock: WindowClock,
    secret: FilterSecret,
    recorded: u64,
    observed: u64,
    /// Number of events that the filter calls duplicates. All events of the benchmark are distinct, so each of these
    /// duplicates is a false positive.
    duplicates: u64,
    /// Number of events that the filter rejects because one of its limits was reached.
    refused: u64,
    stamps: Vec<Stamp>,
    verdicts: Vec<Verdict>,
}

impl Ours {
    fn new(spec: &FilterSpec, instructions: Instructions) -> Self {
        let definition = spec.resolve().unwrap();
        let clock = WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms);
        let slice = FilterSlice::build(&definition).unwrap().with_instructions(instructions);
        let mut ours = Self {
            definition,
            slice,
            clock,
            secret: FilterSecret::from_seed(7),
            recorded: 0,
            observed: 0,
            duplicates: 0,
            refused: 0,
            stamps: vec![Stamp::default(); BATCH_EVENTS],
            verdicts: vec![Verdict::Undecided; BATCH_EVENTS],
        };
        // The warm-up fills the window and makes the operating system provide the memory. Its verdicts do not count.
        let mut events = Events::new();
        let capacity = ours.definition.capacity_events.unwrap_or(0);
        let warm_up = if ours.definition.window == Window::Unbounded { capacity / 4 } else { capacity * 5 / 4 };
        while ours.recorded < warm_up {
            ours.pass(events.next_pass());
        }
        (ours.observed, ours.duplicates, ours.refused) = (0, 0, 0);
        ours
    }

    fn pass(&mut self, pool: &[[u8; EVENT_BYTES]]) {
        for batch in pool.chunks(BATCH_EVENTS) {
            // Without a window every event has the same stamp.
            if self.definition.unit != Unit::Endless {
                for stamp in &mut self.stamps {
                    if let Placed::At(placed) = self.clock.place(None) {
                        *stamp = placed;
                    }
                }
            }
            self.slice.observe_events(&self.secret, batch, &self.stamps, &mut self.verdicts);
            self.count();
        }
        self.recorded += pool.len() as u64;
        self.observed += pool.len() as u64;
    }

    fn count(&mut self) {
        self.duplicates += self.verdicts.iter().filter(|verdict| **verdict == Verdict::Duplicate).count() as u64;
        self.refused += self.verdicts.iter().filter(|verdict| **verdict == Verdict::Undecided).count() as u64;
    }

    /// Replaces an unbounded filter by an empty one if it has no room for the next `events` events.
    fn make_room_for(&mut self, events: u64) {
        let capacity = self.definition.capacity_events.unwrap_or(u64::MAX);
        if self.definition.window == Window::Unbounded && self.recorded + events > capacity {
            self.slice = FilterSlice::build(&self.definition).unwrap();
            self.recorded = 0;
        }
    }

    /// Prints the measured rate of this run next to the requested rate.
    fn report_rate(&self, name: &str) {
        let measured = self.duplicates as f64 / self.observed as f64;
        println!(
            "{name}: measured rate {measured:.3e} over {} distinct events, asked for {:.0e}, {} refused",
            self.observed, self.definition.rate, self.refused
        );
    }
}

/// Comparison of a filter with its rival and its lower bound.
struct Case {
    name: &'static str,
    spec: FilterSpec,
    lines: Lines,
}

fn cases() -> Vec<Case> {
    let spec = |kind, window: &str, capacity_events, rate| FilterSpec {
        capacity_events: Some(capacity_events),
        rate,
        ..FilterSpec::new(kind, window.parse().unwrap())
    };
    let layout = |lines| Some(Layout::Blocked { lines });
    let fingerprints = |name, events: u64, rate| Case {
        name,
        spec: spec(Kind::Cuckoo, &format!("{events}events"), events, rate),
        lines: Lines::Pair,
    };
    vec![
        Case { name: "bloom_100M", spec: spec(Kind::Bloom, "unbounded", 100_000_000, 0.01), lines: Lines::Block(1) },
        Case {
            name: "generations_100M",
            spec: FilterSpec { layout: layout(2), ..spec(Kind::Generations, "100000000events", 100_000_000, 0.01) },
            lines: Lines::Block(2),
        },
        Case {
            name: "generations_10M",
            spec: FilterSpec { layout: layout(2), ..spec(Kind::Generations, "10000000events", 10_000_000, 0.005) },
            lines: Lines::Block(2),
        },
        Case {
            name: "timing_10M",
            spec: FilterSpec { layout: layout(2), ..spec(Kind::Timing, "10000000events", 10_000_000, 0.01) },
            lines: Lines::Block(2),
        },
        fingerprints("cuckoo_16_bit_10M", 10_000_000, 0.001),
        fingerprints("cuckoo_32_bit_10M", 10_000_000, 1e-8),
        fingerprints("cuckoo_14_bit_10M", 10_000_000, 0.005),
        fingerprints("cuckoo_16_bit_100M", 100_000_000, 0.001),
        fingerprints("cuckoo_32_bit_100M", 100_000_000, 1e-8),
    ]
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(4))
        .configure_from_args();
    // These events differ from the events of the warm-up.
    let mut events = Events { pass: 1 << 32, ..Events::new() };
    for Case { name, spec, lines } in &cases() {
        let mut group = criterion.benchmark_group(*name);
        group.throughput(Throughput::Elements(POOL_EVENTS as u64));
        // One pass over the pool takes long, so further passes per sample would only cost time.
        group.sampling_mode(SamplingMode::Flat);
        for (label, instructions) in [("firstseen", Instructions::Widest), ("portable", Instructions::Portable)] {
            let mut built = None;
            group.bench_function(label, |bencher| {
                let ours = built.get_or_insert_with(|| Ours::new(spec, instructions));
                bencher.iter_custom(|iterations| {
                    ours.make_room_for(iterations * POOL_EVENTS as u64);
                    timed(iterations, &mut events, |pool| ours.pass(pool))
                });
            });
            if let Some(ours) = built {
                ours.report_rate(name);
            }
        }
        group.bench_function("fastbloom", |bencher| {
            let capacity = spec.capacity_events.unwrap() as usize;
            let mut filter = BloomFilter::with_false_pos(spec.rate).seed(&7).expected_items(capacity);
            bencher.iter_custom(|iterations| {
                timed(iterations, &mut events, |pool| {
                    for event in pool {
                        std::hint::black_box(filter.insert(&event[..]));
                    }
                })
            });
        });
        group.bench_function("floor", |bencher| {
            let bytes = FilterSlice::build(&spec.resolve().unwrap()).unwrap().bytes();
            let mut floor = Floor::new(bytes as usize, *lines);
            bencher.iter_custom(|iterations| timed(iterations, &mut events, |pool| floor.touch(pool.len())));
        });
        group.finish();
    }
    criterion.final_summary();
    cases().iter().for_each(report);
    cases().iter().for_each(report_beside_generations);
}

/// Returns the mean of one measurement, in nanoseconds per event.
fn mean_ns(case: &str, label: &str) -> Option<f64> {
    let home = std::env::var_os("CRITERION_HOME").map(PathBuf::from).unwrap_or_else(|| {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("../../target"), PathBuf::from);
        target.join("criterion")
    });
    let text = std::fs::read_to_string(home.join(case).join(label).join("new/estimates.json")).ok()?;
    let estimates: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(estimates["mean"]["point_estimate"].as_f64()? / POOL_EVENTS as f64)
}

fn report(case: &Case) {
    let definition = case.spec.resolve().unwrap();
    let slice = FilterSlice::build(&definition).unwrap();
    let capacity = definition.capacity_events.unwrap_or(1);
    let bits = slice.bytes() as f64 * 8.0 / capacity as f64;
    let figures = ["firstseen", "portable", "fastbloom", "floor"].map(|label| mean_ns(case.name, label));
    let [Some(ours), Some(portable), Some(rival), Some(floor)] = figures else {
        println!("{}: not all four were measured in this run", case.name);
        return;
    };
    println!(
        "{}: {:.1} bits an event; firstseen {ours:.1} ns (portable {portable:.1}), fastbloom {rival:.1} ns, floor \
         {floor:.1} ns: {:.1} times fastbloom, {:.0} % of the floor's rate",
        case.name,
        bits,
        rival / ours,
        100.0 * floor / ours
    );
}

/// Compares a cuckoo filter with the filter of kind `generations` that has a window of the same size.
fn report_beside_generations(case: &Case) {
    let size = case.name.rsplit('_').next().unwrap_or_default();
    let figures = [format!("generations_{size}").as_str(), case.name].map(|name| mean_ns(name, "firstseen"));
    if let [Some(generations), Some(ours)] = figures
        && case.spec.kind == Kind::Cuckoo
    {
        println!("{}: {ours:.1} ns, {:.2} of the rate of kind generations", case.name, generations / ours);
    }
}
