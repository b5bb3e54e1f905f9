//! Helpers for the tests of slicing: random numbers, filter specifications, streams of timed events, and filters that
//! are not divided into slices.

mod producers;

use firstseen_filter::{
    Digest, FilterDefinition, FilterSecret, FilterSlice, FilterSpec, GrowthSpec, Kind, Layout, Limit, Placed, Stamp,
    Verdict, WindowClock,
};
use firstseen_routing::{
    Answer, Incarnation, Moment, MonotonicMs, NodeId, NodeRecord, SliceOwner, SlicedDefinition, SlicedFilter,
};

pub(crate) use firstseen_mesh::filter_record;
pub(crate) use producers::{Producer, observation};

/// Time at which a test begins. The events of tests are earlier.
pub(crate) const NOW: Moment = Moment { monotonic_ms: MonotonicMs(1000), wall_ms: 1_790_000_000_000 };

/// Random numbers from the SplitMix64 generator.
pub(crate) struct TestRng(pub(crate) u64);

impl TestRng {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, range: u64) -> u64 {
        ((u128::from(self.roll()) * u128::from(range)) >> 64) as u64
    }
}

pub(crate) fn digest(key: u64) -> Digest {
    FilterSecret::from_seed(5).digest(&key.to_le_bytes())
}

/// Returns the record of a node that is up, in its first process.
pub(crate) fn node_record(id: NodeId) -> NodeRecord {
    NodeRecord { incarnation: Incarnation(1), ..firstseen_mesh::node_record(id) }
}

/// Returns a copy that has been complete since the first process of its node.
pub(crate) fn slice_owner(node: NodeId) -> SliceOwner {
    SliceOwner { node, complete_since: Incarnation(1), ..SliceOwner::default() }
}

/// Events in the order of a stream. Some keys repeat, time advances in steps and leaps, and some events arrive late.
pub(crate) struct Stream {
    pub(crate) digests: Vec<Digest>,
    pub(crate) times_ms: Vec<u64>,
}

/// Returns a stream of `events` random events with `keys` different keys. The time advances by about `step_ms`
/// milliseconds per event. Two kinds of irregularities occur. At one event in five hundred, the time leaps forward by
/// fifty times `late_ms`. One event in ten is late, by a random time of at most `late_ms`.
pub(crate) fn stream(rng: &mut TestRng, events: usize, keys: u64, step_ms: u64, late_ms: u64) -> Stream {
    let mut now_ms = 1_000_000;
    let mut times_ms = Vec::with_capacity(events);
    for _ in 0..events {
        now_ms += rng.below(2 * step_ms + 1);
        if rng.below(500) == 0 {
            now_ms += 50 * late_ms;
        }
        let late_ms = if rng.below(10) == 0 { rng.below(late_ms + 1) } else { 0 };
        times_ms.push(now_ms - late_ms);
    }
    Stream { digests: (0..events).map(|_| digest(rng.below(keys))).collect(), times_ms }
}

/// A step that is large enough for all tests except those about steps. Every time is accepted without confirmation by
/// other events.
pub(crate) const ANY_STEP_MS: u64 = 7 * 86_400_000;

/// Returns the specification of a classic filter of `cells` cells over `window`.
pub(crate) fn spec(kind: Kind, window: &str, cells: u64, hashes: u32) -> FilterSpec {
    FilterSpec {
        cells: Some(cells),
        hashes: Some(hashes),
        layout: Some(Layout::Classic),
        future_max_ms: ANY_STEP_MS,
        ..FilterSpec::new(kind, window.parse().unwrap())
    }
}

/// Returns the specification of a filter whose cells are fingerprints, with the given window, for `capacity_events`
/// events. Its rate of false positives is so low that tests do not have to expect any false positive.
pub(crate) fn fingerprints(window: &str, capacity_events: u64) -> FilterSpec {
    FilterSpec {
        capacity_events: Some(capacity_events),
        rate: 1e-8,
        future_max_ms: ANY_STEP_MS,
        ..FilterSpec::new(Kind::Cuckoo, window.parse().unwrap())
    }
}

/// Returns the specification of a classic filter for `capacity_events` events that opens up to `generations_max`
/// generations.
pub(crate) fn growing(
    kind: Kind,
    window: &str,
    capacity_events: u64,
    limit: Limit,
    generations_max: u32,
) -> FilterSpec {
    FilterSpec {
        capacity_events: Some(capacity_events),
        growth: Some(GrowthSpec { limit, generations_max, ratio: 1.0 }),
        layout: Some(Layout::Classic),
        rate: 0.05,
        future_max_ms: ANY_STEP_MS,
        ..FilterSpec::new(kind, window.parse().unwrap())
    }
}

pub(crate) fn definition(spec: &FilterSpec, slicing: &str) -> SlicedDefinition {
    SlicedDefinition::new(spec, slicing.parse().unwrap()).unwrap()
}

pub(crate) fn filter(spec: &FilterSpec, slicing: &str) -> SlicedFilter {
    SlicedFilter::build(&definition(spec, slicing)).unwrap()
}

/// Returns the answers to a whole stream that is sent in batches of `batch_events` events.
pub(crate) fn observe(filter: &mut SlicedFilter, stream: &Stream, batch_events: usize) -> Vec<Answer> {
    let mut answers = vec![Answer::Undecided; stream.digests.len()];
    let batches = stream.digests.chunks(batch_events).zip(stream.times_ms.chunks(batch_events));
    for ((digests, times_ms), answers) in batches.zip(answers.chunks_mut(batch_events)) {
        filter.observe_batch(digests, times_ms, answers);
    }
    answers
}

/// A filter that is not divided into slices and is asked event by event.
pub(crate) struct Uncut {
    slice: FilterSlice,
    clock: WindowClock,
}

impl Uncut {
    pub(crate) fn build(definition: &FilterDefinition) -> Self {
        let clock = clock(definition);
        Self { slice: FilterSlice::build(definition).unwrap(), clock }
    }

    pub(crate) fn ask(&mut self, digest: Digest, time_ms: u64, record: bool) -> Answer {
        let placed = if record { self.clock.place(Some(time_ms)) } else { self.clock.place_lookup(Some(time_ms)) };
        match placed {
            Placed::At(stamp) => self.ask_at(digest, stamp, record),
            Placed::Late => Answer::Late,
            Placed::Refused => Answer::Refused,
        }
    }

    fn ask_at(&mut self, digest: Digest, stamp: Stamp, record: bool) -> Answer {
        let mut verdict = [Verdict::Undecided];
        if record {
            self.slice.observe_batch(&[digest], &[stamp], &mut verdict);
        } else {
            self.slice.lookup_batch(&[digest], &[stamp], &mut verdict);
        }
        verdict[0].into()
    }

    pub(crate) fn slice(&self) -> &FilterSlice {
        &self.slice
    }
}

pub(crate) fn clock(definition: &FilterDefinition) -> WindowClock {
    WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms)
}

pub(crate) fn count(answers: &[Answer], answer: Answer) -> usize {
    answers.iter().filter(|other| **other == answer).count()
}
