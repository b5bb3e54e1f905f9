//! The committed truth that requests are routed by: nodes, filters, which node owns which slice, and what follows from that.
//!
//! Promises: plain data and pure functions of it, the same on every node at the same version. Must not know: how it is agreed
//! on, how it travels, what cells hold.

mod access;
pub mod check;
mod cluster_map;
mod format;
mod heads;
mod line;
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
pub use format::Format;
pub use heads::Heads;
pub(crate) use heads::head_place;
pub use line::{Closed, Ending, Line};
pub use policies::{AnswerWhen, ClockSource, Durability, FilterPolicies, Lookup, Thresholds, WhenLost};
pub use tree::{
    Branch, CutOff, PlaceSpec, TREE_LEVELS_MAX, TREE_PLACES_MAX, TreeMode, TreePlace, TreeRefusal, TreeSpec, folded,
};
