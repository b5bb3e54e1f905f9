//! The claims of one connection with their fences, so that clients need not send fences.
//!
//! Promises: memory is bounded; if there is no room, the claims whose leases end first are forgotten. A claim that is
//! still remembered may be confirmed after its lease. This module must not depend on the claims of other connections.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use firstseen_backend::ROOM_BYTES;
use firstseen_routing::Fence;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// Greatest number of claims of a connection, and bytes of each.
const CLAIMS_MAX: usize = firstseen_resp::ITEMS_MAX;
const CLAIM_BYTES: usize = 200;
/// Claims for which one part of the room of all connections is taken. The first ones of a connection need none.
const CLAIMS_OF_PART: usize = ROOM_BYTES / CLAIM_BYTES;

/// An event that the connection has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnClaim {
    pub(crate) fence: Fence,
    /// When the event occurred, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// When the lease ends.
    pub(crate) until: Instant,
}

/// The claims of a connection: open ones, and confirmed ones as long as there is room.
pub(crate) struct OwnClaims {
    claims: HashMap<u128, OwnClaim>,
    order: BTreeSet<(Instant, u128)>,
    room: Arc<Semaphore>,
    /// The part of the room of all connections that is taken.
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

    /// Makes room for more claims, up to the limit of a connection. Returns false if other connections have taken the room.
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

    /// Gives back the room of ended claims.
    pub(crate) fn shed(&mut self, now: Instant) {
        if !self.taken.is_empty() {
            self.forget_ended(CLAIMS_OF_PART, now);
            self.taken.truncate(self.claims.len().div_ceil(CLAIMS_OF_PART).saturating_sub(1));
        }
    }

    /// The number of claims for which there is room.
    fn room_claims(&self) -> usize {
        ((1 + self.taken.len()) * CLAIMS_OF_PART).min(CLAIMS_MAX)
    }

    /// Forgets confirmed claims, and those whose leases have ended, until `claims` are left.
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

    /// Notes that the claim of this fence was confirmed, or belongs to another consumer by now, so that a second confirm gets the same reply.
    pub(crate) fn ended(&mut self, filter: &str, item: &[u8], fence: Fence, at: Instant) {
        let key = key(filter, item);
        if let Some(claim) = self.claims.get_mut(&key).filter(|claim| claim.fence == fence) {
            self.order.remove(&(claim.until, key));
            // It makes room before those that are not.
            claim.until = at;
            self.order.insert((at, key));
        }
    }

    /// Removes the claim of this fence.
    pub(crate) fn remove(&mut self, filter: &str, item: &[u8], fence: Fence) {
        let key = key(filter, item);
        if let Some(claim) = self.claims.get(&key).copied().filter(|claim| claim.fence == fence) {
            self.claims.remove(&key);
            self.order.remove(&(claim.until, key));
        }
    }
}

/// Returns the key of an event in tables. Only clients that search for collisions find any, and they harm themselves alone.
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
