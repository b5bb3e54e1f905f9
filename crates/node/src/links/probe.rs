//! Decides when a link measures the clock of its peer. The measurements use frames that the link sends anyway.
//!
//! # Guarantees
//! - Only one exchange is measured at a time, and there is a pause before the next one.
//! - The peer reads its clock after the frame that begins the exchange was sent.
//!
//! This module does not depend on the content of frames or on how the measurements are used.

use firstseen_routing::{Exchange, MonotonicMs};
use firstseen_wire::proto::peer::LinkAck;

/// Minimum interval between two measurements, in milliseconds.
const EVERY_MS: u64 = 250;
/// Time after which the link asks an idle peer for its time, in milliseconds.
const AGAIN_MS: u64 = 10_000;

/// State of the clock measurements of one link.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// Number of the unacknowledged frame that is being measured, with the time at which it was sent.
    sent: Option<(u64, MonotonicMs)>,
    next_ms: MonotonicMs,
}

impl Probe {
    /// Begins a measurement with the hello message of a new stream, which is acknowledged first.
    pub(super) fn begins(&mut self, now_ms: MonotonicMs) {
        self.sent = Some((0, now_ms));
    }

    /// Discards the current measurement.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }

    /// Notes that a frame is about to be sent.
    pub(super) fn sends(&mut self, number: u64, now_ms: MonotonicMs) {
        if self.sent.is_none() && now_ms >= self.next_ms {
            self.sent = Some((number, now_ms));
        }
    }

    /// Returns whether the last measurement is so old that a frame should be sent for a new one.
    pub(super) fn is_due(&self, now_ms: MonotonicMs) -> bool {
        self.sent.is_none() && now_ms >= self.next_ms.after(AGAIN_MS)
    }

    /// Processes an acknowledgement. Returns the exchange that it completes, if an exchange is being measured.
    pub(super) fn hears(&mut self, ack: &LinkAck, now_ms: MonotonicMs) -> Option<Exchange> {
        let (_, sent_ms) = self.sent.take_if(|(number, _)| *number <= ack.number)?;
        self.next_ms = now_ms.after(EVERY_MS);
        (ack.wall_ms > 0).then_some(Exchange { sent_ms, heard_ms: now_ms, peer_wall_ms: ack.wall_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(number: u64) -> LinkAck {
        LinkAck { number, wall_ms: 1_790_000_000_000, ..LinkAck::default() }
    }

    #[test]
    fn only_what_was_told_after_a_frame_was_sent_is_measured() {
        let mut probe = Probe::default();
        probe.begins(MonotonicMs(100));
        let exchange = probe.hears(&ack(7), MonotonicMs(110)).unwrap();
        assert_eq!((exchange.sent_ms, exchange.heard_ms), (MonotonicMs(100), MonotonicMs(110)));
        probe.sends(8, MonotonicMs(110 + EVERY_MS - 1));
        assert_eq!(probe.hears(&ack(8), MonotonicMs(400)), None, "not again so soon");
        probe.sends(9, MonotonicMs(500));
        probe.sends(10, MonotonicMs(510));
        assert_eq!(probe.hears(&ack(8), MonotonicMs(520)), None, "measured before it was there");
        assert_eq!(probe.hears(&ack(10), MonotonicMs(530)).map(|exchange| exchange.sent_ms), Some(MonotonicMs(500)));
    }

    #[test]
    fn who_does_not_tell_the_time_is_not_measured() {
        let mut probe = Probe::default();
        probe.begins(MonotonicMs(100));
        assert_eq!(probe.hears(&LinkAck { wall_ms: 0, ..ack(0) }, MonotonicMs(110)), None);
    }
}
