//! Tests of the encoding of records. Each record must be restored exactly, and invalid bytes must be rejected.

use firstseen_filter::{
    BlockProbe, CellRun, GenerationNumber, LiveEvents, ProbeShape, Probes, SliceOutline, Stamp, UnitNumber,
};
use firstseen_journal::{decode, encode};
use firstseen_routing::{
    BatchName, ClockReading, Decision, Entry, Epoch, EventTag, FilterId, NamedEvent, PositionLists, Reason, Record,
    SubmissionName,
};
use proptest::prelude::*;

fn stamps(events: usize) -> impl Strategy<Value = Vec<Stamp>> {
    let stamp = (any::<u32>(), 0..100u64).prop_map(|(unit, later)| Stamp {
        unit: UnitNumber(u64::from(unit)),
        judged: UnitNumber(u64::from(unit) + later),
    });
    prop_oneof![
        prop::collection::vec(stamp, events),
        any::<u32>().prop_map(move |unit| vec![Stamp::on_time(UnitNumber(u64::from(unit))); events]),
    ]
}

fn live() -> impl Strategy<Value = LiveEvents> {
    prop::collection::vec((0..9u64, 1..5u64), 0..9).prop_map(|counts| {
        let mut live = LiveEvents::default();
        let mut unit = 0;
        for (pause, events) in counts {
            unit += pause;
            live.record(UnitNumber(unit), events);
        }
        live
    })
}

/// Returns events with a single position each. The position is a fingerprint in a bucket and is less than 2^63.
fn fingerprints() -> impl Strategy<Value = Entry> {
    prop::collection::vec(any::<u64>(), 1..30).prop_flat_map(|positions| {
        (stamps(positions.len()), 1..=1u64 << 63, 0..9u64).prop_map(move |(stamps, cells, generation)| {
            let mut probes = Probes::new(ProbeShape::Spread { cells, hashes: 1 });
            positions.iter().for_each(|position| probes.push_positions(&[position % cells]).expect("inside"));
            Entry::Events { generation: GenerationNumber(generation), probes, stamps }
        })
    })
}

fn events() -> impl Strategy<Value = Entry> {
    (1..30usize, any::<bool>()).prop_flat_map(|(events, is_spread)| {
        (stamps(events), prop::collection::vec((0..1000u64, any::<[u64; 2]>()), events), 0..9u64).prop_map(
            move |(stamps, places, generation)| {
                let mut probes = Probes::new(if is_spread {
                    ProbeShape::Spread { cells: 1000, hashes: 3 }
                } else {
                    ProbeShape::Blocked { blocks: 1000, offset_bits: 9, hashes: 7 }
                });
                for (place, words) in places {
                    if is_spread {
                        probes.push_positions(&[place, words[0] % 1000, words[1] % 1000]).expect("inside")
                    } else {
                        probes.push_block(BlockProbe { block: place, words }).expect("inside")
                    }
                }
                Entry::Events { generation: GenerationNumber(generation), probes, stamps }
            },
        )
    })
}

/// Generates the positions of events, and as many stamps.
fn located() -> impl Strategy<Value = (PositionLists, Vec<Stamp>)> {
    prop::collection::vec(prop::collection::vec(any::<u64>(), 1..17), 1..20).prop_flat_map(|lists| {
        stamps(lists.len()).prop_map(move |stamps| {
            let mut positions = PositionLists::default();
            lists.iter().for_each(|list| positions.push(list.iter().copied()));
            (positions, stamps)
        })
    })
}

fn set() -> impl Strategy<Value = Entry> {
    (located(), any::<u64>(), 0..20u64).prop_map(|((cells, stamps), generation, counted)| Entry::Set {
        generation: GenerationNumber(generation),
        cells,
        stamps,
        counted,
    })
}

fn clock() -> impl Strategy<Value = ClockReading> {
    any::<[u64; 3]>().prop_map(|[unit, time_ms, events]| ClockReading {
        unit: UnitNumber(unit),
        time_ms: Some(time_ms).filter(|ms| *ms > 0),
        events,
    })
}

fn named(source: u128, number: u64) -> NamedEvent {
    NamedEvent { name: SubmissionName { source, number }, tag: EventTag::from_bits(number as u16) }
}

fn replied() -> impl Strategy<Value = Entry> {
    let decision = prop::sample::select(vec![
        Decision::FirstSeen,
        Decision::Duplicate,
        Decision::Undecided(Reason::Unknown),
        Decision::Undecided(Reason::Overloaded),
    ]);
    (prop::collection::vec(decision, 0..70), any::<(u128, u64)>(), any::<bool>(), clock()).prop_map(
        |(decisions, (producer, sequence), is_named, clock)| {
            let event = |number: usize| named(producer, number as u64);
            let names = if is_named { (0..decisions.len()).map(event).collect() } else { Vec::new() };
            Entry::Replied { name: BatchName { producer, sequence }, names, decisions, clock }
        },
    )
}

fn taken() -> impl Strategy<Value = Entry> {
    (any::<(u128, u64)>(), 0..50u32, any::<bool>()).prop_map(|((producer, sequence), events, is_named)| {
        let event = |number: u32| named(producer, u64::from(number));
        let names = if is_named { (0..events).map(event).collect() } else { Vec::new() };
        Entry::Taken { name: BatchName { producer, sequence }, names, events }
    })
}

fn owed() -> impl Strategy<Value = Entry> {
    located().prop_flat_map(|(positions, stamps)| {
        prop::collection::btree_set(any::<u64>(), stamps.len()).prop_map(move |numbers| Entry::Owed {
            numbers: numbers.into_iter().collect(),
            positions: positions.clone(),
            stamps: stamps.clone(),
        })
    })
}

fn marks() -> impl Strategy<Value = Vec<(u128, u64)>> {
    prop::collection::vec(any::<(u128, u64)>(), 0..9)
}

fn entry() -> impl Strategy<Value = Entry> {
    let outline = (any::<[u64; 2]>(), prop::collection::vec(live(), 0..4));
    prop_oneof![
        events(),
        set(),
        replied(),
        taken(),
        (clock(), any::<u64>(), live()).prop_map(|(clock, newest, counted)| {
            Entry::Checkpoint { is_complete: newest % 2 == 0, clock, newest: GenerationNumber(newest), counted }
        }),
        any::<u64>().prop_map(|epoch| Entry::Headed { epoch: Epoch(epoch) }),
        owed(),
        prop::collection::vec(any::<u64>(), 0..9).prop_map(|numbers| Entry::Reported { numbers }),
        (marks(), marks()).prop_map(|(producers, sources)| Entry::Marks { producers, sources }),
        (any::<u32>(), outline).prop_map(|(slice, ([unit, oldest], live))| Entry::Slice {
            slice,
            outline: SliceOutline { unit: UnitNumber(unit), oldest: GenerationNumber(oldest), live }
        }),
        (any::<u32>(), any::<[u64; 3]>(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(
            |(slice, [generation, unit, start_bytes], cells)| Entry::Cells {
                slice,
                run: CellRun { generation: GenerationNumber(generation), unit: UnitNumber(unit), start_bytes, cells }
            }
        ),
        Just(Entry::CheckpointEnd),
        fingerprints(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_record_is_read_as_it_was_written(
        (filter, group) in any::<(u64, u32)>(),
        entries in prop::collection::vec(entry(), 0..6),
    ) {
        let record = Record { filter: FilterId(filter), group, entries };
        prop_assert_eq!(decode(&encode(record.clone())).expect("a record"), record);
    }

    #[test]
    fn other_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200), entry in entry(), at in any::<usize>()) {
        let _ = decode(&bytes);
        bytes = encode(Record { filter: FilterId(1), group: 0, entries: vec![entry] });
        let at = at % (bytes.len() * 8);
        bytes[at / 8] ^= 1 << (at % 8);
        let _ = decode(&bytes);
        bytes.truncate(at / 8);
        let _ = decode(&bytes);
    }
}
