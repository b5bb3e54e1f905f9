//! Benchmark of three ways to query one slice on one core: with batches of digests, with batches of positions, and with
//! single visits. A visit tests or sets the positions of a single event, as in slices that share events. The benchmark
//! prints the best of seven passes, in nanoseconds per event.
//!
//! Run this benchmark with `cargo bench -p firstseen-filter --bench visits -- 10000000`. The argument is the number of
//! events in a window, which is a million by default.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use firstseen_filter::{
    Digest, FilterSecret, FilterSlice, FilterSpec, GenerationNumber, Kind, Layout, Probes, Stamp, UnitNumber, Verdict,
    positions_of,
};

const EVENTS: usize = 1 << 19;
const BATCH_EVENTS: usize = 1024;
/// Number of events between a prefetch and its use.
const AHEAD: usize = 8;

fn best_ns(mut pass: impl FnMut() -> usize) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let started = Instant::now();
        let asked = pass();
        best = best.min(started.elapsed().as_nanos() as f64 / asked as f64);
    }
    best
}

/// Slice under test, with an endless supply of new events and the stamp of the present.
struct Subject {
    slice: FilterSlice,
    secret: FilterSecret,
    next: u64,
    stamp: Stamp,
    verdicts: [Verdict; BATCH_EVENTS],
}

impl Subject {
    fn fresh(&mut self) -> Vec<Digest> {
        self.next += EVENTS as u64;
        (self.next..self.next + EVENTS as u64).map(|event| self.secret.digest(&event.to_le_bytes())).collect()
    }

    /// Returns the time of the best pass over new events. Only the time within `ask` counts.
    fn batches<T>(&mut self, prepare: impl Fn(&Self, Vec<Digest>) -> T, ask: impl Fn(&mut Self, &T)) -> f64 {
        let mut best = f64::MAX;
        for _ in 0..7 {
            let digests = self.fresh();
            let prepared = prepare(self, digests);
            let started = Instant::now();
            ask(self, &prepared);
            best = best.min(started.elapsed().as_nanos() as f64 / EVENTS as f64);
        }
        best
    }

    fn by_digest(&mut self) -> f64 {
        let observe = |subject: &mut Self, digests: &Vec<Digest>| {
            for batch in digests.chunks(BATCH_EVENTS) {
                subject.slice.observe_batch(batch, &[subject.stamp; BATCH_EVENTS], &mut subject.verdicts);
            }
        };
        self.batches(|_, digests| digests, observe)
    }

    fn by_position(&mut self) -> f64 {
        let derive = |subject: &Self, digests: Vec<Digest>| {
            let mut probes = Probes::new(subject.slice.probe_shape());
            digests.iter().for_each(|digest| probes.push_digest(*digest, subject.slice.geometry()));
            probes
        };
        self.batches(derive, |subject, probes| {
            for start in (0..EVENTS).step_by(BATCH_EVENTS) {
                let (stamps, verdicts) = ([subject.stamp; BATCH_EVENTS], &mut subject.verdicts);
                subject.slice.observe_probes(probes, start..start + BATCH_EVENTS, &stamps, verdicts).unwrap();
            }
        })
    }

    /// Measures tests and sets of `visit` positions each, with prefetch. One event in three is late by one unit.
    fn visits(&mut self, visit: usize) -> (f64, f64) {
        let (mut positions, mut all) = (Vec::new(), Vec::new());
        for digest in self.fresh().iter().take(EVENTS / 4) {
            positions_of(*digest, self.slice.geometry(), &mut positions);
            all.extend_from_slice(&positions[..visit.min(positions.len())]);
        }
        let late = Stamp { unit: self.stamp.unit.before(1), ..self.stamp };
        let stamps = [self.stamp, self.stamp, late];
        let visits: Vec<&[u64]> = all.chunks(visit).collect();
        let slice = &mut self.slice;
        let test = best_ns(|| {
            for (event, positions) in visits.iter().enumerate() {
                visits.get(event + AHEAD).iter().for_each(|later| slice.prefetch(GenerationNumber::FIRST, later));
                black_box(slice.test_generation(GenerationNumber::FIRST, positions, stamps[event % 3]));
            }
            visits.len()
        });
        let set = best_ns(|| {
            for (event, positions) in visits.iter().enumerate() {
                visits.get(event + AHEAD).iter().for_each(|later| slice.prefetch(GenerationNumber::FIRST, later));
                slice.set_generation(GenerationNumber::FIRST, positions, stamps[event % 3]);
            }
            visits.len()
        });
        (test, set)
    }
}

fn main() {
    let capacity = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(1_000_000);
    let blocked = |lines| Layout::Blocked { lines };
    for (kind, layout, cell_bits) in [
        (Kind::Bloom, blocked(1), None),
        (Kind::Bloom, Layout::Classic, None),
        (Kind::Timing, blocked(2), Some(8)),
        (Kind::Timing, Layout::Classic, Some(8)),
        (Kind::Timing, blocked(4), Some(16)),
        (Kind::Timing, Layout::Classic, Some(16)),
        (Kind::Generations, blocked(2), Some(8)),
        (Kind::Generations, Layout::Classic, Some(8)),
    ] {
        let (window, unit) = if kind == Kind::Bloom { ("unbounded", 0) } else { ("1h", 1000) };
        let spec = FilterSpec {
            layout: Some(layout),
            cell_bits,
            cells: Some(capacity * 10),
            hashes: Some(6),
            ..FilterSpec::new(kind, window.parse().unwrap())
        };
        let mut subject = Subject {
            slice: FilterSlice::build(&spec.resolve().unwrap()).unwrap(),
            secret: FilterSecret::from_seed(3),
            next: 0,
            stamp: Stamp::on_time(UnitNumber(unit)),
            verdicts: [Verdict::Undecided; BATCH_EVENTS],
        };
        subject.by_digest();
        let (by_digest, by_position) = (subject.by_digest(), subject.by_position());
        println!("{kind} {layout:?} {cell_bits:?}: by digest {by_digest:.1}, by position {by_position:.1}");
        if layout == Layout::Classic {
            let [(test_one, set_one), (test, set)] = [1, 6].map(|visit| subject.visits(visit));
            println!("  visits of 1: test {test_one:.1}, set {set_one:.1}; of 6: test {test:.1}, set {set:.1}");
        }
    }
}
