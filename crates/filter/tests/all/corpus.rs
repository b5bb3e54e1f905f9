//! Replays the fuzz corpus of the snapshot reader, and reads the snapshots of each kind with single bytes changed.

#[path = "../../../../fuzz/snapshot_checks.rs"]
mod snapshot_checks;

use std::path::Path;

#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/snapshot");
    let inputs: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty());
    for input in inputs {
        println!("{}", input.display());
        snapshot_checks::run(&std::fs::read(input).unwrap());
    }
}

#[test]
fn what_a_kind_writes_survives_changes() {
    for example in snapshot_checks::examples() {
        snapshot_checks::run(&example);
        for place in 1..example.len().min(400) {
            for change in [0x01, 0x80, 0xFF] {
                let mut changed = example.clone();
                changed[place] ^= change;
                snapshot_checks::run(&changed);
            }
        }
    }
}
