//! What may be asked of the cluster's map, and what comes of it.
//!
//! Promises: plain data that says the same on every node; a command has an id, so that asked twice it is done once.
//! Must not know: how commands are agreed on, where they are applied.

use std::collections::BTreeMap;
use std::fmt;

use firstseen_routing::{
    ClusterId, FilterId, FilterPolicies, FilterRecord, Incarnation, NodeId, SecretMaterial, SliceMove,
    SlicedDefinition, TreeSpec,
};
use serde::{Deserialize, Serialize};

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
    /// Another filter follows under the name of one that is closed by it. Answered with [`Outcome::FilterCreated`].
    AlterFilter(AlteredFilter),
    /// A node has nothing in flight any more that began before a filter was closed. Answered with [`Outcome::Done`].
    FilterEnded {
        /// The filter that is closed.
        filter: FilterId,
        /// The node.
        node: NodeId,
        /// Its start that says so.
        incarnation: Incarnation,
        /// Nothing was recorded there in a later unit.
        newest_unit: u64,
    },
    /// By the clock of a node all that a closed filter has recorded has expired. Answered with [`Outcome::Done`].
    FilterPassed {
        /// The filter that is closed.
        filter: FilterId,
        /// The node.
        node: NodeId,
        /// Its start that says so.
        incarnation: Incarnation,
    },
    /// What was there before a filter was altered goes now, whatever it has. Answered with [`Outcome::Done`].
    FinishAlteration {
        /// The name of the filter.
        name: String,
    },
    /// What a filter has lost is forgiven: all slices whose nodes are not down count as complete. Answered with
    /// [`Outcome::Done`].
    ForgiveFilter {
        /// Its name.
        name: String,
        /// Starts of nodes that were down for so long that none of them may record any more. Another one that is down now may.
        ended: BTreeMap<NodeId, Incarnation>,
    },
    /// A filter of a backup, under a name by which nobody asks it. Answered with [`Outcome::FilterCreated`].
    RestoreFilter(NewRestore),
    /// Such a filter has its cells, and gets its name. Answered with [`Outcome::Done`].
    FinishRestore {
        /// The filter, or the root of the tree.
        filter: FilterId,
    },
    /// The others are to go on without what a node has of a group, until it starts anew, if they have copies of all of it that are
    /// complete. Answered with [`Outcome::Done`], also where they have not.
    SlicesSpared {
        /// The filter.
        filter: FilterId,
        /// The group.
        group: u32,
        /// The node.
        node: NodeId,
        /// Its start that says so.
        incarnation: Incarnation,
    },
}

impl Change {
    /// Whether somebody wants more of the cluster than it has to keep already, and can wait for it: not what a cluster lives
    /// by, nor what makes room.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self, Self::AddNode { .. } | Self::CreateFilter(_) | Self::AlterFilter(_) | Self::RestoreFilter(_))
    }

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
            Self::RestoreFilter(_) => "restore-filter",
            Self::FinishRestore { .. } => "finish-restore",
            Self::AlterFilter(_) => "alter-filter",
            Self::FilterEnded { .. } => "filter-ended",
            Self::FilterPassed { .. } => "filter-passed",
            Self::FinishAlteration { .. } => "finish-alteration",
            Self::SlicesSpared { .. } => "slices-spared",
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

/// A filter of a backup that somebody wants back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewRestore {
    /// The filter, or all levels of a tree by rising number.
    #[serde(with = "as_json")]
    pub places: Vec<RestoredPlace>,
    /// The material of its hash secret.
    pub secret: SecretMaterial,
}

/// A filter, or the level of a tree, as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestoredPlace {
    /// Its record; who has had its slices does not matter.
    pub record: FilterRecord,
    /// The sites whose nodes may own its slices; anywhere where there are none.
    pub sites: Vec<String>,
}

/// What a filter is to be from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlteredFilter {
    /// What it is called.
    pub name: String,
    /// The filter that is meant: one that has followed it since is not altered.
    pub filter: FilterId,
    /// All that answers depend on, beside the secret.
    #[serde(with = "as_json")]
    pub definition: SlicedDefinition,
    /// The material of another hash secret; none where that stays.
    pub secret: Option<SecretMaterial>,
    /// The former filter goes at once, with all that it remembers: so that the clock begins anew.
    pub forgets: bool,
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
    /// The start of a node that was asked about counts as up, or not: nothing was changed.
    Confirmed {
        /// Whether it does.
        is_up: bool,
    },
}

/// As JSON: the serde attributes of definitions suit formats that describe themselves, and ours does not.
mod as_json {
    use serde::de::DeserializeOwned;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

    pub(super) fn serialize<T: Serialize, S: Serializer>(value: &T, sink: S) -> Result<S::Ok, S::Error> {
        sink.serialize_str(&serde_json::to_string(value).map_err(ser::Error::custom)?)
    }

    pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(source: D) -> Result<T, D::Error> {
        serde_json::from_str(&String::deserialize(source)?).map_err(de::Error::custom)
    }
}
