//! Tests of encoded batches and replies. Decoding an encoded value must return the same value, damaged messages must be
//! rejected, and sizes must stay within the documented limits.

use crate::common::{self, Numbers};
use firstseen_filter::{ProbeShape, Probes, UnitNumber};
use firstseen_routing::{
    Answers, Decision, Epoch, Fence, FilterId, Hold, Operation, Reason, Seen, SubmissionName, Tick,
};
use firstseen_wire::batch::{self, BatchHeader, BatchShape, OwnedRun, Run};
use firstseen_wire::proto::producer::{self, observe_reply, observe_request};
use firstseen_wire::reply;
use firstseen_wire::ticks::are_trivial;
use firstseen_wire::{WireError, hello, limits, packing};
use prost::Message;

const BLOCKED: ProbeShape = ProbeShape::Blocked { blocks: 1 << 14, offset_bits: 9, hashes: 7 };

/// Slice groups, each with its events, their times and their idempotency keys.
struct Gathered(Vec<(u32, Probes, Vec<Tick>, Vec<SubmissionName>)>);

impl Gathered {
    fn new(shape: BatchShape, events: usize, base_unit: u64, named: bool, numbers: &mut Numbers) -> Self {
        let runs = events.min(shape.groups as usize);
        let run = |index: usize| {
            let own = events / runs + usize::from(index < events % runs);
            let names = (0..if named { own } else { 0 })
                .map(|number| SubmissionName { source: u128::MAX - index as u128, number: number as u64 });
            (own, names.collect())
        };
        Self(
            (0..runs)
                .map(|index| {
                    let (own, names) = run(index);
                    let probes = common::probes(shape.probes, own, numbers);
                    (index as u32, probes, common::ticks(base_unit, own, 2, numbers), names)
                })
                .collect(),
        )
    }

    fn without_times(mut self) -> Self {
        self.0.iter_mut().for_each(|run| run.2.clear());
        self
    }

    fn runs(&self) -> Vec<Run<'_>> {
        self.0
            .iter()
            .map(|(group, probes, ticks, names)| Run {
                group: *group,
                probes,
                range: 0..probes.len(),
                ticks,
                names,
                fences: &[],
            })
            .collect()
    }
}

fn shapes() -> Vec<BatchShape> {
    let spread = |cells, hashes| ProbeShape::Spread { cells, hashes };
    let shape = |probes, groups| BatchShape { probes, groups };
    vec![
        shape(BLOCKED, 1),
        shape(BLOCKED, 16),
        shape(ProbeShape::Blocked { blocks: (1 << 20) + 1, offset_bits: 9, hashes: 8 }, 3),
        shape(ProbeShape::Blocked { blocks: 5_000_000, offset_bits: 6, hashes: 5 }, 64),
        shape(spread(14_377_588, 10), 1),
        shape(spread(1 << 40, 16), 2),
    ]
}

#[test]
fn batches_come_back() {
    let numbers = &mut Numbers::new(1);
    for shape in shapes() {
        for (events, named) in [(1, false), (3, true), (100, false), (1024, true), (8192, false)] {
            let base_unit = numbers.below(1 << 40);
            let gathered = Gathered::new(shape, events, base_unit, named, numbers);
            let header = common::header(base_unit);
            let message = batch::encode(&header, &gathered.runs()).expect("the message is within the limits");
            let message = producer::Batch::decode(&message.encode_to_vec()[..]).expect("protobuf");
            assert_eq!(batch::decode_header(&message), Ok(header.clone()));
            let mut spare = vec![Probes::new(ProbeShape::Spread { cells: 9, hashes: 2 })];
            let runs = common::decode_runs(&message, shape, &mut spare).expect("the encoded message can be decoded");
            assert!(spare.is_empty(), "the decoder must reuse memory");
            assert_eq!(runs.len(), gathered.0.len());
            for (run, (group, probes, ticks, names)) in runs.iter().zip(&gathered.0) {
                assert_eq!((run.group, &run.probes, &run.names), (*group, probes, names));
                assert_eq!((run.times.base_unit, run.times.clock_ms), (header.base_unit, header.clock_ms));
                let is_left_out = run.times.ticks.is_empty() && are_trivial(ticks, header.base_unit);
                assert!(is_left_out || run.times.ticks == *ticks);
            }
        }
    }
}

#[test]
fn times_that_do_not_move_are_not_sent() {
    let numbers = &mut Numbers::new(2);
    let shape = shapes()[1];
    let gathered = Gathered::new(shape, 100, 5, false, numbers);
    let still: Vec<Vec<Tick>> = gathered
        .0
        .iter()
        .map(|run| vec![Tick { clock_unit: UnitNumber(5), unit: UnitNumber(5) }; run.1.len()])
        .collect();
    let mut runs = gathered.runs();
    runs.iter_mut().zip(&still).for_each(|(run, still)| run.ticks = still);
    let message = batch::encode(&common::header(5), &runs).unwrap();
    assert!(message.ticks.is_empty());
    let moved = vec![Tick { clock_unit: UnitNumber(6), unit: UnitNumber(6) }; runs[0].range.len()];
    runs[0].ticks = &moved;
    runs[1].ticks = &[];
    let message = batch::encode(&common::header(5), &runs).unwrap();
    assert_eq!(message.ticks.len(), 100, "one byte for each event");
    let decoded: Vec<OwnedRun> = common::decode_runs(&message, shape, &mut Vec::new()).unwrap();
    assert_eq!((&decoded[0].times.ticks, &decoded[1].times.ticks), (&moved, &still[1]));
}

#[test]
fn limits_are_kept() {
    let numbers = &mut Numbers::new(3);
    let (shape, header) = (shapes()[0], common::header(0));
    let events = limits::BATCH_EVENTS_MAX as usize + 1;
    let too_many = Gathered::new(shape, events, 0, false, numbers);
    let refused = batch::encode(&header, &too_many.runs());
    assert!(matches!(refused, Err(WireError::TooGreat { field: "events", max: 8192, .. })), "{refused:?}");
    assert_eq!(batch::encode(&header, &[]), Err(WireError::Missing { field: "events" }));

    let gathered = Gathered::new(shape, 10, 0, false, numbers);
    let run = gathered.runs()[0].clone();
    let twice = batch::encode(&header, &[run.clone(), run.clone()]);
    assert!(matches!(twice, Err(WireError::Invalid { field: "runs", .. })));
    let other_group = batch::encode(&header, &[Run { group: 1, ..run }]).unwrap();
    let unknown = common::decode_runs(&other_group, shape, &mut Vec::new());
    assert_eq!(unknown, Err(WireError::Invalid { field: "runs", value: 1 }));

    let claims = producer::Batch { events: u32::MAX, ..Default::default() };
    assert!(matches!(
        common::decode_runs(&claims, shape, &mut Vec::new()),
        Err(WireError::TooGreat { field: "events", .. })
    ));
    let claims = producer::Batch { events: 8192, operation: 1, ..Default::default() };
    assert!(matches!(
        common::decode_runs(&claims, shape, &mut Vec::new()),
        Err(WireError::Length { field: "probes", .. })
    ));
    let no_operation = producer::Batch { events: 1, ..Default::default() };
    assert!(matches!(batch::decode_header(&no_operation), Err(WireError::Invalid { field: "operation", .. })));
}

#[test]
fn damaged_batches_are_batches_or_errors() {
    let numbers = &mut Numbers::new(4);
    for shape in shapes() {
        let gathered = Gathered::new(shape, 40, 1000, true, numbers);
        let bytes = batch::encode(&common::header(1000), &gathered.runs()).unwrap().encode_to_vec();
        for mutated in common::mutations(&bytes, numbers) {
            let Ok(message) = producer::Batch::decode(&mutated[..]) else { continue };
            let Ok(runs) = common::decode_runs(&message, shape, &mut Vec::new()) else { continue };
            let events: usize = runs.iter().map(|run| run.probes.len()).sum();
            assert!(
                events * packing::event_bits(shape.probes) / 8 <= mutated.len(),
                "the result must not be larger than the input allows"
            );
        }
    }
}

fn frame_bytes(message: &impl Message) -> usize {
    message.encoded_len() + 5
}

/// Checks the size of requests with 1,024 events. The positions may take at most 5 % more space than `firstseen plan`
/// predicts for the filter, and the rest of the batch at most 64 bytes. If the events have different times, the request
/// may take one more byte for each event, and a second one for each event that is late.
#[test]
fn requests_cost_what_the_plan_says() {
    let numbers = &mut Numbers::new(5);
    for shape in shapes() {
        for moves in [false, true] {
            let gathered = Gathered::new(shape, 1024, 1 << 38, false, numbers);
            let gathered = if moves { gathered } else { gathered.without_times() };
            let mut message = batch::encode(&common::header(1 << 38), &gathered.runs()).unwrap();
            message.sequence = 1 << 40;
            let request = producer::ObserveRequest { message: Some(observe_request::Message::Batch(message)) };
            let late = gathered.0.iter().flat_map(|run| &run.2).filter(|tick| tick.unit < tick.clock_unit).count();
            let planned = packing::event_bits(shape.probes) as f64 / 8.0 * 1024.0;
            let times = if moves { 1024 + late } else { 0 };
            let allowed = planned * 1.05 + 64.0 + times as f64;
            let bytes = frame_bytes(&request);
            println!("{shape:?}: {bytes} bytes, {:.3} an event, planned {planned}", bytes as f64 / 1024.0);
            assert!(bytes as f64 <= allowed, "{bytes} > {allowed}");
        }
    }
}

/// Checks the size of replies to batches of 1,024 events. If each event is decided by a single node, a reply may take
/// at most 0.2 bytes for each event. If several nodes must decide an event together, the batch is answered in several
/// replies, which may take at most 0.5 bytes for each event.
#[test]
fn replies_cost_a_fifth_of_a_byte() {
    let numbers = &mut Numbers::new(6);
    for (events, allowed) in [(1024, 0.2), (341, 0.5)] {
        let verdict = |number| if number == 0 { Decision::FirstSeen } else { Decision::Duplicate };
        let decisions = (0..events).map(|_| verdict(numbers.below(2))).collect();
        let answers = Answers::new(decisions).with_clock(Some(1_700_000_000_000));
        let reply = observe_reply::Message::Reply(reply::encode(1 << 40, &answers, 1 << 20));
        let bytes = frame_bytes(&producer::ObserveReply { message: Some(reply) });
        println!("{events} events: {bytes} bytes, {:.3} an event", bytes as f64 / events as f64);
        assert!(bytes as f64 <= allowed * events as f64);
    }
}

#[test]
fn replies_come_back() {
    let numbers = &mut Numbers::new(7);
    for events in [0, 1, 7, 8, 9, 64, 1000, 8192] {
        let decisions = common::decisions(events, numbers);
        let is_decided = |decision: &Decision| !matches!(decision, Decision::Undecided(_));
        let estimates = (0..events).map(|event| event as f32 / 3.0).collect();
        let all_seen = common::seen(events, numbers);
        // An undecided event carries no further fields.
        let seen = decisions.iter().zip(&all_seen);
        let seen = seen.map(|(decision, seen)| if is_decided(decision) { *seen } else { Seen::default() });
        let seen = if decisions.iter().any(is_decided) { seen.collect() } else { Vec::new() };
        let degraded = (0..events as u32).filter(|event| events % 2 == 1 && event % 5 < 2);
        let answers = Answers::new(decisions)
            .with_estimates(estimates)
            .with_level_hits(if events % 3 == 0 { vec![1, 2, 3] } else { Vec::new() })
            .with_clock(Some(17))
            .with_quality(events % 2 == 1, 0.25)
            .with_degraded_events(degraded.collect());
        let message = reply::encode(99, &answers.clone().with_seen(all_seen), 5);
        let decoded = reply::decode(&message, events).expect("the encoded message can be decoded");
        assert_eq!((decoded.answers, decoded.map_version), (answers.with_seen(seen), 5));
        assert!(matches!(reply::decode(&message, events + 1), Err(WireError::Length { field: "events", .. })));
        for mutated in common::mutations(&message.encode_to_vec(), numbers) {
            let Ok(message) = producer::BatchReply::decode(&mutated[..]) else { continue };
            let Ok(reply) = reply::decode(&message, events) else { continue };
            assert_eq!(reply.answers.len(), events);
        }
    }
    let firsts = Answers::new(vec![Decision::FirstSeen; 800]);
    assert!(reply::encode(1, &firsts, 0).duplicates.is_empty(), "zero bytes at the end are left out");
}

fn fence(numbers: &mut Numbers) -> Fence {
    let (filter, epoch) = (FilterId(1 + numbers.below(2)), Epoch(3 + numbers.below(2)));
    Fence::of_number(filter, epoch, (5 << 40) + numbers.below(1 << 20))
}

#[test]
fn fences_come_back_with_the_events_of_their_runs() {
    let numbers = &mut Numbers::new(8);
    for shape in shapes() {
        for operation in [Operation::Confirm, Operation::Release] {
            let gathered = Gathered::new(shape, 100, 5, false, numbers);
            let all: Vec<Vec<Fence>> =
                gathered.0.iter().map(|run| (0..run.1.len()).map(|_| fence(numbers)).collect()).collect();
            let mut runs = gathered.runs();
            runs.iter_mut().zip(&all).for_each(|(run, fences)| run.fences = fences);
            let message = batch::encode(&BatchHeader { operation, ..common::header(5) }, &runs)
                .expect("the message is within the limits");
            let decoded =
                common::decode_runs(&message, shape, &mut Vec::new()).expect("the encoded message can be decoded");
            assert!(decoded.iter().map(|run| &run.fences).eq(&all));
            runs[0].fences = &all[0][1..];
            let lacking = batch::encode(&BatchHeader { operation, ..common::header(5) }, &runs);
            assert!(matches!(lacking, Err(WireError::Length { field: "fences", .. })), "{lacking:?}");
            for mutated in common::mutations(&message.encode_to_vec(), numbers) {
                let Ok(message) = producer::Batch::decode(&mutated[..]) else { continue };
                let Ok(runs) = common::decode_runs(&message, shape, &mut Vec::new()) else { continue };
                assert!(runs.iter().all(|run| run.fences.is_empty() || run.fences.len() == run.probes.len()));
            }
        }
    }
    let claim = Operation::Claim { lease_ms: 10_000 };
    let gathered = Gathered::new(shapes()[0], 10, 5, true, numbers);
    let message = batch::encode(&BatchHeader { operation: claim, ..common::header(5) }, &gathered.runs()).unwrap();
    assert_eq!(batch::decode_header(&message).map(|header| header.operation), Ok(claim));
    let stray = producer::Batch { fences: vec![0x90, 0x4E, 1, 1].into(), ..message };
    let refused = common::decode_runs(&stray, shapes()[0], &mut Vec::new());
    assert_eq!(refused, Err(WireError::Damaged { field: "fences" }), "a claim has no fences");
    let many = producer::Batch { operation: producer::Operation::Confirm.into(), ..stray };
    let refused = common::decode_runs(&many, shapes()[0], &mut Vec::new());
    assert!(matches!(refused, Err(WireError::TooGreat { field: "fences", max: 10, .. })), "{refused:?}");
}

/// Checks that an old node refuses events with a time to live instead of remembering them for the whole window. The old
/// node does not know the field for the time to live and would ignore it. Events with a time to live therefore use
/// operation codes of their own, which the old node does not know either, so it refuses the batch.
#[test]
fn lives_come_with_operations_of_their_own() {
    let numbers = &mut Numbers::new(10);
    let shape = shapes()[0];
    let gathered = Gathered::new(shape, 10, 5, false, numbers);
    let header = BatchHeader { ttl_ms: Some(2_000), ..common::header(5) };
    let message = batch::encode(&header, &gathered.runs()).expect("the message is within the limits");
    assert_eq!(message.operation(), producer::Operation::ObserveFor);
    assert_eq!(
        batch::decode_header(&message).map(|header| (header.operation, header.ttl_ms)),
        Ok((Operation::Observe, Some(2_000)))
    );
    let runs = common::decode_runs(&message, shape, &mut Vec::new()).expect("the encoded message can be decoded");
    assert!(runs.iter().all(|run| run.times.ttl_ms == Some(2_000)));
    let lookup = batch::encode(&BatchHeader { operation: Operation::Lookup, ..header }, &gathered.runs());
    assert_eq!(lookup, Err(WireError::Invalid { field: "ttl_ms", value: 2_000 }));
    let without = producer::Batch { ttl_ms: 0, ..message.clone() };
    assert_eq!(batch::decode_header(&without).map(|_| ()), Err(WireError::Missing { field: "ttl_ms" }));
    let plain = producer::Batch { operation: producer::Operation::Observe.into(), ..message };
    let stray = Err(WireError::Invalid { field: "ttl_ms", value: 2_000 });
    assert_eq!(batch::decode_header(&plain).map(|_| ()), stray);
    assert_eq!(common::decode_runs(&plain, shape, &mut Vec::new()).map(|_| ()), stray);
}

#[test]
fn who_holds_events_comes_back() {
    let numbers = &mut Numbers::new(9);
    for events in [1, 2, 64, 1000, 8192] {
        let decisions: Vec<Decision> = (0..events)
            .map(|_| match numbers.below(4) {
                0 => Decision::Duplicate,
                1 => Decision::Undecided(Reason::NotReady),
                _ => Decision::Undecided(Reason::Claimed),
            })
            .collect();
        let hold = |decision: &Decision, numbers: &mut Numbers| match numbers.below(4) {
            _ if *decision != Decision::Undecided(Reason::Claimed) => Hold::None,
            0 => Hold::None,
            1 => Hold::Other { left_ms: numbers.below(u64::from(u32::MAX)) as u32 },
            _ => Hold::Own(fence(numbers)),
        };
        let holds: Vec<Hold> = decisions.iter().map(|decision| hold(decision, numbers)).collect();
        let answers = Answers::new(decisions).with_holds(holds);
        let message = reply::encode(4, &answers, 0);
        let decoded = reply::decode(&message, events).expect("the encoded message can be decoded").answers;
        assert!(
            decoded == answers || message.holds.is_empty() && answers.holds().iter().all(|hold| *hold == Hold::None)
        );
        for mutated in common::mutations(&message.encode_to_vec(), numbers) {
            let Ok(message) = producer::BatchReply::decode(&mutated[..]) else { continue };
            let Ok(reply) = reply::decode(&message, events) else { continue };
            assert!(reply.answers.holds().is_empty() || reply.answers.holds().len() == events);
        }
    }
}

#[test]
fn answers_to_nothing_or_twice_are_refused() {
    let reply = |duplicates: &'static [u8], undecided: &[u32]| producer::BatchReply {
        events: 10,
        duplicates: duplicates.into(),
        undecided: undecided.to_vec(),
        ..Default::default()
    };
    assert!(reply::decode(&reply(&[0xFF, 0x03], &[]), 10).is_ok());
    assert!(reply::decode(&reply(&[0xFF, 0x04], &[]), 10).is_err(), "the index 10 is not below 10");
    assert!(reply::decode(&reply(&[0, 0, 0], &[]), 10).is_err(), "the bitmap has a byte too many");
    assert!(reply::decode(&reply(&[], &[9, 1, 4]), 10).is_ok());
    assert!(reply::decode(&reply(&[], &[9, 2, 4]), 10).is_err(), "the index 10 is not below 10");
    assert!(reply::decode(&reply(&[], &[u32::MAX, u32::MAX, 4]), 10).is_err());
    assert!(reply::decode(&reply(&[], &[0, 1]), 10).is_err(), "the numbers are not triples");
    assert!(reply::decode(&reply(&[], &[0, 1, 0]), 10).is_err(), "the reason is missing");
    assert!(reply::decode(&reply(&[1], &[0, 1, 4]), 10).is_err(), "an event is both duplicate and undecided");
    let newer = reply::decode(&reply(&[], &[0, 1, 77]), 10).expect("an unknown reason of a newer peer is accepted");
    assert_eq!(
        newer.answers.decisions()[0],
        Decision::Undecided(Reason::Unknown),
        "an unknown reason counts as an unknown outcome"
    );
}

#[test]
fn refusals_are_for_every_event() {
    let message = reply::refusal(4, 3, Reason::StaleMap, "the map is at version 9", 9);
    let refused = reply::decode(&message, 3).unwrap();
    assert_eq!(refused.answers.decisions(), [Decision::Undecided(Reason::StaleMap); 3]);
    assert_eq!((refused.map_version, refused.detail.as_str()), (9, "the map is at version 9"));
    let long = "ü".repeat(limits::DETAIL_BYTES_MAX);
    assert!(reply::refusal(4, 3, Reason::Invalid, &long, 9).detail.len() <= limits::DETAIL_BYTES_MAX);
}

#[test]
fn streams_begin_with_hello_and_welcome() {
    let producer_id = 0x0123_4567_89AB_CDEF_0011_2233_4455_6677;
    assert_eq!(hello::accept_hello(&hello::hello(producer_id)), Ok(producer_id));
    let newer = producer::Hello { protocol_version: 2, producer: vec![0; 16].into(), protocol_version_max: 0 };
    let newer = producer::ObserveRequest { message: Some(observe_request::Message::Hello(newer)) };
    assert_eq!(hello::accept_hello(&newer), Err(WireError::Version { theirs: 2, ours: 1 }));
    assert!(hello::accept_hello(&producer::ObserveRequest::default()).is_err());
    let credit = hello::Credit {
        node: firstseen_routing::NodeId(1),
        incarnation: firstseen_routing::Incarnation(2),
        batch_events_max: u32::MAX,
        inflight_batches_max: u32::MAX,
    };
    let accepted = hello::accept_welcome(&hello::welcome(&credit)).unwrap();
    assert_eq!((accepted.batch_events_max, accepted.inflight_batches_max), (8192, 64));
}
