//! Tests of a sliced filter in one process while some of its slices are down. For every policy, the measured errors
//! must agree with the formula of the policy (Koloniari et al. 2011, section 3.2).

use firstseen_filter::rates::band;
use firstseen_filter::rates::failures::{self, Errors, Rule};
use firstseen_filter::{Digest, FilterSecret, Kind, Window};
use firstseen_routing::{Answer, SlicedDefinition, SlicedFilter};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Belief, is_duplicate_while_down};
use crate::measure::shaped;

const SLICES: u32 = 40;
const FAILED: usize = 8;
const HASHES: u32 = 8;
const CELLS: u64 = 480_000;
/// Number of keys that set half of the cells.
const KEYS: u64 = CELLS * 69 / 100 / HASHES as u64;
const CONFIDENCE: f64 = 0.999;

fn definition(slicing: &str) -> SlicedDefinition {
    SlicedDefinition::new(&shaped(Kind::Bloom, Window::Unbounded, CELLS, HASHES), slicing.parse().unwrap()).unwrap()
}

fn digest(key: u64) -> Digest {
    FilterSecret::from_seed(5).digest(&key.to_le_bytes())
}

/// Full filter with its fill, and flags for the slices that are down.
struct Failing {
    filter: SlicedFilter,
    fill: f64,
    is_down: Vec<bool>,
}

impl Failing {
    fn new(slicing: &str, seed: u64) -> Self {
        let mut filter = SlicedFilter::build(&definition(slicing)).unwrap();
        let keys: Vec<_> = (0..KEYS).map(digest).collect();
        filter.observe_batch(&keys, &[], &mut vec![Answer::Undecided; keys.len()]);
        let fill = filter.expected_rate().powf(1.0 / f64::from(HASHES));
        let mut is_down = vec![false; SLICES as usize];
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rand::seq::index::sample(&mut rng, SLICES as usize, FAILED).iter().for_each(|slice| is_down[slice] = true);
        Self { filter, fill, is_down }
    }

    /// Returns how many of `keys` are called duplicates.
    fn duplicates(&self, keys: std::ops::Range<u64>, belief: Belief) -> u64 {
        let is_down = |slice: u32| self.is_down[slice as usize];
        let is_duplicate = |key: &u64| is_duplicate_while_down(&self.filter, digest(*key), is_down, belief).unwrap();
        keys.filter(is_duplicate).count() as u64
    }

    /// Compares every threshold with both rules with the expected errors. `expected` gives the errors for a pair of
    /// threshold x and rule.
    fn check(&self, what: &str, expected: impl Fn(u32, Rule) -> Errors) {
        for (set_min, rule) in
            (0..=HASHES).flat_map(|set_min| [Rule::Strict, Rule::Literal].map(|rule| (set_min, rule)))
        {
            let Errors { false_positives, false_negatives } = expected(set_min, rule);
            let belief = Belief { set_min, rule };
            let wrong = self.duplicates(KEYS..3 * KEYS, belief);
            let allowed = band::binomial(false_positives, 2 * KEYS, CONFIDENCE);
            assert!(allowed.contains(&wrong), "{what}, {belief:?}: {wrong} false positives, not {allowed:?}");
            let missed = KEYS - self.duplicates(0..KEYS, belief);
            let allowed = band::binomial(false_negatives, KEYS, CONFIDENCE);
            assert!(allowed.contains(&missed), "{what}, {belief:?}: {missed} false negatives, not {allowed:?}");
        }
    }
}

fn share(failed: usize, slices: usize) -> f64 {
    failed as f64 / slices as f64
}

#[test]
fn eight_of_forty_vertical_slices() {
    let failing = Failing::new("vertical:40", 1);
    let phi = share(FAILED, SLICES as usize);
    failing.check("vertical", |set_min, rule| failures::x_of_k(phi, failing.fill, HASHES, set_min, rule));
}

#[test]
fn eight_of_forty_horizontal_slices() {
    let failing = Failing::new("horizontal:40", 2);
    let phi = share(FAILED, SLICES as usize);
    // Either all cells of an event are down, or none is.
    let alive = |set_min, rule| failures::x_of_k(0.0, failing.fill, HASHES, set_min, rule).false_positives;
    failing.check("horizontal", |set_min, rule| match set_min {
        0 => Errors { false_positives: phi + (1.0 - phi) * alive(0, rule), false_negatives: 0.0 },
        set_min => Errors { false_positives: (1.0 - phi) * alive(set_min, rule), false_negatives: phi },
    });
    assert_eq!(
        failures::horizontal_as_duplicate(phi, failing.fill, HASHES),
        phi + (1.0 - phi) * failing.fill.powi(HASHES as i32)
    );
}

#[test]
fn eight_of_forty_slices_in_five_groups() {
    let failing = Failing::new("horizontal-vertical:5x8", 3);
    let groups: Vec<f64> =
        failing.is_down.chunks(8).map(|group| share(group.iter().filter(|down| **down).count(), group.len())).collect();
    assert!(groups.iter().any(|phi| *phi != groups[0]), "{groups:?}");
    failing.check("diced", |set_min, rule| {
        let of_group = groups.iter().map(|phi| failures::x_of_k(*phi, failing.fill, HASHES, set_min, rule));
        let mean = |error: fn(&Errors) -> f64| of_group.clone().map(|errors| error(&errors)).sum::<f64>() / 5.0;
        Errors {
            false_positives: mean(|errors| errors.false_positives),
            false_negatives: mean(|errors| errors.false_negatives),
        }
    });
}

#[test]
fn an_event_all_of_whose_slices_are_down_gets_the_verdict_of_the_threshold() {
    let mut filter = SlicedFilter::build(&definition("vertical:40")).unwrap();
    filter.observe_batch(&[digest(1)], &[], &mut [Answer::Undecided]);
    let verdict = |set_min, key| {
        let belief = Belief { set_min, rule: Rule::Strict };
        is_duplicate_while_down(&filter, digest(key), |_| true, belief)
    };
    assert_eq!((verdict(0, 1), verdict(0, 2)), (Some(true), Some(true)));
    assert_eq!((verdict(1, 1), verdict(1, 2)), (Some(false), Some(false)));
}
