//! Compares the kind `cuckoo` with the model of identities and with the exact window. The verdicts must be equal for
//! every event.
//!
//! The false-positive rate of the kind is tested in `cuckoo_sizes.rs`, by the test
//! `full_filters_err_as_often_as_the_formula_says`.

use crate::common::{TestRng, digests, rule};
use crate::cuckoo_model::{
    Feed, LONG, Model, SHAPES, SHORT, START, Steps, Wanted, assert_same_map, batch_size, live_of, map_of, position_of,
};
use firstseen_filter::rates::cuckoo;
use firstseen_filter::{Digest, ExactWindow, FilterSlice, Instructions, Probes, Refresh, Stamp, UnitNumber, Verdict};

/// Slice with its model, and counts of the events.
struct Pair {
    wanted: Wanted,
    slice: FilterSlice,
    model: Model,
    verdicts: Vec<Verdict>,
    /// Number of new events for which their region had no room, although the filter was not full.
    refused: u64,
    /// Number of events that arrived while the filter was full.
    undecided: u64,
    /// Greatest number of entries in the stash.
    stashed: u64,
}

impl Pair {
    fn new(wanted: Wanted) -> Self {
        let (slice, model) = (wanted.slice(), Model::new(wanted));
        Self { wanted, slice, model, verdicts: Vec::new(), refused: 0, undecided: 0, stashed: 0 }
    }

    /// Observes a batch and compares every verdict with the model.
    fn observe(&mut self, keys: &[Digest], stamps: &[Stamp]) {
        self.verdicts.resize(keys.len(), Verdict::Undecided);
        self.slice.observe_batch(keys, stamps, &mut self.verdicts);
        for (index, ((key, stamp), got)) in keys.iter().zip(stamps).zip(&self.verdicts).enumerate() {
            // Above the load for which a filter is built, a region may be full before the filter is.
            let refuses = *got == Verdict::Undecided;
            let expected = self.model.observe(*key, *stamp, refuses);
            let is_refused = refuses && expected == Verdict::FirstSeen;
            self.refused += u64::from(is_refused);
            self.undecided += u64::from(refuses);
            let count = keys.len();
            assert!(
                *got == expected || is_refused,
                "event {index} of {count}: {got:?}, not {expected:?}, at {stamp:?}; {:?}",
                self.wanted
            );
        }
        self.stashed = self.stashed.max(self.slice.used_cells());
        assert_eq!(live_of(&self.slice), self.model.live(), "live events of {:?}", self.wanted);
    }

    /// Looks up keys, also at times ahead of the present. The lookups must not change anything.
    fn look_up(&mut self, keys: &[Digest], ahead: u64) {
        let unit = self.model.now;
        let stamps = vec![Stamp { unit, judged: unit.after(ahead) }; keys.len()];
        self.verdicts.resize(keys.len(), Verdict::Undecided);
        self.slice.lookup_batch(keys, &stamps, &mut self.verdicts);
        for (key, got) in keys.iter().zip(&self.verdicts) {
            let found = self.model.finds(self.model.identity(*key), unit.after(ahead));
            let expected = if found { Verdict::Duplicate } else { Verdict::FirstSeen };
            assert_eq!(*got, expected, "looked up at {unit} + {ahead}; {:?}", self.wanted);
        }
    }

    /// Compares the expiries of all keys.
    fn compare_maps(&self, keys: &[Digest]) {
        let positions: Vec<_> = keys.iter().map(|key| position_of(*key, self.slice.geometry())).collect();
        assert_same_map(&self.slice, &self.model, &positions, "at the end");
    }
}

/// Returns several paces. In some of them all keys come within a few units, and a window brings more events than there
/// is room for.
fn paces_of(wanted: &Wanted) -> [Steps; 5] {
    let next = wanted.capacity_events / 4;
    [
        Steps { next, jump: 0, late: 5, life: 5 },
        Steps { next: 0, jump: 0, late: 0, life: 0 },
        Steps { next: next / 6, jump: 2 * wanted.capacity_events, late: 3, life: 3 },
        Steps { next: 4 * next, jump: 0, late: 0, life: 3 },
        Steps { next: next / 60 + 1, jump: 2 * wanted.capacity_events, late: 9, life: 0 },
    ]
}

/// Runs a stream with a changing pace through a slice and its model.
fn run(wanted: Wanted, keys: u64, operations: usize, seed: u64) -> Pair {
    let (mut pair, mut feed, paces) = (Pair::new(wanted), Feed::new(&wanted, keys, seed), paces_of(&wanted));
    let (mut left, mut steps) = (operations, paces[1]);
    // At the start, more events come at once than there is room for.
    let at_once = 3 * wanted.capacity_events as usize / 2;
    while left > 0 {
        if feed.rng.below(100) == 0 && left + at_once < operations {
            steps = paces[feed.rng.below(paces.len() as u64) as usize];
        }
        let events = batch_size(&mut feed.rng, left);
        left -= events;
        let (keys, stamps) = feed.batch(events, steps);
        pair.observe(&keys, &stamps);
        if feed.rng.below(20) == 0 {
            let ahead = feed.rng.below(wanted.rule.span_units + 2) * feed.rng.below(2);
            pair.look_up(&keys, ahead);
        }
    }
    pair.compare_maps(&feed.keys);
    // The number of counted events is never less than the number of entries.
    assert!(pair.model.map().len() as u64 <= pair.model.live_events(), "{wanted:?}");
    pair
}

fn equals_the_model(operations: usize) {
    for (seed, shape) in (1..).zip(SHAPES) {
        let lateness = [0, 2, 5][seed as usize % 3];
        for refresh in [Refresh::Fixed, Refresh::Refresh] {
            // This region is as full as its design load allows.
            let region = Wanted { refresh, ..Wanted::region(shape, lateness) };
            let design_events = (region.capacity_events as f64 * cuckoo::load(region.shape())) as u64;
            let full = Wanted { capacity_events: design_events, ..region };
            let pair = run(full, 2 * design_events, operations, seed);
            assert!(pair.refused == 0 && pair.undecided > 0, "{} refused; {full:?}", pair.refused);
            // This filter has several regions with room for few events, a short window and another lateness.
            let rule = rule(4, [3, 0, 1][seed as usize % 3]);
            let small = Wanted { regions: 3, rule, capacity_events: 700, ..region };
            let pair = run(small, 1500, operations / 4, seed + 100);
            assert!(pair.refused == 0 && pair.undecided > 0, "{} refused; {small:?}", pair.refused);
        }
    }
}

#[test]
fn every_verdict_is_that_of_the_model_of_identities() {
    equals_the_model(2 * SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn every_verdict_is_that_of_the_model_of_identities_at_full_size() {
    equals_the_model(LONG);
}

/// Fills regions up to the last slot. Entries that the buckets cannot hold are in the stash, and the answers must still
/// be those of the model.
fn equals_the_model_beyond_the_design_load(operations: usize) {
    for (seed, shape) in (1..).zip(SHAPES) {
        let lateness = [0, 2][seed as usize % 2];
        for refresh in [Refresh::Fixed, Refresh::Refresh] {
            let wanted = Wanted { refresh, ..Wanted::region(shape, lateness) };
            let pair = run(wanted, 2 * wanted.capacity_events, operations, seed + 200);
            // In buckets with many slots, relocation finds even the last free slot.
            let overflows = pair.stashed > 0 || wanted.shape().slots() > 20;
            assert!(overflows, "the region never overflowed; {wanted:?}");
        }
    }
}

#[test]
fn every_verdict_is_that_of_the_model_where_a_region_overflows() {
    equals_the_model_beyond_the_design_load(2 * SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn every_verdict_is_that_of_the_model_where_a_region_overflows_at_full_size() {
    equals_the_model_beyond_the_design_load(LONG);
}

/// Returns the answers to a stream of events, by digests or by positions. `cut` determines how the stream is divided
/// into batches.
fn answers(slice: &mut FilterSlice, events: &(Vec<Digest>, Vec<Stamp>), cut: usize, by_position: bool) -> Vec<Verdict> {
    let (keys, stamps) = events;
    let mut verdicts = vec![Verdict::Undecided; keys.len()];
    let mut rng = TestRng(cut as u64);
    let mut start = 0;
    let mut probes = Probes::new(slice.probe_shape());
    keys.iter().for_each(|key| probes.push_digest(*key, slice.geometry()));
    while start < keys.len() {
        let part = start..(start + 1 + rng.below(cut as u64) as usize).min(keys.len());
        let (stamps, got) = (&stamps[part.clone()], &mut verdicts[part.clone()]);
        if by_position {
            slice.observe_probes(&probes, part.clone(), stamps, got).unwrap();
        } else {
            slice.observe_batch(&keys[part.clone()], stamps, got);
        }
        start = part.end;
    }
    verdicts
}

#[test]
fn batches_positions_and_instructions_change_no_answer() {
    const STEPS: Steps = Steps { next: 90, jump: 900, late: 4, life: 4 };
    for (seed, shape) in (1..).zip(SHAPES) {
        for (refresh, generations_max) in [(Refresh::Fixed, 1), (Refresh::Refresh, 1), (Refresh::Fixed, 3)] {
            let region = Wanted::region(shape, [2, 0, 5][seed as usize % 3]);
            let wanted = Wanted { refresh, generations_max, capacity_events: 300, regions: 2, ..region };
            let mut feed = Feed::new(&wanted, 1200, seed + 300);
            let events = feed.batch(8000, STEPS);
            let mut one_by_one = wanted.slice();
            let expected = answers(&mut one_by_one, &events, 1, false);
            assert!(expected.contains(&Verdict::Undecided), "never full; {wanted:?}");
            let positions: Vec<_> = feed.keys.iter().map(|key| position_of(*key, &wanted.geometry())).collect();
            let map = map_of(&one_by_one, &wanted, feed.now, &positions);
            for (cut, by_position, instructions) in [
                (5, false, Instructions::Widest),
                (700, false, Instructions::Portable),
                (8000, false, Instructions::Widest),
                (1, true, Instructions::Portable),
                (300, true, Instructions::Widest),
            ] {
                let mut slice = wanted.slice().with_instructions(instructions);
                let got = answers(&mut slice, &events, cut, by_position);
                let differs = got.iter().zip(&expected).position(|(got, expected)| got != expected);
                assert_eq!(differs, None, "batches up to {cut}, by position: {by_position}; {wanted:?}");
                assert_eq!(slice.live_events(), one_by_one.live_events(), "{wanted:?}");
                assert!(map_of(&slice, &wanted, feed.now, &positions) == map, "batches up to {cut}; {wanted:?}");
            }
        }
    }
}

/// Checks the first units of a filter, before any lateness has passed.
#[test]
fn the_first_units_are_like_all_others() {
    for lateness in [0, 3, 7] {
        let wanted = Wanted::region((16, 64), lateness);
        for unit in (0..12).map(UnitNumber) {
            let (mut slice, mut verdicts) = (wanted.slice(), [Verdict::Undecided; 50]);
            let keys = digests(unit.0, 50);
            slice.observe_batch(&keys, &[Stamp::on_time(unit); 50], &mut verdicts);
            for (age, expected) in [(0, true), (wanted.rule.span_units - 1, true), (wanted.rule.span_units, false)] {
                slice.lookup_batch(&keys, &[Stamp { unit, judged: unit.after(age) }; 50], &mut verdicts);
                assert!(verdicts.iter().all(|got| (*got == Verdict::Duplicate) == expected), "{age} after {unit}");
            }
        }
    }
}

/// Delivers keys in one unit and looks them up at the edge of the window, for every base that a bucket can distinguish.
#[test]
fn an_event_is_alive_for_exactly_its_span_at_every_base() {
    for shape in SHAPES {
        for lateness in [0, 3] {
            let wanted = Wanted { regions: 2, ..Wanted::region(shape, lateness) };
            let span = wanted.rule.span_units;
            for start in (0..41).map(|ahead| START.after(ahead)) {
                let (mut slice, mut exact) = (wanted.slice(), ExactWindow::of(&wanted.definition()));
                let mut verdicts = [Verdict::Undecided; 20];
                let keys = digests(start.0 * 20, 20);
                slice.observe_batch(&keys, &[Stamp::on_time(start); 20], &mut verdicts);
                for (key, verdict) in keys.iter().zip(verdicts) {
                    exact.observe(*key, Stamp::on_time(start), verdict);
                }
                for age in [span - 1, span, span + 1] {
                    // A late event is judged at most this far back.
                    let unit = start.after(age);
                    for judged in [unit, unit.before(lateness)] {
                        let stamps = [Stamp { unit, judged }; 20];
                        slice.lookup_batch(&keys, &stamps, &mut verdicts);
                        let known = known(&exact, &keys, stamps[0]);
                        assert_eq!(verdicts.to_vec(), known, "{wanted:?}: age {age} from {start}, judged {judged}");
                    }
                }
            }
        }
    }
}

/// Returns the answers of the exact window.
fn known(exact: &ExactWindow, keys: &[Digest], stamp: Stamp) -> Vec<Verdict> {
    let verdict = |key| if exact.knows(key, stamp) { Verdict::Duplicate } else { Verdict::FirstSeen };
    keys.iter().map(|key| verdict(*key)).collect()
}
