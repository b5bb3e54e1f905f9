//! The claims of one connection: which fence an event was granted by, so that the client need not say it.
//!
//! Promises: bounded memory; of more claims than there is room for, those are forgotten whose leases are over first. A claim may be
//! confirmed when its lease is over, as long as it is known. Must not know: who else holds what.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use firstseen_backend::ROOM_BYTES;
use firstseen_routing::Fence;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// Claims that a connection knows at most, and bytes of each.
const CLAIMS_MAX: usize = firstseen_resp::ITEMS_MAX;
const CLAIM_BYTES: usize = 200;
/// Claims that fit into one part of the room that all connections share; a connection has the first so many without a part.
const CLAIMS_OF_PART: usize = ROOM_BYTES / CLAIM_BYTES;

/// An event that the connection has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnClaim {
    pub(crate) fence: Fence,
    /// When the event occurred, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// When the lease is over.
    pub(crate) until: Instant,
}

/// The claims of a connection: those that are open, and while there is room those that were confirmed.
pub(crate) struct OwnClaims {
    claims: HashMap<u128, OwnClaim>,
    order: BTreeSet<(Instant, u128)>,
    room: Arc<Semaphore>,
    /// What was taken of the room.
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
        if self.claims.len() > self.room_claims() {
            self.forget_first();
        }
    }

    /// Makes room for so many claims more, or for all that a connection may know; false where others have taken it.
    pub(crate) fn make_room(&mut self, more: usize, now: Instant) -> bool {
        self.forget_ended(self.room_claims().saturating_sub(more), now);
        let wanted = (self.claims.len() + more).min(CLAIMS_MAX);
        while wanted > self.room_claims() {
            match self.room.clone().try_acquire_owned() {
                Ok(part) => self.taken.push(part),
                Err(_) => return false,
            }
        }
        true
    }

    /// Gives back the room of claims that have ended.
    pub(crate) fn shed(&mut self, now: Instant) {
        if !self.taken.is_empty() {
            self.forget_ended(CLAIMS_OF_PART, now);
            self.taken.truncate(self.claims.len().div_ceil(CLAIMS_OF_PART).saturating_sub(1));
        }
    }

    /// For how many claims there is room.
    fn room_claims(&self) -> usize {
        ((1 + self.taken.len()) * CLAIMS_OF_PART).min(CLAIMS_MAX)
    }

    /// Forgets claims that are confirmed, or whose leases are over, until so many are left.
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

    /// The claim of this fence was confirmed, or is another's by now: who confirms it again is told so, as long as there is room.
    pub(crate) fn ended(&mut self, filter: &str, item: &[u8], fence: Fence, at: Instant) {
        let key = key(filter, item);
        if let Some(claim) = self.claims.get_mut(&key).filter(|claim| claim.fence == fence) {
            self.order.remove(&(claim.until, key));
            // It makes room before those that are not.
            claim.until = at;
            self.order.insert((at, key));
        }
    }

    /// The claim of this fence has ended.
    pub(crate) fn remove(&mut self, filter: &str, item: &[u8], fence: Fence) {
        let key = key(filter, item);
        if let Some(claim) = self.claims.get(&key).copied().filter(|claim| claim.fence == fence) {
            self.claims.remove(&key);
            self.order.remove(&(claim.until, key));
        }
    }
}

/// Clients that look for two events of one key find a mistake of their own, and of nobody else.
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
        // Claimed anew, it is one claim.
        add(&mut own, 0, 1 << 20);
        add(&mut own, 1 << 21, 10);
        assert!(has(&own, 0) && has(&own, 1 << 21) && own.claims.len() == own.order.len());
        // What is confirmed makes room first, and stays known until then.
        own.ended("f", &(1_u64 << 21).to_le_bytes(), fence(1 << 21), now);
        assert!(has(&own, 1 << 21) && own.claims.len() == own.order.len());
        add(&mut own, 1 << 22, 10);
        assert!(!has(&own, 1 << 21) && has(&own, 1 << 22) && own.claims.len() == own.order.len());
        // A later grant stays where an earlier one has ended.
        own.remove("f", &0_u64.to_le_bytes(), fence(7));
        assert!(has(&own, 0));
        own.remove("f", &0_u64.to_le_bytes(), fence(0));
        assert!(!has(&own, 0) && own.claims.len() == own.order.len());
        // What has ended gives its room back, but for a few.
        assert_eq!(own.taken.len(), CLAIMS_MAX.div_ceil(CLAIMS_OF_PART) - 1);
        own.shed(now + Duration::from_secs(1 << 30));
        assert_eq!((own.claims.len(), own.taken.len()), (CLAIMS_OF_PART, 0));
        assert_eq!(all.available_permits(), (8 << 20) / ROOM_BYTES);
        // Where others have taken the room of all, there is some for a few, and more are not claimed.
        let mut own = OwnClaims::new(room(0));
        assert!(own.make_room(CLAIMS_OF_PART, now));
        (0..CLAIMS_OF_PART as u64).for_each(|number| add(&mut own, number, 10 + number));
        assert!(!own.make_room(1, now) && own.make_room(1, now + Duration::from_secs(10)), "one of them has ended");
        assert_eq!(own.claims.len(), own.order.len());
    }
}
