//! Records two facts about access rights: what the nodes allowed each producer to do, and at which nodes a call entered
//! the cluster. From these records, this module concludes which rights applied to a call. If the records do not cover
//! the whole time of the call, the result is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a map allows a principal to do with the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// The principal may do nothing.
    Nothing,
    /// The principal may look events up.
    LookUp,
    /// The principal may look events up and record events.
    Observe,
}

/// A time during which a node acted on maps that all gave a producer the same rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActedOn {
    /// Number of the node.
    pub node: usize,
    /// The producer.
    pub producer: u32,
    /// What the producer may do.
    pub may: Permission,
    /// Time at which the node was first seen to act on such a map, in simulated microseconds.
    pub from_us: u64,
    /// Time at which the node was last seen to act on such a map. It was the same process without interruption.
    pub until_us: u64,
}

/// The producer of a call and the time of the call, in simulated microseconds.
#[derive(Clone, Copy, Debug)]
pub struct CallTime {
    /// Number of the call.
    pub call: usize,
    /// The producer.
    pub producer: u32,
    /// Begin of the call.
    pub began_us: u64,
    /// End of the call.
    pub returned_us: u64,
}

/// What each producer was allowed to do at what time, if the cluster checks access rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RightsRecord {
    /// Producers whose right was revoked at some time.
    pub revoked: BTreeSet<u32>,
    /// The rights that nodes acted on.
    pub acted_on: Vec<ActedOn>,
    /// The nodes to which batches of a call may have been sent, by the number of the call.
    pub entries: BTreeMap<usize, BTreeSet<usize>>,
}

impl RightsRecord {
    /// Returns the smallest and the greatest right that applied to a call at the nodes that it may have entered.
    /// Returns `None` if the rights at one of these nodes are not known for the whole duration of the call.
    pub fn of_call(&self, time: CallTime) -> Option<(Permission, Permission)> {
        let entries = self.entries.get(&time.call)?;
        let all = entries.iter().map(|node| self.at(*node, time)).collect::<Option<Vec<Permission>>>()?;
        Some((*all.iter().min()?, *all.iter().max()?))
    }

    /// Returns what a call was allowed to do if it entered at this node.
    fn at(&self, node: usize, time: CallTime) -> Option<Permission> {
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
