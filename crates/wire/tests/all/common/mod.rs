//! Random events and messages, and mutations of messages, for the tests of this crate.

use firstseen_filter::{
    BlockProbe, CellRun, GenerationNumber, LiveEvents, ProbeShape, Probes, SliceOutline, Stamp, UnitNumber,
};
use firstseen_routing::{
    AskCells, BatchName, CellParts, CellPlace, ClaimTests, ClockReading, Decision, Epoch, EventTag, FilterId,
    Incarnation, MirrorNumber, Mirrored, NamedEvent, NodeId, Operation, Past, PeerBody, PeerMessage, PositionLists,
    Reason, Resolved, Seen, SetAcks, SetBatch, SubmissionName, TestBatch, TestRun, Tick,
};
use firstseen_wire::WireError;
use firstseen_wire::batch::{BatchHeader, BatchReader, BatchShape, OwnedRun};
use firstseen_wire::proto::producer;

/// Shape of the events that a slice sends to its other copies.
pub(crate) const MIRRORED: ProbeShape = ProbeShape::Blocked { blocks: 1 << 20, offset_bits: 9, hashes: 6 };

/// Random number generator with a fixed seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, range: u64) -> u64 {
        self.next() % range
    }
}

/// All reasons for which an event can be undecided.
pub(crate) const REASONS: [Reason; Reason::ALL.len()] = Reason::ALL;

/// Returns random events. Bits that no position uses are zero, so that encoding and decoding returns equal values.
pub(crate) fn probes(shape: ProbeShape, events: usize, numbers: &mut Numbers) -> Probes {
    let mut probes = Probes::new(shape);
    for _ in 0..events {
        match shape {
            ProbeShape::Spread { cells, hashes } => {
                let positions: Vec<u64> = (0..hashes).map(|_| numbers.below(cells)).collect();
                probes.push_positions(&positions).expect("inside");
            }
            ProbeShape::Blocked { blocks, offset_bits, hashes } => {
                let first = hashes.min(64 / offset_bits);
                let low = |bits: u32, word: u64| if bits >= 64 { word } else { word & ((1 << bits) - 1) };
                let words = [first, hashes - first].map(|count| low(count * offset_bits, numbers.next()));
                probes.push_block(BlockProbe { block: numbers.below(blocks), words }).expect("inside");
            }
        }
    }
    probes
}

/// Returns ticks of a clock that advances by 0 or 1 for each event. Events are up to `late_max` units late.
pub(crate) fn ticks(base_unit: u64, events: usize, late_max: u64, numbers: &mut Numbers) -> Vec<Tick> {
    let mut clock_unit = UnitNumber(base_unit);
    (0..events)
        .map(|_| {
            clock_unit = clock_unit.after(numbers.below(2));
            Tick { clock_unit, unit: clock_unit.before(numbers.below(late_max + 1)) }
        })
        .collect()
}

pub(crate) fn header(base_unit: u64) -> BatchHeader {
    BatchHeader {
        sequence: 123_456,
        filter: FilterId(7),
        epoch: Epoch(12),
        incarnation: Incarnation(34),
        operation: Operation::Observe,
        ttl_ms: None,
        deadline_in_ms: 5_000,
        base_unit: UnitNumber(base_unit),
        clock_ms: Some(1_700_000_000_000),
        traceparent: String::new(),
        from: None,
        again: false,
    }
}

pub(crate) fn decisions(events: usize, numbers: &mut Numbers) -> Vec<Decision> {
    let decision = |number| match number {
        0..4 => Decision::FirstSeen,
        4..8 => Decision::Duplicate,
        reason => Decision::Undecided(REASONS[(reason - 8) as usize % REASONS.len()]),
    };
    (0..events).map(|_| decision(numbers.below(20))).collect()
}

fn lists(events: usize, range: u64, numbers: &mut Numbers) -> PositionLists {
    let mut lists = PositionLists::default();
    for _ in 0..events {
        let count = 1 + numbers.below(16);
        lists.push((0..count).map(|_| numbers.below(range)).collect::<Vec<_>>());
    }
    lists
}

fn stamps(events: usize, numbers: &mut Numbers) -> Vec<Stamp> {
    let equal = numbers.below(3) == 0;
    let stamp = |number| Stamp { unit: UnitNumber(1000 + number % 7), judged: UnitNumber(1010 + number % 13) };
    (0..events).map(|index| if equal { Stamp::on_time(UnitNumber(5)) } else { stamp(index as u64 * 31) }).collect()
}

/// Returns runs with one event, two events, four events, and so on.
fn runs(events: usize) -> Vec<TestRun> {
    let (mut runs, mut left) = (Vec::new(), events as u32);
    while left > 0 {
        let own = left.min(1 << runs.len());
        let head = NodeId(3 + runs.len() as u64 % 3);
        let (asks_all, degraded) = (runs.len() % 2 == 0, runs.len() % 3 == 1);
        runs.push(TestRun { head, events: own, asks_all, degraded, deadline_in_ms: 250 + left });
        left -= own;
    }
    runs
}

/// Returns one message of each kind, each about `events` events.
pub(crate) fn peer_messages(events: usize, range: u64, numbers: &mut Numbers) -> Vec<PeerMessage> {
    let tickets: Vec<u64> = (0..events).map(|_| numbers.next() >> numbers.below(64)).collect();
    let hits: Vec<bool> = (0..events).map(|_| numbers.below(2) == 0).collect();
    let generations: Vec<u16> = (0..events).map(|_| numbers.next() as u16).collect();
    let hit_count = hits.iter().filter(|hit| **hit).count();
    let test = TestBatch {
        runs: runs(events),
        tickets: tickets.clone(),
        left: lists(events, range, numbers),
        stamps: stamps(events, numbers),
        generations: if events.is_multiple_of(2) { generations.clone() } else { Vec::new() },
        parallel: events.is_multiple_of(3),
        traceparent: events.is_multiple_of(2).then(|| "00-aaaa-bbbb-01".into()),
        expiries: if events.is_multiple_of(3) {
            (0..events as u64).map(|event| UnitNumber(event << 30)).collect()
        } else {
            Vec::new()
        },
    };
    let resolved = Resolved {
        tickets,
        hits,
        generations: generations[..hit_count].to_vec(),
        undecided: (0..events as u32 / 2).map(|index| (index * 2, REASONS[index as usize % 11])).collect(),
        slice_visits: 9,
        node_visits: 4,
        degraded: true,
        expiries: (0..hit_count as u64).map(|hit| UnitNumber(1_000_000 + hit)).collect(),
        vetoes: (0..events as u32 / 3).map(|index| (index * 3 + 1, index * 500)).collect(),
    };
    let set = SetBatch {
        set_number: 77,
        generation: GenerationNumber(2),
        cells: lists(events, range, numbers),
        stamps: stamps(events, numbers),
    };
    let acks = SetAcks { set_numbers: vec![1, 2, 900], refused_numbers: vec![5, 6] };
    let past = PeerBody::Past(Past { newest_unit: UnitNumber(1 << 40), has_handed_over: true });
    let events_of: Vec<u128> = (0..events).map(|_| u128::from(numbers.next()) << 64 | 7).collect();
    let claims = PeerBody::ClaimTests(Box::new(ClaimTests { test: test.clone(), events: events_of }));
    let (test, resolved) = (PeerBody::Test(test), PeerBody::Resolved(resolved));
    let place = CellPlace { generation: GenerationNumber(1 << 33), start_bytes: 640 };
    let ask = PeerBody::AskCells(AskCells { slice: 5, unit: UnitNumber(1 << 40), from: Some(place) });
    let mut live = LiveEvents::default();
    live.record(UnitNumber(1 << 40), 17);
    let (generation, unit) = (GenerationNumber(3), UnitNumber(1 << 40));
    let run = |start_bytes| CellRun { generation, unit, start_bytes, cells: vec![7; 9] };
    let cells = PeerBody::Cells(CellParts {
        slice: 5,
        asked: None,
        outline: Some(SliceOutline { unit, oldest: generation, live: vec![live, LiveEvents::default()] }),
        runs: vec![run(0), run(640)],
        next: Some(place),
        clock: ClockReading { unit, time_ms: Some(1 << 41), events: 3 },
    });
    let mirror = PeerBody::Mirror(
        Some(MirrorNumber { number: 9, acknowledged_below: 7 }),
        std::sync::Arc::new(mirrored(events, numbers)),
    );
    [test, resolved, PeerBody::Set(set), PeerBody::SetAcks(acks), PeerBody::AskPast, past, ask, cells, mirror, claims]
        .map(|body| PeerMessage { filter: FilterId(8), epoch: Epoch(3), group: 2, body })
        .into()
}

fn named(number: u64) -> NamedEvent {
    NamedEvent { name: SubmissionName { source: 7, number }, tag: EventTag::from_bits(number as u16 * 3 + 1) }
}

/// Returns what a slice has recorded of a batch.
fn mirrored(events: usize, numbers: &mut Numbers) -> Mirrored {
    let mut probes = Probes::new(MIRRORED);
    let recorded = events.div_ceil(2);
    for _ in 0..recorded {
        let words = [numbers.below(1 << 54), 0];
        probes.push_block(BlockProbe { block: numbers.below(1 << 20), words }).expect("inside");
    }
    let decision = |event: usize| match event % 3 {
        0 => Decision::FirstSeen,
        1 => Decision::Duplicate,
        _ => Decision::Undecided(Reason::Late),
    };
    Mirrored {
        name: BatchName { producer: u128::MAX / 3, sequence: 1 << 50 },
        names: (0..events as u64).map(named).collect(),
        decisions: (0..events).map(decision).collect(),
        clock: ClockReading { unit: UnitNumber(1 << 40), time_ms: Some(1 << 41), events: 5 },
        generation: GenerationNumber(3),
        probes,
        stamps: stamps(recorded, numbers),
    }
}

/// Returns copies of the bytes that are cut off at different lengths, and copies with changed bits.
pub(crate) fn mutations(bytes: &[u8], numbers: &mut Numbers) -> Vec<Vec<u8>> {
    let step = bytes.len() / 200 + 1;
    let mut mutated: Vec<Vec<u8>> = (0..bytes.len()).step_by(step).map(|end| bytes[..end].to_vec()).collect();
    for _ in 0..400 {
        let mut changed = bytes.to_vec();
        for _ in 0..1 + numbers.below(3) {
            let place = numbers.below(changed.len().max(1) as u64) as usize;
            changed[place] ^= 1 << numbers.below(8);
        }
        mutated.push(changed);
    }
    mutated
}

/// Returns where events were found. The list is empty for some numbers of events.
pub(crate) fn seen(events: usize, numbers: &mut Numbers) -> Vec<Seen> {
    if events.is_multiple_of(2) {
        return Vec::new();
    }
    let unit = |numbers: &mut Numbers| (numbers.below(4) > 0).then(|| UnitNumber(1_000_000 + numbers.below(1000)));
    (0..events).map(|_| Seen { unit: unit(numbers), level: numbers.below(6) as u8 }).collect()
}

/// Decodes the runs of a batch after decoding its header.
pub(crate) fn decode_runs(
    message: &producer::Batch,
    shape: BatchShape,
    spare: &mut Vec<Probes>,
) -> Result<Vec<OwnedRun>, WireError> {
    BatchReader::new(message)?.runs(shape, spare)
}
