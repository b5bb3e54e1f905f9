//! Tests claims of events under difficult conditions: slices move, nodes go down and come back, cluster maps reach
//! nodes at different times, and messages and replies are delayed or lost. At any time, at most one consumer may hold
//! an event, and only one consumer may confirm it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::common::{TestRng, definition, digest, fingerprints, spec};
use crate::network::Network;
use firstseen_filter::{FilterSpec, Kind, Layout};
use firstseen_mesh::plain_submission;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    AnswerWhen, ClusterMap, Decision, Fence, FilterPolicies, GroupReply, Hold, Lookup, NodeId, Operation, OwnerLimits,
    Reason, SliceMove, Submission, Thresholds,
};

const SEEDS: u64 = 400;
/// Number of seeds within which a broken rule must be detected.
const BROKEN_SEEDS: u64 = 500;
const STEPS: u64 = 700;
const NODES: u64 = 4;
const LEASE_MAX_MS: u32 = 200;

const HELD: Decision = Decision::Undecided(Reason::Claimed);

/// A request as its consumer knows it.
#[derive(Clone, Debug)]
struct Call {
    key: u64,
    operation: Operation,
    fence: Option<Fence>,
    /// Number of the request that this request repeats, or its own number if it is not a repetition.
    sequence: u64,
    asked_ms: u64,
    /// Time at which the first try was sent.
    first_ms: u64,
}

/// What consumers know about one event.
#[derive(Default)]
struct History {
    grants: Vec<Grant>,
    /// Sequence numbers of the requests whose replies said that they recorded the event.
    winners: Vec<u64>,
    /// Whether any request was made that records the event.
    is_recording: bool,
    /// The times at which claims were requested, by sequence number, and the fences of the confirmations.
    claims: Vec<(u64, u64)>,
    confirms: Vec<Fence>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    sequence: u64,
    fence: Fence,
    /// The lease as the consumer counts it, from its first request.
    first_ms: u64,
    over_ms: u64,
    /// Time until which the consumer relies on the lease. It ends earlier if the consumer has confirmed or released the
    /// event.
    until_ms: u64,
    told_ms: u64,
    /// Whether the consumer has released the event. A late try of the same claim may then be granted again.
    is_released: bool,
}

impl History {
    /// Checks a reply which tells a consumer that it holds the event until `until_ms`.
    fn is_granted(&mut self, fence: Fence, call: &Call, (until_ms, now_ms): (u64, u64)) {
        let about = |what: &str| format!("{what}: {fence:?} to {call:?} at {now_ms} ms: {:?}", self.grants);
        let before = self.grants.iter().find(|grant| grant.sequence == call.sequence);
        let is_same = before.is_none_or(|grant| grant.fence == fence || grant.until_ms <= now_ms);
        assert!(is_same, "{}", about("two fences of one claim"));
        if before.is_some() || until_ms <= now_ms || self.confirms.contains(&fence) {
            return;
        }
        let other = self.grants.iter().find(|grant| grant.until_ms > now_ms);
        assert!(other.is_none(), "{}", about("two hold an event"));
        let greater = self.grants.iter().find(|grant| grant.until_ms <= call.first_ms && grant.fence >= fence);
        assert!(greater.is_none(), "{}", about("a fence fell"));
        self.grants.push(Grant {
            sequence: call.sequence,
            fence,
            first_ms: call.first_ms,
            over_ms: until_ms,
            until_ms,
            told_ms: now_ms,
            is_released: false,
        });
    }

    /// Checks a reply which tells a confirming consumer that another client holds the event.
    fn is_lost(&self, call: &Call, now_ms: u64) {
        let about = |what: &str| format!("{what}: {call:?} at {now_ms} ms: {:?}", self.grants);
        let own = self.grants.iter().find(|grant| Some(grant.fence) == call.fence).unwrap();
        let in_time = now_ms < own.over_ms && !own.is_released;
        // If the lease of the claim has ended, a late try of the same claim may be granted again.
        let mut others = self.claims.iter().filter(|(sequence, _)| in_time || *sequence != own.sequence);
        let tries = self.claims.iter().filter(|(sequence, _)| *sequence == own.sequence).count();
        let is_later = others.any(|(_, asked_ms)| *asked_ms >= own.first_ms);
        assert!(is_later || !in_time && tries > 1, "{}", about("lost to nobody"));
        assert!(!in_time, "{}", about("lost in time"));
    }
}

struct Run {
    network: Network,
    rules: Rules,
    rng: TestRng,
    maps: [ClusterMap; 2],
    calls: Vec<Call>,
    histories: BTreeMap<u64, History>,
    slices: u64,
    /// Whether slices move all the time while the clock advances slowly. Leases then outlive moves, and former heads
    /// hold claims.
    is_restless: bool,
    /// Average number of requests for each key.
    calls_of_key: u64,
    /// Whether slices have copies from which they can be fetched. Only then may nodes lose everything.
    has_copies: bool,
    /// Number of replies that were processed.
    read: usize,
    /// Counts of replies: claimed, confirmed, lost to another consumer, recorded before, in progress.
    told: [u64; 5],
}

/// Slicings for each state machine, with the number of slices.
const DIVIDED: [(&str, u64); 2] = [("vertical:6", 6), ("horizontal-vertical:2x4", 8)];
const TOGETHER: [(&str, u64); 1] = [("horizontal:3", 3)];

impl Run {
    fn new(seed: u64, limits: OwnerLimits, slicings: &[(&str, u64)]) -> Self {
        let mut rng = TestRng(seed);
        let (slicing, slices) = slicings[rng.below(slicings.len() as u64) as usize];
        let owners: Vec<NodeId> = (0..slices).map(|slice| NodeId(1 + slice % 3)).collect();
        let is_restless = rng.below(2) == 0;
        let policies = FilterPolicies {
            // A slice that moves waits for one retry horizon. It is short so that moves end while claims are held.
            retry_horizon_ms: if is_restless { 40 } else { FilterPolicies::default().retry_horizon_ms },
            answer: if rng.below(2) == 0 { AnswerWhen::Safe } else { AnswerWhen::Early },
            lookup: if rng.below(2) == 0 { Lookup::Pipelined } else { Lookup::Parallel },
            thresholds: Thresholds { min_live: 1, set_min: 0 },
            claim_lease_max_ms: NonZeroU32::new(LEASE_MAX_MS),
            ..FilterPolicies::default()
        };
        let layout = if slicing == "horizontal:3" { Layout::Blocked { lines: 1 } } else { Layout::Classic };
        let timers = FilterSpec { layout: Some(layout), ..spec(Kind::Timing, "1h", 1 << 20, 5) };
        let spec = match rng.below(3) {
            0 if slicing == "horizontal:3" => fingerprints("1h", 100_000),
            _ => timers,
        };
        let definition = definition(&spec, slicing);
        let mut network = Network::new(&definition, policies, &owners, limits, TestRng(rng.below(u64::MAX)));
        network.gathers = rng.below(2) == 0;
        network.add_node(NodeId(NODES));
        let has_copies = rng.below(2) == 0;
        if has_copies {
            network.add_copies((0..slices).map(|slice| (slice as u32, NodeId(1 + (slice + 1) % 3))));
        }
        network.nodes().into_iter().for_each(|node| network.deliver_map(node));
        let maps = [network.map().clone(), network.map().clone()];
        Self {
            network,
            is_restless,
            calls_of_key: if is_restless { 40 } else { 12 },
            rules: limits.rules,
            rng,
            maps,
            calls: Vec::new(),
            histories: BTreeMap::new(),
            slices,
            has_copies,
            read: 0,
            told: [0; 5],
        }
    }

    fn now_ms(&self) -> u64 {
        self.network.now().monotonic_ms.0
    }

    /// Sends a consumer's request. `again` repeats an earlier request whose reply was lost.
    fn call(&mut self, key: u64, (operation, fence): (Operation, Option<Fence>), again: Option<u64>) {
        let map = self.maps[self.rng.below(2) as usize].clone();
        let number = self.calls.len() as u64 + 1;
        let sequence = again.unwrap_or(number);
        let (fences, probes) = (fence.into_iter().collect(), self.network.probes(&[digest(key)]));
        let plain = plain_submission(number, operation, probes);
        let submission = Submission { sequence, fences, again: again.is_some(), ..plain };
        let head = self.network.head_by(&map, digest(key));
        if !self.network.mesh.owners().contains_key(&head) {
            return;
        }
        let asked_ms = self.now_ms();
        let first_ms = again.map_or(asked_ms, |first| self.calls[first as usize - 1].first_ms);
        let history = self.histories.entry(key).or_default();
        match operation {
            Operation::Claim { .. } => history.claims.push((sequence, asked_ms)),
            Operation::Observe | Operation::Confirm => {
                history.is_recording = true;
                history.confirms.extend(fence);
            }
            _ => {}
        }
        // A consumer that confirms or releases an event no longer relies on its lease.
        let own = history.grants.iter_mut().filter(|grant| Some(grant.fence) == fence);
        own.for_each(|grant| {
            grant.until_ms = grant.until_ms.min(asked_ms);
            grant.is_released |= operation == Operation::Release;
        });
        self.calls.push(Call { key, operation, fence, sequence, asked_ms, first_ms });
        self.network.take_up(head, submission);
    }

    fn any_call(&mut self) {
        let newest = self.calls.len() as u64 / self.calls_of_key;
        let key = if self.rng.below(3) > 0 { newest + self.rng.below(2) } else { self.rng.below(newest + 1) };
        let grants = self.histories.get(&key).map_or(&[][..], |history| &history.grants);
        let grant = grants.get(self.rng.below(grants.len().max(1) as u64) as usize).copied();
        match (self.rng.below(20), grant) {
            (10..15, _) if self.is_restless && self.rng.below(4) > 0 => {
                self.call(key, (Operation::Claim { lease_ms: LEASE_MAX_MS }, None), None);
            }
            (0..10, _) => {
                let lease_ms = 1 + self.rng.below(LEASE_MAX_MS.into()) as u32;
                self.call(key, (Operation::Claim { lease_ms }, None), None);
            }
            (10, _) => self.call(key, (Operation::Observe, None), None),
            (11, _) => self.call(key, (Operation::Lookup, None), None),
            (12..15, Some(grant)) => self.call(key, (Operation::Confirm, Some(grant.fence)), None),
            (15, Some(grant)) => self.call(key, (Operation::Release, Some(grant.fence)), None),
            _ => {
                let lately = self.calls.len().saturating_sub(12)..self.calls.len();
                let Some(at) = lately.clone().nth(self.rng.below(lately.len().max(1) as u64) as usize) else { return };
                let Call { key, operation, fence, sequence, .. } = self.calls[at].clone();
                if operation != Operation::Lookup {
                    self.call(key, (operation, fence), Some(sequence));
                }
            }
        }
    }

    fn change(&mut self) {
        let down: Vec<NodeId> =
            self.network.nodes().into_iter().filter(|node| self.network.map().is_down(*node)).collect();
        // The third node is always up. It has the events that the other nodes lose in turn.
        let node = NodeId(1 + self.rng.below(2));
        match down.first() {
            None => self.network.take_down(node),
            Some(down) if self.has_copies && self.rng.below(2) == 0 => self.network.start_anew(*down),
            Some(down) => self.network.mark_restarted(*down),
        }
    }

    fn begin_move(&mut self) {
        let (slice, [from, to]) = (self.rng.below(self.slices), [NODES; 2].map(|nodes| self.rng.below(nodes)));
        let way = SliceMove { slice: slice as u32, from: NodeId(1 + from), to: NodeId(1 + to) };
        self.network.begin_move(way);
    }

    fn step(&mut self) {
        let before = self.network.map().clone();
        match (self.rng.below(100), self.is_restless) {
            (0..22, _) | (26..30, false) => self.any_call(),
            (22..24, _) => self.begin_move(),
            (24..26, false) => self.change(),
            (30..36, _) | (26..30 | 56..66, true) => {
                let node = NodeId(1 + self.rng.below(NODES));
                self.network.deliver_map(node);
            }
            (36..39, _) | (66..75, true) => drop(self.network.agree_on_complete()),
            (39..47, _) => {
                let ms = 1 + self.rng.below(if self.is_restless { 20 } else { 60 });
                self.network.wait(ms);
            }
            _ => drop(self.network.deliver()),
        }
        if self.network.map().version != before.version {
            self.maps = [before, self.network.map().clone()];
        }
        self.read();
    }

    /// Delivers replies to consumers. One in eight is lost.
    fn read(&mut self) {
        while let Some(reply) = self.network.replies.get(self.read).cloned() {
            self.read += 1;
            if self.rng.below(8) > 0 {
                self.hear(&reply);
            }
        }
    }

    fn hear(&mut self, reply: &GroupReply) {
        let call = self.calls[reply.reply_to as usize - 1].clone();
        let (decision, now_ms) = (reply.answers.decisions()[0], self.now_ms());
        let history = self.histories.get_mut(&call.key).unwrap();
        let about = |what: &str| format!("{what}: key {}, {call:?} at {now_ms} ms: {:?}", call.key, history.grants);
        match (call.operation, decision) {
            (Operation::Claim { lease_ms }, HELD) => match reply.answers.holds()[0] {
                Hold::Own(fence) => {
                    self.told[0] += 1;
                    let counts_from_asking = self.rules.keep(Rule::CountsLeasesFromRequest);
                    let from_ms = if counts_from_asking { call.first_ms } else { now_ms };
                    history.is_granted(fence, &call, (from_ms + u64::from(lease_ms), now_ms));
                }
                Hold::Other { left_ms } => {
                    self.told[4] += 1;
                    assert!((1..=LEASE_MAX_MS + LEASE_MAX_MS / 50 + 2).contains(&left_ms), "{}", about("a long wait"));
                }
                Hold::None => panic!("{}", about("nobody holds it")),
            },
            (Operation::Claim { .. } | Operation::Observe | Operation::Lookup, Decision::Duplicate) => {
                assert!(history.is_recording, "{}", about("a duplicate that nobody has recorded"));
            }
            (Operation::Observe | Operation::Confirm, Decision::FirstSeen) => {
                self.told[1] += 1;
                if !history.winners.contains(&call.sequence) {
                    history.winners.push(call.sequence);
                }
                assert!(history.winners.len() < 2, "{}", about("two winners"));
                if call.operation == Operation::Observe {
                    let held =
                        history.grants.iter().find(|grant| grant.told_ms <= call.asked_ms && grant.until_ms > now_ms);
                    assert!(held.is_none(), "{}", about("first-seen though it is held"));
                }
            }
            (Operation::Confirm, HELD) => {
                self.told[2] += 1;
                history.is_lost(&call, now_ms);
            }
            (Operation::Confirm, Decision::Duplicate) => {
                self.told[3] += 1;
                assert!(history.is_recording);
            }
            (Operation::Claim { .. }, Decision::FirstSeen) => panic!("{}", about("a claim is no verdict")),
            _ => {}
        }
    }

    /// Delivers all maps and messages until all nodes are complete.
    fn heal(&mut self) {
        for _ in 0..40 {
            for node in self.network.nodes() {
                if self.network.map().is_down(node) {
                    self.network.mark_restarted(node);
                }
            }
            self.network.nodes().into_iter().for_each(|node| self.network.deliver_map(node));
            self.network.settle();
            self.network.wait(1_000);
            self.network.agree_on_complete();
        }
        for _ in 0..9 {
            self.network.settle();
            self.network.wait(u64::from(LEASE_MAX_MS) / 4);
        }
        self.maps = [self.network.map().clone(), self.network.map().clone()];
    }

    /// Runs the test and returns the counts of replies: claimed, confirmed, lost to another consumer, recorded before,
    /// in progress.
    fn run(mut self) -> [u64; 5] {
        (0..STEPS).for_each(|_| self.step());
        self.heal();
        self.read();
        // One lease after everything is repaired, no claim is in progress any more.
        for key in 0..self.calls.len() as u64 / self.calls_of_key {
            self.network.replies.clear();
            self.read = 0;
            let number = self.calls.len();
            self.call(key, (Operation::Claim { lease_ms: 1 }, None), None);
            assert_eq!(self.calls.len(), number + 1, "a node heads key {key}");
            self.network.settle();
            let (decision, hold) = (
                self.network.replies[0].answers.decisions()[0],
                self.network.replies[0].answers.holds().first().copied(),
            );
            let is_own = matches!(hold, Some(Hold::Own(_)));
            let is_lost =
                matches!(decision, Decision::Undecided(Reason::SlicesDown)) && !self.network.is_all_complete();
            assert!(decision == Decision::Duplicate || is_own || is_lost, "key {key}: {decision:?}, {hold:?}");
            self.read();
        }
        self.told
    }
}

fn keep_their_promises(seeds: u64, slicings: &[(&str, u64)]) {
    let mut told = [0; 5];
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| Run::new(seed, OwnerLimits::default(), slicings).run());
        let run = run.unwrap_or_else(|_| panic!("seed {seed} of {slicings:?}"));
        told.iter_mut().zip(run).for_each(|(sum, more)| *sum += more);
    }
    println!("claimed, confirmed, lost, recorded, in progress: {told:?}");
    assert!(told.iter().all(|told| *told > seeds / 5), "{told:?}");
}

#[test]
fn one_consumer_holds_an_event_whose_cells_are_divided() {
    keep_their_promises(SEEDS, &DIVIDED);
}

#[test]
fn one_consumer_holds_an_event_of_one_slice() {
    keep_their_promises(SEEDS, &TOGETHER);
}

/// Rules that the tests of this file can find broken. For each rule, the number is the first random seed at which a
/// test fails if the rule is switched off.
///
/// Two sorts of rules are tested elsewhere. No run in this file alters a filter, so `claim_closing.rs` tests the rules
/// about alterations. The rule `ReportsUnknownClaims` is tested in `crates/sim/tests/all/claims.rs`.
const MISSED_AT: [(Rule, u64); 11] = [
    (Rule::GrantsRecordNothing, 0),
    (Rule::AwaitsAllAnswers, 144),
    (Rule::AwaitsFormerGrants, 1),
    (Rule::CountsLeasesFromRequest, 3),
    (Rule::FormerHeadsVeto, 17),
    (Rule::ChecksFences, 11),
    (Rule::RespectsClaims, 2),
    (Rule::ConfirmsAwaitAll, 67),
    (Rule::RemembersClaims, 0),
    (Rule::RetestsWaiters, 0),
    (Rule::ClaimsExpire, 1),
];

#[test]
fn a_rule_of_claims_that_is_broken_is_found() {
    for (rule, at) in MISSED_AT {
        let limits = OwnerLimits { rules: Rules::without(rule), ..OwnerLimits::default() };
        let breaks = |seed: &u64| std::panic::catch_unwind(|| Run::new(*seed, limits, &DIVIDED).run()).is_err();
        if !breaks(&at) {
            let other = (0..BROKEN_SEEDS).find(breaks);
            panic!("{rule:?} is not missed at seed {at}, but at {other:?} of 0..{BROKEN_SEEDS}");
        }
    }
}
