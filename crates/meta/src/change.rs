//! Changes of the cluster's map, as they are proposed.
//!
//! Changes are plain data, with the same meaning on every node. This module does not know how a change is carried out.

use std::collections::BTreeMap;
use std::fmt;

use firstseen_filter::{GenerationNumber, UnitNumber};
use firstseen_routing::{
    ClusterId, Epoch, FilterId, FilterPolicies, FilterRecord, Format, Incarnation, NodeId, SecretMaterial, SliceMove,
    SlicedDefinition, TreeSpec,
};
use serde::{Deserialize, Serialize};

use crate::access_change::AccessChange;
use crate::asked_by::{AskedBy, FORMAT_OF_WHO_ASKS};

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
    /// Not a change: in the bytes of a [`Command`](crate::Command) that somebody has asked for, this stands before the
    /// change. It keeps the number that it has there. No command that can be read has it as its change.
    By(Requester),
    /// Who may do what. Answered with [`Outcome::Done`].
    Access(AccessChange),
}

/// Who has asked for the change that follows in the bytes of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requester(pub(crate) AskedBy);

impl Change {
    /// Returns the name of the change in logs.
    pub fn name(&self) -> &'static str {
        self.description().name
    }

    /// Returns what the change is about, for people: a filter, a node or a principal, never a secret.
    pub fn subject(&self) -> String {
        self.description().subject.to_string()
    }

    /// Returns the first format that can express the change.
    pub(crate) fn format(&self) -> Format {
        self.description().format
    }

    /// Returns whether the change takes more room and can wait. A change that a cluster needs to go on cannot, nor can
    /// one that makes room.
    pub(crate) fn can_wait(&self) -> bool {
        self.description().can_wait
    }

    fn description(&self) -> Description<'_> {
        use Subject::{Access, Filter, Name, Node, Raised};
        match self {
            Self::FoundCluster { profile, .. } => Description::new("found", Name(&profile.name)),
            Self::FoundAs { profile, .. } => Description::new("found-as", Name(&profile.name)).since(Format(11)),
            Self::AddNode { profile } => Description::new("add-node", Name(&profile.name)).waiting(),
            Self::NodeStarted { node, .. } => Description::new("node-started", Node(*node)),
            Self::SetVoter { node, .. } => Description::new("set-voter", Node(*node)),
            Self::RemoveNode { node } => Description::new("remove-node", Node(*node)),
            Self::PeerReached { peer, .. } => Description::new("peer-reached", Node(*peer)),
            Self::CreateFilter(new) => Description::new("create-filter", Name(&new.name)).waiting(),
            Self::AlterFilter(altered) => Description::new("alter-filter", Name(&altered.name)).waiting(),
            Self::RestoreFilter(NewRestore { places, .. }) => {
                let name = places.first().map_or("", |place| &place.record.name);
                Description::new("restore-filter", Name(name)).waiting()
            }
            Self::DropFilter { name } => Description::new("drop-filter", Name(name)),
            Self::CancelMoves { name } => Description::new("cancel-moves", Name(name)),
            Self::ForgiveFilter { name, .. } => Description::new("forgive-filter", Name(name)),
            Self::FinishAlteration { name } => Description::new("finish-alteration", Name(name)),
            Self::OpenGeneration { filter, .. } => Description::new("open-generation", Filter(*filter)),
            Self::SlicesComplete { filter, .. } => Description::new("slices-complete", Filter(*filter)),
            Self::SlicesMissing { filter, .. } => Description::new("slices-missing", Filter(*filter)),
            Self::SlicesSpared { filter, .. } => Description::new("slices-spared", Filter(*filter)),
            Self::MoveSlices { filter, .. } => Description::new("move-slices", Filter(*filter)),
            Self::FilterEnded { filter, .. } => Description::new("filter-ended", Filter(*filter)),
            Self::FilterPassed { filter, .. } => Description::new("filter-passed", Filter(*filter)),
            Self::FinishRestore { filter } => Description::new("finish-restore", Filter(*filter)),
            Self::Raise { format } => Description::new("raise", Raised(*format)).since(Format(11)),
            Self::By(Requester(asked_by)) => Description::new("by", Name(&asked_by.name)).since(FORMAT_OF_WHO_ASKS),
            Self::Access(change) => {
                let described = Description::new(change.name(), Access(change)).since(Format(11));
                if change.can_wait() { described.waiting() } else { described }
            }
        }
    }
}

/// What is known of a change apart from its effect.
struct Description<'change> {
    name: &'static str,
    subject: Subject<'change>,
    /// The first format that can express the change: a change that is added names the format that came with it.
    format: Format,
    /// Whether it takes more room, and can wait.
    can_wait: bool,
}

impl<'change> Description<'change> {
    fn new(name: &'static str, subject: Subject<'change>) -> Self {
        Self { name, subject, format: Format::FIRST, can_wait: false }
    }

    fn since(self, format: Format) -> Self {
        Self { format, ..self }
    }

    fn waiting(self) -> Self {
        Self { can_wait: true, ..self }
    }
}

/// What a change is about.
enum Subject<'change> {
    /// A filter or a node, by its name.
    Name(&'change str),
    Node(NodeId),
    Filter(FilterId),
    Raised(Format),
    Access(&'change AccessChange),
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Filter(filter) => write!(f, "filter {filter}"),
            Self::Raised(format) => write!(f, "format {format}"),
            Self::Access(change) => f.write_str(&change.subject()),
        }
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
