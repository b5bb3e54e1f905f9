//! Claims on events. A consumer claims a new event before it delivers the event to its own receiver. As long as the
//! claim is active, no other consumer can claim the same event, so the event is not delivered twice. The design is
//! described in `docs/decisions/43-claims.md`.
//!
//! A claim does not record the event in the filter. The event is recorded only when the consumer confirms the claim
//! after the delivery. If the consumer crashes before that, its claim expires and another consumer can claim and
//! deliver the event. The claims on an event are stored in the [`ClaimTable`] of the event's head node, which is the
//! node that decides the event.
//!
//! A call about a claimed event is decided in two stages. First, the function [`before_test`] looks only at the claim
//! table, and decides whether the call can be answered without a test of the event's cells. If a test is necessary, the
//! slice group decides the call from the result of the test.
//!
//! The second stage depends on the slicing of the filter. It is implemented in `group/single_slice/claims.rs` for
//! filters in which one slice holds all positions of an event, and in `group/multi_slice/decide.rs` for filters in
//! which several slices hold them.
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
//! # Guarantees
//!
//! - An event has at most one active lease.
//! - Every granted claim has a fence (a fencing token). It is greater than the fences of all earlier grants for the
//!   same event.
//! - A retry of a claim receives the same fence as the first attempt.
//! - Memory is bounded.
//!
//! This module does not depend on cells, nodes or messages. Callers pass the current time as a parameter.

mod steps;
mod table;

pub use steps::{BeforeTest, ClaimCall, Lost, before_test};
pub use table::{ClaimTable, ClaimedBy, Holding};
