//! Commands that change the cluster's map, and their outcomes.
//!
//! Promises: plain data that says the same on every node; a command has an id, so that a command proposed twice is done
//! once. Must not know: how commands are agreed on, where they are applied.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use firstseen_filter::{GenerationNumber, UnitNumber};
use firstseen_routing::{
    ClusterId, Epoch, FilterId, FilterPolicies, FilterRecord, Format, Incarnation, NodeId, SecretMaterial, SliceMove,
    SlicedDefinition, TreeSpec,
};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::access_change::AccessChange;
use crate::asked_by::AskedBy;

/// Most bytes of an encoded command: many in one message to a follower must not exceed the message's limit.
pub const COMMAND_BYTES_MAX: usize = 96 << 10;

/// The id of a command; drawn at random by the proposer, and the same when it proposes again.
pub type CommandId = [u8; 16];

/// A change of the map that is proposed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// A command that is proposed twice under one id is done once, and answered the same.
    pub id: CommandId,
    /// The change that is proposed.
    pub change: Change,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.change.name())
    }
}

/// The profile of a node, as the node gives it.
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
    FoundCluster {
        /// The cluster.
        cluster: ClusterId,
        /// Its first node.
        profile: NodeProfile,
    },
    /// A node joins. Answered with [`Outcome::NodeAdded`].
    AddNode {
        /// The node's profile.
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
    /// A filter is dropped, with all it has recorded. Answered with [`Outcome::Done`].
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
        number: GenerationNumber,
    },
    /// A node's slices of a group are complete; slices that were on their way to it are there. Answered with
    /// [`Outcome::Done`], also where the node has started again since, or is down.
    SlicesComplete {
        /// The filter.
        filter: FilterId,
        /// The group.
        group: u32,
        /// Their numbers in the group.
        slices: Vec<u32>,
        /// The filter's epoch as the node knows it: slices that were given to the node since then are not meant.
        epoch: Epoch,
        /// The node.
        node: NodeId,
        /// Its start that says so.
        incarnation: Incarnation,
    },
    /// A node cannot hold its slices of a group, until it starts anew. Answered with [`Outcome::Done`].
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
        /// The node that reports.
        by: NodeId,
        /// Its start.
        by_incarnation: Incarnation,
        /// The other node.
        peer: NodeId,
        /// The start of that node that is meant.
        peer_incarnation: Incarnation,
        /// Whether it can be reached.
        is_reached: bool,
    },
    /// Another filter follows under the name of one that is closed by it. Answered with [`Outcome::FilterCreated`].
    AlterFilter(AlteredFilter),
    /// A node has no event in flight any more that began before a filter was closed. Answered with [`Outcome::Done`].
    FilterEnded {
        /// The filter that is closed.
        filter: FilterId,
        /// The node.
        node: NodeId,
        /// Its start that says so.
        incarnation: Incarnation,
        /// No event was recorded there in a later unit.
        newest_unit: UnitNumber,
    },
    /// By the clock of a node all events of a closed filter have expired. Answered with [`Outcome::Done`].
    FilterPassed {
        /// The filter that is closed.
        filter: FilterId,
        /// The node.
        node: NodeId,
        /// Its start that says so.
        incarnation: Incarnation,
    },
    /// The former filter of an altered one goes now, also where its events still count. Answered with
    /// [`Outcome::Done`].
    FinishAlteration {
        /// The name of the filter.
        name: String,
    },
    /// The losses of a filter are forgiven: all slices whose nodes are not down count as complete. Answered with
    /// [`Outcome::Done`].
    ForgiveFilter {
        /// Its name.
        name: String,
        /// Starts of nodes that were down for so long that none of them may record any more. Other nodes that are down
        /// now may.
        ended: BTreeMap<NodeId, Incarnation>,
    },
    /// A filter of a backup, under a name by which nobody asks it. Answered with [`Outcome::FilterCreated`].
    RestoreFilter(NewRestore),
    /// A filter of a backup has its cells, and gets its name. Answered with [`Outcome::Done`].
    FinishRestore {
        /// The filter, or the root of the tree.
        filter: FilterId,
    },
    /// The others are to go on without a node's slices of a group, until it starts anew, if they have complete copies
    /// of all of them. Answered with [`Outcome::Done`], also where they have not.
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
    /// A cluster begins with its first node, and writes this format. Answered with [`Outcome::NodeAdded`].
    FoundAs {
        /// The cluster.
        cluster: ClusterId,
        /// Its first node.
        profile: NodeProfile,
        /// The format.
        format: Format,
    },
    /// The cluster writes this format from now on, which all nodes read; programs that do not read it have no part in it any
    /// more. Answered with [`Outcome::Done`].
    Raise {
        /// The format.
        format: Format,
    },
    /// Another change, by somebody who has asked for it. Answered as that is.
    By {
        /// Who.
        asked_by: AskedBy,
        /// The change; none by somebody else.
        change: Asked,
    },
    /// Who may do what. Answered with [`Outcome::Done`].
    Access(AccessChange),
}

/// A change that somebody has asked for. There is none within another: bytes that nest them by the thousand are no value, and take
/// no stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Asked(Box<Change>);

thread_local! {
    /// Whether a change that somebody has asked for is being read.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

impl Asked {
    /// A change of its own.
    pub fn new(change: Change) -> Self {
        Self(Box::new(change))
    }

    /// The change.
    pub fn get(&self) -> &Change {
        &self.0
    }

    /// The change, for who makes it.
    pub(crate) fn into_change(self) -> Change {
        *self.0
    }
}

impl<'de> Deserialize<'de> for Asked {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        if IS_READING.replace(true) {
            return Err(de::Error::custom("a change names two that have asked for it"));
        }
        let read = Change::deserialize(source);
        IS_READING.set(false);
        read.map(Self::new)
    }
}

impl Change {
    /// The first format that can express the change: a new change names the format that came with it.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::FoundAs { .. } | Self::Raise { .. } | Self::By { .. } => Format(11),
            Self::Access(change) => change.format(),
            // All are named, so that none is forgotten.
            Self::FoundCluster { .. }
            | Self::AddNode { .. }
            | Self::NodeStarted { .. }
            | Self::SetVoter { .. }
            | Self::RemoveNode { .. }
            | Self::CreateFilter(_)
            | Self::DropFilter { .. }
            | Self::OpenGeneration { .. }
            | Self::SlicesComplete { .. }
            | Self::SlicesMissing { .. }
            | Self::SlicesSpared { .. }
            | Self::MoveSlices { .. }
            | Self::CancelMoves { .. }
            | Self::PeerReached { .. }
            | Self::ForgiveFilter { .. }
            | Self::RestoreFilter(_)
            | Self::FinishRestore { .. }
            | Self::AlterFilter(_)
            | Self::FilterEnded { .. }
            | Self::FilterPassed { .. }
            | Self::FinishAlteration { .. } => Format::FIRST,
        }
    }

    /// Whether the change takes more room and can wait: no change that a cluster needs to go on, nor one that makes
    /// room.
    pub(crate) fn can_wait(&self) -> bool {
        match self {
            Self::By { change, .. } => change.get().can_wait(),
            Self::Access(change) => change.can_wait(),
            Self::AddNode { .. } | Self::CreateFilter(_) | Self::AlterFilter(_) | Self::RestoreFilter(_) => true,
            _ => false,
        }
    }

    /// What the change is about, for people: the name or the number of a filter, a node, a principal; never a secret.
    pub fn subject(&self) -> String {
        match self {
            Self::FoundCluster { profile, .. } | Self::FoundAs { profile, .. } | Self::AddNode { profile } => {
                profile.name.clone()
            }
            Self::NodeStarted { node, .. }
            | Self::SetVoter { node, .. }
            | Self::RemoveNode { node }
            | Self::PeerReached { peer: node, .. } => format!("node {node}"),
            Self::CreateFilter(NewFilter { name, .. })
            | Self::AlterFilter(AlteredFilter { name, .. })
            | Self::DropFilter { name }
            | Self::CancelMoves { name }
            | Self::ForgiveFilter { name, .. }
            | Self::FinishAlteration { name } => name.clone(),
            Self::RestoreFilter(NewRestore { places, .. }) => {
                places.first().map(|place| place.record.name.clone()).unwrap_or_default()
            }
            Self::OpenGeneration { filter, .. }
            | Self::SlicesComplete { filter, .. }
            | Self::SlicesMissing { filter, .. }
            | Self::SlicesSpared { filter, .. }
            | Self::MoveSlices { filter, .. }
            | Self::FilterEnded { filter, .. }
            | Self::FilterPassed { filter, .. }
            | Self::FinishRestore { filter } => format!("filter {filter}"),
            Self::Raise { format } => format!("format {format}"),
            Self::By { change, .. } => change.get().subject(),
            Self::Access(change) => change.subject(),
        }
    }

    /// The name of the change in logs; secrets never show.
    pub fn name(&self) -> &'static str {
        match self {
            Self::FoundCluster { .. } => "found",
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
            Self::FoundAs { .. } => "found-as",
            Self::Raise { .. } => "raise",
            Self::By { change, .. } => change.get().name(),
            Self::Access(change) => change.name(),
        }
    }
}

/// The change, with the word of who has asked for it.
pub(crate) fn by(asked_by: Option<AskedBy>, change: Change) -> Change {
    match asked_by {
        Some(asked_by) => Change::By { asked_by, change: Asked::new(change) },
        None => change,
    }
}

/// A filter that is to be created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewFilter {
    /// The filter's name for users.
    pub name: String,
    /// All that answers depend on, beside the secret.
    #[serde(with = "as_json")]
    pub definition: SlicedDefinition,
    /// What it does beside filtering.
    pub policies: FilterPolicies,
    /// The material of its hash secret.
    pub secret: SecretMaterial,
    /// Whether a filter of this name, definition and policies that exists already is no refusal.
    pub if_absent: bool,
    /// The tree whose root it is, with the levels below.
    pub tree: Option<TreeSpec>,
}

/// A filter of a backup that is to be restored.
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
    /// Its record; the former owners of its slices do not matter.
    pub record: FilterRecord,
    /// The sites whose nodes may own its slices; anywhere where there are none.
    pub sites: Vec<String>,
}

/// The altered form of a filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlteredFilter {
    /// What it is called.
    pub name: String,
    /// The filter that is meant: a filter that has followed it since is not altered.
    pub filter: FilterId,
    /// All that answers depend on, beside the secret.
    #[serde(with = "as_json")]
    pub definition: SlicedDefinition,
    /// The material of another hash secret; none where that stays.
    pub secret: Option<SecretMaterial>,
    /// Whether the former filter goes at once, with all of its events, so that the clock begins anew.
    pub forgets: bool,
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The command is done.
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
        /// Whether it counts as up.
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
