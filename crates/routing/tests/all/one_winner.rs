//! Many producers submit the same events at once. Exactly one of them gets first-seen, in whatever order messages
//! arrive.

use std::collections::BTreeMap;

use crate::common::{TestRng, definition, digest, fingerprints, observation, spec};
use crate::network::{Fault, Network, random_owners};
use firstseen_filter::Kind;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    AnswerWhen, Decision, FilterPolicies, Lookup, MonotonicMs, OwnerLimits, Reason, SlicedDefinition, Submission,
    SubmissionName, WhenLost,
};

const PRODUCERS: u64 = 4;
const KEYS: u64 = 6;
/// Number of seeds within which the violation of a rule must be detected.
const MUTANT_SEEDS: u64 = 200;

/// Returns a filter that is so large that there are no false positives.
fn roomy(rng: &mut TestRng) -> SlicedDefinition {
    let cuts = ["vertical:5", "vertical:16", "horizontal-vertical:2x5", "vertical-horizontal:4x3"];
    let kinds = [(Kind::Bloom, "unbounded"), (Kind::Timing, "1h"), (Kind::Generations, "1h")];
    let (kind, window) = kinds[rng.below(3) as usize];
    definition(&spec(kind, window, 1 << 14, 6), cuts[rng.below(4) as usize])
}

fn policies(rng: &mut TestRng) -> FilterPolicies {
    FilterPolicies {
        lookup: if rng.below(2) == 0 { Lookup::Pipelined } else { Lookup::Parallel },
        answer: if rng.below(2) == 0 { AnswerWhen::Early } else { AnswerWhen::Safe },
        when_lost: WhenLost::FirstSeen,
        ..FilterPolicies::default()
    }
}

fn random_network(rng: &mut TestRng, limits: OwnerLimits) -> Network {
    let definition = roomy(rng);
    network_of(&definition, rng, limits)
}

fn network_of(definition: &SlicedDefinition, rng: &mut TestRng, limits: OwnerLimits) -> Network {
    let nodes = 2 + rng.below(4);
    let owners = random_owners(rng, definition.slicing.slices(), nodes);
    let policies = policies(rng);
    Network::new(definition, policies, &owners, limits, TestRng(rng.roll()))
}

fn question(producer: u64, sequence: u64, deadline_ms: MonotonicMs) -> Submission {
    Submission {
        reply_to: producer << 32 | sequence,
        producer: u128::from(producer),
        deadline_ms,
        ..observation(sequence)
    }
}

/// Lets every producer submit every key once, each in a different order. Returns how many submissions got first-seen,
/// by key.
fn winners(seed: u64, limits: OwnerLimits, fault: Fault, gathers: bool) -> BTreeMap<u64, usize> {
    let mut rng = TestRng(seed);
    let mut network = random_network(&mut rng, limits);
    network.gathers = gathers;
    network.fault = fault;
    winners_in(network, seed, rng)
}

fn winners_in(mut network: Network, seed: u64, mut rng: TestRng) -> BTreeMap<u64, usize> {
    let mut submissions: Vec<(u64, u64)> =
        (0..PRODUCERS).flat_map(|producer| (0..KEYS).map(move |key| (producer, key))).collect();
    for last in (1..submissions.len()).rev() {
        submissions.swap(last, rng.below(last as u64 + 1) as usize);
    }
    for (producer, key) in submissions {
        network.submit(&[digest(seed * 1000 + key)], question(producer, key, MonotonicMs::END));
        (0..rng.below(6)).for_each(|_| _ = network.deliver());
    }
    network.settle();
    assert_eq!(network.replies.len() as u64, PRODUCERS * KEYS, "seed {seed}: every submission is answered once");
    assert_eq!(network.inflight(), 0, "seed {seed}");
    let mut winners: BTreeMap<u64, usize> = (0..KEYS).map(|key| (key, 0)).collect();
    for reply in &network.replies {
        match reply.answers.decisions()[..] {
            [Decision::FirstSeen] => *winners.entry(reply.reply_to & 0xFFFF_FFFF).or_default() += 1,
            [Decision::Duplicate] => {}
            ref other => panic!("seed {seed}: {other:?}"),
        }
    }
    winners
}

fn seeds_with_several(limits: OwnerLimits, fault: Fault) -> usize {
    let several = |seed: &u64| winners(*seed, limits, fault, false).values().any(|winners| *winners > 1);
    (0..MUTANT_SEEDS).filter(several).count()
}

#[test]
fn one_producer_gets_first_seen() {
    for seed in 0..300 {
        let winners = winners(seed, OwnerLimits::default(), Fault::None, seed % 2 == 0);
        assert!(winners.values().all(|winners| *winners == 1), "seed {seed}: {winners:?}");
    }
}

#[test]
fn one_producer_gets_first_seen_of_a_fingerprint() {
    for seed in 0..100 {
        let mut rng = TestRng(seed);
        let slicing = ["none", "horizontal:5"][rng.below(2) as usize];
        let definition = definition(&fingerprints("1h", 1000), slicing);
        let network = network_of(&definition, &mut rng, OwnerLimits::default());
        let winners = winners_in(network, seed, rng);
        assert!(winners.values().all(|winners| *winners == 1), "seed {seed}: {winners:?}");
    }
}

#[test]
fn without_single_flight_several_get_it() {
    let limits = OwnerLimits { rules: Rules::without(Rule::SingleFlight), ..OwnerLimits::default() };
    let seeds = seeds_with_several(limits, Fault::None);
    println!("without single-flight: {seeds} of {MUTANT_SEEDS} seeds");
    assert!(seeds > 3, "only {seeds} of {MUTANT_SEEDS} seeds show it");
    let unordered = seeds_with_several(limits, Fault::NoOrder);
    println!("and without order: {unordered} of {MUTANT_SEEDS} seeds");
    assert!(unordered > seeds, "links in order hide most of it: {unordered} without, {seeds} with");
}

#[test]
fn several_get_it_where_events_are_over_before_their_cells_are_set() {
    // The order of messages alone does no harm (see below), because no event ends before its acknowledgements.
    let seeds = seeds_with_several(OwnerLimits::default(), Fault::EarlyAcks);
    println!("acknowledged too early: {seeds} of {MUTANT_SEEDS} seeds");
    assert!(seeds > 3, "only {seeds} of {MUTANT_SEEDS} seeds show it");
}

#[test]
fn the_order_of_messages_does_not_matter() {
    // An event is in flight until all of its cells are set, so no message must stay behind another one.
    for seed in 0..200 {
        let winners = winners(seed, OwnerLimits::default(), Fault::NoOrder, seed % 2 == 0);
        assert!(winners.values().all(|winners| *winners == 1), "seed {seed}: {winners:?}");
    }
}

/// Runs the same workload as `crates/node/tests/all/one_winner.rs`. In this workload, 64 producers send the same 10,000
/// events in batches, and groups of eight producers send the same batch at the same time. A submission with the verdict
/// first-seen is a winner. The function returns the number of events that do not have exactly one winner.
fn not_one_winner(lookup: Lookup, limits: OwnerLimits) -> usize {
    const EVENTS: u64 = 10_000;
    const BATCH_EVENTS: u64 = 625;
    let definition = definition(&spec(Kind::Timing, "24h", 1 << 20, 6), "vertical:6");
    let mut rng = TestRng(64);
    let owners = random_owners(&mut rng, 6, 3);
    let policies = FilterPolicies { lookup, ..FilterPolicies::default() };
    let mut network = Network::new(&definition, policies, &owners, limits, TestRng(rng.roll()));
    let digests: Vec<_> = (0..EVENTS).map(digest).collect();
    let mut submitted: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for round in 0..EVENTS / BATCH_EVENTS {
        for producer in 0..64 {
            let from = (producer / 8 * 1250 + round * BATCH_EVENTS) % EVENTS;
            let mut heads: BTreeMap<_, Vec<u64>> = BTreeMap::new();
            for event in from..from + BATCH_EVENTS {
                heads.entry(network.head_of(digests[event as usize])).or_default().push(event);
            }
            for (part, events) in heads.into_values().enumerate() {
                let question = question(producer, round * 3 + part as u64, MonotonicMs::END);
                let batch: Vec<_> = events.iter().map(|event| digests[*event as usize]).collect();
                submitted.insert(question.reply_to, events);
                network.submit(&batch, question);
                (0..rng.below(4)).for_each(|_| _ = network.deliver());
            }
        }
    }
    network.settle();
    let mut winners = vec![0; EVENTS as usize];
    assert_eq!(network.replies.len(), submitted.len(), "every batch is answered once");
    for reply in &network.replies {
        for (event, decision) in submitted[&reply.reply_to].iter().zip(reply.answers.decisions()) {
            match decision {
                Decision::FirstSeen => winners[*event as usize] += 1,
                Decision::Duplicate => {}
                other => panic!("{other:?}"),
            }
        }
    }
    winners.iter().filter(|winners| **winners != 1).count()
}

#[test]
fn of_64_producers_one_gets_first_seen_unless_single_flight_is_off() {
    // The limit is so high that no event is rejected, however many are in flight.
    let limits = OwnerLimits { inflight_events_max: 1 << 20, ..OwnerLimits::default() };
    for lookup in [Lookup::Pipelined, Lookup::Parallel] {
        assert_eq!(not_one_winner(lookup, limits), 0, "{lookup:?}");
        let without = not_one_winner(lookup, OwnerLimits { rules: Rules::without(Rule::SingleFlight), ..limits });
        println!("{lookup:?}, without single-flight: {without} of 10,000 events");
        assert!(without > 0, "{lookup:?}: the workload does not show it");
    }
}

/// A submission that is retried until it gets a definite decision.
struct Attempt {
    producer: u64,
    sequence: u64,
    key: u64,
    is_named: bool,
    decisions: Vec<Decision>,
}

impl Attempt {
    fn submit(&self, network: &mut Network, seed: u64, attempt: u64) {
        let deadline_ms = network.now().monotonic_ms.after(5);
        let mut question = question(self.producer, self.sequence, deadline_ms);
        question.reply_to = self.producer << 32 | self.sequence;
        question.again = attempt > 0;
        if self.is_named {
            // Retries keep their idempotency keys but use new batches.
            question.sequence += attempt << 20;
            question.names = vec![SubmissionName { source: u128::from(self.producer) + 100, number: self.sequence }];
        }
        network.submit(&[digest(seed * 1000 + self.key)], question);
    }

    fn is_definite(&self) -> bool {
        self.decisions.iter().any(|decision| !matches!(decision, Decision::Undecided(_)))
    }
}

/// Runs submissions that producers retry, because half of the replies are lost. If `restarts` is set, some nodes also
/// restart during the run, and each key is submitted by one producer only. Returns the attempts with their decisions.
fn retried(seed: u64, restarts: bool) -> Vec<Attempt> {
    let mut rng = TestRng(seed);
    let mut network = random_network(&mut rng, OwnerLimits::default());
    let mut attempts: Vec<Attempt> = (0..PRODUCERS * KEYS)
        .map(|index| Attempt {
            producer: index / KEYS,
            sequence: index % KEYS,
            key: if restarts { index } else { index % KEYS },
            is_named: rng.below(2) == 0,
            decisions: Vec::new(),
        })
        .collect();
    for round in 0..60 {
        for attempt in &attempts {
            if !attempt.is_definite() && rng.below(2) == 0 {
                attempt.submit(&mut network, seed, round);
            }
            (0..rng.below(4)).for_each(|_| _ = network.deliver());
        }
        if restarts && round < 40 && rng.below(4) == 0 {
            let nodes = network.nodes();
            network.restart(nodes[rng.below(nodes.len() as u64) as usize]);
        }
        network.wait(rng.below(8));
        for reply in std::mem::take(&mut network.replies) {
            let is_lost = round < 50 && rng.below(2) == 0;
            if let (false, [decision]) = (is_lost, reply.answers.decisions()) {
                let index = (reply.reply_to >> 32) * KEYS + (reply.reply_to & 0xFFFF_FFFF);
                attempts[index as usize].decisions.push(*decision);
            }
        }
    }
    network.settle();
    network.wait(1000);
    network.settle();
    assert_eq!(network.inflight(), 0, "seed {seed}: nothing stays in flight");
    attempts
}

#[test]
fn retries_get_the_first_decision() {
    let mut definite = 0;
    for seed in 0..200 {
        let attempts = retried(seed, false);
        let mut first_seen: BTreeMap<u64, usize> = BTreeMap::new();
        for attempt in &attempts {
            let mut definite_ones =
                attempt.decisions.iter().filter(|decision| !matches!(decision, Decision::Undecided(_)));
            let first = definite_ones.next();
            definite += usize::from(first.is_some());
            assert!(definite_ones.all(|other| Some(other) == first), "seed {seed}: {:?}", attempt.decisions);
            *first_seen.entry(attempt.key).or_default() += usize::from(first == Some(&Decision::FirstSeen));
            let unexpected = |decision: &&Decision| matches!(decision, Decision::Undecided(reason) if !matches!(reason, Reason::Unknown | Reason::Overloaded | Reason::NotReady));
            assert!(
                !attempt.decisions.iter().any(|decision| unexpected(&decision)),
                "seed {seed}: {:?}",
                attempt.decisions
            );
        }
        for (key, winners) in first_seen {
            // If all submissions of a key got definite decisions in the end, one of them got first-seen.
            let all = attempts.iter().filter(|attempt| attempt.key == key).all(Attempt::is_definite);
            assert!(winners == 1 || (winners == 0 && !all), "seed {seed}, key {key}: {winners} are first-seen");
        }
    }
    assert!(definite as u64 > 200 * PRODUCERS * KEYS * 9 / 10, "{definite} definite answers");
}

#[test]
fn no_submission_is_a_duplicate_of_itself() {
    let (mut first_seen, mut undecided) = (0, 0);
    for seed in 0..200 {
        for attempt in retried(seed, true) {
            assert!(!attempt.decisions.contains(&Decision::Duplicate), "seed {seed}: {:?}", attempt.decisions);
            first_seen += usize::from(attempt.decisions.contains(&Decision::FirstSeen));
            undecided += usize::from(!attempt.is_definite());
        }
    }
    assert!(first_seen as u64 > 200 * PRODUCERS * KEYS * 9 / 10, "{first_seen} first-seen, {undecided} undecided");
}
