//! Confirms claims on behalf of Redis clients that only send `SET NX` and never confirm a claim themselves. The
//! endpoint confirms such a claim shortly before its lease ends, unless the client has released the claim.
//!
//! - The queue of pending claims uses bounded memory.
//! - An event is confirmed before its lease ends, provided that its nodes answer.
//! - A released claim is never confirmed, and neither is a claim whose owner has lost the right to record.
//! - When the node stops, all pending claims are confirmed at once. When the node crashes, they are lost, and their
//!   events are new to the next client.
//!
//! This module does not depend on connections.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_backend::{ClientSession, EventCall, EventOperation, Filters, KeptTtl};
use firstseen_client::Verdict;
use firstseen_resp::ITEMS_MAX;
use firstseen_routing::{Fence, Reason};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::counts::RedisEndpointCounts;
use crate::own_claims::key;

/// Maximum size of all pending events in bytes, and the additional memory for each entry.
const WAITING_BYTES_MAX: usize = 64 << 20;
const ENTRY_BYTES: usize = 200;
/// Period within which due events are confirmed together.
const ROUND: Duration = Duration::from_millis(50);
/// Number of concurrent calls at which no further calls begin. Calls that are due at the same time may exceed the
/// limit.
const CALLS_MAX: usize = 256;
/// Delay before a confirmation with an unknown outcome is retried, and the maximum number of retries.
const AGAIN: Duration = Duration::from_secs(1);
const TRIES_MAX: u32 = 10;

/// Event that waits to be confirmed.
pub(crate) struct Claimed {
    pub(crate) filter: Arc<str>,
    pub(crate) item: Box<[u8]>,
    /// Time at which the event occurred, in milliseconds since 1970, and the same time by the monotonic clock of this
    /// machine.
    pub(crate) at_ms: u64,
    pub(crate) asked_at: Instant,
    /// Time to live of the event, counted from `at_ms`. `None` means the filter's window.
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) fence: Fence,
    /// Client that claimed the event. The confirmation needs the rights that this client has at that time.
    pub(crate) client_session: Arc<dyn ClientSession>,
}

impl Claimed {
    /// Returns the remaining time to live in milliseconds, or `None` if the event is remembered for the filter's
    /// window.
    fn ttl_left_ms(&self, now: Instant) -> Option<u64> {
        self.ttl_ms.map(|ttl_ms| ttl_ms.saturating_sub(self.elapsed_ms(now)))
    }

    /// Returns the start of the time for which the nodes remember a confirmed event. Usually this is the time at which
    /// the event occurred.
    ///
    /// If the event has its own time to live, the start is the current time instead. The reason is that the
    /// confirmation contains only the part of the time to live that remains now. For example, if a client sets a key
    /// for 60 s and the endpoint confirms it 10 s later, the confirmation requests 50 s from now.
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

/// Queue of events that are confirmed when they are due.
pub(crate) struct Confirmer {
    waiting: Mutex<Waiting>,
    has_come: Notify,
    counts: Arc<RedisEndpointCounts>,
}

/// Hash of an event together with the fence of its grant, which identifies a grant. The fence alone is not sufficient.
/// Each head node (the node that decides an event) numbers its grants separately, so two grants for events of different
/// head nodes may have the same fence.
type Grant = (u128, Fence);

#[derive(Default)]
struct Waiting {
    claims: HashMap<Grant, Due>,
    order: BTreeSet<(Instant, Grant)>,
    /// Number of claims whose confirmations are in flight. These claims are not in `claims`.
    under_way: usize,
    /// Size of all claims in bytes, including those whose confirmations are in flight.
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

    /// Makes all claims that have not been tried yet due at `now`.
    fn make_all_due(&mut self, now: Instant) {
        for (grant, due) in self.claims.iter_mut().filter(|(_, due)| due.tries == 0 && due.at > now) {
            self.order.remove(&(due.at, *grant));
            due.at = now;
            self.order.insert((now, *grant));
        }
    }

    /// Removes the claims that are due at `until`, and returns them by filter. The function returns at most
    /// [`ITEMS_MAX`] claims, those that are due earliest. The returned claims still occupy memory while they are being
    /// confirmed, so they count towards the memory limit until [`Self::end`] is called.
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

    /// Notes that the confirmations of these claims have ended.
    fn end(&mut self, claims: usize, bytes: usize) {
        self.under_way -= claims;
        self.bytes -= bytes;
    }

    /// Returns the number of claims that are not confirmed yet.
    fn len(&self) -> usize {
        self.claims.len() + self.under_way
    }
}

impl Confirmer {
    pub(crate) fn new(counts: Arc<RedisEndpointCounts>) -> Self {
        Self { waiting: Mutex::default(), has_come: Notify::new(), counts }
    }

    /// Adds an event that is to be confirmed at `at`. Returns `false` if the queue is full.
    pub(crate) fn add(&self, claimed: Claimed, at: Instant) -> bool {
        let is_added = self.change(|waiting| waiting.add(Due { at, tries: 0, claimed }));
        self.has_come.notify_one();
        self.counts.unconfirmed.fetch_add(u64::from(!is_added), Ordering::Relaxed);
        is_added
    }

    /// Changes the time to live of an event that waits for its confirmation. When the endpoint confirms the event, the
    /// filter will remember it until `ttl_ms` milliseconds after `now`. If `ttl_ms` is `None`, the filter will remember
    /// it for the filter's window. Returns `false` if this queue does not contain the event.
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

    /// Removes a pending event, which then is not confirmed here.
    pub(crate) fn cancel(&self, filter: &str, item: &[u8], fence: Fence) {
        self.change(|waiting| waiting.remove((key(filter, item), fence)));
    }

    /// Confirms each claim when it is due, until `stop` is cancelled. During shutdown the function confirms all
    /// remaining claims at once, so that no event is lost. It returns when all claims are confirmed and all connections
    /// have ended.
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
            // A call to unreachable nodes takes a second. Claims that become due in the meantime must not wait for it,
            // because their leases would end.
            while under_way.len() < CALLS_MAX {
                let now = Instant::now();
                let due = self.change(|waiting| {
                    if is_stopping {
                        waiting.make_all_due(now);
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
        // Claims that are retried are added in the same step in which the old ones end. A task that waits for an empty
        // queue must not find it empty in between.
        let without_room = self.change(|waiting| {
            waiting.end(claims, bytes);
            let again = again.into_iter().map(|due| Due { at, tries: due.tries + 1, claimed: due.claimed });
            again.map(|due| waiting.add(due)).filter(|is_added| !is_added).count()
        });
        self.count_lost(&filter, given_up.len(), "its nodes have not confirmed them within ten tries");
        self.count_lost(&filter, without_room, "too many claims wait");
    }

    /// Counts claims of a filter that could not be confirmed, and logs the reason.
    fn count_lost(&self, filter: &str, claims: usize, why: impl Display) {
        if claims > 0 {
            self.counts.unconfirmed.fetch_add(claims as u64, Ordering::Relaxed);
            tracing::warn!(filter, claims, "claims are not confirmed: {why}");
        }
    }

    /// Sends confirmations. Returns the claims whose outcome is unknown.
    async fn undecided(&self, filters: &Filters, filter: &Arc<str>, mut due: Vec<Due>) -> Vec<Due> {
        // The filter may have been dropped and created again under the same name. The new filter would refuse the
        // claims of the old one, and with them the whole call.
        if let Ok(present) = filters.get(filter).await {
            let count = due.len();
            due.retain(|due| present.info().granted_by.contains(&due.claimed.fence.filter()));
            self.count_lost(filter, count - due.len(), "they are of a former filter of this name");
        }
        self.drop_forbidden(filter, &mut due);
        if due.is_empty() {
            return due;
        }
        let mut by_ttl: BTreeMap<Option<u64>, Vec<Due>> = BTreeMap::new();
        for due in due {
            match due.claimed.ttl_left_ms(Instant::now()) {
                // The time to live has ended, so the key is free whether or not it is recorded.
                Some(0) => {}
                Some(left_ms) => by_ttl.entry(ttl_for(filters, filter, left_ms).await).or_default().push(due),
                None => by_ttl.entry(None).or_default().push(due),
            }
        }
        let calls = by_ttl.into_iter().map(|(ttl_ms, due)| self.unanswered(filters, filter, due, ttl_ms));
        join_all(calls).await.into_iter().flatten().collect()
    }

    /// Sends the confirmations of events that have the same time to live. Returns the claims whose outcome is unknown.
    async fn unanswered(
        &self,
        filters: &Filters,
        filter: &Arc<str>,
        mut due: Vec<Due>,
        ttl_ms: Option<u64>,
    ) -> Vec<Due> {
        let now = Instant::now();
        // All events of a call share one time. The latest of their times keeps them in the window for the longest.
        let at_ms = due.iter().map(|due| due.claimed.counts_from_ms(now)).max().unwrap_or_default();
        let items: Vec<&[u8]> = due.iter().map(|due| &*due.claimed.item).collect();
        let fences: Vec<Fence> = due.iter().map(|due| due.claimed.fence).collect();
        let asked = EventCall { fences: &fences, ttl_ms, ..EventCall::new(&items, EventOperation::Confirm, Ok(at_ms)) };
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
        refused.into_iter().for_each(|(reason, claims)| self.count_lost(filter, claims, format_args!("{reason:?}")));
        due
    }

    /// Removes the claims of clients that no longer have the right to record.
    fn drop_forbidden(&self, filter: &Arc<str>, due: &mut Vec<Due>) {
        let count = due.len();
        // Many claims belong to the same client. The result is cached, because each refusal is written to the audit
        // log.
        let mut allowed: HashMap<*const (), bool> = HashMap::new();
        due.retain(|due| {
            let client_session = &due.claimed.client_session;
            let known = allowed.entry(Arc::as_ptr(client_session).cast());
            *known.or_insert_with(|| client_session.may_confirm(filter).is_ok())
        });
        self.count_lost(filter, count - due.len(), "the right to record was revoked");
    }

    fn change<Answer>(&self, change: impl FnOnce(&mut Waiting) -> Answer) -> Answer {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut waiting);
        self.counts.confirms_waiting.store(waiting.len() as u64, Ordering::Relaxed);
        answer
    }
}

/// Returns the time to live that the endpoint requests when it confirms an event. `left_ms` is the remaining time to
/// live of the event in milliseconds. The filter measures time in ticks, so the result is `left_ms` rounded up to whole
/// ticks.
///
/// The result is `None` if the filter must remember the event for its window instead. This is the case if the window is
/// at most two ticks longer than the remaining time, or if the filter cannot apply the time to live.
async fn ttl_for(filters: &Filters, filter: &Arc<str>, left_ms: u64) -> Option<u64> {
    match filters.kept_ttl(filter, left_ms).await {
        Ok(KeptTtl::Ms(ttl_ms)) => Some(ttl_ms),
        Ok(KeptTtl::Window) => None,
        Ok(KeptTtl::Refused(reason)) => {
            tracing::warn!(filter = &**filter, reason, "the filter was altered: keys are remembered for its window");
            None
        }
        // The filter cannot be reached at the moment, so the remaining time is used unchanged.
        Err(_) => Some(left_ms),
    }
}

/// Returns whether a retry would get the same verdict. A retry can help if nodes were unreachable.
fn is_final(reason: Reason) -> bool {
    !reason.is_outage() && !reason.may_have_recorded() && !reason.is_worth_retrying()
}

#[cfg(test)]
mod tests {
    use firstseen_backend::{NewFilter, OperationFuture, Refused};
    use firstseen_routing::{Epoch, FilterId, FilterVerb, Incarnation};

    use super::*;

    /// Client that has the right to record, or has lost it.
    struct TestUser {
        may: bool,
    }

    impl ClientSession for TestUser {
        fn requires_authentication(&self) -> bool {
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

        fn make<'a>(&'a self, _new: NewFilter<'a>) -> OperationFuture<'a> {
            Box::pin(async { Ok(()) })
        }

        fn drop_filter<'a>(&'a self, _name: &'a str) -> OperationFuture<'a> {
            Box::pin(async { Ok(()) })
        }
    }

    fn fence(number: u64) -> Fence {
        Fence::new(FilterId(1), Epoch(1), Incarnation(1), number).unwrap()
    }

    /// Returns a claim that is due now, for an event with this number.
    fn due(number: u64, client_session: &Arc<dyn ClientSession>) -> Due {
        let claimed = Claimed { client_session: client_session.clone(), ..claimed("f", &[number as u8], number) };
        Due { at: Instant::now(), tries: 0, claimed }
    }

    /// Returns a claim of `item` whose fence has this number.
    fn claimed(filter: &str, item: &[u8], number: u64) -> Claimed {
        Claimed {
            filter: filter.into(),
            item: item.into(),
            at_ms: 0,
            asked_at: Instant::now(),
            ttl_ms: None,
            fence: fence(number),
            client_session: Arc::new(TestUser { may: true }),
        }
    }

    /// Regression test for an event that was recorded without the necessary right. A client claimed the event with `SET
    /// NX`, and an administrator revoked the client's right before the lease ended. When the endpoint confirmed the
    /// claim, it checked the rights of its own node instead of the client's rights. It therefore recorded the event
    /// although the client was no longer allowed to.
    #[test]
    fn claims_of_a_client_that_lost_its_right_are_not_confirmed() {
        let counts = Arc::new(RedisEndpointCounts::new());
        let confirmer = Confirmer::new(counts.clone());
        let allowed: Arc<dyn ClientSession> = Arc::new(TestUser { may: true });
        let revoked: Arc<dyn ClientSession> = Arc::new(TestUser { may: false });
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
        // Heads of different slices can grant equal fences.
        for item in [7, 8] {
            assert!(waiting.add(Due { at: now, tries: 0, claimed: claimed("f", &[item], 9) }));
        }
        assert_eq!(take(&mut waiting, 0), [fence(9), fence(9)]);
        assert!(waiting.bytes == 0 && waiting.order.is_empty());
    }
}
