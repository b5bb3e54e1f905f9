//! When a batch is tried again, and what its callers get when it is not.
//!
//! Promises: no event that may have been recorded is called unrecorded; overload is met with no more than a few more
//! tries. Must not know: clocks, streams; waiting times differ by a generator whose seed is passed in.

use firstseen_routing::Reason;

/// Tries after a refusal for overload, by default.
pub(crate) const OVERLOAD_RETRIES_MAX: u32 = 2;
/// The first wait after overload, growing eightfold: a node that sheds load needs a pause, not another try.
const OVERLOAD_WAIT_MS: u64 = 20;
/// The first wait after a loss, doubling.
const LOSS_WAIT_MS: u64 = 5;
/// The longest wait after a loss. After overload, and where a node says for how long, waits may be longer.
pub(crate) const WAIT_MS_MAX: u64 = 500;

/// The longest wait of those that a node asks for.
const TOLD_WAIT_MS_MAX: u64 = 1_000;

/// Random enough to keep clients from trying in step (SplitMix64).
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

    /// From half of `wait_ms` to all of it, at least 1.
    pub(crate) fn spread(&mut self, wait_ms: u64) -> u64 {
        let half = wait_ms / 2;
        (wait_ms - half + self.next() % (half + 1)).max(1)
    }

    /// The wait before try number `tries`, the first of which is 1.
    pub(crate) fn wait_ms(&mut self, tries: u32) -> u64 {
        self.spread((LOSS_WAIT_MS << tries.saturating_sub(1).min(16)).min(WAIT_MS_MAX))
    }
}

/// The tries of a batch so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tries {
    /// Times that it was sent.
    pub(crate) sent: u32,
    overload_refusals: u32,
    /// A try that was never answered may have recorded events.
    may_have_recorded: bool,
    refused: Option<Reason>,
}

/// What becomes of a batch that was refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRefusal {
    /// Answer the callers.
    Answer(Reason),
    /// Send it again after so many milliseconds.
    Wait(u64),
    /// Send it again by a map of at least this version.
    Map(u64),
}

impl Tries {
    /// The stream ended before the answer came, or the answer makes no sense.
    pub(crate) fn lost(&mut self) {
        self.may_have_recorded = true;
    }

    /// Whether a try may have recorded events.
    pub(crate) fn may_have_recorded(&self) -> bool {
        self.may_have_recorded
    }

    /// A node refused the batch; `routed_by` is the version of the map that it was sent by, `map_version` the node's.
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
                AfterRefusal::Wait(jitter.spread(wait_ms))
            }
            Reason::StaleMap if map_version > routed_by => AfterRefusal::Map(map_version),
            // The node's map does not have a filter yet that the client's map shows.
            Reason::UnknownFilter if map_version < routed_by => AfterRefusal::Wait(jitter.wait_ms(self.sent)),
            reason if reason.is_worth_retrying() => AfterRefusal::Wait(jitter.wait_ms(self.sent)),
            reason => AfterRefusal::Answer(self.reason_for_callers(reason)),
        }
    }

    /// A node says when it has room again. At most a second of that counts, as it may have room sooner, and a quarter is added.
    pub(crate) fn told_to_wait(&mut self, reason: Reason, wait_ms: u32, jitter: &mut Jitter) -> AfterRefusal {
        self.refused = Some(reason);
        let wait_ms = u64::from(wait_ms).min(TOLD_WAIT_MS_MAX);
        AfterRefusal::Wait(wait_ms + jitter.spread(wait_ms / 4))
    }

    /// A node says that slices are down, that it is cut off, or that its clock is wrong; the batch waits for the end of
    /// that.
    pub(crate) fn awaits_nodes(&mut self, reason: Reason, jitter: &mut Jitter) -> AfterRefusal {
        self.refused = Some(reason);
        AfterRefusal::Wait(jitter.wait_ms(self.sent))
    }

    /// Whether nodes that own slices could not be reached at the last try.
    pub(crate) fn lacks_nodes(&self) -> bool {
        self.refused.is_some_and(|reason| reason.is_outage() || reason == Reason::NotReady)
    }

    /// The reason for the callers of an event to which a node replied `reason`: an earlier try may have recorded it.
    pub(crate) fn reason_for_callers(&self, reason: Reason) -> Reason {
        // A closed filter records nothing; so if the event is not there, no try has recorded it.
        let may_have_recorded = self.may_have_recorded && reason != Reason::Altered;
        if may_have_recorded { Reason::Unknown } else { reason }
    }

    /// The reason for the callers when the deadline is over; `is_sent` while a try is on its way.
    pub(crate) fn out_of_time(&self, is_sent: bool, otherwise: Reason) -> Reason {
        if is_sent || self.may_have_recorded { Reason::Unknown } else { self.refused.unwrap_or(otherwise) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_is_tried_twice_again_ever_more_slowly() {
        let (mut tries, mut jitter) = (Tries::default(), Jitter::new(1));
        let waits: Vec<_> =
            (0..3).map(|_| tries.refused(Reason::Overloaded, 1, 1, OVERLOAD_RETRIES_MAX, &mut jitter)).collect();
        assert!(matches!(waits[0], AfterRefusal::Wait(10..=20)), "{waits:?}");
        assert!(matches!(waits[1], AfterRefusal::Wait(80..=160)), "{waits:?}");
        assert_eq!(waits[2], AfterRefusal::Answer(Reason::Overloaded));
    }

    #[test]
    fn what_may_have_been_recorded_is_unknown_whatever_comes_later() {
        let (mut tries, mut jitter) = (Tries::default(), Jitter::new(1));
        assert_eq!(tries.out_of_time(false, Reason::NotReady), Reason::NotReady);
        assert_eq!(tries.out_of_time(true, Reason::NotReady), Reason::Unknown);
        assert!(matches!(
            tries.refused(Reason::NotReady, 1, 1, OVERLOAD_RETRIES_MAX, &mut jitter),
            AfterRefusal::Wait(_)
        ));
        assert_eq!(tries.out_of_time(false, Reason::Overloaded), Reason::NotReady);
        tries.lost();
        assert_eq!(tries.reason_for_callers(Reason::Altered), Reason::Altered, "a closed filter knows what it has");
        assert_eq!(tries.out_of_time(false, Reason::Overloaded), Reason::Unknown);
        assert_eq!(
            tries.refused(Reason::TooOld, 1, 1, OVERLOAD_RETRIES_MAX, &mut jitter),
            AfterRefusal::Answer(Reason::Unknown)
        );
    }

    #[test]
    fn a_stale_map_waits_for_a_newer_one_only_if_there_is_one() {
        let (mut tries, mut jitter) = (Tries::default(), Jitter::new(1));
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
