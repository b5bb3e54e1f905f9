//! Replays the fuzz corpus for consensus data and backups, including variants of each example with single changed
//! bytes.

#[path = "../../../../fuzz/agreed_checks.rs"]
mod agreed_checks;

use std::path::Path;

#[test]
fn the_corpus_of_every_target_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in ["agreement", "backup"] {
        let inputs: Vec<_> =
            std::fs::read_dir(corpus.join(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!inputs.is_empty(), "{target} has a corpus");
        for input in inputs {
            println!("{}", input.display());
            agreed_checks::run(target, &std::fs::read(input).unwrap());
        }
    }
}

#[test]
fn what_is_written_survives_changes() {
    for (target, example) in agreed_checks::examples() {
        agreed_checks::run(target, &example);
        // These changes turn a digit into another digit, or a number into another number.
        for place in 1..example.len() {
            let mut changed = example.clone();
            changed[place] ^= [0x01, 0x08, 0x81][place % 3];
            agreed_checks::run(target, &changed);
            agreed_checks::run(target, &example[..place]);
        }
    }
}
