//! The greatest load of a slice, where the positions of every key lie anywhere (K11 3.1, Figures 5(c) and 8(c)).
//!
//! Promises: no formula is known for it, so places are drawn, and nothing of them is a filter's. Must not know: filters,
//! streams.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cuts::{KeyUse, Way};
use crate::drawn::Drawn;

/// Times that all places are drawn.
const DRAWS: u32 = 8;

/// The greatest share of the positions tested that one slice has, of a filter that is cut so, over a stream that uses keys so.
/// What is rare are two places of the most frequent key in one slice.
pub(super) fn greatest(way: Way, slices: u32, hashes: u32, keys: &[KeyUse], seed: u64) -> Drawn {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let tested = way.tested(slices, hashes, keys);
    let all: f64 = tested.iter().sum();
    let mut one = || {
        let loads = loads(way, slices, hashes, &tested, &mut random);
        loads.into_iter().fold(0.0, f64::max) / all
    };
    Drawn::of(&(0..DRAWS).map(|_| one()).collect::<Vec<_>>())
}

/// Positions tested by slice. A key's k positions each have an equal part of what is tested of it.
fn loads(way: Way, slices: u32, hashes: u32, tested: &[f64], random: &mut ChaCha8Rng) -> Vec<f64> {
    let (parts, ranges) = way.divides(slices);
    let mut loads = vec![0.0; slices as usize];
    // Of the key at hand: the ranges that its positions lie in, with the part of that range.
    let mut met: Vec<(u32, u32)> = Vec::new();
    for tested in tested {
        met.clear();
        let of_key = random.random_range(0..parts);
        for _ in 0..hashes {
            let range = random.random_range(0..ranges);
            let part = match met.iter().find(|(other, _)| *other == range) {
                Some((_, part)) => *part,
                None if way == Way::VerticalHorizontal => random.random_range(0..parts),
                None => of_key,
            };
            met.push((range, part));
            loads[(part * ranges + range) as usize] += tested / f64::from(hashes);
        }
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: u32) -> Vec<KeyUse> {
        (0..count).map(|_| KeyUse { occurrences: 10.0, fill: 0.0 }).collect()
    }

    #[test]
    fn one_key_is_where_its_way_puts_it() {
        for way in Way::ALL {
            let share = greatest(way, 40, 4, &keys(1), 7).mean;
            assert_eq!(share == 1.0, way == Way::Horizontal, "{way:?}");
            assert!(share >= 0.25, "four positions lie in four slices at most: {way:?}");
        }
    }

    #[test]
    fn many_keys_load_all_slices_alike() {
        for way in Way::ALL {
            let share = greatest(way, 40, 4, &keys(100_000), 7).mean;
            assert!((1.0..1.15).contains(&(40.0 * share)), "{way:?}: {share}");
        }
    }
}
