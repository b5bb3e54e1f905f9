//! Checks of the code that decodes messages from the network. A message may contain arbitrary bytes, and none of them
//! may violate a check. The fuzz targets `batch_decode`, `reply_decode` and `frame_decode` search for bytes that do.
//! `cargo test -p firstseen-wire` runs the same checks on the corpus.

use firstseen_filter::ProbeShape;
use firstseen_wire::batch::{self, BatchReader, BatchShape, Run};
use firstseen_wire::proto::{peer::LinkFrame, producer};
use firstseen_wire::{limits, peer, reply};
use prost::Message;

/// Shapes of batches. The first byte of the data selects one.
pub(crate) const SHAPES: [BatchShape; 5] = [
    BatchShape { probes: ProbeShape::Blocked { blocks: 1000, offset_bits: 9, hashes: 5 }, groups: 1 },
    BatchShape { probes: ProbeShape::Blocked { blocks: 1 << 20, offset_bits: 9, hashes: 8 }, groups: 16 },
    BatchShape { probes: ProbeShape::Spread { cells: 1 << 20, hashes: 3 }, groups: 4 },
    BatchShape { probes: ProbeShape::Spread { cells: 1_000_003, hashes: 16 }, groups: 4096 },
    BatchShape { probes: ProbeShape::Spread { cells: 1 << 62, hashes: 1 }, groups: 3 },
];

/// Runs the checks of a target.
pub(crate) fn run(target: &str, data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    match target {
        "batch_decode" => batch(SHAPES[usize::from(*first) % SHAPES.len()], bytes),
        "reply_decode" => replies(usize::from(*first), bytes),
        "frame_decode" => frame(1 << (first % 41), bytes),
        unknown => panic!("no target {unknown}"),
    }
}

/// Checks that a decoded batch uses no more memory than its bytes justify, and stays the same when it is encoded and
/// decoded again.
fn batch(shape: BatchShape, bytes: &[u8]) {
    let Ok(message) = producer::Batch::decode(bytes) else { return };
    let Ok(reader) = BatchReader::new(&message) else { return };
    let Ok(runs) = reader.runs(shape, &mut Vec::new()) else { return };
    let events: usize = runs.iter().map(|run| run.probes.len()).sum();
    assert!(events <= limits::BATCH_EVENTS_MAX as usize && events <= bytes.len());
    let borrowed: Vec<_> = runs
        .iter()
        .map(|run| Run {
            group: run.group,
            probes: &run.probes,
            range: 0..run.probes.len(),
            ticks: &run.times.ticks,
            names: &run.names,
            fences: &run.fences,
        })
        .collect();
    let encoded = batch::encode(reader.header(), &borrowed).expect("what was decoded can be encoded");
    let encoded = BatchReader::new(&encoded).expect("and decoded");
    assert_eq!(encoded.header(), reader.header());
    let again = encoded.runs(shape, &mut Vec::new()).expect("and its runs");
    for (run, again) in runs.iter().zip(&again) {
        assert_eq!((run.group, &run.probes, &run.names), (again.group, &again.probes, &again.names));
        let base_unit = run.times.base_unit;
        let trivial = firstseen_wire::ticks::are_trivial(&run.times.ticks, base_unit);
        assert!(run.times == again.times || trivial && again.times.ticks.is_empty());
    }
}

/// Checks that a decoded reply has an answer for every event that was asked.
fn replies(events: usize, bytes: &[u8]) {
    let Ok(message) = producer::BatchReply::decode(bytes) else { return };
    let Ok(reply) = reply::decode(&message, events) else { return };
    assert_eq!(reply.answers.len(), events);
    assert!(reply.answers.estimates().is_empty() || reply.answers.estimates().len() == events);
    let encoded = reply::encode(message.sequence, &reply.answers, reply.map_version);
    let again = reply::decode(&encoded, events).expect("what was decoded");
    assert_eq!(again.answers.decisions(), reply.answers.decisions());
}

/// Checks that a decoded message between nodes stays the same when it is encoded and decoded again.
fn frame(range: u64, bytes: &[u8]) {
    let Ok(message) = LinkFrame::decode(bytes) else { return };
    if let Ok(ends) = peer::accept_hello(&message) {
        assert_eq!(peer::accept_hello(&peer::hello(&ends)), Ok(ends));
    }
    let Some(message) = message.message else { return };
    let shape = firstseen_filter::ProbeShape::Spread { cells: range.max(1), hashes: 5 };
    let Ok(decoded) = peer::decode(&message, range, shape) else { return };
    assert_eq!(peer::filter_of(&message), Some(decoded.filter));
    let encoded = peer::encode(&decoded, range).expect("what was decoded can be encoded");
    assert_eq!(peer::decode(&encoded, range, shape), Ok(decoded));
}
