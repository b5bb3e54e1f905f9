//! Replays the fuzz corpus of journals, and checks journals in which single bytes were changed.

#[path = "../../../../fuzz/journal_checks.rs"]
mod journal_checks;

use std::path::Path;

#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/journal");
    let inputs: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty());
    for input in inputs {
        println!("{}", input.display());
        journal_checks::run(&std::fs::read(input).unwrap());
    }
}

#[test]
fn what_is_written_survives_changes() {
    for example in journal_checks::examples() {
        journal_checks::run(&example);
        for place in 1..example.len().min(400) {
            for flipped in [0x01, 0x80, 0xff] {
                let mut changed = example.clone();
                changed[place] ^= flipped;
                journal_checks::run(&changed);
                journal_checks::run(&example[..place]);
            }
        }
    }
}
