//! Replays the fuzz corpus of requests, and requests in which single bytes are changed.

#[path = "../../../../fuzz/resp_checks.rs"]
mod resp_checks;

use crate::common::{TestRng, array};
use std::path::Path;

const TARGETS: [&str; 2] = ["resp_parser", "resp_request"];

#[test]
fn the_corpus_of_every_target_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in TARGETS {
        let inputs: Vec<_> =
            std::fs::read_dir(corpus.join(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!inputs.is_empty(), "{target} has a corpus");
        for input in inputs {
            println!("{}", input.display());
            resp_checks::run(target, &std::fs::read(input).unwrap());
        }
    }
}

/// Lines with options that cover all commands.
const LINES: [&str; 22] = [
    "SET k v NX EX 600",
    "set k v px 10 xx get",
    "SETNX k v",
    "EXISTS a b",
    "SADD f a b c",
    "BF.RESERVE f 0.01 100 EXPANSION 2 NONSCALING",
    "BF.INSERT f CAPACITY 10 ERROR 0.1 EXPANSION 2 NOCREATE NONSCALING ITEMS a b",
    "BF.INFO f ITEMS",
    "FS.OBSERVE f ID s 12 TTL 500 ITEMS a b",
    "FS.OBSERVE f AT 500 ITEMS a",
    "FS.TEST f ITEMS a",
    "FS.CLAIM k PX 30000",
    "FS.CLAIM f PX 30000 WITHFENCE ITEMS a b",
    "FS.CONFIRM f FENCE 0a ITEMS a",
    "HELLO 3 AUTH u p SETNAME n",
    "AUTH u p",
    "CLIENT SETINFO LIB-NAME x",
    "CLIENT TRACKING OFF",
    "COMMAND INFO get",
    "CONFIG GET save",
    "MULTI",
    "EVAL 'return 1' \"a\\x41\\n\" 0",
];

/// Returns an input for the fuzz target. The first byte selects the limits of the parser and the way in which the rest
/// is divided into reads. The rest consists of several commands, as arrays or as inline commands, in which some bytes
/// were changed.
fn changed(rng: &mut TestRng) -> Vec<u8> {
    let mut bytes = vec![rng.below(256) as u8];
    for _ in 0..=rng.below(3) {
        let line = LINES[rng.below(LINES.len())];
        if rng.below(3) == 0 {
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        } else {
            let mut words: Vec<&str> = line.split(' ').collect();
            if rng.below(3) == 0 {
                let (one, other) = (rng.below(words.len()), rng.below(words.len()));
                words.swap(one, other);
            }
            bytes.extend_from_slice(&array(&words));
        }
    }
    for _ in 0..rng.below(4) {
        let place = 1 + rng.below(bytes.len() - 1);
        match rng.below(3) {
            0 => bytes[place] = rng.below(256) as u8,
            1 => bytes[place] = b"*$-0123456789\r\n\"'\\ \0"[rng.below(20)],
            _ => bytes.truncate(place.max(2)),
        }
    }
    bytes
}

fn run_changed(runs: u64) {
    for run in 0..runs {
        let bytes = changed(&mut TestRng(run));
        for target in TARGETS {
            let held = std::panic::catch_unwind(|| resp_checks::run(target, &bytes));
            assert!(held.is_ok(), "{target} does not hold for run {run}: {}", bytes.escape_ascii());
        }
    }
}

#[test]
fn requests_survive_changes() {
    run_changed(5_000);
}

#[test]
#[ignore = "takes a minute without optimization"]
fn requests_survive_changes_at_full_size() {
    run_changed(1_000_000);
}
