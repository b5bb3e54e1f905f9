//! Converts the cluster map and its records to and from protobuf messages.
//!
//! A decoded record of the cluster map is complete, keeps all limits, and has a filter definition that this version can
//! read. No message contains the secret of a filter.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use firstseen_filter::GenerationNumber;
use firstseen_routing::{
    AnswerWhen, COPIES_MAX, ClockSource, ClusterId, ClusterMap, Durability, Epoch, FilterHistory, FilterId,
    FilterPolicies, FilterRecord, Format, Incarnation, Lookup, NodeId, NodeRecord, SliceCopy, SliceOwner,
    SlicedDefinition, Thresholds, WhenLost,
};
use prost::Message;

use crate::limits::{DEFINITION_BYTES_MAX, FILTERS_MAX, NAME_TEXT_BYTES_MAX, NODES_MAX};
pub use crate::map_error::MapError;
use crate::map_error::check_length;
use crate::proto::producer as proto;
use crate::{line, tree};

/// Converts 16 bytes to the id of a cluster.
///
/// # Errors
/// Returns [`MapError::Count`] if there are more or fewer bytes.
pub fn cluster_id(bytes: &[u8]) -> Result<ClusterId, MapError> {
    match bytes.try_into() {
        Ok(id) => Ok(ClusterId(id)),
        Err(_) => Err(MapError::Count { field: "cluster_id", found: bytes.len(), expected: 16 }),
    }
}

impl From<&ClusterMap> for proto::ClusterMap {
    fn from(map: &ClusterMap) -> Self {
        Self {
            cluster_id: map.cluster.0.to_vec().into(),
            version: map.version,
            nodes: map.nodes.iter().map(|(id, node)| node_message(*id, node)).collect(),
            filters: map.filters.iter().map(|(id, filter)| filter_message(*id, filter)).collect(),
            next_filter: map.next_filter.0,
            format: map.format.0.into(),
        }
    }
}

impl TryFrom<proto::ClusterMap> for ClusterMap {
    type Error = MapError;

    fn try_from(message: proto::ClusterMap) -> Result<Self, MapError> {
        let (map, unreadable) = readable(message)?;
        match unreadable.into_iter().next() {
            None => Ok(map),
            Some(UnreadableFilter { error, .. }) => Err(error),
        }
    }
}

/// Filter of a cluster map that this version cannot read, most likely because a newer version has created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableFilter {
    /// Name of the filter.
    pub name: String,
    /// Reason why the filter cannot be read.
    pub error: MapError,
}

/// Decodes a cluster map, and separates the filters that this version cannot read. A client that uses other filters can
/// then continue.
///
/// # Errors
/// Returns [`MapError`] if the message is not a cluster map at all.
pub fn readable(message: proto::ClusterMap) -> Result<(ClusterMap, Vec<UnreadableFilter>), MapError> {
    check_length("nodes", message.nodes.len(), NODES_MAX)?;
    check_length("filters", message.filters.len(), FILTERS_MAX)?;
    let mut nodes = BTreeMap::new();
    for node in message.nodes {
        let (id, record) = node_record(node)?;
        if nodes.insert(id, record).is_some() {
            return Err(MapError::Twice { field: "nodes", id: id.0 });
        }
    }
    let mut filters = BTreeMap::new();
    let mut unreadable = Vec::new();
    for filter in message.filters {
        let name = filter.name.clone();
        match filter_record(filter) {
            Ok((id, record)) => {
                if filters.insert(id, record).is_some() {
                    return Err(MapError::Twice { field: "filters", id: id.0 });
                }
            }
            Err(error) => unreadable.push(UnreadableFilter { name, error }),
        }
    }
    let cluster = cluster_id(&message.cluster_id)?;
    let next_filter = FilterId(message.next_filter);
    let format = match message.format {
        0 => Format::FIRST,
        format => u8::try_from(format).map_or(Format(u8::MAX), Format),
    };
    let access = Arc::default();
    Ok((ClusterMap { cluster, version: message.version, nodes, filters, next_filter, format, access }, unreadable))
}

/// Encodes the record of a node.
pub fn node_message(id: NodeId, node: &NodeRecord) -> proto::Node {
    proto::Node {
        id: id.0,
        name: node.name.clone(),
        site: node.site.clone(),
        address: node.address.clone(),
        incarnation: node.incarnation.0,
        memory_bytes: node.memory_bytes,
        voter: node.voter,
        down: node.is_down,
    }
}

/// Decodes the record of a node.
///
/// # Errors
/// Returns a [`MapError`] that names the field.
pub fn node_record(message: proto::Node) -> Result<(NodeId, NodeRecord), MapError> {
    check_length("node.name", message.name.len(), NAME_TEXT_BYTES_MAX)?;
    check_length("node.site", message.site.len(), NAME_TEXT_BYTES_MAX)?;
    check_length("node.address", message.address.len(), NAME_TEXT_BYTES_MAX)?;
    let record = NodeRecord {
        name: message.name,
        site: message.site,
        address: message.address,
        incarnation: Incarnation(message.incarnation),
        memory_bytes: message.memory_bytes,
        voter: message.voter,
        is_down: message.down,
    };
    Ok((NodeId(message.id), record))
}

/// Encodes the record of a filter.
pub fn filter_message(id: FilterId, filter: &FilterRecord) -> proto::Filter {
    let policies = &filter.policies;
    let copies = filter.copies.iter().map(|copy| proto::SliceCopy {
        slice: copy.slice,
        owner: Some(owner_message(&copy.owner)),
        replaces: copy.replaces.map(|node| node.0),
        since_epoch: copy.since_epoch.0,
    });
    proto::Filter {
        id: id.0,
        name: filter.name.clone(),
        epoch: filter.epoch.0,
        definition_json: definition_json(&filter.definition),
        clock: clock_message(policies.clock).into(),
        lookup: lookup_message(policies.lookup).into(),
        answer: answer_message(policies.answer).into(),
        retry_horizon_ms: policies.retry_horizon_ms,
        owners: filter.owners.iter().map(owner_message).collect(),
        copies: copies.collect(),
        copies_wanted: policies.copies,
        generations: filter.generations.iter().map(|number| number.0).collect(),
        min_live: policies.thresholds.min_live,
        set_min: policies.thresholds.set_min,
        when_lost: when_lost_message(policies.when_lost).into(),
        branch: filter.branch.as_ref().map(tree::branch_message),
        origin: filter.line.origin.map_or(0, |origin| origin.0),
        former: filter.line.former.map_or(0, |former| former.0),
        closed: filter.line.closed.as_ref().map(line::closed_message),
        durability: durability_message(policies.durability).0.into(),
        durability_interval_ms: durability_message(policies.durability).1,
        lease_max_ms: policies.claim_lease_max_ms.map_or(0, NonZeroU32::get),
    }
}

fn owner_message(owner: &SliceOwner) -> proto::SliceOwner {
    let SliceOwner { node, complete_since, has_gap, missing_in } = owner;
    let missing_in = missing_in.map(|start| start.0);
    proto::SliceOwner { node_id: node.0, complete_since: complete_since.0, gap: *has_gap, missing_in }
}

fn owner(owner: &proto::SliceOwner) -> SliceOwner {
    SliceOwner {
        node: NodeId(owner.node_id),
        complete_since: Incarnation(owner.complete_since),
        has_gap: owner.gap,
        missing_in: owner.missing_in.map(Incarnation),
    }
}

/// Decodes the additional copies of slices, and checks three conditions: the copies must be sorted by slice, no slice
/// may have too many copies, and two copies of the same slice must not be on the same node.
fn copies(message: &[proto::SliceCopy], owners: &[SliceOwner]) -> Result<Vec<SliceCopy>, MapError> {
    check_length("filter.copies", message.len(), owners.len() * (COPIES_MAX - 1))?;
    let mut copies: Vec<SliceCopy> = Vec::with_capacity(message.len());
    for copy in message {
        let slice = copy.slice;
        let wrong = MapError::Unknown { field: "filter.copies", value: copy.slice.into() };
        let (Some(first), Some(owner)) = (owners.get(slice as usize), copy.owner.as_ref().map(owner)) else {
            return Err(wrong);
        };
        let same: Vec<_> = copies.iter().rev().take_while(|before| before.slice == slice).collect();
        let is_there = first.node == owner.node || same.iter().any(|before| before.owner.node == owner.node);
        let is_in_order = copies.last().is_none_or(|before| before.slice <= slice);
        if !is_in_order || same.len() + 2 > COPIES_MAX || is_there {
            return Err(wrong);
        }
        copies.push(SliceCopy {
            slice,
            owner,
            replaces: copy.replaces.map(NodeId),
            since_epoch: Epoch(copy.since_epoch),
        });
    }
    Ok(copies)
}

/// Maximum size of an encoded number, in bytes: a tag and 64 bits.
const NUMBER_BYTES_MAX: usize = 11;

/// Maximum size of an encoded slice owner, in bytes: three numbers and a flag, with tag and length.
const OWNER_BYTES_MAX: usize = 2 + 3 * NUMBER_BYTES_MAX + 2;

/// Maximum size of an encoded copy of a slice, in bytes: three numbers and an owner, with tag and length.
const COPY_BYTES_MAX: usize = 2 + 3 * NUMBER_BYTES_MAX + OWNER_BYTES_MAX;

/// Returns the maximum size that a filter's record can reach in the cluster map, in bytes. The record grows when nodes
/// restart or when new generations of cells open, so the result assumes the largest possible value for each such field.
pub fn filter_bytes_max(id: FilterId, filter: &FilterRecord) -> usize {
    let mut message = filter_message(id, filter);
    message.owners.clear();
    message.copies.clear();
    message.generations.clear();
    message.closed = None;
    let groups = filter.definition.slicing.groups() as usize;
    // The epoch and two thresholds can grow. The other two numbers are the tags and lengths of the record and of its
    // generations.
    let rest = 3 * NUMBER_BYTES_MAX + 2 * NUMBER_BYTES_MAX;
    let owners_bytes = filter.owners.len() * OWNER_BYTES_MAX + filter.copies.len() * COPY_BYTES_MAX;
    // Each node is listed at most twice.
    let closed_bytes = filter.line.closed.as_ref().map_or(0, |_| (4 + 2 * filter.nodes().len()) * NUMBER_BYTES_MAX);
    message.encoded_len() + owners_bytes + groups * NUMBER_BYTES_MAX + closed_bytes + rest
}

/// Returns the size of the encoded cluster map, in bytes.
pub fn map_bytes(map: &ClusterMap) -> usize {
    proto::ClusterMap::from(map).encoded_len()
}

/// Decodes the record of a filter.
///
/// # Errors
/// Returns a [`MapError`] that names the field.
pub fn filter_record(message: proto::Filter) -> Result<(FilterId, FilterRecord), MapError> {
    check_length("filter.name", message.name.len(), NAME_TEXT_BYTES_MAX)?;
    let definition = definition(&message.name, &message.definition_json)?;
    let slices = definition.slicing.slices() as usize;
    let groups = definition.slicing.groups() as usize;
    if message.owners.len() != slices {
        return Err(MapError::Count { field: "filter.owners", found: message.owners.len(), expected: slices });
    }
    if !message.generations.is_empty() && message.generations.len() != groups {
        let found = message.generations.len();
        return Err(MapError::Count { field: "filter.generations", found, expected: groups });
    }
    let owners: Vec<SliceOwner> = message.owners.iter().map(owner).collect();
    let record = FilterRecord {
        epoch: Epoch(message.epoch),
        policies: FilterPolicies {
            thresholds: Thresholds { min_live: message.min_live, set_min: message.set_min },
            when_lost: when_lost(message.when_lost)?,
            durability: durability(message.durability, message.durability_interval_ms)?,
            copies: message.copies_wanted,
            claim_lease_max_ms: NonZeroU32::new(message.lease_max_ms),
            ..policies(message.clock, message.lookup, message.answer, message.retry_horizon_ms)?
        },
        copies: copies(&message.copies, &owners)?,
        owners,
        generations: message.generations.into_iter().map(GenerationNumber).collect(),
        branch: message.branch.map(tree::branch).transpose()?,
        line: FilterHistory {
            origin: (message.origin > 0).then_some(FilterId(message.origin)),
            former: (message.former > 0).then_some(FilterId(message.former)),
            closed: message.closed.map(line::closed).transpose()?,
        },
        definition,
        name: message.name,
    };
    Ok((FilterId(message.id), record))
}

/// Encodes a filter definition as JSON.
pub fn definition_json(definition: &SlicedDefinition) -> String {
    serde_json::to_string(definition).expect("every definition can be written as JSON")
}

/// Parses the JSON definition of filter `filter`.
///
/// # Errors
/// Returns [`MapError::TooLong`] or [`MapError::Definition`].
pub fn definition(filter: &str, json: &str) -> Result<SlicedDefinition, MapError> {
    check_length("definition_json", json.len(), DEFINITION_BYTES_MAX)?;
    serde_json::from_str(json)
        .map_err(|error| MapError::Definition { filter: filter.to_owned(), reason: error.to_string() })
}

/// Decodes the policies of a filter from the fields of its record, or from a request that creates it.
///
/// # Errors
/// Returns a [`MapError::Unknown`] that names the field.
pub fn policies(clock: i32, lookup: i32, answer: i32, retry_horizon_ms: u32) -> Result<FilterPolicies, MapError> {
    let clock = match proto::ClockSource::try_from(clock) {
        Ok(proto::ClockSource::Event) => ClockSource::Event,
        Ok(proto::ClockSource::Wall) => ClockSource::Wall,
        _ => return Err(MapError::Unknown { field: "clock", value: clock.into() }),
    };
    let lookup = match proto::Lookup::try_from(lookup) {
        Ok(proto::Lookup::Pipelined) => Lookup::Pipelined,
        Ok(proto::Lookup::Parallel) => Lookup::Parallel,
        _ => return Err(MapError::Unknown { field: "lookup", value: lookup.into() }),
    };
    let answer = match proto::AnswerWhen::try_from(answer) {
        Ok(proto::AnswerWhen::Early) => AnswerWhen::Early,
        Ok(proto::AnswerWhen::Safe) => AnswerWhen::Safe,
        _ => return Err(MapError::Unknown { field: "answer", value: answer.into() }),
    };
    Ok(FilterPolicies { clock, lookup, answer, retry_horizon_ms, ..FilterPolicies::default() })
}

/// Decodes the durability of a filter from the fields of its record, or from a request that creates it.
///
/// # Errors
/// Returns [`MapError::Unknown`] if the value is not defined.
pub fn durability(durability: i32, interval_ms: u32) -> Result<Durability, MapError> {
    match proto::Durability::try_from(durability) {
        Ok(proto::Durability::Unspecified) => Ok(Durability::Memory),
        Ok(proto::Durability::Interval) => Ok(Durability::Interval { interval_ms }),
        Ok(proto::Durability::Durable) => Ok(Durability::Durable),
        _ => Err(MapError::Unknown { field: "durability", value: durability.into() }),
    }
}

/// Encodes the durability of a filter, with the interval in milliseconds.
pub fn durability_message(durability: Durability) -> (proto::Durability, u32) {
    match durability {
        Durability::Memory => (proto::Durability::Unspecified, 0),
        Durability::Interval { interval_ms } => (proto::Durability::Interval, interval_ms),
        Durability::Durable => (proto::Durability::Durable, 0),
    }
}

/// Decodes the policy for events that have lost too many slices, from the field of a filter's record or of a request
/// that creates the filter.
///
/// # Errors
/// Returns [`MapError::Unknown`] if the value is not defined.
pub fn when_lost(when_lost: i32) -> Result<WhenLost, MapError> {
    match proto::WhenLost::try_from(when_lost) {
        Ok(proto::WhenLost::Unspecified) => Ok(WhenLost::Undecided),
        Ok(proto::WhenLost::Duplicate) => Ok(WhenLost::Duplicate),
        Ok(proto::WhenLost::FirstSeen) => Ok(WhenLost::FirstSeen),
        _ => Err(MapError::Unknown { field: "when_lost", value: when_lost.into() }),
    }
}

/// Encodes the policy for events that have lost too many slices.
pub fn when_lost_message(when_lost: WhenLost) -> proto::WhenLost {
    match when_lost {
        WhenLost::Undecided => proto::WhenLost::Unspecified,
        WhenLost::Duplicate => proto::WhenLost::Duplicate,
        WhenLost::FirstSeen => proto::WhenLost::FirstSeen,
    }
}

/// Encodes the clock source, which says who stamps events.
pub fn clock_message(clock: ClockSource) -> proto::ClockSource {
    match clock {
        ClockSource::Event => proto::ClockSource::Event,
        ClockSource::Wall => proto::ClockSource::Wall,
    }
}

/// Encodes the lookup mode, which says in which order slices are asked.
pub fn lookup_message(lookup: Lookup) -> proto::Lookup {
    match lookup {
        Lookup::Pipelined => proto::Lookup::Pipelined,
        Lookup::Parallel => proto::Lookup::Parallel,
    }
}

/// Encodes the policy that says when the reply first-seen may be sent.
pub fn answer_message(answer: AnswerWhen) -> proto::AnswerWhen {
    match answer {
        AnswerWhen::Early => proto::AnswerWhen::Early,
        AnswerWhen::Safe => proto::AnswerWhen::Safe,
    }
}
