//! Decides when a batch is retried, and what its callers receive if it is not.
//!
//! Callers can rely on the reason of an undecided event. In particular, a caller never receives a reason that means
//! "not recorded" if a node may have recorded the event.
//!
//! After an overload, the client retries a batch only a few times, because every retry adds load to the node.
//!
//! The waiting times are randomized by a generator whose seed the caller passes in, so this module does not depend on
//! clocks or streams.

use firstseen_routing::Reason;

/// Default number of retries after a node refused a batch because of overload.
pub(crate) const OVERLOAD_RETRIES_MAX: u32 = 2;
/// Wait before the first retry of a batch that an overloaded node refused, in milliseconds. Each further wait is eight
/// times longer, because an overloaded node needs time to recover.
const OVERLOAD_WAIT_MS: u64 = 20;
/// Wait before the first retry after a lost reply, in milliseconds. Each further wait is twice as long.
const LOSS_WAIT_MS: u64 = 5;
/// Longest wait after a lost reply, in milliseconds. Waits after overload, and waits that a node asks for, may be
/// longer.
pub(crate) const WAIT_MS_MAX: u64 = 500;

/// Longest wait that a node can ask for, in milliseconds.
const RETRY_AFTER_MS_MAX: u64 = 1_000;

/// Random generator (SplitMix64) for waiting times, so that clients do not all retry at the same moment.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a random time between half of `wait_ms` and `wait_ms`, and at least 1.
    pub(crate) fn with_jitter(&mut self, wait_ms: u64) -> u64 {
        let half = wait_ms / 2;
        (wait_ms - half + self.next() % (half + 1)).max(1)
    }

    /// Returns the wait before attempt number `tries`, in milliseconds. The first attempt has number 1.
    pub(crate) fn wait_ms(&mut self, tries: u32) -> u64 {
        self.with_jitter((LOSS_WAIT_MS << tries.saturating_sub(1).min(16)).min(WAIT_MS_MAX))
    }
}

/// Attempts to send a batch so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryState {
    /// Number of times that the batch was sent.
    pub(crate) sent: u32,
    overload_refusals: u32,
    /// Whether an attempt that was never answered may have recorded events.
    may_have_recorded: bool,
    refused: Option<Reason>,
    /// Whether a caller was told that its event is not recorded, although the batch is sent again for other events.
    has_refused_events: bool,
}

/// Next step for a batch that a node refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRefusal {
    /// Answer the callers with this reason.
    Answer(Reason),
    /// Retry after this number of milliseconds.
    Wait(u64),
    /// Retry when the cluster map has at least this version.
    Map(u64),
}

impl RetryState {
    /// Notes that the stream ended before the answer arrived, or that the answer was invalid.
    pub(crate) fn lost(&mut self) {
        self.may_have_recorded = true;
    }

    /// Notes that a caller was told that its event is not recorded.
    pub(crate) fn refuse_events(&mut self) {
        self.has_refused_events = true;
    }

    /// Returns whether a caller was told that its event is not recorded.
    pub(crate) fn has_refused_events(&self) -> bool {
        self.has_refused_events
    }

    /// Returns whether an attempt may have recorded events.
    pub(crate) fn may_have_recorded(&self) -> bool {
        self.may_have_recorded
    }

    /// Notes that a node refused the batch, and returns the next step. Often, the node refuses the batch because the
    /// client and the node have different versions of the cluster map. If the client's version is older, it must
    /// receive the newer map before it retries. If the node's version is older, the client only waits. `routed_by` is
    /// the client's version, by which it chose the node, and `map_version` is the node's version.
    pub(crate) fn refused(
        &mut self,
        reason: Reason,
        routed_by: u64,
        map_version: u64,
        overload_retries_max: u32,
        jitter: &mut Jitter,
    ) -> AfterRefusal {
        self.refused = Some(reason);
        self.may_have_recorded |= reason.may_have_recorded();
        match reason {
            Reason::Overloaded if self.overload_refusals >= overload_retries_max => {
                AfterRefusal::Answer(self.reason_for_callers(reason))
            }
            Reason::Overloaded => {
                self.overload_refusals += 1;
                let wait_ms = OVERLOAD_WAIT_MS << (3 * (self.overload_refusals - 1)).min(6);
                AfterRefusal::Wait(jitter.with_jitter(wait_ms))
            }
            Reason::StaleMap if map_version > routed_by => AfterRefusal::Map(map_version),
            // The node's cluster map is older than the client's, and does not contain the filter yet.
            Reason::UnknownFilter if map_version < routed_by => AfterRefusal::Wait(jitter.wait_ms(self.sent)),
            reason if reason.is_worth_retrying() => AfterRefusal::Wait(jitter.wait_ms(self.sent)),
            reason => AfterRefusal::Answer(self.reason_for_callers(reason)),
        }
    }

    /// Returns how long the client waits before it retries a batch that exceeded the producer's quota. The node
    /// suggests `wait_ms`, which is the time until the quota is renewed. The client waits for this time but for at most
    /// one second, because quota may become available sooner. It then adds a random time of up to a quarter, so that
    /// clients do not all retry at the same moment.
    pub(crate) fn retry_after(&mut self, reason: Reason, wait_ms: u32, jitter: &mut Jitter) -> AfterRefusal {
        self.refused = Some(reason);
        let wait_ms = u64::from(wait_ms).min(RETRY_AFTER_MS_MAX);
        AfterRefusal::Wait(wait_ms + jitter.with_jitter(wait_ms / 4))
    }

    /// Returns how long the client waits before it retries a batch that no node can decide at the moment. For example,
    /// slices of the filter are down, the node is cut off from the cluster, or the clock of the node is wrong.
    pub(crate) fn awaits_nodes(&mut self, reason: Reason, jitter: &mut Jitter) -> AfterRefusal {
        self.refused = Some(reason);
        AfterRefusal::Wait(jitter.wait_ms(self.sent))
    }

    /// Returns whether nodes that own slices could not be reached in the last attempt.
    pub(crate) fn has_unreachable_owners(&self) -> bool {
        self.refused.is_some_and(|reason| reason.is_outage() || reason == Reason::NotReady)
    }

    /// Converts the reason in a node's reply to the reason that the callers of an event receive. Usually this is the
    /// same reason. If an earlier attempt may have recorded the event, the callers receive `Unknown` instead, because
    /// the node's reason applies only to the last attempt.
    pub(crate) fn reason_for_callers(&self, reason: Reason) -> Reason {
        // A closed filter records nothing and still answers for the events that it has. If it does not have the event,
        // no attempt has recorded the event.
        let may_have_recorded = self.may_have_recorded && reason != Reason::Altered;
        if may_have_recorded { Reason::Unknown } else { reason }
    }

    /// Returns the reason that callers receive when the deadline passes. `is_sent` is true while an attempt is in
    /// flight.
    pub(crate) fn timeout_reason(&self, is_sent: bool, otherwise: Reason) -> Reason {
        if is_sent || self.may_have_recorded { Reason::Unknown } else { self.refused.unwrap_or(otherwise) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_is_tried_twice_again_ever_more_slowly() {
        let mut tries = RetryState::default();
        let mut jitter = Jitter::new(1);
        let waits: Vec<_> =
            (0..3).map(|_| tries.refused(Reason::Overloaded, 1, 1, OVERLOAD_RETRIES_MAX, &mut jitter)).collect();
        assert!(matches!(waits[0], AfterRefusal::Wait(10..=20)), "{waits:?}");
        assert!(matches!(waits[1], AfterRefusal::Wait(80..=160)), "{waits:?}");
        assert_eq!(waits[2], AfterRefusal::Answer(Reason::Overloaded));
    }

    #[test]
    fn what_may_have_been_recorded_is_unknown_whatever_comes_later() {
        let mut tries = RetryState::default();
        let mut jitter = Jitter::new(1);
        assert_eq!(tries.timeout_reason(false, Reason::NotReady), Reason::NotReady);
        assert_eq!(tries.timeout_reason(true, Reason::NotReady), Reason::Unknown);
        assert!(matches!(
            tries.refused(Reason::NotReady, 1, 1, OVERLOAD_RETRIES_MAX, &mut jitter),
            AfterRefusal::Wait(_)
        ));
        assert_eq!(tries.timeout_reason(false, Reason::Overloaded), Reason::NotReady);
        tries.lost();
        assert_eq!(tries.reason_for_callers(Reason::Altered), Reason::Altered, "a closed filter knows what it has");
        assert_eq!(tries.timeout_reason(false, Reason::Overloaded), Reason::Unknown);
        assert_eq!(
            tries.refused(Reason::TooOld, 1, 1, OVERLOAD_RETRIES_MAX, &mut jitter),
            AfterRefusal::Answer(Reason::Unknown)
        );
    }

    #[test]
    fn a_stale_map_waits_for_a_newer_one_only_if_there_is_one() {
        let mut tries = RetryState::default();
        let mut jitter = Jitter::new(1);
        assert_eq!(tries.refused(Reason::StaleMap, 3, 5, OVERLOAD_RETRIES_MAX, &mut jitter), AfterRefusal::Map(5));
        assert!(matches!(
            tries.refused(Reason::StaleMap, 5, 5, OVERLOAD_RETRIES_MAX, &mut jitter),
            AfterRefusal::Wait(_)
        ));
        assert!(matches!(
            tries.refused(Reason::UnknownFilter, 5, 4, OVERLOAD_RETRIES_MAX, &mut jitter),
            AfterRefusal::Wait(_)
        ));
        assert_eq!(
            tries.refused(Reason::UnknownFilter, 5, 5, OVERLOAD_RETRIES_MAX, &mut jitter),
            AfterRefusal::Answer(Reason::UnknownFilter)
        );
        assert_eq!(
            tries.refused(Reason::Invalid, 5, 5, OVERLOAD_RETRIES_MAX, &mut jitter),
            AfterRefusal::Answer(Reason::Invalid)
        );
    }

    #[test]
    fn waits_grow_to_their_limit() {
        let mut jitter = Jitter::new(1);
        for tries in 1..100 {
            let wait_ms = jitter.wait_ms(tries);
            let full_ms = (LOSS_WAIT_MS << (tries - 1).min(16)).min(WAIT_MS_MAX);
            assert!((full_ms / 2..=full_ms).contains(&wait_ms), "try {tries}: {wait_ms} ms");
        }
    }
}
