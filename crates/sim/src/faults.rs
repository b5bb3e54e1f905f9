//! The faults of a storm, one name each.
//!
//! Promises: a fault is counted when it has happened, not when it was tried. Must not know: how it is brought about,
//! what follows from it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::now_us;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A process ends without notice.
    Kill,
    /// A node loses its power: data that its disk has not synced is lost, or a part of it.
    PowerCut,
    /// In a power cut, some sectors that were not synced are on the disk, and others are not.
    TornWrite,
    /// All nodes lose their power at once.
    Blackout,
    /// All nodes are restarted, one after the other.
    RollingRestart,
    /// The same, and each node ends as soon as the one before says that it is ready.
    RestartWhenReady,
    /// The node that leads the agreement ends while slices move.
    LeaderLoss,
    /// The disk of a node is full for a while, for its journal and for the agreement.
    DiskFull,
    /// The same, and another program has taken the room that was reserved for the agreement.
    ReserveTaken,
    /// The disk of a node stays full for longer than the node waits for room.
    DiskStaysFull,
    /// The same, after a sync has hung.
    HangEndsFull,
    /// So many nodes end that no quorum is left, while the disk of a node is full.
    QuorumLoss,
    /// A sync of a node's journal hangs, for a second or a minute.
    DiskHang,
    /// A node loses its power in the middle of a write of the agreement: some sectors of the write are on the disk, and
    /// others are not.
    AgreementTorn,
    /// Bits of a node's files of the agreement have changed while it was down.
    AgreementRot,
    /// Bits of a node's journal have changed while it was down.
    BitRot,
    /// A node stops, with its clock, and goes on later.
    Pause,
    /// A machine stands still with all its clocks until the others may have gone on without its node, and goes on behind.
    Standstill,
    /// A node and the others cannot reach each other; messages arrive in the end, or connections break.
    Partition,
    /// Messages from one node to the others are lost, and those from them to it are not.
    OneWayPartition,
    /// Messages between a node and the others are lost for a moment, and their connections with them.
    Loss,
    /// Messages between a node and the others take long.
    Delay,
    /// Messages of one connection arrive long before those of another.
    Reorder,
    /// The connections of a node, or of a producer, are reset.
    Reset,
    /// The clock of a node is set forward.
    ClockForward,
    /// The clock of a node is set back.
    ClockBack,
    /// Another filter follows under the name, with another slicing, for more events, or with another secret.
    Alteration,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 27] = [
        Self::Kill,
        Self::PowerCut,
        Self::TornWrite,
        Self::Blackout,
        Self::RollingRestart,
        Self::RestartWhenReady,
        Self::LeaderLoss,
        Self::DiskFull,
        Self::ReserveTaken,
        Self::DiskStaysFull,
        Self::HangEndsFull,
        Self::QuorumLoss,
        Self::DiskHang,
        Self::AgreementTorn,
        Self::AgreementRot,
        Self::BitRot,
        Self::Pause,
        Self::Standstill,
        Self::Partition,
        Self::OneWayPartition,
        Self::Loss,
        Self::Delay,
        Self::Reorder,
        Self::Reset,
        Self::ClockForward,
        Self::ClockBack,
        Self::Alteration,
    ];
}

/// A fault that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// When, in simulated microseconds.
    pub time_us: u64,
    /// The fault.
    pub fault: Fault,
    /// The node that it happened to; none where it was all of them, or a connection.
    pub node: Option<usize>,
}

/// The faults that have happened so far, in order. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Fired(Arc<Mutex<Vec<Happened>>>);

impl Fired {
    /// Notes that a fault has happened to a node, or to all.
    pub fn note(&self, fault: Fault, node: Option<usize>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Happened { time_us: now_us(), fault, node });
    }

    /// What has happened so far.
    pub fn all(&self) -> Vec<Happened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How often each fault has happened.
pub fn counts(happened: &[Happened]) -> BTreeMap<Fault, u64> {
    let mut counts = BTreeMap::new();
    for Happened { fault, .. } in happened {
        *counts.entry(*fault).or_default() += 1;
    }
    counts
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time_us, fault, node } = self;
        write!(f, "{time_us} us: {fault:?}")?;
        node.map_or(Ok(()), |node| write!(f, " of node {node}"))
    }
}
