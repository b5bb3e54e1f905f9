//! Changes of the cluster map that a node can propose to the cluster, such as creating a filter. A change is plain data
//! and has the same meaning on every node. How a change is applied is defined by other modules, through
//! [`crate::apply`].

use std::collections::BTreeMap;
use std::fmt;

use firstseen_filter::{GenerationNumber, UnitNumber};
use firstseen_routing::{
    ClusterId, Epoch, FilterId, FilterPolicies, FilterRecord, Format, Incarnation, NodeId, PlaceSpec, SecretMaterial,
    SliceMove, SlicedDefinition, TreeSpec,
};
use serde::{Deserialize, Serialize};

use crate::access_change::AccessChange;
use crate::asked_by::{AskedBy, FORMAT_OF_WHO_ASKS};

/// Profile of a node, as the node itself reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProfile {
    /// Name of the node in its certificate.
    pub name: String,
    /// Datacenter or location.
    pub site: String,
    /// Address under which other nodes and clients reach the node, as `host:port`.
    pub address: String,
    /// Maximum memory for the cells of its slices, in bytes.
    pub memory_bytes: u64,
}

/// A change that a command makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// Founds a cluster with its first node. The outcome is [`Outcome::NodeAdded`](crate::Outcome::NodeAdded).
    FoundCluster {
        /// Identifier of the cluster.
        cluster: ClusterId,
        /// Profile of its first node.
        profile: NodeProfile,
    },
    /// Adds a node. The outcome is [`Outcome::NodeAdded`](crate::Outcome::NodeAdded).
    AddNode {
        /// Profile of the node.
        profile: NodeProfile,
    },
    /// Records that the process of a node has started. The outcome is
    /// [`Outcome::NodeStarted`](crate::Outcome::NodeStarted).
    NodeStarted {
        /// The node.
        node: NodeId,
        /// Address of the node from now on.
        address: String,
        /// Site of the node.
        site: String,
        /// Maximum memory for the cells of its slices, in bytes.
        memory_bytes: u64,
    },
    /// Sets whether a node votes on changes of the map. The outcome is [`Outcome::Done`](crate::Outcome::Done).
    SetVoter {
        /// The node.
        node: NodeId,
        /// Whether it votes.
        voter: bool,
    },
    /// Removes a node that owns no slices for good. The outcome is [`Outcome::Done`](crate::Outcome::Done).
    RemoveNode {
        /// The node.
        node: NodeId,
    },
    /// Creates a filter. The outcome is [`Outcome::FilterCreated`](crate::Outcome::FilterCreated).
    CreateFilter(NewFilter),
    /// Drops a filter together with all events that it has recorded. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done).
    DropFilter {
        /// Name of the filter.
        name: String,
    },
    /// Opens the next generation of cells in a slice group. The outcome is [`Outcome::Done`](crate::Outcome::Done).
    OpenGeneration {
        /// The filter.
        filter: FilterId,
        /// The slice group.
        group: u32,
        /// Number of the new generation, which is one more than the newest number.
        number: GenerationNumber,
    },
    /// Records that slices of a slice group on a node are complete, which means that they contain all recorded events.
    /// If a slice was being moved to the node, this change also ends the move. The change has no effect if the node is
    /// marked down, or if it has restarted since it reported that the slices are complete. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done) in either case.
    SlicesComplete {
        /// The filter.
        filter: FilterId,
        /// The slice group.
        group: u32,
        /// Numbers of the slices within the group.
        slices: Vec<u32>,
        /// Epoch of the filter that the node knows. The report does not cover slices that were assigned to the node
        /// after this epoch.
        epoch: Epoch,
        /// The node.
        node: NodeId,
        /// Start of the node that makes the report.
        incarnation: Incarnation,
    },
    /// Records that a node cannot hold its slices of a group until it restarts. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done).
    SlicesMissing {
        /// The filter.
        filter: FilterId,
        /// The slice group.
        group: u32,
        /// The node.
        node: NodeId,
        /// Start of the node that makes the report.
        incarnation: Incarnation,
    },
    /// Starts to move copies of slices to other nodes. Either all moves start or none. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done).
    MoveSlices {
        /// The filter.
        filter: FilterId,
        /// The copies to move.
        moves: Vec<SliceMove>,
    },
    /// Cancels the moves in progress. The outcome is [`Outcome::Done`](crate::Outcome::Done).
    CancelMoves {
        /// Name of the filter.
        name: String,
    },
    /// Reports that a node cannot reach another node, or can reach it again. If more than half of the nodes that are up
    /// report that they cannot reach the same node, that node is marked as down. It remains down until it restarts. The
    /// outcome is [`Outcome::Done`](crate::Outcome::Done).
    PeerReached {
        /// The reporting node.
        by: NodeId,
        /// Start of the reporting node.
        by_incarnation: Incarnation,
        /// The other node.
        peer: NodeId,
        /// Start of the other node that the report is about.
        peer_incarnation: Incarnation,
        /// Whether the other node can be reached.
        is_reached: bool,
    },
    /// Replaces a filter with a new filter of the same name. The replaced filter is closed, so that no more events are
    /// recorded in it. The outcome is [`Outcome::FilterCreated`](crate::Outcome::FilterCreated).
    AlterFilter(AlteredFilter),
    /// Reports that a node has no more in-flight events from before a filter was closed. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done).
    FilterEnded {
        /// The closed filter.
        filter: FilterId,
        /// The node.
        node: NodeId,
        /// Start of the node that makes the report.
        incarnation: Incarnation,
        /// The newest unit of time in which an event was recorded on the node.
        newest_unit: UnitNumber,
    },
    /// Reports that all events of a closed filter have expired by the clock of a node. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done).
    FilterPassed {
        /// The closed filter.
        filter: FilterId,
        /// The node.
        node: NodeId,
        /// Start of the node that makes the report.
        incarnation: Incarnation,
    },
    /// Removes the predecessor of an altered filter now, even if its events have not expired. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done).
    FinishAlteration {
        /// Name of the filter.
        name: String,
    },
    /// Accepts the losses of a filter: from now on, all slices whose nodes are not down count as complete, although
    /// they may lack events. The outcome is [`Outcome::Done`](crate::Outcome::Done).
    ForgiveFilter {
        /// Name of the filter.
        name: String,
        /// Nodes that are down and whose leases have certainly ended, so that they cannot record events any more. Each
        /// node is listed with its last start. The list is necessary because a node that is marked down may still hold
        /// a lease, which allows it to record events. The change is rejected if any node that is down is missing from
        /// the list.
        ended: BTreeMap<NodeId, Incarnation>,
    },
    /// Creates a filter from a backup, under a name that clients cannot use. The outcome is
    /// [`Outcome::FilterCreated`](crate::Outcome::FilterCreated).
    RestoreFilter(NewRestore),
    /// Gives a restored filter its name after its cells have been written. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done).
    FinishRestore {
        /// The filter, or the root of the filter tree.
        filter: FilterId,
    },
    /// Requests that the cluster continues without one node's slices of a slice group until that node restarts. The
    /// request has an effect only if other nodes have complete copies of all these slices. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done) in either case.
    SlicesSpared {
        /// The filter.
        filter: FilterId,
        /// The slice group.
        group: u32,
        /// The node.
        node: NodeId,
        /// Start of the node that makes the report.
        incarnation: Incarnation,
    },
    /// Founds a cluster with its first node, and sets the format that the cluster writes. The outcome is
    /// [`Outcome::NodeAdded`](crate::Outcome::NodeAdded).
    FoundAs {
        /// Identifier of the cluster.
        cluster: ClusterId,
        /// Profile of its first node.
        profile: NodeProfile,
        /// The format.
        format: Format,
    },
    /// Raises the format in which the cluster encodes its map. All nodes must be able to read the new format. After the
    /// change, a node whose program cannot read the new format can no longer take part in the cluster. The outcome is
    /// [`Outcome::Done`](crate::Outcome::Done).
    Raise {
        /// The new format.
        format: Format,
    },
    /// Principal that requested a change. This variant is not a real change, and exists only for the encoding of a
    /// [`Command`](crate::Command). If a principal has requested a command, the principal is encoded as this variant in
    /// front of the actual change. Decoding a command separates the two again, so the change of a decoded command is
    /// never this variant.
    By(Requester),
    /// Changes access rights. The outcome is [`Outcome::Done`](crate::Outcome::Done).
    Access(AccessChange),
    /// Adds a place to a filter tree. The outcome is [`Outcome::FilterCreated`](crate::Outcome::FilterCreated).
    AddPlace(NewPlace),
    /// Removes a place from its filter tree. The outcome is [`Outcome::Done`](crate::Outcome::Done).
    RemovePlace {
        /// Name of the filter at the place.
        name: String,
    },
}

/// Principal that requested the change that follows in the encoding of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requester(pub(crate) AskedBy);

impl Change {
    /// Returns the name of the change in logs.
    pub fn name(&self) -> &'static str {
        self.description().name
    }

    /// Returns the subject of the change as text: a filter, a node or a principal. The text never contains a secret.
    pub fn subject(&self) -> String {
        self.description().subject.to_string()
    }

    /// Returns the first format that can express the change.
    pub(crate) fn format(&self) -> Format {
        self.description().format
    }

    /// Returns whether the change can be rejected when a disk is nearly full. This is the case for changes that need
    /// additional disk space and are not urgent, such as the creation of a filter. Changes that the cluster needs to
    /// keep working, or that free disk space, are still accepted.
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
            Self::CreateFilter(new) => {
                let format = format_of_filter(new.tree.is_some(), &new.policies);
                Description::new("create-filter", Name(&new.name)).waiting().since(format)
            }
            Self::AlterFilter(altered) => Description::new("alter-filter", Name(&altered.name)).waiting(),
            Self::RestoreFilter(NewRestore { places, .. }) => {
                let name = places.first().map_or("", |place| &place.record.name);
                let formats = places.iter().map(|RestoredPlace { record, .. }| {
                    let is_in_tree = record.branch.is_some();
                    format_of_filter(is_in_tree, &record.policies)
                });
                let format = formats.max().unwrap_or(Format::FIRST);
                Description::new("restore-filter", Name(name)).waiting().since(format)
            }
            Self::DropFilter { name } => Description::new("drop-filter", Name(name)),
            Self::AddPlace(NewPlace { filter, place }) => {
                let subject = Subject::Place { filter, place: &place.name };
                Description::new("add-place", subject).waiting().since(PLACES_SINCE)
            }
            Self::RemovePlace { name } => Description::new("remove-place", Name(name)).since(PLACES_SINCE),
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

/// Returns the first format whose readers accept a filter with these policies. Release 0.1 rejects trees with a journal
/// or with copies. If a node of that release applied such a change, its cluster map would differ from those of other
/// nodes.
pub(crate) fn format_of_filter(is_in_tree: bool, policies: &FilterPolicies) -> Format {
    let is_lasting = policies.durability.keeps_journal() || policies.copies > 0;
    if is_in_tree && is_lasting { Format(11) } else { Format::FIRST }
}

/// First format of clusters in which places are added to trees and removed.
pub(crate) const PLACES_SINCE: Format = Format(11);

/// Properties of a change other than its effect.
struct Description<'change> {
    name: &'static str,
    subject: Subject<'change>,
    /// The first format that can express the change. A new change specifies the format that was introduced with it.
    format: Format,
    /// Whether the change needs additional disk space and can be postponed.
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

/// Subject of a change.
enum Subject<'change> {
    /// Name of a filter or a node.
    Name(&'change str),
    /// Place of a filter tree.
    Place {
        filter: &'change str,
        place: &'change str,
    },
    Node(NodeId),
    Filter(FilterId),
    Raised(Format),
    Access(&'change AccessChange),
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Place { filter, place } => write!(f, "{filter}@{place}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Filter(filter) => write!(f, "filter {filter}"),
            Self::Raised(format) => write!(f, "format {format}"),
            Self::Access(change) => f.write_str(&change.subject()),
        }
    }
}

/// A filter to be created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewFilter {
    /// Name of the filter for users.
    pub name: String,
    /// All parameters that determine the answers of the filter, except for its secret.
    #[serde(with = "as_json")]
    pub definition: SlicedDefinition,
    /// Policies of the filter for everything other than filtering.
    pub policies: FilterPolicies,
    /// Key material of the filter's hash secret.
    pub secret: SecretMaterial,
    /// Whether the command succeeds if a filter with the same name, definition and policies already exists.
    pub if_absent: bool,
    /// Filter tree whose root is this filter, with the levels below it.
    pub tree: Option<TreeSpec>,
}

/// A place to be added to a filter tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewPlace {
    /// Name of the filter at the root of the tree.
    pub filter: String,
    /// The place, which has a parent.
    pub place: PlaceSpec,
}

/// A filter from a backup that is to be restored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewRestore {
    /// The filter, or all levels of a filter tree in ascending order of their numbers.
    #[serde(with = "as_json")]
    pub places: Vec<RestoredPlace>,
    /// Key material of the hash secret.
    pub secret: SecretMaterial,
}

/// A filter or a level of a filter tree, as it was at the time of the backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestoredPlace {
    /// Record of the filter. The owners of its slices in this record are ignored.
    pub record: FilterRecord,
    /// Sites whose nodes may own its slices. An empty list allows all sites.
    pub sites: Vec<String>,
}

/// The new form of an altered filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlteredFilter {
    /// Name of the filter.
    pub name: String,
    /// The filter to alter. The command is rejected if another filter has replaced it in the meantime.
    pub filter: FilterId,
    /// All parameters that determine the answers of the filter, except for its secret.
    #[serde(with = "as_json")]
    pub definition: SlicedDefinition,
    /// Key material of a new hash secret. `None` means that the secret stays the same.
    pub secret: Option<SecretMaterial>,
    /// Whether the predecessor is removed at once with all its events. The clock of the filter then starts again.
    pub forgets: bool,
}

/// Serializes a definition as JSON text. The serde attributes of definitions work only with a self-describing format
/// such as JSON, and the binary format of this crate is not self-describing.
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
