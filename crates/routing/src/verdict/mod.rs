//! What is said of an event: by the engine in one process, and by a cluster.

mod answer;
mod decision;

pub use answer::Answer;
pub(crate) use decision::make_unknown;
pub use decision::{Decision, Reason, Seen};
