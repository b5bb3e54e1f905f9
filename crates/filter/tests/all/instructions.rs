//! Checks that a batch gets the same answers as its events one by one, and that the selected processor instructions do
//! not change any answer.

use crate::common::{Size, Stream, answers, body, config, definitions, paces};
use firstseen_filter::Instructions::{Portable, Widest};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn every_cut_into_batches_gives_the_same_answers(
        definition in definitions(Size::Tiny),
        paces in prop::collection::vec(paces(400), 1..4),
        cuts in prop::collection::vec(prop_oneof![1..5_usize, 5..60_usize, 60..2000_usize], 1..6),
        seed: u64,
    ) {
        let mut stream = Stream::new(&definition, seed % 1000, seed);
        let (mut digests, mut stamps) = (Vec::new(), Vec::new());
        for pace in paces {
            let batch = stream.batch(700, pace);
            digests.extend(batch.0);
            stamps.extend(batch.1);
        }
        let (one_by_one, _) = answers(&definition, Widest, &digests, &stamps, &[1]);
        let (cut, widest) = answers(&definition, Widest, &digests, &stamps, &cuts);
        let first = one_by_one.iter().zip(&cut).position(|(one, cut)| one != cut);
        prop_assert_eq!(first, None, "the first event that differs");

        let (portably, portable) = answers(&definition, Portable, &digests, &stamps, &cuts);
        prop_assert_eq!(portably, cut);
        prop_assert!(body(&portable) == body(&widest), "cells differ");
    }
}
