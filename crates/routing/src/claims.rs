//! Claims: who is about to deliver an event that the filter does not know yet (`docs/decisions/43-claims.md`).
//!
//! A claim records nothing: only its confirm does, so a consumer that dies with a claim has lost no event. The head of
//! an event keeps its claims in a [`ClaimTable`]. What a call becomes before any cell is read, [`before_test`] decides by
//! what the table holds. What follows from the answer of the slices is decided by the two kinds of groups:
//! `group/together/claims.rs` where one slice has all positions, `group/divided/decide.rs` where they are divided.
//!
//! ```text
//!             claim: tested at all nodes, not there                 confirm by the holder: set, untested
//!      FREE ------------------------------------------> HELD -----------------------------------------> RECORDED
//!        ^                                               |  \                                              ^
//!        |  release by the holder                        |   \ its lease is over                           |
//!        +-----------------------------------------------+    v                                            |
//!        |                                                  EXPIRED ---- confirm by the last holder -------+
//!        +---- dropped: its room is needed, or it is old -----+ \------ anyone's claim, observe, confirm: as FREE
//! ```
//!
//! Promises: of one event at most one lease is not over; every grant has a fence above all that the table gave for the
//! event before; a retry of a claim gets its own fence again; memory is bounded. Must not know: cells, nodes, messages,
//! clocks (moments are passed in).

mod steps;
mod table;

pub use steps::{BeforeTest, ClaimCall, Lost, before_test};
pub use table::{ClaimTable, ClaimedBy, Holding};
