//! The greatest load of a slice, where the positions of every key lie anywhere (K11 3.1, Figures 5(c) and 8(c)).
//!
//! Promises: no formula is known for it, so places are drawn, and nothing of them is a filter's. Must not know: filters,
//! streams.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cuts::{KeyUse, Way};

/// Times that all places are drawn.
const DRAWS: u32 = 8;

/// The greatest share of the positions tested that one slice has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Greatest {
    /// Mean over draws.
    pub(super) mean: f64,
    /// Between one draw and another.
    pub(super) variance: f64,
}

impl Greatest {
    /// Of a filter that is cut so, over a stream that uses keys so.
    pub(super) fn drawn(way: Way, slices: u32, hashes: u32, keys: &[KeyUse], seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let tested = way.tested(slices, hashes, keys);
        let all: f64 = tested.iter().sum();
        let mut one = || {
            let loads = loads(way, slices, hashes, &tested, &mut random);
            loads.into_iter().fold(0.0, f64::max) / all
        };
        let shares: Vec<f64> = (0..DRAWS).map(|_| one()).collect();
        let mean = shares.iter().sum::<f64>() / f64::from(DRAWS);
        let squares: f64 = shares.iter().map(|share| (share - mean) * (share - mean)).sum();
        Self { mean, variance: squares / f64::from(DRAWS - 1) }
    }

    /// The error of the mean of as many runs as there are models, less that of their models: what is rare, as two places of
    /// the most frequent key in one slice, may be in no run and show in the draws, of which there are more.
    pub(super) fn error(of_runs: &[Self]) -> f64 {
        let runs = of_runs.len() as f64;
        let variance = of_runs.iter().map(|model| model.variance).sum::<f64>() / runs;
        (variance * (1.0 + 1.0 / f64::from(DRAWS)) / runs).sqrt()
    }
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
        let greatest = |way| Greatest::drawn(way, 40, 4, &keys(1), 7);
        for way in [Way::Horizontal, Way::HorizontalVertical, Way::VerticalHorizontal, Way::Vertical] {
            let Greatest { mean, .. } = greatest(way);
            assert_eq!(mean == 1.0, way == Way::Horizontal, "{way:?}");
            assert!(mean >= 0.25, "four positions lie in four slices at most: {way:?}");
        }
        assert_eq!(greatest(Way::Horizontal).variance, 0.0);
    }

    #[test]
    fn many_keys_load_all_slices_alike() {
        for way in Way::ALL {
            let Greatest { mean, variance } = Greatest::drawn(way, 40, 4, &keys(100_000), 7);
            assert!((1.0..1.15).contains(&(40.0 * mean)) && variance.sqrt() < 0.1 * mean, "{way:?}: {mean} {variance}");
        }
    }
}
