//! Replays the fuzz corpus, so that every test run checks the inputs that a fuzz target has found.

#[path = "../../../../fuzz/checks.rs"]
pub(crate) mod checks;

use proptest::prelude::*;
use std::path::Path;

#[test]
fn the_corpus_of_every_target_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in ["lines", "csv", "tsv", "w3c", "jsonl", "clf", "cdxj", "time", "url", "decompress"] {
        let inputs: Vec<_> =
            std::fs::read_dir(corpus.join(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!inputs.is_empty(), "{target} has a corpus");
        for input in inputs {
            checks::run(target, &std::fs::read(input).unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: proptest::test_runner::RngSeed::Fixed(11),
        ..ProptestConfig::default()
    })]

    /// Repeats the checks with inputs that consist only of the bytes that structure records: marks, holes, quotes and
    /// line ends.
    #[test]
    fn inputs_of_structure_alone_hold(
        options in any::<[u8; 2]>(),
        pieces in prop::collection::vec(
            prop::sample::select(vec![&b"\0"[..], b"\0\0\0", b"\xEF\xBB\xBF", b"\"", b",", b"\t", b"\n", b"\r\n", b"k,t\n", b"k", b"{}"]),
            0..40,
        ),
    ) {
        let input = [&options[..], &pieces.concat()].concat();
        for target in ["lines", "csv", "tsv", "jsonl", "clf", "cdxj"] {
            checks::run(target, &input);
        }
    }
}
