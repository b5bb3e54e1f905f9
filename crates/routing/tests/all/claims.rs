//! Tests the claim table against a simple model, and tests its decision steps row by row. The tests check that an event
//! has at most one holder at a time, that the fences of an event increase, and that only one confirmation succeeds.

use std::collections::{HashMap, HashSet};

use firstseen_routing::{
    BeforeTest, ClaimCall, ClaimTable, ClaimedBy, Epoch, Fence, FilterId, Holding, Incarnation, Lost, MonotonicMs,
    before_test,
};

use crate::common::TestRng;

const EVENTS: u64 = 40;
const LEASE_MAX_MS: u64 = 100;

fn fence(counter: u64) -> Fence {
    Fence::new(FilterId(7), Epoch(3), Incarnation(2), counter).unwrap()
}

fn by(counter: u64, tag: u64) -> ClaimedBy {
    ClaimedBy { fence: fence(counter), tag }
}

#[test]
fn each_call_has_a_step_for_each_holding() {
    let (held, expired) = (Holding::Held { by: by(4, 1), left_ms: 30 }, Holding::Expired { by: by(4, 1) });
    let lost = BeforeTest::LeaseLost(Lost::NotHeld);
    for (call, free, held_step, expired_step) in [
        (ClaimCall::Claim { tag: 1 }, BeforeTest::Ask, BeforeTest::Claimed(fence(4)), BeforeTest::Ask),
        (ClaimCall::Claim { tag: 2 }, BeforeTest::Ask, BeforeTest::InProgress { left_ms: 30 }, BeforeTest::Ask),
        (ClaimCall::Observe, BeforeTest::Ask, BeforeTest::UndecidedClaimed, BeforeTest::Ask),
        (ClaimCall::Test, BeforeTest::Ask, BeforeTest::UndecidedClaimed, BeforeTest::Ask),
        (ClaimCall::Confirm(fence(3)), BeforeTest::Ask, lost, BeforeTest::Ask),
        (ClaimCall::Confirm(fence(4)), BeforeTest::Ask, BeforeTest::Record, BeforeTest::Record),
        (ClaimCall::Confirm(fence(5)), BeforeTest::Ask, BeforeTest::Ask, BeforeTest::Ask),
        (ClaimCall::Release(fence(3)), lost, lost, lost),
        (ClaimCall::Release(fence(4)), lost, BeforeTest::Release, lost),
        (ClaimCall::Release(fence(5)), lost, lost, lost),
    ] {
        let steps = [Holding::Free, held, expired].map(|holding| before_test(call, holding));
        assert_eq!(steps, [free, held_step, expired_step], "{call:?}");
    }
}

#[test]
fn fences_compare_as_their_bytes_do_and_end_where_numbers_do() {
    let parts = [0, 1, 255, 256, (1 << 24) - 1];
    let fences: Vec<Fence> = parts
        .into_iter()
        .flat_map(|epoch| parts.map(|incarnation| (epoch, incarnation)))
        .flat_map(|(epoch, incarnation)| {
            [0, 1, (1 << 40) - 1]
                .map(|count| Fence::new(FilterId(1), Epoch(epoch), Incarnation(incarnation), count).unwrap())
        })
        .collect();
    for pair in fences.windows(2) {
        assert!(pair[0] < pair[1] && pair[0].to_bytes() < pair[1].to_bytes(), "{pair:?}");
        assert_eq!(Fence::from_bytes(pair[0].to_bytes()), pair[0]);
    }
    assert_eq!(Fence::new(FilterId(1), Epoch(1), Incarnation(1 << 24), 0), None);
    assert_eq!(Fence::new(FilterId(1), Epoch(1), Incarnation(1), 1 << 40), None);
}

/// A head with one slice. It executes the steps that the claim table returns, on a set of recorded events without false
/// positives.
struct Head {
    table: ClaimTable,
    recorded: HashSet<u128>,
    counter: u64,
}

/// The reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    FirstSeen,
    Duplicate,
    Claimed(Fence),
    InProgress(u64),
    Undecided,
    Confirmed,
    Released,
    LeaseLost(Lost),
    NoRoom,
}

impl Head {
    fn call(&mut self, event: u128, call: ClaimCall, lease_ms: u64, now_ms: u64) -> Reply {
        match before_test(call, self.table.holding(event, MonotonicMs(now_ms))) {
            BeforeTest::Ask => self.ask(event, call, lease_ms, now_ms),
            BeforeTest::Record => self.record(event, Reply::Confirmed),
            BeforeTest::Claimed(fence) => Reply::Claimed(fence),
            BeforeTest::InProgress { left_ms } => Reply::InProgress(left_ms),
            BeforeTest::UndecidedClaimed => Reply::Undecided,
            BeforeTest::Release => {
                let ClaimCall::Release(fence) = call else { panic!("{call:?} releases nothing") };
                assert!(self.table.let_go(event, fence));
                Reply::Released
            }
            BeforeTest::LeaseLost(lost) => Reply::LeaseLost(lost),
        }
    }

    fn ask(&mut self, event: u128, call: ClaimCall, lease_ms: u64, now_ms: u64) -> Reply {
        let is_found = self.recorded.contains(&event);
        match call {
            ClaimCall::Claim { .. } | ClaimCall::Observe | ClaimCall::Test if is_found => Reply::Duplicate,
            ClaimCall::Confirm(_) if is_found => Reply::LeaseLost(Lost::Recorded),
            ClaimCall::Observe => self.record(event, Reply::FirstSeen),
            ClaimCall::Test => Reply::FirstSeen,
            ClaimCall::Confirm(_) => self.record(event, Reply::Confirmed),
            ClaimCall::Release(_) => panic!("{call:?} asks no slice"),
            ClaimCall::Claim { tag } => {
                let by = by(self.counter, tag);
                self.counter += 1;
                let has_room = self.table.hold(event, by, MonotonicMs(now_ms + lease_ms), MonotonicMs(now_ms));
                if has_room { Reply::Claimed(by.fence) } else { Reply::NoRoom }
            }
        }
    }

    fn record(&mut self, event: u128, reply: Reply) -> Reply {
        self.recorded.insert(event);
        self.table.forget(event);
        reply
    }
}

/// All grants of an event, and whether it was won.
#[derive(Default)]
struct History {
    /// Each grant's fence, tag and end of lease, oldest first. A release ends the lease.
    grants: Vec<(Fence, u64, u64)>,
    is_won: bool,
}

impl History {
    /// Returns the grant whose lease is still active.
    fn holder(&self, now_ms: u64) -> Option<(Fence, u64)> {
        let open = self.grants.iter().filter(|(.., until_ms)| *until_ms > now_ms);
        let holders: Vec<_> = open.map(|(fence, tag, _)| (*fence, *tag)).collect();
        assert!(holders.len() <= 1, "two hold an event: {holders:?}");
        holders.first().copied()
    }
}

/// Returns a random request. Its fence was granted for this event or for another one.
fn any_call(rng: &mut TestRng, history: &History) -> ClaimCall {
    let any = history.grants.get(rng.below(history.grants.len().max(1) as u64) as usize);
    let fence = match (any, rng.below(8)) {
        (Some((fence, ..)), 1..) => *fence,
        _ => fence(rng.below(1 << 20)),
    };
    match rng.below(10) {
        0..=4 => ClaimCall::Claim { tag: rng.below(6) },
        5 => ClaimCall::Observe,
        6 => ClaimCall::Test,
        7 | 8 => ClaimCall::Confirm(fence),
        _ => ClaimCall::Release(fence),
    }
}

fn check(history: &mut History, call: ClaimCall, reply: Reply, (lease_ms, now_ms): (u64, u64)) {
    let holder = history.holder(now_ms);
    match (reply, call) {
        (Reply::Claimed(fence), ClaimCall::Claim { tag }) => match holder {
            Some(held) => assert_eq!(held, (fence, tag), "who holds is told again, and nobody else"),
            None => {
                assert!(!history.is_won, "granted after it was recorded");
                let last = history.grants.last();
                assert!(last.is_none_or(|(last, ..)| *last < fence), "{fence:?} after {last:?}");
                history.grants.push((fence, tag, now_ms + lease_ms));
            }
        },
        (Reply::InProgress(left_ms), ClaimCall::Claim { tag }) => {
            assert!(holder.is_some_and(|(_, by)| by != tag) && (1..=LEASE_MAX_MS).contains(&left_ms));
        }
        (Reply::Undecided, ClaimCall::Observe | ClaimCall::Test) => assert!(holder.is_some()),
        (Reply::FirstSeen, ClaimCall::Observe) | (Reply::Confirmed, ClaimCall::Confirm(_)) => {
            assert!(!history.is_won, "two have won");
            let is_holder = matches!((call, holder), (ClaimCall::Confirm(fence), Some((held, _))) if held == fence);
            let is_later = matches!((call, holder), (ClaimCall::Confirm(fence), Some((held, _))) if held < fence);
            assert!(holder.is_none() || is_holder || is_later, "{call:?} won beside {holder:?}");
            history.is_won = true;
            history.grants.iter_mut().for_each(|(.., until_ms)| *until_ms = 0);
        }
        (Reply::FirstSeen, ClaimCall::Test) => assert!(!history.is_won),
        (Reply::Duplicate, _) | (Reply::LeaseLost(Lost::Recorded), ClaimCall::Confirm(_)) => {
            assert!(history.is_won, "only what is recorded makes a duplicate");
        }
        (Reply::LeaseLost(Lost::NotHeld), ClaimCall::Confirm(fence)) => {
            assert!(holder.is_some_and(|(held, _)| held > fence), "lost to nobody");
        }
        (Reply::Released, ClaimCall::Release(fence)) => {
            assert_eq!(holder.map(|(held, _)| held), Some(fence));
            history.grants.iter_mut().for_each(|(.., until_ms)| *until_ms = (*until_ms).min(now_ms));
        }
        (Reply::LeaseLost(Lost::NotHeld), ClaimCall::Release(fence)) => {
            assert_ne!(holder.map(|(held, _)| held), Some(fence));
        }
        (Reply::NoRoom, ClaimCall::Claim { .. }) => {}
        (reply, call) => panic!("{call:?} was answered {reply:?}"),
    }
}

fn keeps_the_laws(operations: u64, entries_max: u64) -> u64 {
    let mut rng = TestRng(entries_max);
    let table = ClaimTable::new(entries_max * ClaimTable::ENTRY_BYTES_MAX, LEASE_MAX_MS);
    let mut head = Head { table, recorded: HashSet::new(), counter: 0 };
    let (mut histories, mut now_ms, mut refused) = (HashMap::<u128, History>::new(), 0, 0);
    for operation in 0..operations {
        now_ms += rng.below(8);
        // After some operations, other events are used.
        let event = u128::from(operation / 2_000 * EVENTS + rng.below(EVENTS)) << 64 | 1;
        let history = histories.entry(event).or_default();
        let (call, lease_ms) = (any_call(&mut rng, history), 1 + rng.below(LEASE_MAX_MS));
        let reply = head.call(event, call, lease_ms, now_ms);
        check(history, call, reply, (lease_ms, now_ms));
        refused += u64::from(reply == Reply::NoRoom);
        match rng.below(400) {
            0 => {
                head.table.drop_expired(MonotonicMs(now_ms));
                assert_eq!(
                    head.table.len(),
                    head.table.held(MonotonicMs(now_ms)),
                    "what is held stays, and nothing else"
                );
            }
            1..5 => head.table.pass(MonotonicMs(now_ms)),
            _ => {}
        }
        assert!(head.table.len() as u64 <= entries_max);
        assert!(head.table.bytes() <= entries_max * ClaimTable::ENTRY_BYTES_MAX + 4096, "{}", head.table.bytes());
        // Histories of events that are no longer used are dropped.
        if operation % 2_000 == 0 {
            let oldest = u128::from((operation / 2_000).saturating_sub(1) * EVENTS) << 64;
            histories.retain(|event, _| *event >= oldest);
        }
    }
    refused
}

#[test]
fn a_million_random_calls_keep_the_laws() {
    assert_eq!(keeps_the_laws(500_000, 4 * EVENTS * 1000), 0, "refused where there is room");
    assert!(keeps_the_laws(500_000, 12) > 0, "never full");
}

#[test]
fn a_pending_claim_takes_what_pages_say() {
    let mut table = ClaimTable::new(u64::MAX, LEASE_MAX_MS);
    for event in 0..300_000u64 {
        assert!(table.hold(u128::from(event) << 40, by(event, event), MonotonicMs(10), MonotonicMs::START));
        let bytes_max = (event + 1) * ClaimTable::ENTRY_BYTES_MAX;
        assert!(event < 1_000 || table.bytes() <= bytes_max, "{} bytes of {event} claims", table.bytes());
    }
    // The value is documented in docs/how-to/claims.md and docs/reference/redis.md.
    const { assert!(ClaimTable::ENTRY_BYTES_MAX == 75) };
}

/// Memory that many claims took is released when the claims have ended.
#[test]
fn a_table_shrinks_when_its_claims_are_over() {
    let mut table = ClaimTable::new(u64::MAX, LEASE_MAX_MS);
    for event in 0..300_000u64 {
        assert!(table.hold(u128::from(event) << 40, by(event, event), MonotonicMs(10), MonotonicMs::START));
    }
    let most_bytes = table.bytes();
    assert_eq!((table.held(MonotonicMs(9)), table.held(MonotonicMs(10))), (300_000, 0));
    (0..200).for_each(|_| table.pass(MonotonicMs(10 + LEASE_MAX_MS)));
    assert!(table.is_empty() && table.bytes() * 50 < most_bytes, "{} claims, {} bytes", table.len(), table.bytes());
}
