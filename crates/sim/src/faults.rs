//! The faults of a storm. A fault is counted when it has happened, not when it was tried.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::now_us;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A process ends without notice.
    Kill,
    /// A node loses its power. Some or all data that its disk has not synced is lost.
    PowerCut,
    /// In a power cut, some sectors that were not synced are on the disk, and others are not.
    TornWrite,
    /// All nodes lose their power at once.
    Blackout,
    /// All nodes are restarted, one after the other.
    RollingRestart,
    /// All nodes are restarted, and each node ends as soon as the previous one reports that it is ready.
    RestartWhenReady,
    /// The node that leads the consensus group ends while slices move.
    LeaderLoss,
    /// The disk of a node is full for a while, both for its journal and for the consensus log.
    DiskFull,
    /// The disk of a node is full for a while, and another program has taken the room that was reserved for the
    /// consensus log.
    ReserveTaken,
    /// The disk of a node stays full for longer than the node waits for room.
    DiskStaysFull,
    /// The disk of a node stays full for longer than the node waits for room, after a sync has hung.
    HangEndsFull,
    /// So many nodes end that no quorum is left, while the disk of a node is full.
    QuorumLoss,
    /// A sync of a node's journal hangs for a second up to a minute.
    DiskHang,
    /// A node loses its power in the middle of a write to the consensus log. Some sectors of the write are on the disk,
    /// and others are not.
    AgreementTorn,
    /// Bits of a node's consensus log have changed while the node was down.
    AgreementRot,
    /// Bits of a node's journal have changed while the node was down.
    BitRot,
    /// A node stops together with its clock, and continues later.
    Pause,
    /// A machine is suspended together with all of its clocks, for so long that the other nodes may continue without
    /// its node. When the machine resumes, its clocks are behind.
    Standstill,
    /// A node and the other nodes cannot reach each other. Messages arrive in the end, or connections break.
    Partition,
    /// Messages from one node to the others are lost, while messages from the others to it arrive.
    OneWayPartition,
    /// Messages between a node and the others are lost for a moment, and their connections break.
    Loss,
    /// Messages between a node and the others are delayed.
    Delay,
    /// Messages of one connection arrive long before those of another.
    Reorder,
    /// The connections of a node or of a producer are reset.
    Reset,
    /// The clock of a node is set forward.
    ClockForward,
    /// The clock of a node is set back.
    ClockBack,
    /// A new filter replaces the filter under its name. The new filter has a different slicing, room for more events,
    /// or a different secret.
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
    /// Time of the fault, in simulated microseconds.
    pub time_us: u64,
    /// The fault.
    pub fault: Fault,
    /// The node to which the fault happened. `None` if it happened to all nodes or to a connection.
    pub node: Option<usize>,
}

/// The faults that have happened so far, in order. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Fired(Arc<Mutex<Vec<Happened>>>);

impl Fired {
    /// Adds a fault that has happened to a node, or to all nodes.
    pub fn note(&self, fault: Fault, node: Option<usize>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Happened { time_us: now_us(), fault, node });
    }

    /// Returns the faults that have happened so far.
    pub fn all(&self) -> Vec<Happened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns how often each fault has happened.
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
