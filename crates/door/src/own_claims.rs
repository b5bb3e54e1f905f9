//! The claims of one connection: which fence an event was granted by, so that the client need not say it.
//!
//! Promises: bounded memory; a claim whose lease is over makes room for another one, and may be confirmed until then. Must not know:
//! who else holds what.

use std::collections::HashMap;

use firstseen_routing::Fence;
use tokio::time::Instant;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// Claims that a connection may hold, at 80 bytes or so.
pub(crate) const CLAIMS_MAX: usize = firstseen_resp::ITEMS_MAX;

/// An event that the connection has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnClaim {
    pub(crate) fence: Fence,
    /// When the event occurred, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// When the lease is over.
    pub(crate) until: Instant,
}

/// The claims of a connection that were neither confirmed nor released.
#[derive(Default)]
pub(crate) struct OwnClaims(HashMap<u128, OwnClaim>);

impl OwnClaims {
    /// Whether there is room for so many more; claims whose leases are over leave for it.
    pub(crate) fn make_room(&mut self, events: usize, now: Instant) -> bool {
        if self.0.len() + events > CLAIMS_MAX {
            self.0.retain(|_, claim| claim.until > now);
        }
        self.0.len() + events <= CLAIMS_MAX
    }

    pub(crate) fn add(&mut self, filter: &str, item: &[u8], claim: OwnClaim) {
        self.0.insert(key(filter, item), claim);
    }

    pub(crate) fn get(&self, filter: &str, item: &[u8]) -> Option<OwnClaim> {
        self.0.get(&key(filter, item)).copied()
    }

    /// The claim of this fence has ended.
    pub(crate) fn remove(&mut self, filter: &str, item: &[u8], fence: Fence) {
        let key = key(filter, item);
        if self.0.get(&key).is_some_and(|claim| claim.fence == fence) {
            self.0.remove(&key);
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

    use firstseen_routing::{Epoch, FilterId, Incarnation};

    use super::*;

    #[test]
    fn claims_whose_leases_are_over_make_room() {
        let fence = |number| Fence::new(FilterId(1), Epoch(1), Incarnation(1), number).unwrap();
        let now = Instant::now();
        let claim =
            |number, lease_s| OwnClaim { fence: fence(number), at_ms: 0, until: now + Duration::from_secs(lease_s) };
        let mut own = OwnClaims::default();
        for number in 0..CLAIMS_MAX as u64 {
            assert!(own.make_room(1, now));
            own.add("f", &number.to_le_bytes(), claim(number, 10 + number % 2 * 10));
        }
        assert!(!own.make_room(1, now) && own.get("f", &0_u64.to_le_bytes()).is_some());
        assert!(own.get("g", &0_u64.to_le_bytes()).is_none());
        let later = now + Duration::from_secs(15);
        assert!(own.make_room(CLAIMS_MAX / 2, later) && !own.make_room(CLAIMS_MAX / 2 + 1, later));
        assert!(own.get("f", &0_u64.to_le_bytes()).is_none());
        // A later grant stays where an earlier one has ended.
        own.remove("f", &1_u64.to_le_bytes(), fence(0));
        assert!(own.get("f", &1_u64.to_le_bytes()).is_some());
        own.remove("f", &1_u64.to_le_bytes(), fence(1));
        assert!(own.get("f", &1_u64.to_le_bytes()).is_none());
    }
}
