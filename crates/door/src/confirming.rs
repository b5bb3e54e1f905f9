//! Confirms the claims of clients that do not know claims: each one that is not released, shortly before its lease ends.
//!
//! Promises: memory is bounded; an event is confirmed before its lease ends, as long as its nodes answer; released
//! claims, and claims whose owner may no longer record, are never confirmed. When the node stops, all claims that wait are confirmed at
//! once. When it crashes, they are lost, and their events are new to the next client. This module must not depend on connections.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_backend::{Act, Asked, Filters, Guest, KeptTtl};
use firstseen_client::Verdict;
use firstseen_resp::ITEMS_MAX;
use firstseen_routing::{Fence, Reason};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::counts::DoorCounts;
use crate::own_claims::key;

/// Greatest number of bytes of pending events, and what each takes in addition to its own.
const WAITING_BYTES_MAX: usize = 64 << 20;
const ENTRY_BYTES: usize = 200;
/// Events that are due within this time are confirmed together.
const ROUND: Duration = Duration::from_millis(50);
/// No more calls are begun while this many are under way; those that are due together may exceed it.
const CALLS_MAX: usize = 256;
/// The pause before a confirm with an unknown outcome is sent again, and the number of tries.
const AGAIN: Duration = Duration::from_secs(1);
const TRIES_MAX: u32 = 10;

/// An event that is to be confirmed.
pub(crate) struct Claimed {
    pub(crate) filter: Arc<str>,
    pub(crate) item: Box<[u8]>,
    /// When it occurred, in milliseconds since 1970, and by this machine's monotonic clock.
    pub(crate) at_ms: u64,
    pub(crate) asked_at: Instant,
    /// Its time to live, counted from `at_ms`. `None` means the window.
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) fence: Fence,
    /// The client that claimed it, whose rights count when it is confirmed.
    pub(crate) guest: Arc<dyn Guest>,
}

impl Claimed {
    /// Returns the rest of its time to live in milliseconds, or `None` if it is remembered for the window.
    fn ttl_left_ms(&self, now: Instant) -> Option<u64> {
        self.ttl_ms.map(|ttl_ms| ttl_ms.saturating_sub(self.elapsed_ms(now)))
    }

    /// Returns the time from which nodes count: now for the rest of a time to live, the event's own time for the window.
    fn counts_from_ms(&self, now: Instant) -> u64 {
        match self.ttl_ms {
            Some(_) => self.at_ms.saturating_add(self.elapsed_ms(now)),
            None => self.at_ms,
        }
    }

    fn elapsed_ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.asked_at).as_millis()).unwrap_or(u64::MAX)
    }

    fn grant(&self) -> Grant {
        (key(&self.filter, &self.item), self.fence)
    }
}

/// The events that are confirmed when their time has come.
pub(crate) struct Confirmer {
    waiting: Mutex<Waiting>,
    has_come: Notify,
    counts: Arc<DoorCounts>,
}

/// An event, and the fence of its grant. Heads count their grants apart, so events of several heads may have the same fence.
type Grant = (u128, Fence);

#[derive(Default)]
struct Waiting {
    claims: HashMap<Grant, Due>,
    order: BTreeSet<(Instant, Grant)>,
    /// Claims whose confirms are under way, which are not in `claims`.
    under_way: usize,
    /// Bytes of all claims, including those whose confirms are under way.
    bytes: usize,
}

struct Due {
    at: Instant,
    tries: u32,
    claimed: Claimed,
}

impl Due {
    fn bytes(&self) -> usize {
        self.claimed.item.len() + ENTRY_BYTES
    }
}

impl Waiting {
    fn add(&mut self, due: Due) -> bool {
        let bytes = due.bytes();
        if self.bytes + bytes > WAITING_BYTES_MAX {
            return false;
        }
        let grant = due.claimed.grant();
        self.remove(grant);
        self.bytes += bytes;
        self.order.insert((due.at, grant));
        self.claims.insert(grant, due);
        true
    }

    fn remove(&mut self, grant: Grant) -> Option<Due> {
        let due = self.claims.remove(&grant)?;
        self.order.remove(&(due.at, grant));
        self.bytes -= due.bytes();
        Some(due)
    }

    /// Makes all claims due at `now` that have not been tried yet.
    fn hasten(&mut self, now: Instant) {
        for (grant, due) in self.claims.iter_mut().filter(|(_, due)| due.tries == 0 && due.at > now) {
            self.order.remove(&(due.at, *grant));
            due.at = now;
            self.order.insert((now, *grant));
        }
    }

    /// Removes the claims that are due at `until`, the earliest first and [`ITEMS_MAX`] at most, and returns them by filter. Their
    /// bytes stay counted until [`Self::end`].
    fn take_due(&mut self, until: Instant) -> BTreeMap<Arc<str>, Vec<Due>> {
        let mut taken: BTreeMap<Arc<str>, Vec<Due>> = BTreeMap::new();
        for _ in 0..ITEMS_MAX {
            if self.order.first().is_none_or(|(at, _)| *at > until) {
                break;
            }
            let Some((_, grant)) = self.order.pop_first() else { break };
            if let Some(due) = self.remove(grant) {
                self.bytes += due.bytes();
                self.under_way += 1;
                taken.entry(due.claimed.filter.clone()).or_default().push(due);
            }
        }
        taken
    }

    /// Notes that the confirms of these claims have ended.
    fn end(&mut self, claims: usize, bytes: usize) {
        self.under_way -= claims;
        self.bytes -= bytes;
    }

    /// The number of claims that are not confirmed yet.
    fn len(&self) -> usize {
        self.claims.len() + self.under_way
    }
}

impl Confirmer {
    pub(crate) fn new(counts: Arc<DoorCounts>) -> Self {
        Self { waiting: Mutex::default(), has_come: Notify::new(), counts }
    }

    /// Adds an event that is to be confirmed at `at`. Returns false if there is no room.
    pub(crate) fn add(&self, claimed: Claimed, at: Instant) -> bool {
        let is_added = self.change(|waiting| waiting.add(Due { at, tries: 0, claimed }));
        self.has_come.notify_one();
        self.counts.unconfirmed.fetch_add(u64::from(!is_added), Ordering::Relaxed);
        is_added
    }

    /// Gives a pending event the time to live `ttl_ms` from `now` on; `None` means the window. Returns false if it is not pending.
    pub(crate) fn set_ttl(&self, filter: &str, item: &[u8], fence: Fence, now: Instant, ttl_ms: Option<u64>) -> bool {
        self.change(|waiting| {
            let Some(due) = waiting.claims.get_mut(&(key(filter, item), fence)) else { return false };
            let claimed = &mut due.claimed;
            claimed.at_ms = claimed.at_ms.saturating_add(claimed.elapsed_ms(now));
            claimed.asked_at = now;
            claimed.ttl_ms = ttl_ms;
            true
        })
    }

    /// Removes a pending event, which is not to be confirmed here.
    pub(crate) fn cancel(&self, filter: &str, item: &[u8], fence: Fence) {
        self.change(|waiting| waiting.remove((key(filter, item), fence)));
    }

    /// Confirms claims when they are due until `stop` is cancelled. Then it confirms all claims at once, and returns when no claims
    /// and no connections are left.
    pub(crate) async fn run(&self, filters: &Filters, stop: &CancellationToken) {
        let mut under_way = FuturesUnordered::new();
        loop {
            let waits = !under_way.is_empty() || self.change(|waiting| !waiting.order.is_empty());
            let is_stopping = stop.is_cancelled();
            if is_stopping && !waits && self.counts.open() == 0 {
                return;
            }
            if !is_stopping && !waits {
                stop.run_until_cancelled(self.has_come.notified()).await;
            }
            let answers = async {
                while under_way.next().await.is_some() {}
                std::future::pending::<()>().await;
            };
            let _ = timeout(ROUND, answers).await;
            // A call whose nodes are away takes a second: what comes due meanwhile goes ahead of its answer, or leases would end.
            while under_way.len() < CALLS_MAX {
                let now = Instant::now();
                let due = self.change(|waiting| {
                    if is_stopping {
                        waiting.hasten(now);
                    }
                    waiting.take_due(now)
                });
                if due.is_empty() {
                    break;
                }
                under_way.extend(due.into_iter().map(|(filter, due)| self.confirm(filters, filter, due)));
            }
        }
    }

    async fn confirm(&self, filters: &Filters, filter: Arc<str>, due: Vec<Due>) {
        let claims = due.len();
        let bytes = due.iter().map(Due::bytes).sum();
        let undecided = self.undecided(filters, &filter, due).await;
        let at = Instant::now() + AGAIN;
        let (again, given_up): (Vec<Due>, Vec<Due>) = undecided.into_iter().partition(|due| due.tries < TRIES_MAX);
        // Who waits until nothing is left must not find nothing in between.
        let without_room = self.change(|waiting| {
            waiting.end(claims, bytes);
            let again = again.into_iter().map(|due| Due { at, tries: due.tries + 1, claimed: due.claimed });
            again.map(|due| waiting.add(due)).filter(|is_added| !is_added).count()
        });
        self.lose(&filter, given_up.len(), "its nodes have not confirmed them within ten tries");
        self.lose(&filter, without_room, "too many claims wait");
    }

    /// Counts claims of a filter that are not confirmed, and says why.
    fn lose(&self, filter: &str, claims: usize, why: impl Display) {
        if claims > 0 {
            self.counts.unconfirmed.fetch_add(claims as u64, Ordering::Relaxed);
            tracing::warn!(filter, claims, "claims are not confirmed: {why}");
        }
    }

    /// Sends confirms. Returns those whose outcome is unknown.
    async fn undecided(&self, filters: &Filters, filter: &Arc<str>, mut due: Vec<Due>) -> Vec<Due> {
        // A filter that was made anew under this name would refuse the former's claims, and the others with them.
        if let Ok(present) = filters.get(filter).await {
            let count = due.len();
            due.retain(|due| present.info().granted_by.contains(&due.claimed.fence.filter()));
            self.lose(filter, count - due.len(), "they are of a former filter of this name");
        }
        self.drop_forbidden(filter, &mut due);
        if due.is_empty() {
            return due;
        }
        let mut by_ttl: BTreeMap<Option<u64>, Vec<Due>> = BTreeMap::new();
        for due in due {
            match due.claimed.ttl_left_ms(Instant::now()) {
                // Its time is over: the key is free, whether it is recorded or not.
                Some(0) => {}
                Some(left_ms) => by_ttl.entry(ttl_for(filters, filter, left_ms).await).or_default().push(due),
                None => by_ttl.entry(None).or_default().push(due),
            }
        }
        let calls = by_ttl.into_iter().map(|(ttl_ms, due)| self.unanswered(filters, filter, due, ttl_ms));
        join_all(calls).await.into_iter().flatten().collect()
    }

    /// Sends the confirms of events that have the same time to live. Returns those whose outcome is unknown.
    async fn unanswered(
        &self,
        filters: &Filters,
        filter: &Arc<str>,
        mut due: Vec<Due>,
        ttl_ms: Option<u64>,
    ) -> Vec<Due> {
        let now = Instant::now();
        // All events of a call have one time: that of the latest is in the window for the longest.
        let at_ms = due.iter().map(|due| due.claimed.counts_from_ms(now)).max().unwrap_or_default();
        let items: Vec<&[u8]> = due.iter().map(|due| &*due.claimed.item).collect();
        let fences: Vec<Fence> = due.iter().map(|due| due.claimed.fence).collect();
        let asked = Asked { fences: &fences, ttl_ms, ..Asked::new(&items, Act::Confirm, Ok(at_ms)) };
        let verdicts = filters.ask(filter, &asked, None).await.map(|answers| answers.verdicts).unwrap_or_default();
        let mut verdicts = verdicts.into_iter();
        let mut refused: BTreeMap<Reason, usize> = BTreeMap::new();
        due.retain(|_| match verdicts.next() {
            Some(Verdict::FirstSeen | Verdict::Duplicate) => false,
            Some(Verdict::Undecided(reason)) if is_final(reason) => {
                *refused.entry(reason).or_default() += 1;
                false
            }
            _ => true,
        });
        refused.into_iter().for_each(|(reason, claims)| self.lose(filter, claims, format_args!("{reason:?}")));
        due
    }

    /// Removes the claims of clients that have lost the right to record meanwhile.
    fn drop_forbidden(&self, filter: &Arc<str>, due: &mut Vec<Due>) {
        let count = due.len();
        // Many claims are of one client, and each refusal is written to the audit log.
        let mut allowed: HashMap<*const (), bool> = HashMap::new();
        due.retain(|due| {
            let guest = &due.claimed.guest;
            let known = allowed.entry(Arc::as_ptr(guest).cast());
            *known.or_insert_with(|| guest.may_confirm(filter).is_ok())
        });
        self.lose(filter, count - due.len(), "the right to record was revoked");
    }

    fn change<Answer>(&self, change: impl FnOnce(&mut Waiting) -> Answer) -> Answer {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut waiting);
        self.counts.confirms_waiting.store(waiting.len() as u64, Ordering::Relaxed);
        answer
    }
}

/// Returns the time to live for an event with `left_ms` left of it, or `None` if it is remembered for the window.
async fn ttl_for(filters: &Filters, filter: &Arc<str>, left_ms: u64) -> Option<u64> {
    match filters.kept_ttl(filter, left_ms).await {
        Ok(KeptTtl::Ms(ttl_ms)) => Some(ttl_ms),
        Ok(KeptTtl::Window) => None,
        Ok(KeptTtl::Refused(reason)) => {
            tracing::warn!(filter = &**filter, reason, "the filter was altered: keys are remembered for its window");
            None
        }
        // The filter cannot be asked now, either.
        Err(_) => Some(left_ms),
    }
}

/// Whether another try would get the same verdict. Nodes that are away may be back by then.
fn is_final(reason: Reason) -> bool {
    !reason.is_outage() && !reason.may_have_recorded() && !reason.is_worth_retrying()
}

#[cfg(test)]
mod tests {
    use firstseen_backend::{Making, NewFilter, Refused};
    use firstseen_routing::{Epoch, FilterId, FilterVerb, Incarnation};

    use super::*;

    /// A client that has the right to record, or has lost it.
    struct Somebody {
        may: bool,
    }

    impl Guest for Somebody {
        fn must_say_who(&self) -> bool {
            false
        }

        fn may(&self, _verb: FilterVerb, _filter: &str, _events: u32) -> Result<(), Refused> {
            Ok(())
        }

        fn may_confirm(&self, _filter: &str) -> Result<(), Refused> {
            if self.may { Ok(()) } else { Err(Refused::Forbidden("observe".to_owned())) }
        }

        fn sees(&self, _filter: &str) -> bool {
            true
        }

        fn make<'a>(&'a self, _new: NewFilter<'a>) -> Making<'a> {
            Box::pin(async { Ok(()) })
        }

        fn drop_filter<'a>(&'a self, _name: &'a str) -> Making<'a> {
            Box::pin(async { Ok(()) })
        }
    }

    fn fence(number: u64) -> Fence {
        Fence::new(FilterId(1), Epoch(1), Incarnation(1), number).unwrap()
    }

    /// A claim of an event with this number that is due now.
    fn due(number: u64, guest: &Arc<dyn Guest>) -> Due {
        let claimed = Claimed { guest: guest.clone(), ..claimed("f", &[number as u8], number) };
        Due { at: Instant::now(), tries: 0, claimed }
    }

    /// A claim of `item`, by the fence of this number.
    fn claimed(filter: &str, item: &[u8], number: u64) -> Claimed {
        Claimed {
            filter: filter.into(),
            item: item.into(),
            at_ms: 0,
            asked_at: Instant::now(),
            ttl_ms: None,
            fence: fence(number),
            guest: Arc::new(Somebody { may: true }),
        }
    }

    /// Regression test. A client claimed an event by `SET NX`, and its right was revoked before the lease ended. The door recorded the
    /// event all the same, because it used the rights of the node.
    #[test]
    fn claims_of_a_client_that_lost_its_right_are_not_confirmed() {
        let counts = Arc::new(DoorCounts::new());
        let confirmer = Confirmer::new(counts.clone());
        let allowed: Arc<dyn Guest> = Arc::new(Somebody { may: true });
        let revoked: Arc<dyn Guest> = Arc::new(Somebody { may: false });
        let mut claims = vec![due(1, &allowed), due(2, &revoked), due(3, &allowed), due(4, &revoked)];
        confirmer.drop_forbidden(&"f".into(), &mut claims);
        let left: Vec<Fence> = claims.iter().map(|due| due.claimed.fence).collect();
        assert_eq!((left, counts.unconfirmed()), (vec![fence(1), fence(3)], 2));
    }

    #[test]
    fn what_is_due_leaves_by_filter_and_what_was_let_go_does_not() {
        let now = Instant::now();
        let add = |waiting: &mut Waiting, number: u64, filter: &str, after_s: u64, bytes: usize| {
            let claimed = claimed(filter, &vec![number as u8; bytes], number);
            waiting.add(Due { at: now + Duration::from_secs(after_s), tries: 0, claimed })
        };
        let mut waiting = Waiting::default();
        for (number, filter, after_s) in [(1, "f", 3), (2, "f", 1), (3, "f", 2), (4, "g", 2), (5, "g", 9)] {
            assert!(add(&mut waiting, number, filter, after_s, 5));
        }
        let grant = |number: u64, filter| (key(filter, &[number as u8; 5]), fence(number));
        assert!(waiting.remove(grant(3, "g")).is_none(), "of another filter");
        assert!(waiting.remove(grant(3, "f")).is_some() && waiting.remove(grant(3, "f")).is_none());
        let take = |waiting: &mut Waiting, after_s| -> Vec<Fence> {
            let due = waiting.take_due(now + Duration::from_secs(after_s));
            let claims = due.values().flatten().count();
            let bytes = due.values().flatten().map(Due::bytes).sum();
            assert!(waiting.bytes >= bytes && waiting.under_way == claims, "what is under way takes room");
            waiting.end(claims, bytes);
            due.values().flatten().map(|due| due.claimed.fence).collect()
        };
        assert_eq!(take(&mut waiting, 0), []);
        assert_eq!(take(&mut waiting, 1), [fence(2)]);
        assert_eq!(take(&mut waiting, 3), [fence(1), fence(4)]);
        assert_eq!((take(&mut waiting, 3), waiting.claims.len()), (vec![], 1));
        assert!(!add(&mut waiting, 6, "f", 1, WAITING_BYTES_MAX) && waiting.claims.len() == 1);
        assert!(waiting.remove(grant(5, "g")).is_some() && waiting.bytes == 0 && waiting.order.is_empty());
        // Heads of different slices give the same fences.
        for item in [7, 8] {
            assert!(waiting.add(Due { at: now, tries: 0, claimed: claimed("f", &[item], 9) }));
        }
        assert_eq!(take(&mut waiting, 0), [fence(9), fence(9)]);
        assert!(waiting.bytes == 0 && waiting.order.is_empty());
    }
}
