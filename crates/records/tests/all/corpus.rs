//! Replays the fuzz corpus: every test run checks the inputs that a fuzz target has found.

#[path = "../../../../fuzz/checks.rs"]
pub(crate) mod checks;

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
