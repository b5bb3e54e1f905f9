//! Slices of a filter: from a digest to the slices that hold its positions, and the engine that runs all of them in
//! one place.
//!
//! Promises: pure; the same events in the same order give the same answers on every machine. Must not know: async,
//! network, files, the clock (times are passed in), a source of randomness.
#![warn(missing_docs)]

mod answer;
mod batch;
mod clocks;
mod copying;
mod decision;
mod definition;
pub mod divided;
mod entry;
mod failing;
mod guard;
mod heads;
mod horizontal;
mod itinerary;
mod lease;
mod ledger;
mod line;
mod link;
mod load;
mod map;
mod owner;
mod peer;
mod plan;
mod prober;
mod rescan;
mod sliced;
mod slicing;
pub mod stopping;
mod submission;
mod tree;
mod vertical;

pub use answer::Answer;
pub use clocks::{BELIEVED_AFTER_MS, ClockStanding, ClockWatch, Exchange, Offset, Reading, TimeOfDay};
pub use decision::{Decision, Reason, Seen};
pub use definition::{DefinitionError, SlicedDefinition};
pub use entry::{CheckpointCursor, ClockReading, Entry, Record};
pub use failing::Belief;
pub use guard::{Admission, BatchName, EventTag, ReplayGuard, Standing};
pub use heads::Heads;
pub use lease::{Lease, leases_over_after_ms};
pub use line::{Closed, Ending, Line};
pub use link::{LinkEnd, LinkEnds, LinkError, LinkFull, LinkReceiver, LinkSender};
pub use load::{Load, fairness, greatest_share};
pub use map::{
    AnswerWhen, COPIES_MAX, ClockSource, ClusterId, ClusterMap, Durability, FilterId, FilterPolicies, FilterRecord,
    Incarnation, Lookup, NodeId, NodeRecord, SecretMaterial, SliceCopy, SliceMove, SliceOwner, Thresholds, WhenLost,
};
pub use owner::rules;
pub use owner::{DecisionCounts, GroupOwner, GroupState, HopCounts, OwnerLimits, Shares, SliceState};
pub use peer::{
    AskCells, CellParts, CellPlace, HandedOver, MirrorNumber, Mirrored, Past, PeerBody, PeerMessage, PositionLists,
    Resolved, SetAcks, SetBatch, TestBatch,
};
pub use plan::{PlanError, Route, SlicePlan, Step};
pub use prober::{GroupPlan, Prober};
pub use sliced::{BATCH_EVENTS, SlicedBuildError, SlicedFilter};
pub use slicing::{Cut, SLICES_MAX, Slicing, SlicingError};
pub use submission::{
    Climb, Command, Found, FromLevel, GroupReply, Moment, NamedEvent, Operation, Submission, SubmissionName, Tick,
    Times,
};
pub use tree::{
    Branch, CutOff, Fold, Place, PlaceSpec, TREE_LEVELS_MAX, TREE_PLACES_MAX, TreeMode, TreeRefusal, TreeSpec, folded,
};
