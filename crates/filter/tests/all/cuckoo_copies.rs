//! Tests of copies of slices of kind `cuckoo`, which are made by merging, from runs of cells, or by replay. The bytes
//! of two copies may differ although the copies have the same events. The tests therefore compare their maps from
//! identities to expiries.

use crate::common::{TestRng, body};
use crate::cuckoo_model::{
    Feed, LONG, Model, SHORT, START, Steps, Wanted, assert_same_map, batch_size, crowd, map_of, position_of,
};
use firstseen_filter::{
    CellRun, FilterSlice, GenerationNumber, MergeError, PartError, Probes, Refresh, Stamp, UnitNumber, Verdict,
};

/// Size of a region in bytes. Copies transfer cells in whole regions.
const REGION_BYTES: usize = 1025 * 64;
pub(crate) const SHAPES: [(u32, u8); 5] = [(10, 64), (14, 64), (16, 64), (32, 64), (16, 128)];
const STEPS: Steps = Steps { next: 60, jump: 900, late: 5, life: 4 };

/// Slice with the model of what it knows.
pub(crate) struct Copy {
    pub(crate) wanted: Wanted,
    pub(crate) slice: FilterSlice,
    pub(crate) model: Model,
}

impl Copy {
    pub(crate) fn new(wanted: Wanted) -> Self {
        Self { wanted, slice: wanted.slice(), model: Model::new(wanted) }
    }

    /// Returns a copy that has received its own share of the events.
    fn filled(wanted: Wanted, keys: u64, events: usize, seed: u64) -> Self {
        let (mut copy, mut feed) = (Self::new(wanted), Feed::new(&wanted, keys, seed));
        copy.observe_from(&mut feed, events);
        copy
    }

    fn observe_from(&mut self, feed: &mut Feed, events: usize) {
        let mut left = events;
        while left > 0 {
            let batch = batch_size(&mut feed.rng, left);
            left -= batch;
            let (keys, stamps) = feed.batch(batch, STEPS);
            let mut verdicts = vec![Verdict::Undecided; batch];
            self.slice.observe_batch(&keys, &stamps, &mut verdicts);
            for ((key, stamp), got) in keys.iter().zip(&stamps).zip(verdicts) {
                assert_eq!(got, self.model.observe(*key, *stamp, false), "{stamp:?}; {:?}", self.wanted);
            }
        }
    }

    pub(crate) fn clone(&self) -> Self {
        let mut slice = self.wanted.slice();
        slice.read_body(&mut &body(&self.slice)[..]).unwrap();
        Self { wanted: self.wanted, slice, model: self.model.clone() }
    }

    fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        self.slice.merge(&mut other.slice).unwrap();
        self.model.merge(&other.model);
    }

    fn merged(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        merged.merge(other);
        merged
    }

    pub(crate) fn advance(&mut self, unit: UnitNumber) {
        self.slice.advance(unit);
        self.model.advance(unit);
    }

    #[track_caller]
    pub(crate) fn check(&self, positions: &[u64], when: &str) {
        assert_same_map(&self.slice, &self.model, positions, when);
    }
}

/// Returns a filter of two regions, which have more room than the tests use. A third of the window is lateness.
pub(crate) fn wanted(shape: (u32, u8), refresh: Refresh) -> Wanted {
    let lateness = u64::from(Wanted::region(shape, 0).shape().ticks()) / 3;
    Wanted { refresh, regions: 2, ..Wanted::region(shape, lateness) }
}

pub(crate) fn positions(wanted: &Wanted, keys: u64) -> Vec<u64> {
    Feed::new(wanted, keys, 1).keys.iter().map(|key| position_of(*key, &wanted.geometry())).collect()
}

/// Returns every shape repeatedly, each time with a new seed, until runs of `of_each` operations add up to all
/// operations.
fn runs(operations: usize, of_each: usize) -> impl Iterator<Item = (u64, (u32, u8))> {
    (0..).zip(SHAPES.into_iter().cycle().take(operations.div_ceil(of_each)))
}

fn merging_has_its_laws(operations: usize) {
    const KEYS: u64 = 3000;
    const EVENTS: usize = 3334;
    // Three copies are made for each refresh rule.
    for (seed, shape) in runs(operations, 6 * EVENTS) {
        for refresh in [Refresh::Fixed, Refresh::Refresh] {
            let wanted = wanted(shape, refresh);
            let keys = positions(&wanted, KEYS);
            let [mut a, mut b, c] = [0, 1, 2].map(|copy| Copy::filled(wanted, KEYS, EVENTS, 30 * seed + copy));
            // The clocks of the copies are far apart in some cases, and close to each other in others.
            let now = b.model.now.max(c.model.now);
            a.advance(now.before(now.0 % 5));
            // Each copy has live entries of its own, and one copy has more of them than the other.
            for (copy, events) in [(&mut a, 250), (&mut b, 400)] {
                let mut feed = Feed::new(&wanted, KEYS, 30 * seed + events as u64);
                feed.now = now;
                copy.observe_from(&mut feed, events);
            }
            let maps = |copy: &Copy| (map_of(&copy.slice, &wanted, copy.model.now, &keys), copy.slice.live_events());
            let ab = a.merged(&b);
            ab.check(&keys, "merged");
            assert!(maps(&ab) == maps(&b.merged(&a)), "merging is commutative; {wanted:?}");
            let ab_c = ab.merged(&c);
            ab_c.check(&keys, "merged with a third");
            assert!(maps(&ab_c) == maps(&a.merged(&b.merged(&c))), "merging is associative; {wanted:?}");
            assert!(maps(&ab.merged(&b)) == maps(&ab), "merging twice has no further effect; {wanted:?}");
            assert!(maps(&ab.merged(&ab)) == maps(&ab), "merging with itself has no effect; {wanted:?}");
        }
    }
}

#[test]
fn merging_commutes_associates_and_repeats_without_effect() {
    merging_has_its_laws(SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn merging_commutes_associates_and_repeats_without_effect_at_full_size() {
    merging_has_its_laws(LONG);
}

fn merged_copies_answer_as_the_models_do(operations: usize) {
    const KEYS: u64 = 1500;
    const MERGES: usize = 100;
    for (seed, shape) in runs(operations, MERGES * 200) {
        let wanted = wanted(shape, [Refresh::Fixed, Refresh::Refresh][seed as usize % 2]);
        let keys = positions(&wanted, KEYS);
        let mut copies = [Copy::new(wanted), Copy::new(wanted)];
        let mut feeds = [0, 1].map(|copy| Feed::new(&wanted, KEYS, 10 * seed + copy));
        let mut rng = TestRng(seed);
        for _ in 0..MERGES {
            for (copy, feed) in copies.iter_mut().zip(&mut feeds) {
                // An event is stamped by a clock that is not behind the copy.
                feed.now = feed.now.max(copy.model.now);
                copy.observe_from(feed, 100);
            }
            let [a, b] = &mut copies;
            match rng.below(4) {
                0 => a.merge(b),
                1 => b.merge(a),
                _ => {}
            }
            copies.iter().for_each(|copy| copy.check(&keys, "while both go on"));
        }
    }
}

#[test]
fn copies_that_go_on_between_merges_answer_as_the_models_do() {
    merged_copies_answer_as_the_models_do(SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn copies_that_go_on_between_merges_answer_as_the_models_do_at_full_size() {
    merged_copies_answer_as_the_models_do(LONG);
}

/// Adds runs of cells to a slice that is ahead of them by various ages.
#[test]
fn a_run_that_comes_late_adds_what_is_alive_and_nothing_else() {
    const KEYS: u64 = 1200;
    for shape in SHAPES {
        let wanted = wanted(shape, Refresh::Fixed);
        let (keys, ticks) = (positions(&wanted, KEYS), u64::from(wanted.shape().ticks()));
        let source = Copy::filled(wanted, KEYS, 900, 7);
        let runs: Vec<_> = (0..2)
            .map(|region| source.slice.cell_run(GenerationNumber::FIRST, region * REGION_BYTES as u64, 1).unwrap())
            .collect();
        assert!(source.slice.cell_run(GenerationNumber::FIRST, 2 * REGION_BYTES as u64, 1).is_none());
        for age in (0..ticks + 5).chain([31, 32, 33, 64, 2 * ticks, 3 * ticks + 1]) {
            for is_empty in [false, true] {
                let mut copy = Copy::new(wanted);
                if !is_empty {
                    copy = Copy::filled(wanted, KEYS, 300, 8);
                }
                let unit = source.model.now.max(copy.model.now).after(age);
                copy.advance(unit);
                let lacks = runs.iter().any(|run| copy.slice.lacks_cells(run).unwrap());
                let before = copy.model.map();
                copy.model.merge(&source.model);
                assert_eq!(lacks, copy.model.map() != before, "age {age}; {wanted:?}");
                for run in &runs {
                    put(&mut copy.slice, run, age % 2 == 0);
                }
                copy.check(&keys, &format!("age {age}, empty: {is_empty}"));
                // The entries expire in this slice as they do in the source, even if nothing else is ever recorded.
                for later in [1, ticks / 2, 20, 12, 32] {
                    copy.advance(copy.model.now.after(later));
                    copy.check(&keys, &format!("{later} after age {age}, empty: {is_empty}"));
                }
            }
        }
    }
}

pub(crate) fn put(slice: &mut FilterSlice, run: &CellRun, is_known: bool) {
    if is_known {
        slice.put_cells(run).unwrap();
    } else {
        slice.put_missing_cells(run).unwrap();
    }
    assert!(!slice.lacks_cells(run).unwrap(), "the slice already has all cells of the run");
    assert!(!slice.put_missing_cells(run).unwrap(), "the slice already has all cells of the run");
}

/// Makes a copy of runs of cells, which are taken one by one while the slice continues, and of the events since the
/// first run.
#[test]
fn a_copy_made_meanwhile_holds_what_its_slice_holds() {
    const KEYS: u64 = 2500;
    for (seed, shape) in (0..).zip(SHAPES) {
        for ahead in [0, 1, 25, 40] {
            let refresh = [Refresh::Fixed, Refresh::Refresh][ahead as usize % 2];
            let wanted = Wanted { regions: 4, ..wanted(shape, refresh) };
            let keys = positions(&wanted, KEYS);
            let mut feed = Feed::new(&wanted, KEYS, seed + 50);
            let (mut source, mut copy) = (Copy::new(wanted), Copy::new(wanted));
            source.observe_from(&mut feed, 3400);
            copy.slice.put_outline(&source.slice.outline().unwrap()).unwrap();
            for region in 0..4 {
                let run =
                    source.slice.cell_run(GenerationNumber::FIRST, region * REGION_BYTES as u64, REGION_BYTES).unwrap();
                // In the meantime the slice continues, and the copy receives the events of the slice.
                let mut taken = Probes::new(source.slice.probe_shape());
                let (events, stamps) = feed.batch(400, STEPS);
                let mut verdicts = vec![Verdict::Undecided; 400];
                source.slice.observe_batch(&events, &stamps, &mut verdicts);
                for (key, stamp) in events.iter().zip(&stamps) {
                    source.model.observe(*key, *stamp, false);
                    taken.push_digest(*key, source.slice.geometry());
                }
                copy.slice.advance(run.unit.after(ahead));
                put(&mut copy.slice, &run, region % 2 == 0);
                if refresh == Refresh::Refresh {
                    copy.slice.put_probes(GenerationNumber::FIRST, &taken, &stamps).unwrap();
                } else {
                    let new = verdicts.iter().enumerate().filter(|(_, verdict)| **verdict == Verdict::FirstSeen);
                    new.for_each(|(index, _)| {
                        copy.slice.put_event(GenerationNumber::FIRST, taken.positions(index), stamps[index]).unwrap();
                    });
                }
            }
            copy.slice.recount();
            source.advance(source.model.now.after(ahead));
            copy.slice.advance(source.model.now);
            source.check(&keys, "the slice");
            assert_same_map(&copy.slice, &source.model, &keys, &format!("the copy, {ahead} ahead"));
            assert!(
                copy.slice.live_events() >= Some(source.model.map().len() as u64),
                "the copy counts too few live events"
            );
        }
    }
}

fn replays_give_one_map(operations: usize) {
    const KEYS: u64 = 800;
    const EVENTS: usize = 2000;
    for (seed, shape) in runs(operations, EVENTS) {
        let wanted = wanted(shape, Refresh::Fixed);
        let keys = positions(&wanted, KEYS);
        let mut feed = Feed::new(&wanted, KEYS, seed + 70);
        let (events, mut stamps) = feed.batch(EVENTS, STEPS);
        stamps.iter_mut().for_each(|stamp| stamp.judged = stamp.unit);
        let mut journal: Vec<_> = events.into_iter().zip(stamps).collect();
        let mut model = Model::new(wanted);
        journal.iter().for_each(|(key, stamp)| model.set(position_of(*key, &wanted.geometry()), *stamp));
        model.advance(feed.now);
        let mut rng = TestRng(seed);
        for round in 0..6 {
            let mut slice = wanted.slice();
            let mut probes = Probes::new(slice.probe_shape());
            journal.iter().for_each(|(key, _)| probes.push_digest(*key, slice.geometry()));
            let stamps: Vec<_> = journal.iter().map(|(_, stamp)| *stamp).collect();
            slice.put_probes(GenerationNumber::FIRST, &probes, &stamps).unwrap();
            if round % 2 == 0 {
                slice.put_probes(GenerationNumber::FIRST, &probes, &stamps).unwrap();
            }
            slice.advance(feed.now);
            assert_same_map(&slice, &model, &keys, &format!("replayed in order {round}"));
            for index in (1..journal.len()).rev() {
                journal.swap(index, rng.below(index as u64 + 1) as usize);
            }
        }
    }
}

#[test]
fn events_replayed_in_any_order_and_again_give_one_map() {
    replays_give_one_map(SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn events_replayed_in_any_order_and_again_give_one_map_at_full_size() {
    replays_give_one_map(LONG);
}

/// Merges two copies that each hold as many events as one region can take. Events that find room are added, and
/// existing events stay.
#[test]
fn a_merge_without_room_loses_nothing_that_was_there() {
    let wanted = Wanted::region((16, 64), 0);
    let room = 2 * wanted.shape().slots() as usize + 4;
    let events = crowd(&wanted, 9, 2 * room);
    let (mut mine, mut other) = (Copy::new(wanted), Copy::new(wanted));
    for (copy, events) in [(&mut mine, &events[..room]), (&mut other, &events[room / 2..room / 2 + room])] {
        for event in events {
            assert!(copy.slice.set_at(&[*event], Stamp::on_time(START)));
            copy.model.set(*event, Stamp::on_time(START));
        }
    }
    let run = other.slice.cell_run(GenerationNumber::FIRST, 0, 1).unwrap();
    assert!(matches!(mine.slice.put_cells(&run), Err(PartError::Full)));
    mine.check(&events, "a run that does not fit");
    assert_eq!(mine.slice.merge(&mut other.slice), Err(MergeError::Full));
    mine.check(&events, "a merge that does not fit");
    assert_eq!(mine.slice.used_cells(), 4);
    // A copy that holds fewer events also keeps its events, and receives those for which it has room.
    let mut less = Copy::new(wanted);
    assert!(events[..room / 2].iter().all(|event| less.slice.set_at(&[*event], Stamp::on_time(START))));
    assert!(matches!(less.slice.put_cells(&run), Err(PartError::Full)));
    let is_hit = |event: &&u64| less.slice.test_at(&[**event], Stamp::on_time(START)).unwrap().is_hit();
    assert_eq!(events[..room / 2].iter().filter(is_hit).count(), room / 2);
    assert_eq!(events.iter().filter(is_hit).count(), room);
    // If the buckets have room, entries from the stash of the other copy are added as well.
    let mut empty = Copy::new(wanted);
    empty.advance(START.after(3));
    empty.slice.merge(&mut other.slice).unwrap();
    empty.model.merge(&other.model);
    empty.check(&events, "into an empty one");
    assert_eq!(empty.slice.used_cells(), 4);
    // A copy that has never recorded an event itself also forgets expired events.
    let mut full = Copy::new(wanted);
    assert!(events.iter().take(room).all(|event| full.slice.set_at(&[*event], Stamp::on_time(START))));
    let mut late = Copy::new(wanted);
    late.slice.put_cells(&full.slice.cell_run(GenerationNumber::FIRST, 0, 1).unwrap()).unwrap();
    assert!(late.slice.put_missing_cells(&run).is_err());
    for unit in (0..100).map(|ahead| START.after(ahead)) {
        late.advance(unit);
        let hit = late.slice.test_at(&events[..1], Stamp::on_time(unit)).unwrap().is_hit();
        assert_eq!(hit, unit < wanted.rule.expiry(START), "at {unit}");
    }
}

#[test]
fn only_copies_of_one_definition_are_merged() {
    let one = wanted((16, 64), Refresh::Fixed);
    let rule = crate::common::rule;
    let others = [
        Wanted { refresh: Refresh::Refresh, ..one },
        Wanted { regions: 3, ..one },
        Wanted { rule: rule(9, 9), ..one },
        Wanted { capacity_events: 9, ..one },
        wanted((17, 64), Refresh::Fixed),
        Wanted { time_bits: 128, capacity_events: 9, ..one },
    ];
    for other in others {
        assert_eq!(one.slice().merge(&mut other.slice()), Err(MergeError::Definition), "{other:?}");
    }
    assert_eq!(one.slice().merge(&mut one.slice()), Ok(()));
}
