//! Shared code of the window tests: random numbers, definitions, streams of stamped events, and slices with their exact
//! model.

use firstseen_filter::snapshot::{self, UnverifiedSnapshot};
use firstseen_filter::{
    BloomCells, CellDefinition, CuckooCells, Digest, ExactWindow, FilterDefinition, FilterSecret, FilterSlice,
    FilterSpec, GenerationCells, Geometry, Growth, Instructions, Layout, Limit, Placed, Refresh, Stamp, TimingCells,
    Unit, Verdict, Window, WindowClock, WindowRule,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Returns a configuration with the same cases in every run, so that the same command repeats a failure.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(17), failure_persistence: None, ..ProptestConfig::default() }
}

/// SplitMix64 generator.
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

/// Returns the digests of `count` keys from `first` on.
pub(crate) fn digests(first: u64, count: u64) -> Vec<Digest> {
    let secret = FilterSecret::from_seed(5);
    (first..first + count).map(|key| secret.digest(&key.to_le_bytes())).collect()
}

pub(crate) const LAYOUTS: [Layout; 5] = [
    Layout::Classic,
    Layout::Partitioned,
    Layout::Blocked { lines: 1 },
    Layout::Blocked { lines: 2 },
    Layout::Blocked { lines: 4 },
];

pub(crate) const fn rule(span_units: u64, lateness_units: u64) -> WindowRule {
    WindowRule { span_units, lateness_units }
}

/// Returns a definition whose unit is a millisecond.
pub(crate) fn definition(cells: CellDefinition, rule: WindowRule) -> FilterDefinition {
    FilterDefinition {
        window: Window::Unbounded,
        unit: Unit::Milliseconds(1),
        rule,
        future_max_ms: u64::MAX,
        cells,
        rate: 0.01,
        capacity_events: None,
    }
}

pub(crate) fn bloom(geometry: Geometry, growth: Option<Growth>) -> FilterDefinition {
    definition(CellDefinition::Bloom(BloomCells { geometry, growth }), rule(1, 0))
}

pub(crate) fn timing(
    geometry: Geometry,
    rule: WindowRule,
    refresh: Refresh,
    growth: Option<Growth>,
) -> FilterDefinition {
    definition(
        CellDefinition::Timing(TimingCells { geometry, refresh, equal_timers: 0, growth, asked: Default::default() }),
        rule,
    )
}

pub(crate) fn generations(geometry: Geometry, rule: WindowRule) -> FilterDefinition {
    definition(CellDefinition::Generations(GenerationCells { geometry, growth: None, asked: Default::default() }), rule)
}

/// Returns a geometry of `cells` cells with as many positions as the layout can place, but at most `hashes_max`.
pub(crate) fn geometry(cells: u64, hashes_max: u32, cell_bits: u32, layout: Layout) -> Geometry {
    let hashes = match layout {
        Layout::Blocked { lines } => {
            Geometry::blocked_hashes_max(Geometry::block_cells_of(lines, cell_bits).unwrap()).min(hashes_max)
        }
        _ => hashes_max,
    };
    Geometry::new(cells, hashes, cell_bits, layout).unwrap()
}

pub(crate) fn growth(limit: Limit, generations_max: u32, ratio: f64, capacity_events: u64) -> Growth {
    Growth { limit, generations_max, ratio, capacity_events, generation_rate: 1e-4, jumps: None }
}

/// Asserts that the specification is rejected, and that the message contains all of `words`.
#[track_caller]
pub(crate) fn assert_refused(spec: FilterSpec, words: &[&str]) {
    let got = spec.resolve().expect_err("the specification must be rejected").to_string();
    for word in words {
        assert!(got.contains(word), "`{got}` does not say `{word}`");
    }
}

pub(crate) fn body(slice: &FilterSlice) -> Vec<u8> {
    let mut bytes = Vec::new();
    slice.write_body(&mut bytes).unwrap();
    bytes
}

/// Returns the slice after it was saved in a snapshot and read back.
pub(crate) fn reloaded(slice: &FilterSlice, definition: &FilterDefinition) -> FilterSlice {
    let mut bytes = Vec::new();
    snapshot::write(&mut bytes, definition, |sink| slice.write_body(sink)).unwrap();
    let snapshot = UnverifiedSnapshot::<_, FilterDefinition>::open(&bytes[..]).unwrap();
    assert_eq!(snapshot.header(), definition);
    let mut read = FilterSlice::build(definition).unwrap();
    snapshot.verify(|source| read.read_body(source)).unwrap();
    assert_eq!(body(&read), body(slice), "a second save differs");
    read
}

/// Parameters of a stream of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Number of different keys.
    pub(crate) keys: u64,
    /// Mean number of events between two steps of the clock.
    pub(crate) events_per_step: u64,
    /// Maximum length of a step in milliseconds. The minimum is 1.
    pub(crate) step_max: u64,
    /// Mean number of events per late event. 0 means that no event is late.
    pub(crate) late_one_of: u64,
    /// Maximum lateness of an event in milliseconds.
    pub(crate) late_max: u64,
}

/// Clock and the events before it, not all of which are in order.
pub(crate) struct Stream {
    pub(crate) clock: WindowClock,
    pub(crate) now_ms: u64,
    pub(crate) rng: TestRng,
}

impl Stream {
    pub(crate) fn new(definition: &FilterDefinition, start_ms: u64, seed: u64) -> Self {
        let clock = WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms);
        Self { clock, now_ms: start_ms, rng: TestRng(seed) }
    }

    /// Returns the next `events` events that are within the lateness.
    pub(crate) fn batch(&mut self, events: usize, pace: Pace) -> (Vec<Digest>, Vec<Stamp>) {
        let (mut digests, mut stamps) = (Vec::new(), Vec::new());
        for _ in 0..events {
            if self.rng.below(pace.events_per_step) == 0 {
                self.now_ms += 1 + self.rng.below(pace.step_max);
            }
            let late = pace.late_one_of > 0 && self.rng.below(pace.late_one_of) == 0;
            let behind_ms = if late { self.rng.below(pace.late_max + 1) } else { 0 };
            if let Placed::At(stamp) = self.clock.place(Some(self.now_ms.saturating_sub(behind_ms))) {
                digests.push(digest(self.rng.below(pace.keys)));
                stamps.push(stamp);
            }
        }
        (digests, stamps)
    }
}

/// Slice with its exact model.
pub(crate) struct Subject {
    pub(crate) definition: FilterDefinition,
    pub(crate) slice: FilterSlice,
    pub(crate) exact: ExactWindow,
    verdicts: Vec<Verdict>,
}

impl Subject {
    pub(crate) fn new(definition: &FilterDefinition) -> Self {
        Self {
            definition: definition.clone(),
            slice: FilterSlice::build(definition).unwrap(),
            exact: ExactWindow::of(definition),
            verdicts: Vec::new(),
        }
    }

    /// Observes a batch. If `sparse` is set, the result names the events whose answers differ from the exact ones.
    pub(crate) fn observe(&mut self, digests: &[Digest], stamps: &[Stamp], sparse: bool) -> Result<(), String> {
        self.verdicts.resize(digests.len(), Verdict::Undecided);
        self.slice.observe_batch(digests, stamps, &mut self.verdicts);
        let now = self.slice.generations();
        for (index, ((digest, stamp), verdict)) in digests.iter().zip(stamps).zip(&self.verdicts).enumerate() {
            let known = self.exact.observe(*digest, *stamp, *verdict);
            if known && *verdict != Verdict::Duplicate || sparse && !known && *verdict == Verdict::Duplicate {
                return Err(format!(
                    "event {index} of {}: {verdict:?} at {stamp:?}, known: {known} ({now} generations)",
                    digests.len()
                ));
            }
        }
        Ok(())
    }

    /// Looks up a batch. The lookup must not change anything.
    pub(crate) fn look_up(&mut self, digests: &[Digest], stamps: &[Stamp], sparse: bool) -> Result<(), String> {
        self.verdicts.resize(digests.len(), Verdict::Undecided);
        self.slice.lookup_batch(digests, stamps, &mut self.verdicts);
        for ((digest, stamp), verdict) in digests.iter().zip(stamps).zip(&self.verdicts) {
            let known = self.exact.knows(*digest, *stamp);
            if known && *verdict != Verdict::Duplicate || sparse && !known && *verdict != Verdict::FirstSeen {
                return Err(format!("lookup: {verdict:?} at {stamp:?}, known: {known}"));
            }
        }
        Ok(())
    }

    pub(crate) fn reload(&mut self) {
        self.slice = reloaded(&self.slice, &self.definition);
    }
}

/// Returns the answers of a slice to a stream that is divided into batches. The sizes of the batches repeat those in
/// `cuts`.
pub(crate) fn answers(
    definition: &FilterDefinition,
    instructions: Instructions,
    digests: &[Digest],
    stamps: &[Stamp],
    cuts: &[usize],
) -> (Vec<Verdict>, FilterSlice) {
    let mut slice = FilterSlice::build(definition).unwrap().with_instructions(instructions);
    let mut verdicts = vec![Verdict::Undecided; digests.len()];
    let (mut start, mut cuts) = (0, cuts.iter().cycle());
    while start < digests.len() {
        let end = (start + cuts.next().unwrap()).min(digests.len());
        slice.observe_batch(&digests[start..end], &stamps[start..end], &mut verdicts[start..end]);
        start = end;
    }
    (verdicts, slice)
}

/// Windows of 8-bit timers: a short one, half of the wheel, the greatest that fits, and one that is mostly lateness.
pub(crate) const RULES_8: [WindowRule; 5] = [rule(2, 0), rule(129, 16), rule(241, 0), rule(40, 201), rule(10, 3)];
pub(crate) const RULES_16: [WindowRule; 4] = [rule(2, 0), rule(16_385, 2048), rule(65_521, 0), rule(130, 40)];

pub(crate) fn rules_of_words(bits: u64) -> impl Strategy<Value = WindowRule> {
    (1..bits).prop_flat_map(move |span| (Just(span), 0..bits - span)).prop_map(|(span, late)| rule(span, late))
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    Tiny,
    Sparse,
}

impl Size {
    pub(crate) fn geometry(self, cell_bits: u32, layout_index: usize) -> Geometry {
        match self {
            Self::Tiny => geometry(900, 3, cell_bits, LAYOUTS[layout_index]),
            Self::Sparse => geometry(1 << 18, 16, cell_bits, LAYOUTS[layout_index]),
        }
    }

    pub(crate) fn keys(self) -> u64 {
        match self {
            Self::Tiny => 400,
            Self::Sparse => 120,
        }
    }
}

pub(crate) fn growths() -> impl Strategy<Value = Option<Growth>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(growth(Limit::Cardinality, 1, 1.0, 60))),
        2 => Just(Some(growth(Limit::Cardinality, 16, 1.0, 20))),
        1 => Just(Some(growth(Limit::Cardinality, 3, 1.0, 20))),
        1 => Just(Some(growth(Limit::Density, 16, 1.0, 20))),
        1 => Just(Some(growth(Limit::Density, 2, 1.0, 20))),
    ]
}

pub(crate) fn timers(size: Size, cell_bits: u32) -> impl Strategy<Value = FilterDefinition> {
    let rules = if cell_bits == 8 { RULES_8.to_vec() } else { RULES_16.to_vec() };
    let refresh = prop_oneof![Just(Refresh::Fixed), Just(Refresh::Refresh)];
    (prop::sample::select(rules), 0..LAYOUTS.len(), refresh, growths()).prop_map(
        move |(rule, layout, refresh, growth)| timing(size.geometry(cell_bits, layout), rule, refresh, growth),
    )
}

pub(crate) fn words(size: Size, cell_bits: u32) -> impl Strategy<Value = FilterDefinition> {
    (rules_of_words(u64::from(cell_bits)), 0..LAYOUTS.len())
        .prop_map(move |(rule, layout)| generations(size.geometry(cell_bits, layout), rule))
}

pub(crate) fn bits(size: Size) -> impl Strategy<Value = FilterDefinition> {
    let unit = prop_oneof![
        Just(Unit::Endless),
        Just(Unit::Milliseconds(1)),
        Just(Unit::Milliseconds(70)),
        Just(Unit::Events(500)),
        Just(Unit::Calendar("hour@Europe/Athens".parse().unwrap())),
        Just(Unit::Calendar("day@America/St_Johns".parse().unwrap())),
    ];
    (unit, 0..LAYOUTS.len(), growths())
        .prop_map(move |(unit, layout, growth)| FilterDefinition { unit, ..bloom(size.geometry(1, layout), growth) })
}

/// Returns cuckoo filters with short fingerprints, some of which are equal, or with fingerprints so long that none are
/// equal.
pub(crate) fn buckets(size: Size) -> impl Strategy<Value = FilterDefinition> {
    let print_bits = match size {
        Size::Tiny => [10, 14],
        Size::Sparse => [32, 32],
    };
    let shapes = (prop::sample::select(print_bits.to_vec()), prop::sample::select(vec![64, 128]));
    let rules = prop::sample::select(vec![rule(2, 0), rule(10, 0), rule(7, 3), rule(1, 9)]);
    let growths = prop::sample::select(vec![(1, 5000), (1, 60), (16, 20), (3, 20)]);
    let refresh = prop_oneof![Just(Refresh::Fixed), Just(Refresh::Refresh)];
    (shapes, rules, growths, refresh).prop_map(
        |((print_bits, time_bits), rule, (generations_max, capacity_events), refresh)| {
            let geometry = Geometry::new(1, 1, print_bits, Layout::Buckets { time_bits }).unwrap();
            let growth = growth(Limit::Cardinality, generations_max, 1.0, capacity_events);
            definition(
                CellDefinition::Cuckoo(CuckooCells { geometry, refresh, growth, asked: Default::default() }),
                rule,
            )
        },
    )
}

/// Returns definitions of all kinds that consist of generations of cells.
pub(crate) fn definitions(size: Size) -> impl Strategy<Value = FilterDefinition> {
    prop_oneof![
        buckets(size).boxed(),
        bits(size).boxed(),
        timers(size, 8).boxed(),
        timers(size, 16).boxed(),
        words(size, 8).boxed(),
        words(size, 16).boxed(),
    ]
}

pub(crate) fn paces(keys: u64) -> impl Strategy<Value = Pace> {
    let steps = prop_oneof![Just(1_u64), Just(3), Just(20), Just(400)];
    let sizes = prop_oneof![6 => Just(1_u64), 2 => Just(3), 1 => Just(40)];
    let lates = prop_oneof![Just((0_u64, 0_u64)), Just((4, 3)), Just((2, 30)), Just((3, 400))];
    (steps, sizes, lates).prop_map(move |(events_per_step, step_max, (late_one_of, late_max))| Pace {
        keys,
        events_per_step,
        step_max,
        late_one_of,
        late_max,
    })
}
