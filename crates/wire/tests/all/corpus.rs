//! Replays the fuzz corpus of the decoders, and valid messages in which single bytes are changed.

#[path = "../../../../fuzz/wire_checks.rs"]
mod wire_checks;

use std::path::Path;

use crate::common::{self, Numbers};
use firstseen_routing::Answers;
use firstseen_wire::batch::{self, Run};
use firstseen_wire::peer;
use firstseen_wire::proto::peer::LinkFrame;
use firstseen_wire::reply;
use prost::Message;

#[test]
fn the_corpus_of_every_target_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in ["batch_decode", "reply_decode", "frame_decode"] {
        let inputs: Vec<_> =
            std::fs::read_dir(corpus.join(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!inputs.is_empty(), "{target} has a corpus");
        for input in inputs {
            println!("{}", input.display());
            wire_checks::run(target, &std::fs::read(input).unwrap());
        }
    }
}

/// Returns valid messages, each after the byte that selects the decoder in the fuzz target.
fn examples(numbers: &mut Numbers) -> Vec<(&'static str, Vec<u8>)> {
    let mut examples = Vec::new();
    for (first, shape) in (0u8..).zip(wire_checks::SHAPES) {
        for events in [1, 9] {
            let probes = common::probes(shape.probes, events, numbers);
            let ticks = common::ticks(50, events, 3, numbers);
            let run = Run {
                group: shape.groups - 1,
                probes: &probes,
                range: 0..events,
                ticks: &ticks,
                names: &[],
                fences: &[],
            };
            let message = batch::encode(&common::header(50), &[run]).unwrap();
            examples.push(("batch_decode", [&[first][..], &message.encode_to_vec()].concat()));
        }
    }
    for events in [0u8, 5, 40] {
        let answers = Answers::new(common::decisions(events.into(), numbers));
        examples.push(("reply_decode", [&[events][..], &reply::encode(3, &answers, 0).encode_to_vec()].concat()));
    }
    for (bits, events) in [(0u8, 2), (20, 7)] {
        for message in common::peer_messages(events, 1 << bits, numbers) {
            let message = Some(peer::encode(&message, 1 << bits).unwrap());
            examples.push(("frame_decode", [&[bits][..], &LinkFrame { number: 1, message }.encode_to_vec()].concat()));
        }
    }
    examples
}

#[test]
fn messages_survive_changes() {
    let numbers = &mut Numbers::new(31);
    for (target, example) in examples(numbers) {
        wire_checks::run(target, &example);
        for mutated in common::mutations(&example, numbers) {
            wire_checks::run(target, &mutated);
        }
    }
}
