//! The cluster map, which determines where requests are sent, and functions that derive further facts from the map. The
//! map lists the nodes, the filters, and the node that owns each slice. The functions are pure, so all nodes with the
//! same version of the map get the same results.

mod access;
pub mod check;
mod cluster_map;
mod filter_history;
mod format;
mod heads;
mod policies;
pub mod stopping;
mod tree;

pub use access::{
    Access, ClusterVerb, FILTERS_QUOTAS_MAX, FilterNames, FilterVerb, FiltersQuota, GRANTS_MAX, Grant, NotFilterNames,
    NotTokenId, PRINCIPALS_MAX, Principal, Quota, TOKENS_MAX, TokenId, TokenRecord, check_principal_name,
};
pub use check::ClusterRefusal;
pub use cluster_map::{
    COPIES_MAX, ClusterMap, FilterRecord, NodeRecord, RESTORING, SecretMaterial, SliceCopy, SliceMove, SliceOwner,
};
pub use filter_history::{Closed, Ending, FilterHistory};
pub use format::Format;
pub use heads::Heads;
pub(crate) use heads::head_place;
pub use policies::{AnswerWhen, ClockSource, Durability, FilterPolicies, Lookup, Thresholds, WhenLost};
pub use tree::{
    Branch, CutOff, PlaceSpec, TREE_LEVELS_MAX, TREE_PLACES_MAX, TreeMode, TreePlace, TreeRefusal, TreeSpec, folded,
    place_slicing,
};
