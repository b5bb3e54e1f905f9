//! What an owner takes on at most.
//!
//! Promises: everything that producers can make grow has a bound here. Must not know: what is bounded elsewhere (queues,
//! streams, links).

/// The limits of one group's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerLimits {
    /// Events of one submission.
    pub batch_events_max: usize,
    /// Events in flight at once, where slices share events; more are refused.
    pub inflight_events_max: usize,
    /// Submissions of one event that wait for the first at once, where slices share events; more are refused.
    pub joiners_max: usize,
    /// Submissions of one event wait for the first of them, where slices share events. Only tests switch it off, to show
    /// what goes wrong then.
    pub single_flight: bool,
    /// An event stays in flight until all of its cells are set, where slices share events. Only tests switch it off, to
    /// show what goes wrong then.
    pub awaits_sets: bool,
    /// What is told of a durable filter is on disk before. Only tests switch it off, to show what goes wrong then.
    pub awaits_disk: bool,
    /// What is remembered of submissions is taken up from the journal, too. Only tests switch it off, to show what goes
    /// wrong then.
    pub restores_guard: bool,
    /// Cells that were set for other nodes are kept as well as those of own events. Only tests switch it off, to show
    /// what goes wrong then.
    pub keeps_peer_sets: bool,
    /// What nodes ask and set by an older map than the receiver's is refused. Only tests switch it off, to show what goes
    /// wrong then.
    pub fences_epochs: bool,
    /// Slices that may lack something count as complete only when that has expired. Only tests switch it off, to show what
    /// goes wrong then.
    pub minds_gaps: bool,
    /// A copy that lacks something counts as complete when it has fetched all of it. Only tests switch it off, to show what
    /// goes wrong then.
    pub fetches_all: bool,
    /// Who has taken over a slice heads its events only when the node before has ended them. Only tests switch it off, to show
    /// what goes wrong then.
    pub awaits_former_heads: bool,
    /// Bytes by which the journal grows before a group takes a checkpoint; the usual rule where it says nothing. Only
    /// tests set it, to see many of them.
    pub checkpoint_after_bytes: Option<u64>,
    /// Bytes of what is remembered of submissions; more is forgotten before its time.
    pub guard_bytes_max: u64,
    /// Events of a group that are kept for a node that is down; where there are more, it has to wait until they expire.
    pub missed_events_max: usize,
    /// Bytes of cells that are told at once to a copy that lacks them.
    pub copied_at_once_bytes: usize,
    /// Bytes of cells that a group takes a second from copies that have everything.
    pub copied_bytes_per_s_max: u64,
    /// How far the clocks of two nodes may differ, in milliseconds.
    pub clock_skew_max_ms: u64,
    /// Events that a level of a tree has told by itself and not brought up yet; more are undecided.
    pub journal_events_max: usize,
}

/// What a group may take of what all groups of a node share.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Bytes of what is remembered of submissions.
    pub guard_bytes_max: u64,
    /// Events that are kept for each node that is down.
    pub missed_events_max: usize,
    /// Bytes of cells that are taken a second from copies that have everything.
    pub copied_bytes_per_s_max: u64,
}

impl Default for OwnerLimits {
    fn default() -> Self {
        Self {
            batch_events_max: 1 << 14,
            inflight_events_max: 1 << 17,
            joiners_max: 1 << 10,
            single_flight: true,
            awaits_sets: true,
            awaits_disk: true,
            restores_guard: true,
            keeps_peer_sets: true,
            fences_epochs: true,
            minds_gaps: true,
            fetches_all: true,
            awaits_former_heads: true,
            checkpoint_after_bytes: None,
            guard_bytes_max: 64 << 20,
            missed_events_max: 1 << 16,
            copied_at_once_bytes: 256 << 10,
            copied_bytes_per_s_max: 64 << 20,
            clock_skew_max_ms: 1_000,
            journal_events_max: 1 << 16,
        }
    }
}
