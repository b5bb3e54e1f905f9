//! Enforces the quotas of principals on this node.
//!
//! # Guarantees
//! - Over any period, a principal sends at most the number of events that its rate allows, plus one batch and the
//!   events of one second.
//! - A rejected caller learns when it may try again, and no cell of its batch has been set.
//! - The quota of one principal does not affect other principals.
//!
//! This module does not depend on how callers are identified or on the content of batches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_routing::{MonotonicMs, PRINCIPALS_MAX, Quota};

/// Usage of all principals.
#[derive(Default)]
pub(crate) struct Quotas(Mutex<BTreeMap<String, Arc<Usage>>>);

/// Usage of one principal.
pub(crate) struct Usage(Mutex<Used>);

struct Used {
    /// Number of events that may be sent now. The number is negative after a batch that was larger than the remaining
    /// allowance.
    events: f64,
    /// Time at which this number was correct.
    at_ms: MonotonicMs,
    open_batches: u32,
}

/// Reason why a batch is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// The quota allows no more unanswered batches.
    Batches,
    /// Events arrive faster than the quota allows. The allowance is positive again after this number of milliseconds.
    Events { retry_after_ms: u32 },
}

impl Quotas {
    /// Returns the usage of the principal with this name.
    pub(crate) fn of(&self, principal: &str, now_ms: MonotonicMs) -> Arc<Usage> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= PRINCIPALS_MAX {
            // Entries that no stream uses include principals that no longer exist.
            all.retain(|_, usage| Arc::strong_count(usage) > 1);
        }
        let usage = all.entry(principal.to_owned()).or_insert_with(|| {
            Arc::new(Usage(Mutex::new(Used { events: f64::INFINITY, at_ms: now_ms, open_batches: 0 })))
        });
        usage.clone()
    }
}

impl Usage {
    /// Charges a batch of `events` events, if the quota has room for it.
    pub(crate) fn take(&self, quota: &Quota, events: u32, now_ms: MonotonicMs) -> Result<(), Spent> {
        let mut used = self.used();
        if quota.inflight_batches.is_some_and(|most| used.open_batches >= most.get()) {
            return Err(Spent::Batches);
        }
        if let Some(rate) = quota.events_per_s.map(|rate| f64::from(rate.get())) {
            let gained = now_ms.since(used.at_ms) as f64 / 1_000.0 * rate;
            used.events = (used.events + gained).min(rate);
            used.at_ms = now_ms;
            if used.events <= 0.0 {
                let retry_after_ms = ((1.0 - used.events) / rate * 1_000.0).ceil();
                return Err(Spent::Events { retry_after_ms: retry_after_ms as u32 });
            }
            used.events -= f64::from(events);
        }
        used.open_batches += 1;
        Ok(())
    }

    /// Notes that `batches` batches have been answered.
    pub(crate) fn give_back(&self, batches: u32) {
        let mut used = self.used();
        used.open_batches = used.open_batches.saturating_sub(batches);
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn quota(events_per_s: u32, inflight_batches: u32) -> Quota {
        let of = NonZeroU32::new;
        Quota { events_per_s: of(events_per_s), inflight_batches: of(inflight_batches) }
    }

    #[test]
    fn events_come_as_fast_as_the_rate_allows_however_they_are_asked_for() {
        let (quotas, quota) = (Quotas::default(), quota(1_000, 0));
        let usage = quotas.of("a", MonotonicMs(0));
        for (batch, every_ms) in [(100, 1), (5_000, 1), (1, 3), (8_192, 9_000)] {
            let usage = quotas.of(&format!("{batch}"), MonotonicMs(0));
            let (mut taken, end_ms) = (0u64, 60_000);
            for now_ms in (0..end_ms).step_by(every_ms) {
                if usage.take(&quota, batch, MonotonicMs(now_ms)).is_ok() {
                    taken += u64::from(batch);
                }
            }
            assert!(taken <= 60_000 + 1_000 + u64::from(batch), "{batch} events every {every_ms} ms: {taken}");
            let asked = end_ms.div_ceil(every_ms as u64) * u64::from(batch);
            assert!(taken >= asked.min(60_000) * 9 / 10, "{batch} events every {every_ms} ms: {taken} of {asked}");
        }
        // A caller that waits for the announced time is accepted.
        assert_eq!(usage.take(&quota, 3_000, MonotonicMs(0)), Ok(()));
        let Err(Spent::Events { retry_after_ms }) = usage.take(&quota, 1, MonotonicMs(0)) else { panic!("spent") };
        assert_eq!(retry_after_ms, 2_001);
        assert!(usage.take(&quota, 1, MonotonicMs(2_000)).is_err());
        assert_eq!(usage.take(&quota, 1, MonotonicMs(u64::from(retry_after_ms))), Ok(()));
    }

    #[test]
    fn batches_in_flight_are_bounded_over_all_streams() {
        let (quotas, quota) = (Quotas::default(), quota(0, 2));
        let [one, two] = [quotas.of("a", MonotonicMs(0)), quotas.of("a", MonotonicMs(0))];
        assert_eq!([one.take(&quota, 9, MonotonicMs(0)), two.take(&quota, 9, MonotonicMs(0))], [Ok(()); 2]);
        assert_eq!(one.take(&quota, 9, MonotonicMs(0)), Err(Spent::Batches));
        assert_eq!(quotas.of("b", MonotonicMs(0)).take(&quota, 9, MonotonicMs(0)), Ok(()), "another's");
        two.give_back(1);
        assert_eq!(one.take(&quota, 9, MonotonicMs(0)), Ok(()));
    }

    #[test]
    fn the_memory_of_quotas_is_bounded() {
        let quotas = Quotas::default();
        let _kept = quotas.of("kept", MonotonicMs(0));
        (0..3 * PRINCIPALS_MAX).for_each(|number| drop(quotas.of(&number.to_string(), MonotonicMs(0))));
        let all = quotas.0.lock().expect("no panic");
        assert!(all.len() <= PRINCIPALS_MAX && all.contains_key("kept"), "{}", all.len());
    }
}
