//! Tests of the encodings of positions, ticks, stamps and tickets: decoding returns the same values, and sizes stay
//! within their limits.

use crate::common::{self, Numbers};
use firstseen_filter::{ProbeShape, Probes, Stamp, UnitNumber};
use firstseen_routing::{PositionLists, Tick};
use firstseen_wire::WireError;
use firstseen_wire::packing::{event_bits, pack_lists, pack_probes, packed_bytes, unpack_lists, unpack_probes};
use firstseen_wire::ticks::{
    UNIT_MAX, pack_stamps, pack_tickets, pack_ticks, unpack_stamps, unpack_tickets, unpack_ticks,
};
use proptest::prelude::*;

fn shapes() -> impl Strategy<Value = ProbeShape> {
    let spread = (1u64..=1 << 40, 1u32..=16).prop_map(|(cells, hashes)| ProbeShape::Spread { cells, hashes });
    let blocked = (1u64..=1 << 35, 5u32..=11, 1u32..=16).prop_map(|(blocks, offset_bits, hashes)| {
        let hashes = hashes.min(2 * (64 / offset_bits));
        ProbeShape::Blocked { blocks, offset_bits, hashes }
    });
    // A cuckoo filter stores a fingerprint in one of two buckets. Such an event has one position, whose number has more
    // bits than the number of a cell.
    let bucketed = (1u64..=1 << 63, 0u32..63).prop_map(|(positions, smaller_bits)| ProbeShape::Spread {
        cells: (positions >> smaller_bits).max(1),
        hashes: 1,
    });
    prop_oneof![spread, blocked, bucketed]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..Default::default() })]

    #[test]
    fn events_come_back(shape in shapes(), events in 0usize..200, first in 0usize..5, seed in any::<u64>()) {
        let all = common::probes(shape, events + first, &mut Numbers::new(seed));
        let mut bytes = vec![1, 2, 3];
        pack_probes(&all, first..events + first, &mut bytes);
        prop_assert_eq!(bytes.len() - 3, (event_bits(shape) * events).div_ceil(8));
        let mut unpacked = Probes::new(shape);
        prop_assert_eq!(unpack_probes(&bytes[3..], events, &mut unpacked), Ok(()));
        prop_assert_eq!(unpacked.len(), events);
        for index in 0..events {
            prop_assert_eq!(unpacked.positions(index), all.positions(index + first));
            prop_assert_eq!(unpacked.block(index), all.block(index + first));
        }
        bytes.push(0);
        prop_assert!(unpack_probes(&bytes[3..], events, &mut Probes::new(shape)).is_err());
    }

    #[test]
    fn whatever_the_bytes_positions_are_inside(shape in shapes(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let events = bytes.len() * 8 / event_bits(shape).max(1);
        let mut probes = Probes::new(shape);
        if unpack_probes(&bytes[..packed_bytes(shape, events).min(bytes.len())], events, &mut probes).is_ok() {
            for index in 0..events {
                match shape {
                    ProbeShape::Spread { cells, .. } => prop_assert!(probes.positions(index).iter().all(|p| *p < cells)),
                    ProbeShape::Blocked { blocks, .. } => prop_assert!(probes.block(index).unwrap().block < blocks),
                }
            }
        }
    }

    #[test]
    fn lists_come_back(
        lists in prop::collection::vec(prop::collection::vec(any::<u64>(), 1..=16), 0..60), bits in 0u32..=63,
    ) {
        let range = 1u64 << bits;
        let mut all = PositionLists::default();
        lists.iter().for_each(|list| all.push(list.iter().map(|position| position % range)));
        let (counts, positions) = pack_lists(&all, range).unwrap();
        prop_assert_eq!(unpack_lists(&counts, &positions, lists.len(), range), Ok(all));
        prop_assert!(unpack_lists(&counts, &[&positions[..], &[0]].concat(), lists.len(), range).is_err());
        prop_assert!(unpack_lists(&counts, &positions, lists.len() + 2, range).is_err());
    }

    #[test]
    fn ticks_come_back(base_unit in 0u64..1 << 61, steps in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40), 0..60)) {
        let mut clock_unit = base_unit;
        let ticks: Vec<Tick> = steps.iter().map(|(step, late)| {
            clock_unit += step;
            // One event in eight is looked up with a time ahead of the clock.
            let unit = if late % 8 == 0 { clock_unit + late } else { clock_unit.saturating_sub(*late) };
            tick(clock_unit, unit)
        }).collect();
        let mut bytes = Vec::new();
        pack_ticks(&ticks, UnitNumber(base_unit), &mut bytes).unwrap();
        let mut rest = &bytes[..];
        prop_assert_eq!(unpack_ticks(&mut rest, ticks.len(), UnitNumber(base_unit)), Ok(ticks));
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn stamps_and_tickets_come_back(pairs in prop::collection::vec((0..=UNIT_MAX.0, any::<u64>()), 0..60)) {
        let stamps: Vec<Stamp> =
            pairs.iter().map(|(judged, other)| stamp(judged - other % (judged + 1), *judged)).collect();
        prop_assert_eq!(unpack_stamps(&pack_stamps(&stamps).unwrap(), stamps.len()), Ok(stamps));
        let tickets: Vec<u64> = pairs.iter().map(|(_, ticket)| *ticket).collect();
        prop_assert_eq!(unpack_tickets(&pack_tickets(&tickets), tickets.len()), Ok(tickets));
    }

    #[test]
    fn any_bytes_are_times_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80), events in 0usize..90) {
        if let Ok(ticks) = unpack_ticks(&mut &bytes[..], events, UnitNumber(10)) {
            prop_assert!(ticks.iter().all(|tick| tick.unit <= UNIT_MAX && tick.clock_unit <= UNIT_MAX));
        }
        if let Ok(stamps) = unpack_stamps(&bytes, events) {
            prop_assert!(stamps.iter().all(|stamp| stamp.unit <= stamp.judged && stamp.judged <= UNIT_MAX));
        }
        let _ = unpack_tickets(&bytes, events);
    }
}

#[test]
fn the_greatest_positions_come_back_and_the_next_is_refused() {
    for bits in [56, 57, 58, 62, 63] {
        let shape = ProbeShape::Spread { cells: (1 << bits) - 1, hashes: 1 };
        let last = (1 << bits) - 2;
        let mut probes = Probes::new(shape);
        for position in [last, 0, 1, last, last] {
            probes.push_positions(&[position]).unwrap();
        }
        let mut bytes = Vec::new();
        pack_probes(&probes, 0..5, &mut bytes);
        assert_eq!(bytes.len(), (5 * bits as usize).div_ceil(8));
        let mut unpacked = Probes::new(shape);
        assert_eq!(unpack_probes(&bytes, 5, &mut unpacked), Ok(()));
        assert_eq!(unpacked, probes);
        // A field in which all bits are set is a position outside the range.
        bytes[..8].fill(u8::MAX);
        let refusal = unpack_probes(&bytes, 5, &mut Probes::new(shape));
        assert_eq!(refusal, Err(WireError::TooGreat { field: "probes", found: last + 1, max: last }));
    }
}

fn tick(clock_unit: u64, unit: u64) -> Tick {
    Tick { clock_unit: UnitNumber(clock_unit), unit: UnitNumber(unit) }
}

fn stamp(unit: u64, judged: u64) -> Stamp {
    Stamp { unit: UnitNumber(unit), judged: UnitNumber(judged) }
}

#[test]
fn times_that_run_backwards_are_refused() {
    let pack = |clock_unit, unit| pack_ticks(&[tick(clock_unit, unit)], UnitNumber(10), &mut Vec::new());
    assert_eq!(pack(10, 10), Ok(()));
    assert!(matches!(pack(9, 9), Err(WireError::Invalid { field: "ticks", .. })));
    assert_eq!(pack(10, 11), Ok(()), "an event that is only looked up may be ahead of the clock");
    assert!(matches!(pack(10, UNIT_MAX.0 + 1), Err(WireError::TooGreat { field: "ticks", .. })));
    assert!(matches!(pack(UNIT_MAX.0 + 1, 1), Err(WireError::TooGreat { field: "ticks", .. })));
    assert!(pack_stamps(&[stamp(2, 1)]).is_err());
}

#[test]
fn equal_stamps_stand_once() {
    assert_eq!(pack_stamps(&[Stamp::on_time(UnitNumber::FIRST); 1000]), Ok(vec![0]));
    assert_eq!(unpack_stamps(&[0], 1000), Ok(vec![Stamp::on_time(UnitNumber::FIRST); 1000]));
    assert!(unpack_stamps(&[0, 0], 1000).is_err());
    assert_eq!(unpack_stamps(&[], 0), Ok(Vec::new()));
    assert!(unpack_stamps(&[], 1).is_err());
}
