//! Replays the fuzz corpus of saved filters, and variants in which single bytes are changed.

#[path = "../../../../fuzz/state_checks.rs"]
mod state_checks;

use std::path::Path;

#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/state");
    let inputs: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty());
    for input in inputs {
        println!("{}", input.display());
        state_checks::run(&std::fs::read(input).unwrap());
    }
}

#[test]
fn changed_bytes_of_a_saved_filter_do_no_harm() {
    for example in state_checks::examples() {
        state_checks::run(&example);
        for place in 1..example.len().min(300) {
            let mut changed = example.clone();
            changed[place] ^= 0x81;
            state_checks::run(&changed);
        }
    }
}
