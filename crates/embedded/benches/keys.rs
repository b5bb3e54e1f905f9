//! Benchmark of the time that a filter takes to hash and judge keys of text in batches, on one core. The Python package
//! is compared with it (`crates/python/benches/compare.py`).
//!
//! `cargo bench -p firstseen-embedded --bench keys -- EVENTS` prints one JSON object for a filter with room for EVENTS
//! events. Half of the keys are new.
#![allow(missing_docs)]

use std::time::Instant;

use firstseen_embedded::{Access, Judge, Stamps, meant};
use firstseen_filter::{Digest, FilterSecret, FilterSpec, Kind, Window};
use firstseen_routing::{Answer, Slicing};

/// Number of events of a batch.
const BATCH_EVENTS: usize = 1 << 16;
/// Time of the events in milliseconds since 1970.
const NOW_MS: u64 = 1_764_500_000_000;
const SEED: u64 = 1;

/// Returns the keys of a batch, one after the other, and where each of them ends.
fn keys(batch: usize) -> (String, Vec<usize>) {
    let mut text = String::new();
    let mut ends = Vec::with_capacity(BATCH_EVENTS);
    for event in batch * BATCH_EVENTS..(batch + 1) * BATCH_EVENTS {
        // Each key occurs twice, in neighbouring batches.
        text += &format!("event-{:010}", event - if batch % 2 == 1 { BATCH_EVENTS } else { 0 });
        ends.push(text.len());
    }
    (text, ends)
}

fn main() {
    let events: usize = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10_000_000);
    let window: Window = "24h".parse().expect("a window");
    let capacity_events = Some(events as u64);
    let spec = FilterSpec { rate: 1e-3, capacity_events, seed: SEED, ..FilterSpec::new(Kind::Bloom, window) };
    let definition = meant(&spec, Slicing::NONE, Stamps::OfEvents).definition(Slicing::NONE, None);
    let definition = definition.expect("a definition");
    let mut judge = Judge::build(&definition).expect("enough memory");
    let secret = FilterSecret::from_seed(SEED);
    let mut digests: Vec<Digest> = Vec::with_capacity(BATCH_EVENTS);
    let times_ms = vec![NOW_MS; BATCH_EVENTS];
    let mut answers = vec![Answer::Undecided; BATCH_EVENTS];
    let mut seconds = 0.0;
    let mut new = 0;
    let batches = events / BATCH_EVENTS;
    for batch in 0..batches {
        let (text, ends) = keys(batch);
        let started = Instant::now();
        digests.clear();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        digests.extend(starts.zip(&ends).map(|(start, end)| secret.digest(&text.as_bytes()[start..*end])));
        judge.answer(Access::Observe, &digests, &times_ms, &mut answers);
        seconds += started.elapsed().as_secs_f64();
        new += answers.iter().filter(|answer| **answer == Answer::FirstSeen).count();
    }
    let judged = batches * BATCH_EVENTS;
    println!("{{\"events\":{judged},\"first_seen\":{new},\"events_per_s\":{:.0}}}", judged as f64 / seconds);
}
