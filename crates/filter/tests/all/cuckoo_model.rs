//! Shared code of the tests of kind `cuckoo`: definitions, streams of stamped events, and the model of identities.
//!
//! The model is a map from the identities of events to their greatest expiry, with a count of live events for each
//! unit. An identity consists of a region, an unordered pair of buckets and a fingerprint, so two events with the same
//! identity are the same event for the filter. The answers of the filter must be equal to those of the model, including
//! the false positives.

use std::collections::{BTreeMap, HashMap};

use crate::common::{self, TestRng, digests};
use firstseen_filter::{
    BucketShape, CellDefinition, CuckooCells, Digest, FilterDefinition, FilterSlice, Geometry, Growth, Layout, Limit,
    REGION_BUCKETS, Refresh, Stamp, UnitNumber, Verdict, WindowRule, positions_of,
};

/// Pairs of the bits of a fingerprint and the bits for times. There are short and long fingerprints, with and without
/// whole bytes.
pub(crate) const SHAPES: [(u32, u8); 9] =
    [(10, 64), (13, 64), (14, 64), (16, 64), (17, 64), (24, 64), (32, 64), (16, 128), (32, 128)];

/// Unit at which every test begins. There are enough earlier units for late events and for events with a short life.
pub(crate) const START: UnitNumber = UnitNumber(1000);

/// Parameters of a cuckoo filter for a test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) print_bits: u32,
    pub(crate) time_bits: u8,
    pub(crate) regions: u64,
    pub(crate) rule: WindowRule,
    pub(crate) refresh: Refresh,
    pub(crate) capacity_events: u64,
    pub(crate) generations_max: u32,
}

impl Wanted {
    /// Returns the parameters of a single region that accepts as many events as it has slots, with the longest window
    /// that fits.
    pub(crate) fn region((print_bits, time_bits): (u32, u8), lateness_units: u64) -> Self {
        let shape = BucketShape::new(print_bits, time_bits);
        let span_units = u64::from(shape.ticks()) - lateness_units;
        Self {
            print_bits,
            time_bits,
            regions: 1,
            rule: WindowRule { span_units, lateness_units },
            refresh: Refresh::Fixed,
            capacity_events: REGION_BUCKETS as u64 * u64::from(shape.slots()),
            generations_max: 1,
        }
    }

    pub(crate) fn shape(&self) -> BucketShape {
        BucketShape::new(self.print_bits, self.time_bits)
    }

    pub(crate) fn geometry(&self) -> Geometry {
        let cells = self.regions * REGION_BUCKETS as u64 * u64::from(self.shape().slots());
        Geometry::new(cells, 1, self.print_bits, Layout::Buckets { time_bits: self.time_bits }).unwrap()
    }

    pub(crate) fn definition(&self) -> FilterDefinition {
        let growth = Growth {
            limit: Limit::Cardinality,
            generations_max: self.generations_max,
            ratio: 1.0,
            capacity_events: self.capacity_events,
            generation_rate: 0.01,
            jumps: None,
        };
        let (geometry, refresh, asked) = (self.geometry(), self.refresh, Default::default());
        let cells = CellDefinition::Cuckoo(CuckooCells { geometry, refresh, growth, asked });
        common::definition(cells, self.rule)
    }

    pub(crate) fn slice(&self) -> FilterSlice {
        FilterSlice::build(&self.definition()).unwrap()
    }
}

/// Key of events that a cuckoo filter cannot tell apart: the lower of their two buckets, and their fingerprint.
pub(crate) type Identity = (u64, u32);

pub(crate) fn position_of(digest: Digest, geometry: &Geometry) -> u64 {
    let mut positions = Vec::new();
    positions_of(digest, geometry, &mut positions);
    assert_eq!(positions.len(), 1, "each event has one position");
    positions[0]
}

pub(crate) fn identity_of(position: u64, print_bits: u32) -> Identity {
    let (bucket, print) = (position >> print_bits, (position & ((1 << print_bits) - 1)) as u32);
    let (region, bucket) = (bucket / REGION_BUCKETS as u64, bucket as usize % REGION_BUCKETS);
    let lower = bucket.min(BucketShape::partner(bucket, print));
    (region * REGION_BUCKETS as u64 + lower as u64, print)
}

/// Returns the other position of the same event, which names its fingerprint in its other bucket.
pub(crate) fn other_name_of(position: u64, print_bits: u32) -> u64 {
    let (bucket, print) = (position >> print_bits, position & ((1 << print_bits) - 1));
    let partner = BucketShape::partner(bucket as usize % REGION_BUCKETS, print as u32) as u64;
    (bucket - bucket % REGION_BUCKETS as u64 + partner) << print_bits | print
}

/// Model of the answers of a filter of one generation.
#[derive(Clone)]
pub(crate) struct Model {
    wanted: Wanted,
    geometry: Geometry,
    pub(crate) now: UnitNumber,
    /// Greatest expiry of each identity.
    pub(crate) expiries: HashMap<Identity, UnitNumber>,
    /// Number of events that take room, by the unit in which they were counted.
    live: BTreeMap<UnitNumber, u64>,
}

impl Model {
    pub(crate) fn new(wanted: Wanted) -> Self {
        let geometry = wanted.geometry();
        Self { wanted, geometry, now: UnitNumber::FIRST, expiries: HashMap::new(), live: BTreeMap::new() }
    }

    pub(crate) fn identity(&self, digest: Digest) -> Identity {
        identity_of(position_of(digest, &self.geometry), self.wanted.print_bits)
    }

    /// Returns the latest unit such that every event that may still arrive is judged at or after it.
    pub(crate) fn base(&self) -> UnitNumber {
        self.now.before(self.wanted.rule.lateness_units)
    }

    pub(crate) fn live_events(&self) -> u64 {
        self.live.values().sum()
    }

    /// Returns the numbers of events that take room, with the units in which they were counted.
    pub(crate) fn live(&self) -> Vec<(UnitNumber, u64)> {
        self.live.iter().map(|(unit, events)| (*unit, *events)).collect()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.live_events() >= self.wanted.capacity_events
    }

    pub(crate) fn advance(&mut self, unit: UnitNumber) {
        self.now = self.now.max(unit);
        let reach = self.wanted.rule.span_units + self.wanted.rule.lateness_units;
        self.live = self.live.split_off(&self.now.after(1).before(reach));
    }

    /// Returns the expiry of an identity, as long as its entry takes room.
    pub(crate) fn held(&self, identity: Identity) -> Option<UnitNumber> {
        self.expiries.get(&identity).copied().filter(|expiry| *expiry > self.base())
    }

    pub(crate) fn finds(&self, identity: Identity, judged: UnitNumber) -> bool {
        self.held(identity).is_some_and(|expiry| expiry > judged)
    }

    /// Returns the verdict of the model on an event, and records the event if it is new. If `refuses` is set, the
    /// filter has reported that the region has no room, so the model does not record the event.
    pub(crate) fn observe(&mut self, digest: Digest, stamp: Stamp, refuses: bool) -> Verdict {
        self.observe_at(position_of(digest, &self.geometry), stamp, refuses)
    }

    pub(crate) fn observe_at(&mut self, position: u64, stamp: Stamp, refuses: bool) -> Verdict {
        // An event with a shorter life has an earlier unit than its present.
        self.advance(stamp.unit.max(stamp.judged));
        let identity = identity_of(position, self.wanted.print_bits);
        let (found, held) = (self.finds(identity, stamp.judged), self.held(identity));
        let is_full = self.is_full();
        let refreshes = found && self.wanted.refresh == Refresh::Refresh;
        let is_refused = is_full || refuses && held.is_none();
        if refreshes || !found && !is_refused {
            self.put(identity, held, self.wanted.rule.expiry(stamp.unit));
        }
        if found {
            Verdict::Duplicate
        } else if is_full {
            Verdict::Undecided
        } else {
            Verdict::FirstSeen
        }
    }

    fn put(&mut self, identity: Identity, held: Option<UnitNumber>, expiry: UnitNumber) {
        match held {
            Some(held) if held >= expiry => return,
            Some(held) => self.take_back(held.before(self.wanted.rule.span_units)),
            None => {}
        }
        self.expiries.insert(identity, expiry);
        *self.live.entry(self.now).or_default() += 1;
    }

    /// Stops counting an event of `unit`, because it is now counted in another unit. A late event was counted in a
    /// later unit than its own.
    fn take_back(&mut self, unit: UnitNumber) {
        let counted = self.live.range_mut(unit..).next();
        if let Some((counted, events)) = counted.map(|(counted, events)| (*counted, events)) {
            *events -= 1;
            if *events == 0 {
                self.live.remove(&counted);
            }
        }
    }

    /// Records an event whether or not it is there already.
    pub(crate) fn set(&mut self, position: u64, stamp: Stamp) {
        self.advance(stamp.unit);
        let identity = identity_of(position, self.wanted.print_bits);
        let expiry = self.wanted.rule.expiry(stamp.unit);
        let greatest = self.expiries.entry(identity).or_default();
        *greatest = expiry.max(*greatest);
    }

    /// Adds everything that another model knows.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.advance(other.now);
        for (identity, expiry) in &other.expiries {
            let greatest = self.expiries.entry(*identity).or_default();
            *greatest = (*expiry).max(*greatest);
        }
    }

    /// Returns the expiries of all entries that take room.
    pub(crate) fn map(&self) -> HashMap<Identity, UnitNumber> {
        self.expiries.iter().filter(|(_, expiry)| **expiry > self.base()).map(|(key, expiry)| (*key, *expiry)).collect()
    }
}

/// Returns the expiries of those of `positions` that a slice holds. The positions are read one by one.
pub(crate) fn map_of(
    slice: &FilterSlice,
    wanted: &Wanted,
    now: UnitNumber,
    positions: &[u64],
) -> HashMap<Identity, UnitNumber> {
    let stamp = Stamp { unit: now, judged: now.before(wanted.rule.lateness_units) };
    let held = |position: &u64| {
        let sighting = slice.test_at(&[*position], stamp).unwrap();
        let other_name = other_name_of(*position, wanted.print_bits);
        assert_eq!(slice.test_at(&[other_name], stamp).unwrap(), sighting, "lookup by the other bucket; {wanted:?}");
        sighting.is_hit().then(|| (identity_of(*position, wanted.print_bits), sighting.expiry))
    };
    positions.iter().filter_map(held).collect()
}

/// Asserts that a slice holds exactly what its model holds.
#[track_caller]
pub(crate) fn assert_same_map(slice: &FilterSlice, model: &Model, positions: &[u64], when: &str) {
    let (map, expected) = (map_of(slice, &model.wanted, model.now, positions), model.map());
    if let Some((identity, expiry)) = expected.iter().find(|(identity, expiry)| map.get(*identity) != Some(*expiry)) {
        panic!("{when}: {identity:?} expires at {:?}, not {expiry}; {:?}", map.get(identity), model.wanted);
    }
    if let Some((identity, expiry)) = map.iter().find(|(identity, _)| !expected.contains_key(*identity)) {
        panic!("{when}: {identity:?}, which expires at {expiry}, must not be there; {:?}", model.wanted);
    }
}

/// Returns positions of different events that all have the same two buckets: `bucket` of region 0, and its partner. A
/// position names one of the two buckets. The fingerprints must have at least 16 bits, because there are not enough
/// such positions with shorter ones.
pub(crate) fn crowd(wanted: &Wanted, bucket: usize, count: usize) -> Vec<u64> {
    let partner = BucketShape::partner(bucket, 1);
    let named = |print: u32| if print.is_multiple_of(3) { partner } else { bucket };
    let agree = (1..u32::MAX).filter(|print| BucketShape::partner(bucket, *print) == partner);
    let positions = agree.map(|print| (named(print) as u64) << wanted.print_bits | u64::from(print));
    let positions: Vec<_> = positions.take(count).collect();
    assert!(positions.iter().all(|position| *position < wanted.geometry().positions()), "too few fingerprints");
    positions
}

/// Returns the numbers of events that take room in the oldest generation of a slice, with the units in which they were
/// counted.
pub(crate) fn live_of(slice: &FilterSlice) -> Vec<(UnitNumber, u64)> {
    let mut bytes = Vec::new();
    slice.outline().unwrap().live[0].write(&mut bytes).unwrap();
    let words: Vec<_> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words[2..].as_chunks().0.iter().map(|[unit, events]| (UnitNumber(*unit), *events)).collect()
}

/// Frequencies of the changes in a stream of events. A value of n means that one of n events has the change, and 0
/// means that no event has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    /// The event starts the next unit.
    pub(crate) next: u64,
    /// The event jumps ahead by up to ten times T units.
    pub(crate) jump: u64,
    /// The event is late.
    pub(crate) late: u64,
    /// The event has a shorter life than the window.
    pub(crate) life: u64,
}

/// Stream of events of a given number of keys.
pub(crate) struct Feed {
    pub(crate) rng: TestRng,
    pub(crate) now: UnitNumber,
    pub(crate) keys: Vec<Digest>,
    rule: WindowRule,
    ticks: u64,
}

impl Feed {
    pub(crate) fn new(wanted: &Wanted, keys: u64, seed: u64) -> Self {
        let ticks = u64::from(wanted.shape().ticks());
        Self { rng: TestRng(seed), now: START, keys: digests(0, keys), rule: wanted.rule, ticks }
    }

    fn comes(&mut self, one_of: u64) -> bool {
        one_of > 0 && self.rng.below(one_of) == 0
    }

    pub(crate) fn next(&mut self, steps: Steps) -> (Digest, Stamp) {
        if self.comes(steps.next) {
            self.now = self.now.after(1);
        }
        if self.comes(steps.jump) {
            self.now = self.now.after(self.rng.below(10 * self.ticks + 1));
        }
        let key = self.rng.below(self.keys.len() as u64) as usize;
        let mut stamp = Stamp::on_time(self.now);
        if self.comes(steps.late) {
            let unit = self.now.before(self.rng.below(self.rule.lateness_units + self.rule.span_units));
            stamp = self.rule.stamp(unit, self.now).unwrap_or(stamp);
        } else if self.comes(steps.life) {
            stamp.unit = stamp.unit.before(self.rng.below(self.rule.span_units));
        }
        (self.keys[key], stamp)
    }

    pub(crate) fn batch(&mut self, events: usize, steps: Steps) -> (Vec<Digest>, Vec<Stamp>) {
        (0..events).map(|_| self.next(steps)).unzip()
    }
}

/// Returns the size of a batch, at most `left`. Most batches are small, and some are large.
pub(crate) fn batch_size(rng: &mut TestRng, left: usize) -> usize {
    let most = [1, 3, 40, 600][rng.below(4) as usize];
    (1 + rng.below(most) as usize).min(left)
}

/// Numbers of operations of a short and of a long run.
pub(crate) const SHORT: usize = 100_000;
pub(crate) const LONG: usize = 10_000_000;
