//! The clocks of nodes compared: whether the time of day of this one may be relied on.
//!
//! Promises: a node whose time of day differs from that of more than half of the nodes (itself counted) by more than
//! clocks may differ finds that out from the times that its peers send. Until it knows, and from a step of its own
//! clock on until it knows again, it stamps no event. A node that hears from too few others to know keeps its last
//! finding for as long as its lease lasts (`group/lease.rs`). A machine that stands still with all its clocks, as a virtual machine
//! does while it is paused, cannot see that by itself: its node finds it out from the first time that a peer sends afterwards
//! ([`ClockWatch::standstills`]). Pure: moments are passed in. It must not depend on how peers are asked, or on what is stamped.

mod offsets;
mod time_of_day;

use std::collections::BTreeMap;

use crate::ids::NodeId;
use crate::protocol::{Moment, MonotonicMs};
use offsets::Offsets;
pub use offsets::{Exchange, Offset};
use time_of_day::ahead_of_monotonic;
pub use time_of_day::{Reading, TimeOfDay};

/// Where there is no other node to compare with, a step of the time of day is believed when it has stood for so long:
/// an operator who has set it by mistake has as long to set it back.
pub const BELIEVED_AFTER_MS: u64 = 10_000;

/// A node that starts later than this after it ran last, or before that, takes the difference for a step of its clock.
pub const STARTED_WITHIN_MS: u64 = 60_000;

/// Clocks may differ by this much at least: the two clocks of one node are read one after the other, by whole
/// milliseconds, with a pause in between perhaps.
const SKEW_MIN_MS: u64 = 20;

/// How the time of day of a node compares with that of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStanding {
    /// Too few of the others have sent theirs since the node has started.
    Unknown,
    /// Within half of what clocks may differ by.
    Within,
    /// Beyond half of that: an operator should look after it.
    Apart,
    /// Beyond all of what clocks may differ by.
    Beyond,
    /// It was set by more than that, and no other clock has confirmed it yet.
    Stepped,
    /// The clock of a peer has gained more than that on the clocks here: this machine has stood still, or the peer's clock was set.
    /// Most of the others have not confirmed the clock here since.
    Stood,
}

impl ClockStanding {
    /// Whether events may be stamped by this clock.
    pub fn is_sure(self) -> bool {
        matches!(self, Self::Within | Self::Apart)
    }
}

/// What a node knows of its clock and those of its peers.
///
/// ```
/// use firstseen_routing::{ClockWatch, Exchange, Moment, MonotonicMs, NodeId, ClockStanding};
/// let others = [NodeId(2), NodeId(3)];
/// let mut watch = ClockWatch::new(1_000);
/// let (sent_ms, heard_ms) = (MonotonicMs(90), MonotonicMs(100));
/// let now = Moment { monotonic_ms: heard_ms, wall_ms: 1_790_000_000_000 };
/// assert_eq!(watch.look(now, &others), ClockStanding::Unknown);
/// watch.hear(NodeId(3), Exchange { sent_ms, heard_ms, peer_wall_ms: 1_790_000_000_007 });
/// assert_eq!(watch.look(now, &others), ClockStanding::Within, "two of three are enough");
/// ```
#[derive(Clone, Debug)]
pub struct ClockWatch {
    skew_max_ms: u64,
    peers: BTreeMap<NodeId, Offsets>,
    standing: ClockStanding,
    /// How far the time of day was ahead of the monotonic clock when it was relied on last.
    believed_ms: Option<i64>,
    /// The same at the last look.
    shown_ms: Option<i64>,
    /// Since when the time of day has not been the believed one.
    differs_since_ms: Option<MonotonicMs>,
    /// The time of day that the node relied on last before it was started, until the first look.
    ran_until_ms: Option<u64>,
    minds_standstills: bool,
    standstills: u64,
    /// When the last standstill was found: exchanges that began before it say nothing.
    stood_ms: Option<MonotonicMs>,
}

impl ClockWatch {
    /// Nothing is known yet; clocks of nodes may differ by `skew_max_ms`, or by 20 ms where that is more.
    pub fn new(skew_max_ms: u64) -> Self {
        Self {
            skew_max_ms: skew_max_ms.max(SKEW_MIN_MS),
            peers: BTreeMap::new(),
            standing: ClockStanding::Unknown,
            believed_ms: None,
            shown_ms: None,
            differs_since_ms: None,
            ran_until_ms: None,
            minds_standstills: true,
            standstills: 0,
            stood_ms: None,
        }
    }

    /// Returns a watch that never suspects this machine of having stood still: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn without_standstills(self) -> Self {
        Self { minds_standstills: false, ..self }
    }

    /// The same for a node that has run before, and relied on this time of day last, in milliseconds since 1970: if the first look
    /// shows a time that does not follow, the clock counts as set.
    #[must_use]
    pub fn after(self, ran_until_ms: Option<u64>) -> Self {
        Self { ran_until_ms, ..self }
    }

    /// A peer has sent its time of day.
    pub fn hear(&mut self, peer: NodeId, exchange: Exchange) {
        if self.stood_ms.is_some_and(|stood_ms| exchange.sent_ms <= stood_ms) {
            // The peer may have read its clock before this machine stood still.
            return;
        }
        let gained_ms = self.peers.entry(peer).or_default().hear(exchange);
        if gained_ms > self.skew_max_ms && self.minds_standstills {
            self.peers.retain(|other, _| *other == peer);
            self.find_standstill(exchange.heard_ms);
            self.standing = ClockStanding::Stood;
        }
    }

    /// Returns how often this machine may have stood still, clocks and all. What was measured or granted by its clocks before the
    /// last time means nothing any more; above all, a lease may be over (`Lease`).
    ///
    /// ```
    /// use firstseen_routing::{ClockStanding, ClockWatch, Exchange, Moment, MonotonicMs, NodeId};
    /// let others = [NodeId(2), NodeId(3)];
    /// let at = |ms| Moment { monotonic_ms: MonotonicMs(ms), wall_ms: 1_790_000_000_000 + ms };
    /// let sent = |ms, later_ms| Exchange {
    ///     sent_ms: MonotonicMs(ms - 2),
    ///     heard_ms: MonotonicMs(ms),
    ///     peer_wall_ms: at(ms - 1).wall_ms + later_ms,
    /// };
    /// let mut watch = ClockWatch::new(1_000);
    /// others.iter().for_each(|peer| watch.hear(*peer, sent(100, 0)));
    /// assert_eq!(watch.look(at(100), &others), ClockStanding::Within);
    /// // Twelve seconds pass, and the clocks here show nothing of them.
    /// watch.hear(NodeId(2), sent(350, 12_000));
    /// assert_eq!((watch.look(at(350), &others), watch.standstills()), (ClockStanding::Stood, 1));
    /// ```
    pub fn standstills(&self) -> u64 {
        self.standstills
    }

    fn find_standstill(&mut self, now_ms: MonotonicMs) {
        self.standstills += 1;
        self.stood_ms = Some(now_ms);
    }

    /// Compares the clocks of this node with those of `others`, the nodes that are not down.
    pub fn look(&mut self, now: Moment, others: &[NodeId]) -> ClockStanding {
        self.peers.retain(|peer, _| others.contains(peer));
        let shown_ms = ahead_of_monotonic(now);
        if let Some(ran_until_ms) = self.ran_until_ms.take().filter(|ran_until_ms| !self.follows(*ran_until_ms, now)) {
            self.believed_ms = Some(ahead_of_monotonic(Moment { wall_ms: ran_until_ms, ..now }));
        }
        let has_stepped = self.shown_ms.is_some_and(|before_ms| self.differ(before_ms, shown_ms));
        self.shown_ms = Some(shown_ms);
        if has_stepped {
            // Where a machine has slept, its monotonic clock has stood, and measurements by it mean nothing.
            self.peers.clear();
        }
        let differs = self.believed_ms.is_some_and(|believed_ms| self.differ(believed_ms, shown_ms));
        let since_ms = self.differs_since_ms.filter(|_| !has_stepped).unwrap_or(now.monotonic_ms);
        self.differs_since_ms = differs.then_some(since_ms);
        let before = self.standing;
        self.standing = self.judge(now, others);
        let is_behind = self.standing == ClockStanding::Beyond && self.ahead_ms(now) < 0;
        if is_behind && before.is_sure() && self.minds_standstills {
            // The machine may have stood still several times, each too short to be noticed by itself.
            self.find_standstill(now.monotonic_ms);
        }
        if self.standing.is_sure() {
            self.believed_ms = Some(shown_ms);
            self.differs_since_ms = None;
        }
        self.standing
    }

    fn judge(&self, now: Moment, others: &[NodeId]) -> ClockStanding {
        if others.is_empty() {
            return match self.differs_since_ms {
                Some(since_ms) if now.monotonic_ms.since(since_ms) < BELIEVED_AFTER_MS => ClockStanding::Stepped,
                _ => ClockStanding::Within,
            };
        }
        let offsets: Vec<Offset> = others.iter().filter_map(|peer| self.peers.get(peer)?.of(now)).collect();
        let is_beyond = self.standing == ClockStanding::Beyond;
        let is_apart = is_beyond || self.standing == ClockStanding::Apart;
        let within_half = count_within(&offsets, self.skew_max_ms / 2, is_apart);
        let within_all = count_within(&offsets, self.skew_max_ms, is_beyond);
        let silent = others.len() - offsets.len();
        // More than half of all nodes.
        let most = others.len().div_ceil(2) + 1;
        match () {
            () if within_half >= most => ClockStanding::Within,
            () if within_all >= most => ClockStanding::Apart,
            () if within_all + silent < most => ClockStanding::Beyond,
            () if self.differs_since_ms.is_some() => ClockStanding::Stepped,
            // Too few peers have sent theirs of late, and these may be the ones that are wrong.
            () => self.standing,
        }
    }

    /// Returns whether a node that relied on this time last may have been started `now`.
    fn follows(&self, ran_until_ms: u64, now: Moment) -> bool {
        let is_back = now.wall_ms.saturating_add(self.skew_max_ms) < ran_until_ms;
        !is_back && now.wall_ms <= ran_until_ms.saturating_add(STARTED_WITHIN_MS)
    }

    fn differ(&self, one_ms: i64, other_ms: i64) -> bool {
        one_ms.abs_diff(other_ms) > self.skew_max_ms
    }

    /// How the clock stands since the last look.
    pub fn standing(&self) -> ClockStanding {
        self.standing
    }

    /// What the node may take for the time of day, until the next look.
    pub fn time_of_day(&self) -> TimeOfDay {
        TimeOfDay::new(self.standing, self.believed_ms, self.skew_max_ms)
    }

    /// How far the clock of a peer is ahead of this one's; none where the peer has not sent its time lately.
    pub fn offset(&self, peer: NodeId, now: Moment) -> Option<Offset> {
        self.peers.get(&peer)?.of(now)
    }

    /// How far the clock of this node is ahead of the middle one of all that are known, its own included; of two in the
    /// middle the one that is nearer to its own.
    pub fn ahead_ms(&self, now: Moment) -> i64 {
        let mut all: Vec<i64> = self.peers.values().filter_map(|peer| Some(peer.of(now)?.ahead_ms)).collect();
        all.push(0);
        all.sort_unstable();
        let low = all[(all.len() - 1) / 2];
        let high = all[all.len() / 2];
        let middle = if low.unsigned_abs() <= high.unsigned_abs() { low } else { high };
        middle.saturating_neg()
    }
}

/// How many clocks, that of this node included, are within a limit of it. A clock that is past a limit must come a
/// little nearer than that to count as within: otherwise each turn of a clock at the edge would be reported.
fn count_within(offsets: &[Offset], limit_ms: u64, is_past: bool) -> usize {
    let limit_ms = if is_past { limit_ms - limit_ms / 8 } else { limit_ms };
    1 + offsets.iter().filter(|offset| offset.may_be_within(limit_ms)).count()
}
