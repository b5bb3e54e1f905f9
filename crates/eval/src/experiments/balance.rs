//! Simulation of how evenly the lookups of a filter load its slices, if each position of a key may lie in any slice.
//! The experiment `slicing` compares its measurements with this simulation (Koloniari et al. 2011, section 3.1, Figures
//! 5 and 8).
//!
//! The simulation draws the slice of each position at random and uses no production filter. A formula for the mean load
//! would not suffice, because the load depends on chance. Two frequent keys rarely have positions in the same slice. If
//! they do, this slice has a much higher load than all others.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cuts::Way;
use crate::drawn::Drawn;

/// Number of draws of all positions.
const DRAWS: u32 = 8;

/// Use of one key in a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyUse {
    /// Number of occurrences of the key.
    pub(super) occurrences: f64,
    /// Share of the filter's cells that were set when the key first occurred.
    pub(super) fill: f64,
}

/// Balance of the positions that slices have tested.
#[derive(Clone, Copy)]
pub(super) struct Balance {
    /// Jain's fairness index, `(sum of loads)^2 / (S sum of loads^2)`.
    pub(super) fairness: Drawn,
    /// Share of the slice with the most tested positions.
    pub(super) greatest: Drawn,
}

/// Returns the balance of a filter with this slicing over a stream with these keys.
pub(super) fn balance(way: Way, slices: u32, hashes: u32, keys: &[KeyUse], seed: u64) -> Balance {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut fairness = Vec::new();
    let mut greatest = Vec::new();
    for _ in 0..DRAWS {
        let loads = loads(way, slices, hashes, keys, &mut random);
        let (all, squares) = loads.iter().fold((0.0, 0.0), |(all, squares), load| (all + load, squares + load * load));
        fairness.push(all * all / (f64::from(slices) * squares));
        greatest.push(loads.into_iter().fold(0.0, f64::max) / all);
    }
    Balance { fairness: Drawn::of(&fairness), greatest: Drawn::of(&greatest) }
}

/// Returns the number of positions that lookups test in each slice. A lookup of a known key tests all positions of the
/// key, because all its cells are set. A lookup of a new key can stop earlier. It visits the slices one after the
/// other, in the order of the key's positions (pipelined), and stops at the first unset cell.
fn loads(way: Way, slices: u32, hashes: u32, keys: &[KeyUse], random: &mut ChaCha8Rng) -> Vec<f64> {
    let (parts, ranges) = way.divides(slices);
    let mut loads = vec![0.0; slices as usize];
    // For the current key, the slices of its positions, each with its range and the number of positions in it.
    let mut visits: Vec<(u32, usize, i32)> = Vec::new();
    for KeyUse { occurrences, fill } in keys {
        visits.clear();
        let of_key = random.random_range(0..parts);
        for _ in 0..hashes {
            let range = random.random_range(0..ranges);
            if let Some((.., positions)) = visits.iter_mut().find(|(other, ..)| *other == range) {
                *positions += 1;
                continue;
            }
            let part = if way == Way::VerticalHorizontal { random.random_range(0..parts) } else { of_key };
            visits.push((range, (part * ranges + range) as usize, 1));
        }
        let mut may_be_known = true;
        for (_, slice, positions) in &visits {
            let lookups = occurrences - if may_be_known { 0.0 } else { 1.0 };
            loads[*slice] += lookups * f64::from(*positions);
            may_be_known &= random.random_bool(fill.clamp(0.0, 1.0).powi(*positions));
        }
    }
    loads
}

#[cfg(test)]
mod tests {
    use firstseen_filter::rates::slicing;

    use super::*;

    fn keys(count: u32, occurrences: f64) -> Vec<KeyUse> {
        (0..count).map(|_| KeyUse { occurrences, fill: 0.0 }).collect()
    }

    #[test]
    fn one_key_is_where_its_way_puts_it() {
        for way in Way::ALL {
            let share = balance(way, 40, 4, &keys(1, 1000.0), 7).greatest.mean;
            assert_eq!(share == 1.0, way == Way::Horizontal, "{way:?}");
            assert!(share >= 0.25, "four positions lie in four slices at most: {way:?}");
        }
    }

    #[test]
    fn many_keys_load_all_slices_alike() {
        for way in Way::ALL {
            let share = balance(way, 40, 4, &keys(100_000, 10.0), 7).greatest.mean;
            assert!((1.0..1.15).contains(&(40.0 * share)), "{way:?}: {share}");
        }
    }

    #[test]
    fn a_new_key_tests_as_many_positions_as_its_pipeline_visits() {
        let keys: Vec<KeyUse> = (0..20_000).map(|_| KeyUse { occurrences: 1.0, fill: 0.4 }).collect();
        for way in Way::ALL {
            let (_, ranges) = way.divides(40);
            let tested: f64 = loads(way, 40, 4, &keys, &mut ChaCha8Rng::seed_from_u64(3)).iter().sum();
            let expected = 20_000.0 * slicing::positions_tested(ranges, 4, 0.4);
            assert!((tested / expected - 1.0).abs() < 0.01, "{way:?}: {tested} {expected}");
        }
    }

    #[test]
    fn diced_filters_are_balanced_between_horizontal_and_vertical_ones() {
        // All cells are set, so every position is tested, as the formulas of the paper assume.
        let keys = Vec::from_iter((1..1000).map(|rank| KeyUse { occurrences: f64::from(500 / rank + 20), fill: 1.0 }));
        let fairness = Way::ALL.map(|way| balance(way, 40, 4, &keys, 5).fairness.mean);
        let [vertical, horizontal, ..] = fairness;
        assert!(fairness[2..].iter().all(|diced| (horizontal..vertical).contains(diced)), "{fairness:?}");
        let total: f64 = keys.iter().map(|key| key.occurrences).sum();
        let squares = keys.iter().map(|key| (key.occurrences / total).powi(2)).sum();
        assert!((vertical / slicing::fairness_vertical(40, 4, squares) - 1.0).abs() < 0.02, "{fairness:?}");
        assert!((horizontal / slicing::fairness_horizontal(40, squares) - 1.0).abs() < 0.05, "{fairness:?}");
    }
}
