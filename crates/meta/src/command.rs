//! What may be asked of the cluster's map, and what comes of it.
//!
//! Promises: plain data that says the same on every node; a command has an id, so that asked twice it is done once.
//! Must not know: how commands are agreed on, where they are applied.

use std::fmt;

use firstseen_routing::{
    ClusterId, FilterId, FilterPolicies, Incarnation, NodeId, SecretMaterial, SliceMove, SlicedDefinition, TreeSpec,
};
use firstseen_wire::limits::MAP_FILTERS_BYTES_MAX;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most bytes of a command as they are written down: many in one message to a follower must not exceed its limit.
pub const COMMAND_BYTES_MAX: usize = 96 << 10;

/// Names a command; drawn at random by who asks, and the same when it asks again.
pub type CommandId = [u8; 16];

/// A change of the map that somebody asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Asked twice under one id, it is done once and answered the same.
    pub id: CommandId,
    /// What is asked for.
    pub change: Change,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.change.name())
    }
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProfile {
    /// What its certificate says.
    pub name: String,
    /// Datacenter or location.
    pub site: String,
    /// Where others reach it: `host:port`.
    pub address: String,
    /// Bytes of cells that it may be given.
    pub memory_bytes: u64,
}

/// What a command changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "commands are few and soon forgotten")]
pub enum Change {
    /// A cluster begins with its first node. Answered with [`Outcome::NodeAdded`].
    Found {
        /// The cluster.
        cluster: ClusterId,
        /// Its first node.
        profile: NodeProfile,
    },
    /// A node joins. Answered with [`Outcome::NodeAdded`].
    AddNode {
        /// What it says of itself.
        profile: NodeProfile,
    },
    /// The process of a node has started. Answered with [`Outcome::NodeStarted`].
    NodeStarted {
        /// The node.
        node: NodeId,
        /// Where it is reached from now on.
        address: String,
        /// Where it is.
        site: String,
        /// Bytes of cells that it may be given.
        memory_bytes: u64,
    },
    /// A node votes on the map from now on, or no longer. Answered with [`Outcome::Done`].
    SetVoter {
        /// The node.
        node: NodeId,
        /// Whether it votes.
        voter: bool,
    },
    /// A node that owns no slices leaves for good. Answered with [`Outcome::Done`].
    RemoveNode {
        /// The node.
        node: NodeId,
    },
    /// A filter. Answered with [`Outcome::FilterCreated`].
    CreateFilter(NewFilter),
    /// A filter is forgotten, with all it has recorded. Answered with [`Outcome::Done`].
    DropFilter {
        /// Its name.
        name: String,
    },
    /// A group of slices opens its next generation of cells. Answered with [`Outcome::Done`].
    OpenGeneration {
        /// The filter.
        filter: FilterId,
        /// The group.
        group: u32,
        /// One more than the newest.
        number: u64,
    },
    /// Slices that a node has of a group have all that counts; those that were on their way to it are there. Answered with
    /// [`Outcome::Done`], also where the node has started again since, or is down.
    SlicesComplete {
        /// The filter.
        filter: FilterId,
        /// The group.
        group: u32,
        /// Their numbers in the group.
        slices: Vec<u32>,
        /// The epoch of the filter that is known there: what has been given to the node since then is not meant.
        epoch: u64,
        /// The node.
        node: NodeId,
        /// Its start that says so.
        incarnation: Incarnation,
    },
    /// A node cannot hold what it has of a group, until it starts anew. Answered with [`Outcome::Done`].
    SlicesMissing {
        /// The filter.
        filter: FilterId,
        /// The group.
        group: u32,
        /// The node.
        node: NodeId,
        /// Its start that says so.
        incarnation: Incarnation,
    },
    /// Copies of slices begin to move to other nodes, all of them or none. Answered with [`Outcome::Done`].
    MoveSlices {
        /// The filter.
        filter: FilterId,
        /// The copies.
        moves: Vec<SliceMove>,
    },
    /// Moves that are under way are given up. Answered with [`Outcome::Done`].
    CancelMoves {
        /// The name of the filter.
        name: String,
    },
    /// A node cannot reach another, or can again. Once more than half of the nodes that are not down cannot, it is down,
    /// until it starts anew. Answered with [`Outcome::Done`].
    PeerReached {
        /// The node that says so.
        by: NodeId,
        /// Its start.
        by_incarnation: Incarnation,
        /// The other node.
        peer: NodeId,
        /// The start of it that is meant.
        peer_incarnation: Incarnation,
        /// Whether it can be reached.
        is_reached: bool,
    },
    /// What a filter has lost is forgiven: all slices whose nodes are not down count as complete. Answered with
    /// [`Outcome::Done`].
    ForgiveFilter {
        /// Its name.
        name: String,
    },
}

impl Change {
    /// What it is called in logs; secrets never show.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Found { .. } => "found",
            Self::AddNode { .. } => "add-node",
            Self::NodeStarted { .. } => "node-started",
            Self::SetVoter { .. } => "set-voter",
            Self::RemoveNode { .. } => "remove-node",
            Self::CreateFilter(_) => "create-filter",
            Self::DropFilter { .. } => "drop-filter",
            Self::OpenGeneration { .. } => "open-generation",
            Self::SlicesComplete { .. } => "slices-complete",
            Self::SlicesMissing { .. } => "slices-missing",
            Self::MoveSlices { .. } => "move-slices",
            Self::CancelMoves { .. } => "cancel-moves",
            Self::PeerReached { .. } => "peer-reached",
            Self::ForgiveFilter { .. } => "forgive-filter",
        }
    }
}

/// A filter that somebody asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewFilter {
    /// What users will call it.
    pub name: String,
    /// All that answers depend on, beside the secret.
    #[serde(with = "as_json")]
    pub definition: SlicedDefinition,
    /// What it does beside filtering.
    pub policies: FilterPolicies,
    /// The material of its hash secret.
    pub secret: SecretMaterial,
    /// No refusal where a filter of this name, definition and policies exists.
    pub if_absent: bool,
    /// The tree whose root it is, with the levels below.
    pub tree: Option<TreeSpec>,
}

/// What a command has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It is done, and there is nothing more to tell.
    Done,
    /// The node has this number.
    NodeAdded(NodeId),
    /// The node's process counts as this start.
    NodeStarted(Incarnation),
    /// The filter has this number.
    FilterCreated {
        /// The filter.
        filter: FilterId,
        /// Whether it was there before.
        existed: bool,
    },
}

/// Why a command was refused. Nothing has changed, and asking again under its id is refused again.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// A name or an address that cannot be one.
    #[error("{what} `{value}` is refused: {rule}")]
    Text {
        /// What it should be.
        what: String,
        /// What was given, cut to what can be shown.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// Too much at once.
    #[error("the command {command} has {bytes} bytes, at most {COMMAND_BYTES_MAX} are allowed: use shorter names")]
    TooLarge {
        /// What was asked for.
        command: String,
        /// Its bytes.
        bytes: u64,
    },
    /// As many as there may be.
    #[error("the cluster has {most} {what}, and that is the most")]
    Full {
        /// Of what.
        what: String,
        /// How many there may be.
        most: u64,
    },
    /// The cluster has been founded.
    #[error("the cluster has nodes already: let this node join it")]
    Founded,
    /// Nothing may change before a cluster is founded.
    #[error("the cluster has no nodes yet: wait until its first node has started")]
    NotFounded,
    /// A living node has the name.
    #[error("node {node} is called `{name}`: choose another name, or let node {node} leave first")]
    NameTaken {
        /// The name.
        name: String,
        /// Who has it.
        node: NodeId,
    },
    /// A living node has the address.
    #[error("node {node} is at {address}: choose another address, or let node {node} leave first")]
    AddressTaken {
        /// The address.
        address: String,
        /// Who has it.
        node: NodeId,
    },
    /// There is no such node, or there is no more.
    #[error("node {node} is not in the cluster: see the nodes with `status`")]
    NodeUnknown {
        /// The node.
        node: NodeId,
    },
    /// A cluster without nodes has no truth.
    #[error("node {node} is the last of the cluster and cannot leave: stop it and remove its data instead")]
    LastNode {
        /// The node.
        node: NodeId,
    },
    /// Its cells would be lost.
    #[error(
        "node {node} owns slices of {}: move them to other nodes with `firstseen cluster drain`, or drop those filters",
        filters.join(", ")
    )]
    NodeOwnsSlices {
        /// The node.
        node: NodeId,
        /// Names of the filters.
        filters: Vec<String>,
    },
    /// A filter of this name exists.
    #[error("a filter `{name}` exists: choose another name, or drop it first")]
    FilterExists {
        /// The name.
        name: String,
    },
    /// A filter of this name exists and is another.
    #[error("a filter `{name}` exists with another {differs}: choose another name, or drop it first")]
    FilterDiffers {
        /// The name.
        name: String,
        /// What differs.
        differs: String,
    },
    /// There is no such filter.
    #[error("there is no filter {name}: see the filters with `status`")]
    FilterUnknown {
        /// Its name or number.
        name: String,
    },
    /// The definition cannot live in a cluster.
    #[error("filter `{name}`: {reason}")]
    Definition {
        /// The filter.
        name: String,
        /// What is wrong, and what to change.
        reason: String,
    },
    /// There is no such tree.
    #[error("filter `{name}`: {reason}")]
    Tree {
        /// The filter.
        name: String,
        /// What is wrong, and what to change.
        reason: String,
    },
    /// A level of a tree lives and dies with its root.
    #[error("filter `{name}` is a level of the tree `{root}`: drop that")]
    Level {
        /// The filter.
        name: String,
        /// The root.
        root: String,
    },
    /// The nodes have no room.
    #[error(
        "filter `{name}` takes {needed_bytes} bytes in slices of {slice_bytes}, and {lacking_bytes} bytes do not fit on \
         the nodes that have started ({free_bytes} bytes free): add nodes, raise their memory, or make the filter \
         smaller"
    )]
    Memory {
        /// The filter.
        name: String,
        /// Bytes of all its slices, with every generation.
        needed_bytes: u64,
        /// Bytes of one slice.
        slice_bytes: u64,
        /// Bytes of all slices that found no place.
        lacking_bytes: u64,
        /// Bytes that the nodes have left.
        free_bytes: u64,
    },
    /// Copies of a slice are on nodes of their own.
    #[error(
        "filter `{name}` with {copies} further copies needs {} nodes, and {nodes} have started there: add nodes, or ask for \
         fewer --copies", copies + 1
    )]
    Copies {
        /// The filter.
        name: String,
        /// Copies beside the first.
        copies: u32,
        /// Nodes that could have one.
        nodes: u64,
    },
    /// A slice cannot go there, or not now.
    #[error("slices of filter `{name}` are not moved: {reason}")]
    Move {
        /// The filter.
        name: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Not the next generation, or one too many.
    #[error("generation {number} of group {group} of filter {filter}: the newest is {newest}, and {rule}")]
    Generation {
        /// The filter.
        filter: FilterId,
        /// The group.
        group: u32,
        /// The generation asked for.
        number: u64,
        /// The newest.
        newest: u64,
        /// What may be opened.
        rule: String,
    },
    /// A node that should join cannot.
    #[error("the node at {address} cannot join: {reason}")]
    Candidate {
        /// Where it was asked.
        address: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// The map would be too large for a message.
    #[error(
        "filter `{name}` with {slices} slices takes up to {bytes} bytes in the cluster's map, and {free_bytes} of \
         {MAP_FILTERS_BYTES_MAX} are left: use fewer slices, or drop filters that are not needed"
    )]
    MapFull {
        /// The filter.
        name: String,
        /// Its slices.
        slices: u32,
        /// Bytes of its record, with all that changes in it.
        bytes: u64,
        /// Bytes that are left.
        free_bytes: u64,
    },
}

/// A definition as JSON: its serde attributes suit formats that describe themselves, and ours does not.
mod as_json {
    use firstseen_routing::SlicedDefinition;
    use serde::{Deserialize, Deserializer, Serializer, de, ser};

    pub(super) fn serialize<S: Serializer>(definition: &SlicedDefinition, sink: S) -> Result<S::Ok, S::Error> {
        sink.serialize_str(&serde_json::to_string(definition).map_err(ser::Error::custom)?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<SlicedDefinition, D::Error> {
        serde_json::from_str(&String::deserialize(source)?).map_err(de::Error::custom)
    }
}
