//! When the clock of a peer is measured: with frames that a link sends anyway.
//!
//! Promises: one exchange is measured at a time, and the next one a while later; the peer has read its clock after the
//! frame that begins the exchange was sent. Must not know: what frames hold, what follows from a measurement.

use firstseen_routing::{Exchange, MonotonicMs};
use firstseen_wire::proto::peer::LinkAck;

/// The time between two measured exchanges.
const EVERY_MS: u64 = 250;
/// Where nothing else is sent, a peer is asked for its time after so long.
const AGAIN_MS: u64 = 10_000;

/// The measurements of a link.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// The number of a frame that is not acknowledged, and when it was sent.
    sent: Option<(u64, MonotonicMs)>,
    next_ms: MonotonicMs,
}

impl Probe {
    /// A stream begins with its hello, which is acknowledged first.
    pub(super) fn begins(&mut self, now_ms: MonotonicMs) {
        self.sent = Some((0, now_ms));
    }

    /// What has been measured so far means nothing any more.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }

    /// A frame is about to be sent.
    pub(super) fn sends(&mut self, number: u64, now_ms: MonotonicMs) {
        if self.sent.is_none() && now_ms >= self.next_ms {
            self.sent = Some((number, now_ms));
        }
    }

    /// Whether no exchange has been measured for so long that a frame should be sent for one.
    pub(super) fn is_due(&self, now_ms: MonotonicMs) -> bool {
        self.sent.is_none() && now_ms >= self.next_ms.after(AGAIN_MS)
    }

    /// An acknowledgement has come; returns the exchange that it ends, if one is measured.
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
