//! Slices, the map, and the machines that decide events: from a digest to the slices that hold its positions, who has
//! these slices, and what each of their nodes does; and the engine that runs all slices in one place.
//!
//! Promises: pure; the same events in the same order give the same answers on every machine. Must not know: async,
//! network, files, the clock (times are passed in), a source of randomness.
#![warn(missing_docs)]

// Modules stand here by the alphabet. Each imports only those before it in this order: ids, verdict, plan, map,
// protocol, claims, clocks, engine, group (`crates/tidy/tests/all/rooms.rs`).
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
    Durability, Ending, FILTERS_QUOTAS_MAX, FilterNames, FilterPolicies, FilterRecord, FilterVerb, FiltersQuota,
    Format, GRANTS_MAX, Grant, Heads, Line, Lookup, NodeRecord, NotFilterNames, NotTokenId, PRINCIPALS_MAX, PlaceSpec,
    Principal, Quota, RESTORING, SecretMaterial, SliceCopy, SliceMove, SliceOwner, TOKENS_MAX, TREE_LEVELS_MAX,
    TREE_PLACES_MAX, Thresholds, TokenId, TokenRecord, TreeMode, TreePlace, TreeRefusal, TreeSpec, WhenLost,
    check_principal_name, folded,
};
pub use map::{check, stopping};
pub use plan::{
    Cut, DefinitionError, Fold, GroupPlan, Load, PlanError, Prober, Route, SLICES_MAX, SlicePlan, SlicedBuildError,
    SlicedDefinition, Slicing, SlicingError, Step, fairness, greatest_share,
};
pub use protocol::{
    Answers, AskCells, BackupCells, BatchName, CellParts, CellPlace, CheckpointCursor, ClaimTests, Climb, Climbed,
    ClockReading, Command, EarlyDuplicates, Entry, EventTag, Fence, FromLevel, GroupReply, HandedOver, Hold, LinkEnd,
    LinkEnds, LinkError, LinkFull, LinkReceiver, LinkSender, MirrorNumber, Mirrored, Moment, MonotonicMs, NamedEvent,
    NotAFence, Operation, Past, PeerBody, PeerMessage, PositionLists, Proposal, Record, Resolved, SetAcks, SetBatch,
    Submission, SubmissionName, TestBatch, TestRun, Tick, Times,
};
pub use verdict::{Answer, Decision, Reason, Seen};
