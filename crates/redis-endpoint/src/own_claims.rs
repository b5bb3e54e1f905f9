//! Remembers the claims of one connection with their fences, so that Redis clients need not send fences.
//!
//! The memory for the claims of a connection is bounded. When this memory is full, the endpoint forgets the claims
//! whose leases end first.
//!
//! Claims whose leases have ended are kept as long as there is room, because a client can still confirm such a claim.
//! The confirmation succeeds if no other client has claimed the event in the meantime.
//!
//! This module does not depend on the claims of other connections.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use firstseen_backend::ROOM_BYTES;
use firstseen_routing::Fence;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// Maximum number of claims of a connection, and the memory for each of them in bytes.
const CLAIMS_MAX: usize = firstseen_resp::ITEMS_MAX;
const CLAIM_BYTES: usize = 200;
/// Number of claims that fit into one unit of the common memory budget. The first claims of a connection need no unit.
const CLAIMS_OF_PART: usize = ROOM_BYTES / CLAIM_BYTES;

/// Event that the connection has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnClaim {
    pub(crate) fence: Fence,
    /// Time at which the event occurred, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Time at which the lease ends.
    pub(crate) until: Instant,
}

/// Claims of a connection. Open claims are kept, and confirmed claims as long as there is memory.
pub(crate) struct OwnClaims {
    claims: HashMap<u128, OwnClaim>,
    order: BTreeSet<(Instant, u128)>,
    room: Arc<Semaphore>,
    /// Units of the common memory budget that this connection uses.
    taken: Vec<OwnedSemaphorePermit>,
}

impl OwnClaims {
    pub(crate) fn new(room: Arc<Semaphore>) -> Self {
        Self { claims: HashMap::new(), order: BTreeSet::new(), room, taken: Vec::new() }
    }

    pub(crate) fn add(&mut self, filter: &str, item: &[u8], claim: OwnClaim) {
        let key = key(filter, item);
        if let Some(before) = self.claims.insert(key, claim) {
            self.order.remove(&(before.until, key));
        }
        self.order.insert((claim.until, key));
        if self.claims.len() > self.claims_capacity() {
            self.forget_first();
        }
    }

    /// Reserves memory for `more` claims, up to the limit of a connection. Returns `false` if other connections use the
    /// whole budget.
    pub(crate) fn make_room(&mut self, more: usize, now: Instant) -> bool {
        self.forget_ended(self.claims_capacity().saturating_sub(more), now);
        let wanted = (self.claims.len() + more).min(CLAIMS_MAX);
        while wanted > self.claims_capacity() {
            match self.room.clone().try_acquire_owned() {
                Ok(part) => self.taken.push(part),
                Err(_) => return false,
            }
        }
        true
    }

    /// Returns the memory of ended claims to the budget.
    pub(crate) fn release_memory(&mut self, now: Instant) {
        if !self.taken.is_empty() {
            self.forget_ended(CLAIMS_OF_PART, now);
            self.taken.truncate(self.claims.len().div_ceil(CLAIMS_OF_PART).saturating_sub(1));
        }
    }

    /// Returns the number of claims that fit into the reserved memory.
    fn claims_capacity(&self) -> usize {
        ((1 + self.taken.len()) * CLAIMS_OF_PART).min(CLAIMS_MAX)
    }

    /// Forgets confirmed claims, and claims whose leases have ended, until `claims` claims are left.
    fn forget_ended(&mut self, claims: usize, now: Instant) {
        while self.claims.len() > claims && self.order.first().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, first)) = self.order.pop_first() {
            self.claims.remove(&first);
        }
    }

    pub(crate) fn get(&self, filter: &str, item: &[u8]) -> Option<OwnClaim> {
        self.claims.get(&key(filter, item)).copied()
    }

    /// Notes that the claim with this fence was confirmed, or now belongs to another consumer. A second confirmation
    /// then gets the same reply.
    pub(crate) fn ended(&mut self, filter: &str, item: &[u8], fence: Fence, at: Instant) {
        let key = key(filter, item);
        if let Some(claim) = self.claims.get_mut(&key).filter(|claim| claim.fence == fence) {
            self.order.remove(&(claim.until, key));
            // An ended claim is removed before all others when memory is needed.
            claim.until = at;
            self.order.insert((at, key));
        }
    }

    /// Removes the claim with this fence.
    pub(crate) fn remove(&mut self, filter: &str, item: &[u8], fence: Fence) {
        let key = key(filter, item);
        if let Some(claim) = self.claims.get(&key).copied().filter(|claim| claim.fence == fence) {
            self.claims.remove(&key);
            self.order.remove(&(claim.until, key));
        }
    }
}

/// Returns the hash of an event that serves as table key. Only a client that searches for collisions finds one, and it
/// harms only itself.
pub(crate) fn key(filter: &str, item: &[u8]) -> u128 {
    xxh3_128_with_seed(item, xxh3_64(filter.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firstseen_backend::room;
    use firstseen_routing::{Epoch, FilterId, Incarnation};

    use super::*;

    #[test]
    fn the_claims_whose_leases_are_over_first_make_room() {
        let fence = |number| Fence::new(FilterId(1), Epoch(1), Incarnation(1), number).unwrap();
        let now = Instant::now();
        let claim = |number: u64, lease_s| OwnClaim {
            fence: fence(number),
            at_ms: 0,
            until: now + Duration::from_secs(lease_s),
        };
        let all = room(8 << 20);
        let mut own = OwnClaims::new(all.clone());
        assert!(own.make_room(2 * CLAIMS_MAX, now), "no more than all that it may know");
        let add = |own: &mut OwnClaims, number: u64, lease_s| {
            own.add("f", &number.to_le_bytes(), claim(number, lease_s));
        };
        let has = |own: &OwnClaims, number: u64| own.get("f", &number.to_le_bytes()).is_some();
        for number in 0..CLAIMS_MAX as u64 {
            add(&mut own, number, if number == 5 { 1 } else { 10 + number });
        }
        assert!(has(&own, 0) && has(&own, 5) && own.get("g", &0_u64.to_le_bytes()).is_none());
        add(&mut own, 1 << 20, 10);
        assert!(!has(&own, 5) && has(&own, 1 << 20));
        // If an event is claimed again, it still counts as one claim.
        add(&mut own, 0, 1 << 20);
        add(&mut own, 1 << 21, 10);
        assert!(has(&own, 0) && has(&own, 1 << 21) && own.claims.len() == own.order.len());
        // A confirmed claim is removed first when memory is needed, and is remembered until then.
        own.ended("f", &(1_u64 << 21).to_le_bytes(), fence(1 << 21), now);
        assert!(has(&own, 1 << 21) && own.claims.len() == own.order.len());
        add(&mut own, 1 << 22, 10);
        assert!(!has(&own, 1 << 21) && has(&own, 1 << 22) && own.claims.len() == own.order.len());
        // The end of an earlier grant does not affect a later grant of the same event.
        own.remove("f", &0_u64.to_le_bytes(), fence(7));
        assert!(has(&own, 0));
        own.remove("f", &0_u64.to_le_bytes(), fence(0));
        assert!(!has(&own, 0) && own.claims.len() == own.order.len());
        // Ended claims return their memory, except for the first few.
        assert_eq!(own.taken.len(), CLAIMS_MAX.div_ceil(CLAIMS_OF_PART) - 1);
        own.release_memory(now + Duration::from_secs(1 << 30));
        assert_eq!((own.claims.len(), own.taken.len()), (CLAIMS_OF_PART, 0));
        assert_eq!(all.available_permits(), (8 << 20) / ROOM_BYTES);
        // If other connections use the whole budget, a connection can still hold a few claims, but no more than that.
        let mut own = OwnClaims::new(room(0));
        assert!(own.make_room(CLAIMS_OF_PART, now));
        (0..CLAIMS_OF_PART as u64).for_each(|number| add(&mut own, number, 10 + number));
        assert!(!own.make_room(1, now) && own.make_room(1, now + Duration::from_secs(10)), "one of them has ended");
        assert_eq!(own.claims.len(), own.order.len());
    }
}
