//! The claims of one connection: which fence an event was granted by, so that the client need not say it.
//!
//! Promises: bounded memory; of more claims than there is room for, those are forgotten whose leases are over first. A claim may be
//! confirmed when its lease is over, as long as it is known. Must not know: who else holds what.

use std::collections::{BTreeSet, HashMap};

use firstseen_routing::Fence;
use tokio::time::Instant;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// Claims that a connection knows, at 150 bytes or so.
const CLAIMS_MAX: usize = firstseen_resp::ITEMS_MAX;

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
pub(crate) struct OwnClaims {
    claims: HashMap<u128, OwnClaim>,
    order: BTreeSet<(Instant, u128)>,
}

impl OwnClaims {
    pub(crate) fn add(&mut self, filter: &str, item: &[u8], claim: OwnClaim) {
        let key = key(filter, item);
        if let Some(before) = self.claims.insert(key, claim) {
            self.order.remove(&(before.until, key));
        }
        self.order.insert((claim.until, key));
        if self.claims.len() > CLAIMS_MAX
            && let Some((_, first)) = self.order.pop_first()
        {
            self.claims.remove(&first);
        }
    }

    pub(crate) fn get(&self, filter: &str, item: &[u8]) -> Option<OwnClaim> {
        self.claims.get(&key(filter, item)).copied()
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
        let mut own = OwnClaims::default();
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
        // A later grant stays where an earlier one has ended.
        own.remove("f", &0_u64.to_le_bytes(), fence(7));
        assert!(has(&own, 0));
        own.remove("f", &0_u64.to_le_bytes(), fence(0));
        assert!(!has(&own, 0) && own.claims.len() == own.order.len());
    }
}
