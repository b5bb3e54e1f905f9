//! Slices, the cluster map, and the state machines that decide events.
//!
//! A filter in a cluster is divided into slices, which belong to different nodes. This crate computes which slices hold
//! the positions of an event, and which nodes own these slices. It also contains the state machines by which the nodes
//! decide events together, and an engine that runs all slices of a filter in one process.
//!
//! The crate is pure: the same events in the same order give the same answers on every machine. It does not use async
//! code, the network, files, clocks or randomness. Callers pass the current time as a parameter.
#![warn(missing_docs)]

// The modules are listed in alphabetical order. Their dependencies follow another order, in which each module imports
// only those before it: ids, verdict, plan, map, protocol, claims, clocks, engine, group. A test checks this
// (`crates/tidy/tests/all/rooms.rs`).
mod claims;
mod clocks;
mod engine;
mod group;
mod ids;
mod map;
mod plan;
mod protocol;
mod verdict;

pub use claims::{BeforeTest, ClaimCall, ClaimTable, ClaimedBy, Holding, Lost, before_test};
pub use clocks::{
    BELIEVED_AFTER_MS, ClockStanding, ClockWatch, Exchange, Offset, Reading, STARTED_WITHIN_MS, TimeOfDay,
};
pub use engine::{BATCH_EVENTS, SlicedFilter};
pub use group::rules;
pub use group::{
    Admission, CLOCK_RATE_PARTS, ClaimCounts, DecisionCounts, GroupOwner, GroupState, HopCounts, Lease, OwedCounts,
    OwnerLimits, ReplayGuard, Shares, SliceState, Standing, leases_over_after_ms, refuse,
};
pub use ids::{ClusterId, Epoch, FilterId, Incarnation, NodeId};
pub use map::{
    Access, AnswerWhen, Branch, COPIES_MAX, ClockSource, Closed, ClusterMap, ClusterRefusal, ClusterVerb, CutOff,
    Durability, Ending, FILTERS_QUOTAS_MAX, FilterHistory, FilterNames, FilterPolicies, FilterRecord, FilterVerb,
    FiltersQuota, Format, GRANTS_MAX, Grant, Heads, Lookup, NodeRecord, NotFilterNames, NotTokenId, PRINCIPALS_MAX,
    PlaceSpec, Principal, Quota, RESTORING, SecretMaterial, SliceCopy, SliceMove, SliceOwner, TOKENS_MAX,
    TREE_LEVELS_MAX, TREE_PLACES_MAX, Thresholds, TokenId, TokenRecord, TreeMode, TreePlace, TreeRefusal, TreeSpec,
    WhenLost, check_principal_name, folded, place_slicing,
};
pub use map::{check, stopping};
pub use plan::{
    Cut, DefinitionError, Fold, GroupPlan, Load, PlanError, Prober, Route, SLICES_MAX, SlicePlan, SlicedBuildError,
    SlicedDefinition, Slicing, SlicingError, Step, fairness, greatest_share,
};
pub use protocol::{
    Answers, AskCells, BackupCells, BatchName, CellParts, CellPlace, CheckpointCursor, ClaimTests, ClockReading,
    Command, EarlyDuplicates, Entry, EventTag, Fence, FromLevel, GroupReply, HandedOver, Hold, LevelContact,
    LevelQuery, LevelReply, LinkEnd, LinkEnds, LinkError, LinkFull, LinkReceiver, LinkSender, MirrorNumber, Mirrored,
    Moment, MonotonicMs, NamedEvent, NotAFence, Operation, Past, PeerBody, PeerMessage, PositionLists, Proposal,
    Record, Resolved, SetAcks, SetBatch, Submission, SubmissionName, TestBatch, TestRun, Tick, Times,
};
pub use verdict::{Answer, Decision, Reason, Seen};
