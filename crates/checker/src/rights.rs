//! What producers might do by the maps that nodes acted on, and where their calls entered.
//!
//! Promises: plain data, and what follows from it for one call; what was not seen for all of a call's time is not known.
//! Must not know: verdicts, how rights are granted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a map lets a principal do with the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum May {
    /// Nothing.
    Nothing,
    /// Look events up.
    LookUp,
    /// Send events to be recorded as well.
    Observe,
}

/// A node acted on maps that all let a producer do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActedOn {
    /// The number of the node.
    pub node: usize,
    /// The producer.
    pub producer: u32,
    /// What it may do.
    pub may: May,
    /// When the node was first seen to act on such a map, in simulated microseconds.
    pub from_us: u64,
    /// When it was last seen to do so: the same process, and all the while.
    pub until_us: u64,
}

/// The time of a call, in simulated microseconds, and its producer.
#[derive(Clone, Copy, Debug)]
pub struct CallTime {
    /// The number of the call.
    pub call: usize,
    /// The producer.
    pub producer: u32,
    /// Its beginning.
    pub began_us: u64,
    /// Its end.
    pub returned_us: u64,
}

/// Who might do what, where a cluster asks for rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RightsRecord {
    /// Producers from whom a right was taken away at some time.
    pub revoked: BTreeSet<u32>,
    /// What nodes acted on.
    pub acted_on: Vec<ActedOn>,
    /// The nodes to which batches of a call may have been sent, by the number of the call.
    pub entries: BTreeMap<usize, BTreeSet<usize>>,
}

impl RightsRecord {
    /// The least and the most that a call might do where it entered; none where it may have entered at a node of which that
    /// is not known for all of the call's time.
    pub fn of_call(&self, time: CallTime) -> Option<(May, May)> {
        let entries = self.entries.get(&time.call)?;
        let all = entries.iter().map(|node| self.at(*node, time)).collect::<Option<Vec<May>>>()?;
        Some((*all.iter().min()?, *all.iter().max()?))
    }

    /// Returns what a call might do if it entered at this node.
    fn at(&self, node: usize, time: CallTime) -> Option<May> {
        let mut of_call = self.acted_on.iter().filter(|acted| acted.node == node && acted.producer == time.producer);
        let known = of_call.find(|acted| acted.from_us <= time.began_us && acted.until_us >= time.returned_us);
        known.map(|acted| acted.may)
    }
}

impl fmt::Display for RightsRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.acted_on.iter().try_for_each(|ActedOn { node, producer, may, from_us, until_us }| {
            writeln!(f, "node {node} lets producer {producer} do {may:?} from {from_us} us to {until_us} us")
        })
    }
}
