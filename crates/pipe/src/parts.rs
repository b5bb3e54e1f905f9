//! The parts from which a pipe is made. This module does not depend on the loop.

use std::time::Instant;

use firstseen_filter::FilterSecret;
use firstseen_routing::SlicedDefinition;

use crate::checkpoint::CheckpointFolder;
use crate::reader::EventReader;

/// The parts from which a pipe is made.
pub struct Parts<I, O> {
    /// Where messages come from.
    pub input: I,
    /// Where messages go.
    pub output: O,
    /// How keys and times are read.
    pub reader: EventReader,
    /// Secret with which keys are hashed.
    pub secret: FilterSecret,
    /// Definition of the filters. `None` means that the pipe copies everything.
    pub definition: Option<SlicedDefinition>,
    /// Folder of checkpoints.
    pub checkpoints: Option<CheckpointFolder>,
    /// Clock by which the pipe waits and measures, usually `Instant::now`.
    pub clock: Box<dyn Fn() -> Instant>,
}
