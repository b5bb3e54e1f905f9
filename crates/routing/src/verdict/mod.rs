//! Answers of the embedded engine, and decisions of a cluster, on one event.

mod answer;
mod decision;

pub use answer::Answer;
pub(crate) use decision::make_unknown;
pub use decision::{Decision, Reason, Seen};
