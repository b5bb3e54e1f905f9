//! Checks that the byte examples in `docs/reference/protocol.md` are what the code produces.

use std::path::Path;

use firstseen_filter::{BlockProbe, ProbeShape, Probes, Stamp, UnitNumber};
use firstseen_routing::{Answers, Decision, Epoch, FilterId, Incarnation, Operation, PositionLists, Reason, Tick};
use firstseen_wire::batch::{self, BatchHeader, Run};
use firstseen_wire::packing::{pack_lists, pack_probes};
use firstseen_wire::reply;
use firstseen_wire::ticks::{pack_stamps, pack_tickets, pack_ticks};
use prost::Message;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn spread() -> Probes {
    let mut probes = Probes::new(ProbeShape::Spread { cells: 1000, hashes: 3 });
    for positions in [[1, 2, 3], [999, 0, 512]] {
        probes.push_positions(&positions).expect("below 1000");
    }
    probes
}

fn blocked() -> Probes {
    let mut probes = Probes::new(ProbeShape::Blocked { blocks: 100, offset_bits: 9, hashes: 2 });
    for (block, offsets) in [(5, [1, 2]), (99, [511, 0])] {
        probes.push_block(BlockProbe { block, words: [offsets[0] | offsets[1] << 9, 0] }).expect("below 100");
    }
    probes
}

fn packed(probes: &Probes) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack_probes(probes, 0..probes.len(), &mut bytes);
    bytes
}

fn tick(clock_unit: u64, unit: u64) -> Tick {
    Tick { clock_unit: UnitNumber(clock_unit), unit: UnitNumber(unit) }
}

fn ticks() -> Vec<u8> {
    let mut bytes = Vec::new();
    pack_ticks(&[tick(100, 100), tick(101, 101), tick(101, 99), tick(201, 201)], UnitNumber(100), &mut bytes)
        .expect("in order");
    bytes
}

fn whole_batch() -> Vec<u8> {
    let probes = spread();
    let header = BatchHeader {
        sequence: 1,
        filter: FilterId(2),
        epoch: Epoch(3),
        incarnation: Incarnation(4),
        operation: Operation::Observe,
        ttl_ms: None,
        deadline_in_ms: 1000,
        base_unit: UnitNumber(100),
        clock_ms: None,
        traceparent: String::new(),
        from: None,
        again: false,
    };
    let run = |group, range| Run { group, probes: &probes, range, ticks: &[], names: &[], fences: &[] };
    batch::encode(&header, &[run(0, 0..1), run(7, 1..2)]).expect("within limits").encode_to_vec()
}

fn whole_reply() -> Vec<u8> {
    use Decision::{Duplicate, FirstSeen, Undecided};
    let late = Undecided(Reason::Late);
    let decisions = vec![FirstSeen, Duplicate, Duplicate, late, late, FirstSeen, Undecided(Reason::Future), FirstSeen];
    reply::encode(1, &Answers::new(decisions), 9).encode_to_vec()
}

#[test]
fn the_page_shows_what_the_code_writes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/protocol.md");
    let page = std::fs::read_to_string(page).expect("docs/reference/protocol.md");
    let mut lists = PositionLists::default();
    lists.push([1, 2]);
    lists.push([999]);
    let (counts, positions) = pack_lists(&lists, 1000).expect("below 1000");
    let late = Stamp { unit: UnitNumber(98), judged: UnitNumber(100) };
    let stamps =
        pack_stamps(&[Stamp::on_time(UnitNumber(100)), late, Stamp::on_time(UnitNumber(99))]).expect("in range");
    let equal = pack_stamps(&[Stamp::on_time(UnitNumber(100)); 3]).expect("in range");
    let rows = [
        ("spread, 3 of 1000: (1, 2, 3), (999, 0, 512)", packed(&spread())),
        ("blocked, 2 of 512 in 100: 5 (1, 2), 99 (511, 0)", packed(&blocked())),
        ("lists below 1000: counts of (1, 2), (999)", counts),
        ("lists below 1000: positions of (1, 2), (999)", positions),
        ("ticks from 100: 100, 101, 99 at 101, 201", ticks()),
        ("stamps: 100, 98 judged at 100, 99", stamps),
        ("stamps: 100, 100, 100", equal),
        ("tickets: 7, 9, 8", pack_tickets(&[7, 9, 8])),
        ("Batch", whole_batch()),
        ("BatchReply", whole_reply()),
    ];
    let missing: Vec<String> = rows
        .into_iter()
        .map(|(what, bytes)| format!("| {what} | `{}` |", hex(&bytes)))
        .filter(|row| !page.contains(row))
        .collect();
    assert!(missing.is_empty(), "docs/reference/protocol.md lacks\n{}", missing.join("\n"));
}
