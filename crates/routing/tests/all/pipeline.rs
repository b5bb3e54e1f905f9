//! Slices that share events and lie on different nodes decide as the embedded engine does, if one event is in flight at
//! a time.

use crate::common::{Producer, Stream, TestRng, count, definition, digest, growing, observation, spec, stream};
use crate::network::{Fault, Network, random_owners};
use firstseen_filter::{FilterSpec, Kind, Limit, Refresh};
use firstseen_routing::{
    Answer, AnswerWhen, Decision, FilterPolicies, Lookup, Moment, OwnerLimits, Reason, Shares, SlicedFilter, Submission,
};

const CUTS: [&str; 5] =
    ["vertical:1", "vertical:3", "vertical:8", "horizontal-vertical:3x4", "vertical-horizontal:3x2"];

fn policies(rng: &mut TestRng) -> FilterPolicies {
    FilterPolicies {
        lookup: if rng.below(2) == 0 { Lookup::Pipelined } else { Lookup::Parallel },
        answer: if rng.below(2) == 0 { AnswerWhen::Early } else { AnswerWhen::Safe },
        ..FilterPolicies::default()
    }
}

/// Sends events one by one to a cluster and to the embedded engine. One event in eight is only looked up.
fn decides_as_embedded(spec: &FilterSpec, slicing: &str, nodes: u64, stream: &Stream) -> Vec<Answer> {
    let definition = definition(spec, slicing);
    let mut rng = TestRng(nodes * 31 + definition.slicing.slices() as u64);
    let owners = random_owners(&mut rng, definition.slicing.slices(), nodes);
    let policies = policies(&mut rng);
    let mut embedded = SlicedFilter::build(&definition).unwrap();
    let mut network = Network::new(&definition, policies, &owners, OwnerLimits::default(), TestRng(rng.roll()));
    let mut producer = Producer::new(1, &definition);
    let mut answers = Vec::new();
    for (event, (digest, time_ms)) in stream.digests.iter().zip(&stream.times_ms).enumerate() {
        let records = rng.below(8) > 0;
        let mut answer = [Answer::Undecided];
        if records {
            embedded.observe_batch(&[*digest], &[*time_ms], &mut answer);
        } else {
            embedded.lookup_batch(&[*digest], &[*time_ms], &mut answer);
        }
        let decision = producer.ask_alone(&mut network, *digest, *time_ms, records);
        let what = format!("{:?} {slicing} on {nodes} nodes, {policies:?}", spec.kind);
        assert_eq!(decision, Decision::from(answer[0]), "{what}, event {event}, records {records}");
        answers.push(answer[0]);
    }
    assert_eq!(network.inflight(), 0);
    answers
}

fn decides_as_embedded_wherever(spec: &FilterSpec, stream: &Stream, occurring: &[Answer]) {
    for (index, slicing) in CUTS.iter().enumerate() {
        for nodes in [1 + index as u64, 5 - index as u64] {
            let answers = decides_as_embedded(spec, slicing, nodes, stream);
            for answer in occurring {
                assert!(count(&answers, *answer) > 5, "{slicing}: the stream must bring {answer:?} out");
            }
        }
    }
}

#[test]
fn bits_decide_as_embedded() {
    let endless = stream(&mut TestRng(1), 1500, 700, 5, 100);
    let occurring = [Answer::FirstSeen, Answer::Duplicate];
    decides_as_embedded_wherever(&spec(Kind::Bloom, "unbounded", 2001, 4), &endless, &occurring);
    let landmarks = stream(&mut TestRng(2), 2000, 300, 5, 2000);
    let occurring = [Answer::FirstSeen, Answer::Duplicate, Answer::Late];
    decides_as_embedded_wherever(&spec(Kind::Bloom, "landmark:1500ms", 1000, 4), &landmarks, &occurring);
}

#[test]
fn timers_decide_as_embedded() {
    let stream = stream(&mut TestRng(3), 2500, 600, 5, 3000);
    let occurring = [Answer::FirstSeen, Answer::Duplicate, Answer::Late];
    for cell_bits in [8, 16] {
        let spec = FilterSpec { cell_bits: Some(cell_bits), ..spec(Kind::Timing, "2s", 1500, 4) };
        decides_as_embedded_wherever(&spec, &stream, &occurring);
        decides_as_embedded_wherever(&FilterSpec { refresh: Refresh::Refresh, ..spec }, &stream, &occurring);
    }
}

#[test]
fn words_decide_as_embedded() {
    let stream = stream(&mut TestRng(4), 2500, 600, 5, 3000);
    let occurring = [Answer::FirstSeen, Answer::Duplicate, Answer::Late];
    for cell_bits in [8, 16] {
        let spec = FilterSpec {
            cell_bits: Some(cell_bits),
            lateness_ms: Some(400),
            jumps: Some(4),
            ..spec(Kind::Generations, "2s", 1500, 4)
        };
        decides_as_embedded_wherever(&spec, &stream, &occurring);
    }
}

#[test]
fn one_node_refuses_where_the_embedded_engine_is_full() {
    let stream = stream(&mut TestRng(5), 3000, 4000, 5, 300);
    for spec in [
        growing(Kind::Timing, "2s", 200, Limit::Cardinality, 1),
        growing(Kind::Bloom, "landmark:2s", 200, Limit::Cardinality, 1),
        growing(Kind::Bloom, "landmark:2s", 200, Limit::Density, 1),
        FilterSpec { growth: None, ..growing(Kind::Generations, "2s", 150, Limit::Cardinality, 1) },
    ] {
        let answers = decides_as_embedded(&spec, "vertical:5", 1, &stream);
        assert!(count(&answers, Answer::Undecided) > 20, "{:?} must fill up", spec.kind);
    }
}

#[test]
fn generations_open_when_agreed_and_forget_nothing() {
    let limits = [Limit::Cardinality, Limit::Density];
    for (limit, (nodes, seed)) in limits.into_iter().flat_map(|limit| [(1, 1), (3, 2), (5, 3)].map(|run| (limit, run)))
    {
        let kind = if limit == Limit::Density { Kind::Bloom } else { Kind::Timing };
        let spec = growing(kind, if kind == Kind::Bloom { "unbounded" } else { "1h" }, 1000, limit, 4);
        let definition = definition(&spec, "vertical:10");
        let mut rng = TestRng(seed);
        let owners = random_owners(&mut rng, 10, nodes);
        let limits = OwnerLimits::default();
        let mut network = Network::new(&definition, FilterPolicies::default(), &owners, limits, TestRng(rng.roll()));
        let mut producer = Producer::new(1, &definition);
        let (mut recorded, mut full, mut duplicates, mut opened) = (Vec::new(), 0, 0, 0);
        for key in 0..6000 {
            match producer.ask_alone(&mut network, digest(key), 1_000_000, true) {
                Decision::FirstSeen => recorded.push(key),
                Decision::Undecided(Reason::Full) => full += 1,
                Decision::Duplicate => duplicates += 1,
                other => panic!("{other:?}"),
            }
            opened += network.asked.iter().filter(|(_, number)| number.0 == opened + 1).count().min(1) as u64;
            network.agree();
        }
        assert_eq!(opened, 3, "{nodes} nodes");
        assert!(full > 1000, "{nodes} nodes: {full} events too many");
        assert!((3000..4400).contains(&recorded.len()), "{nodes} nodes recorded {}", recorded.len());
        assert!(duplicates < 300, "{nodes} nodes: {duplicates} false positives");
        for key in recorded {
            let again = producer.ask_alone(&mut network, digest(key), 1_000_000, true);
            assert_eq!(again, Decision::Duplicate, "{nodes} nodes forget key {key}");
        }
    }
}

/// Returns the number of events that find some cells set on their way, and how many of these are forgotten before their
/// window ends.
fn forgotten(fault: Fault, seed: u64) -> (usize, usize) {
    let definition = definition(&spec(Kind::Timing, "1s", 64, 4), "vertical:4");
    let owners = random_owners(&mut TestRng(seed), 4, 4);
    let limits = OwnerLimits::default();
    let mut network = Network::new(&definition, FilterPolicies::default(), &owners, limits, TestRng(seed));
    network.fault = fault;
    let mut producer = Producer::new(1, &definition);
    let base = seed * 10_000;
    for key in 0..10 {
        producer.ask_alone(&mut network, digest(base + key), 10_000, true);
    }
    let fresh = (1000..1020).map(|key| digest(base + key));
    let tested: Vec<_> =
        fresh.filter(|event| producer.ask_alone(&mut network, *event, 10_900, true) == Decision::FirstSeen).collect();
    let mut again = |event: &_| producer.ask_alone(&mut network, *event, 11_800, false) == Decision::FirstSeen;
    (tested.len(), tested.iter().filter(|event| again(event)).count())
}

#[test]
fn sets_reach_also_the_cells_that_the_test_has_passed() {
    let total = |fault| (1..30).map(|seed| forgotten(fault, seed)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let (tested, forgotten) = total(Fault::None);
    assert!(tested > 200 && forgotten == 0, "{forgotten} of {tested} forgotten");
    let (tested, forgotten) = total(Fault::SetsTheRestOnly);
    assert!(forgotten > 5, "setting only the rest of the chain forgets {forgotten} of {tested}");
}

#[test]
fn a_batch_is_answered_once_and_in_order() {
    let definition = definition(&spec(Kind::Bloom, "unbounded", 100_000, 4), "vertical:8");
    let owners = random_owners(&mut TestRng(1), 8, 3);
    let limits = OwnerLimits::default();
    let mut network = Network::new(&definition, FilterPolicies::default(), &owners, limits, TestRng(2));
    let head = network.head_of(digest(0));
    let keys: Vec<u64> = (0..2000).filter(|key| network.head_of(digest(*key)) == head).collect();
    // Every key occurs twice. The second occurrence follows closely or much later.
    let events: Vec<_> = keys.iter().chain(&keys[..5]).chain(keys.iter().rev()).map(|key| digest(*key)).collect();
    network.submit(&events, Submission { reply_to: 9, ..observation(1) });
    network.settle();
    let [reply] = &network.replies[..] else { panic!("{} replies", network.replies.len()) };
    assert_eq!(reply.reply_to, 9);
    let first = |decision: &&Decision| **decision == Decision::FirstSeen;
    assert_eq!(reply.answers.decisions()[..keys.len()].iter().filter(first).count(), keys.len());
    assert!(reply.answers.decisions()[keys.len()..].iter().all(|decision| *decision == Decision::Duplicate));
    assert_eq!(network.inflight(), 0);
}

#[test]
fn limits_refuse_before_anything_is_set() {
    refuses_more_than_three(OwnerLimits { inflight_events_max: 3, ..OwnerLimits::default() }, None);
}

#[test]
fn a_share_of_what_a_node_may_have_in_flight_is_such_a_limit() {
    let shares = Shares {
        claims_bytes_max: 1 << 20,
        inflight_events_max: 3,
        guard_bytes_max: 1 << 20,
        missed_events_max: 0,
        copied_bytes_per_s_max: 1,
        compared_bytes_per_s_max: 1,
    };
    refuses_more_than_three(OwnerLimits::default(), Some(shares));
}

fn refuses_more_than_three(limits: OwnerLimits, shares: Option<Shares>) {
    let definition = definition(&spec(Kind::Bloom, "unbounded", 100_000, 4), "vertical:8");
    let owners = random_owners(&mut TestRng(1), 8, 4);
    let policies = FilterPolicies { answer: AnswerWhen::Safe, ..FilterPolicies::default() };
    let limits = OwnerLimits { joiners_max: 1, ..limits };
    let mut network = Network::new(&definition, policies, &owners, limits, TestRng(2));
    if let Some(shares) = shares {
        network.mesh.owners_mut().values_mut().for_each(|owner| owner.set_shares(shares, Moment::default()));
    }
    let mut producer = Producer::new(1, &definition);
    let head = network.head_of(digest(0));
    let keys: Vec<u64> = (0..2000).filter(|key| network.head_of(digest(*key)) == head).collect();
    // First a waiting event exceeds its limit, then an event in flight exceeds its limit.
    for keys in [[keys[0]; 3].as_slice(), &keys[1..5]] {
        for key in keys {
            let question = producer.ask(1000, true).unwrap();
            network.submit(&[digest(*key)], question);
        }
        let overloaded = |network: &Network| {
            let overloaded = [Decision::Undecided(Reason::Overloaded)];
            network.replies.iter().filter(|reply| reply.answers.decisions() == overloaded).count()
        };
        assert_eq!((network.replies.len(), overloaded(&network)), (1, 1), "the last one");
        network.settle();
        assert_eq!((network.replies.len(), overloaded(&network), network.inflight()), (keys.len(), 1, 0));
        network.replies.clear();
    }
    let again = producer.ask_alone(&mut network, digest(keys[4]), 1000, true);
    assert_eq!(again, Decision::FirstSeen, "what was refused was not recorded");
}
