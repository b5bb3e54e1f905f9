//! What is broken on purpose, to show that an experiment notices.
//!
//! Promises: nothing is broken unless a run says so, which only tests do. Must not know: what notices.

/// One fault of a build. Experiments that have no such part ignore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The second position of an event is its first one again.
    PositionReused,
    /// A duplicate starts its window again, though the window counts from the sighting that was delivered.
    TimersRefreshed,
    /// One cell more than the threshold x says must be alive and set.
    ThresholdOffByOne,
}
