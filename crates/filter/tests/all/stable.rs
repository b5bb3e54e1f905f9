//! The stable kind: its stable point, its seed, its saved state, and the streams for which it is useful.

use std::collections::HashSet;

use firstseen_filter::{
    Digest, FilterSecret, Geometry, Layout, StableError, StableFilter, StableShape, Stamp, positions_of, reduce,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn digest(key: u64) -> Digest {
    FilterSecret::from_seed(3).digest(&key.to_le_bytes())
}

fn observe(filter: &mut StableFilter, keys: impl Iterator<Item = u64>) -> Vec<bool> {
    let digests: Vec<_> = keys.map(digest).collect();
    let mut duplicate = vec![false; digests.len()];
    filter.observe_batch(&digests, &vec![Stamp::default(); digests.len()], &mut duplicate);
    duplicate
}

/// Simple model of the same steps, cell by cell, with the documented random generator.
struct Model {
    shape: StableShape,
    cells: Vec<u8>,
    generator: u64,
    carried: f64,
}

impl Model {
    fn new(shape: StableShape, seed: u64) -> Self {
        Self { shape, cells: vec![0; shape.cells as usize], generator: seed, carried: 0.0 }
    }

    fn observe(&mut self, key: u64) -> bool {
        let geometry = Geometry::new(self.shape.cells, self.shape.hashes, 1, Layout::Classic).unwrap();
        let mut positions = vec![];
        positions_of(digest(key), &geometry, &mut positions);
        let found = positions.iter().all(|position| self.cells[*position as usize] > 0);
        self.generator = self.generator.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.generator;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let start = reduce(z ^ (z >> 31), self.shape.cells);
        self.carried += self.shape.decrements;
        for step in 0..self.carried as u64 {
            let cell = &mut self.cells[((start + step) % self.shape.cells) as usize];
            *cell = cell.saturating_sub(1);
        }
        self.carried = self.carried.fract();
        positions.iter().for_each(|position| self.cells[*position as usize] = self.shape.max);
        found
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_step_is_the_model_s_also_across_saves(
        cells in 20..3_000_u64,
        hashes in 1..6_u32,
        max in 1..=255_u8,
        // Eighths make the carried fraction of the model exact.
        eighths in 1..160_u32,
        seed in any::<u64>(),
        keys in prop::collection::vec(prop::collection::vec(0..200_u64, 0..60), 1..8),
    ) {
        let shape = StableShape { cells, hashes, max, decrements: f64::from(eighths) / 8.0 };
        let mut filter = StableFilter::new(shape, seed).unwrap();
        let mut model = Model::new(shape, seed);
        for batch in keys {
            let expected: Vec<_> = batch.iter().map(|key| model.observe(*key)).collect();
            prop_assert_eq!(observe(&mut filter, batch.iter().copied()), expected);
            let occupied = model.cells.iter().filter(|cell| **cell > 0).count();
            prop_assert_eq!(filter.fill(), occupied as f64 / cells as f64);
            let mut saved = vec![];
            filter.write_body(&mut saved).unwrap();
            filter = StableFilter::new(shape, 0).unwrap();
            filter.read_body(&mut &saved[..]).unwrap();
        }
    }

    #[test]
    fn no_bytes_make_a_filter_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), max in 1..=16_u8) {
        let mut filter = StableFilter::new(StableShape { cells: 300, hashes: 4, max, decrements: 300.0 }, 1).unwrap();
        if filter.read_body(&mut &bytes[..]).is_ok() {
            observe(&mut filter, 0..50);
        }
    }
}

#[test]
fn a_stream_of_distinct_events_reaches_the_rate_of_the_formula() {
    let shapes = [(1_000_000, 4, 1, 0.05), (600_000, 6, 3, 0.02), (300_000, 3, 15, 0.05), (200_000, 2, 200, 0.1)];
    for (cells, hashes, max, rate) in shapes {
        let shape = StableShape::for_rate(cells, hashes, max, rate).unwrap();
        assert!((shape.stable_rate() / rate - 1.0).abs() < 1e-9);
        let mut filter = StableFilter::new(shape, 99).unwrap();
        // A cell is decremented once in m/P arrivals. After Max times that number of arrivals, six times over, the
        // filter has reached its stable point.
        let warm = 6 * (cells as f64 / shape.decrements * f64::from(max)) as u64 + 6 * cells / u64::from(hashes);
        observe(&mut filter, 0..warm);
        let events = 400_000;
        let hits = observe(&mut filter, warm..warm + events).iter().filter(|known| **known).count() as f64;
        let (mean, deviation) = (events as f64 * rate, (events as f64 * rate * (1.0 - rate)).sqrt());
        assert!((hits - mean).abs() < 3.29 * deviation, "{shape:?}: {hits} hits, expected {mean} +- {deviation}");
        assert!((filter.expected_rate() / rate - 1.0).abs() < 0.02, "{shape:?}: {}", filter.expected_rate());
    }
}

#[test]
fn the_slides_rounded_p_has_the_rate_that_was_found() {
    let shape = StableShape { cells: 40_000_000, hashes: 4, max: 1, decrements: 4.0 };
    assert!((shape.stable_rate() - 0.0625).abs() < 1e-6);
}

#[test]
fn when_most_arrivals_are_new_and_repeats_recent_it_beats_a_bloom_filter_of_the_same_memory() {
    // A key is repeated within the next 2,000 arrivals or never. The filter has 2 bits per arrival of the stream.
    let (events, cells) = (400_000_u64, 1 << 16);
    let keys = (0..events).map(|event| if event % 3 == 0 && event > 2_000 { event - 1 - event % 1_000 } else { event });
    let keys: Vec<_> = keys.collect();
    let mut seen = HashSet::new();
    let truth: Vec<_> = keys.iter().map(|key| !seen.insert(*key)).collect();
    let f1 = |answers: &[bool]| {
        let count = |got: bool, is: bool| {
            answers.iter().zip(&truth).filter(|(answer, truth)| (**answer, **truth) == (got, is)).count() as f64
        };
        2.0 * count(true, true) / (2.0 * count(true, true) + count(true, false) + count(false, true))
    };
    let mut stable = StableFilter::new(StableShape::for_rate(cells, 4, 1, 0.02).unwrap(), 1).unwrap();
    // A stable filter with almost no decrements is a Bloom filter.
    let mut bloom = StableFilter::new(StableShape { cells, hashes: 4, max: 1, decrements: 1e-9 }, 1).unwrap();
    let stable = f1(&observe(&mut stable, keys.iter().copied()));
    let bloom = f1(&observe(&mut bloom, keys.iter().copied()));
    assert!(stable > 0.9 && stable > bloom + 0.1, "F1 {stable} against {bloom}");
}

#[test]
fn a_lookup_changes_nothing_and_the_seed_decides_the_rest() {
    let shape = StableShape::for_rate(2_000, 3, 3, 0.05).unwrap();
    let (mut asked, mut left_alone) = (StableFilter::new(shape, 7).unwrap(), StableFilter::new(shape, 7).unwrap());
    let mut other_seed = StableFilter::new(shape, 8).unwrap();
    let digests: Vec<_> = (0..500).map(digest).collect();
    for round in 0..20 {
        let keys = || (0..500).map(|key| key * 7 + round * 100);
        let answers = observe(&mut asked, keys());
        asked.lookup_batch(&digests, &[Stamp::default(); 500], &mut [false; 500]);
        assert_eq!(answers, observe(&mut left_alone, keys()));
        observe(&mut other_seed, keys());
    }
    let body = |filter: &StableFilter| {
        let mut saved = vec![];
        filter.write_body(&mut saved).unwrap();
        saved.split_off(16)
    };
    assert_eq!(body(&asked), body(&left_alone));
    assert_ne!(body(&asked), body(&other_seed));
}

#[test]
fn cells_are_as_narrow_as_max_allows() {
    for (max, bits) in [(1, 1), (2, 2), (3, 2), (4, 4), (15, 4), (16, 8), (255, 8)] {
        let shape = StableShape { cells: 1 << 16, hashes: 3, max, decrements: 2.0 };
        assert_eq!(shape.cell_bits(), bits);
        assert_eq!(StableFilter::new(shape, 0).unwrap().bytes(), (1 << 16) / 8 * u64::from(bits));
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for rate in [0.0, 1.0, -0.5, f64::NAN] {
        assert!(matches!(StableShape::for_rate(1_000, 3, 1, rate), Err(StableError::Rate(_))));
    }
    let shape = StableShape { cells: 100, hashes: 3, max: 1, decrements: 5.0 };
    let made = |shape| StableFilter::new(shape, 0).err();
    assert!(matches!(made(StableShape { max: 0, ..shape }), Some(StableError::Max)));
    for decrements in [0.0, -1.0, 101.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(made(StableShape { decrements, ..shape }), Some(StableError::Decrements { .. })));
    }
    assert!(StableShape::for_rate(3, 3, 1, 0.1).is_err(), "a filter with as many positions as cells must be rejected");
    assert!(StableShape::for_rate(100, 3, 0, 0.1).is_err());
    assert!(matches!(made(StableShape { hashes: 0, ..shape }), Some(StableError::Geometry(_))));
}

#[test]
fn saved_state_above_max_is_refused() {
    let shape = StableShape { cells: 100, hashes: 3, max: 9, decrements: 5.0 };
    let mut filter = StableFilter::new(shape, 0).unwrap();
    let mut saved = vec![];
    filter.write_body(&mut saved).unwrap();
    saved[16] = 9;
    assert!(filter.read_body(&mut &saved[..]).is_ok());
    saved[16] = 10;
    assert!(filter.read_body(&mut &saved[..]).is_err());
    saved[16] = 0;
    saved[15] = 1;
    assert!(filter.read_body(&mut &saved[..]).is_err(), "a carried fraction above one");
}
