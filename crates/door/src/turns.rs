//! How much of one connection is done before others have their turn.

/// Commands of one connection that are taken up before others have their turn.
pub(crate) const TURN_COMMANDS: usize = 256;
