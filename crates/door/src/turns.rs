//! How much of one connection is done in a row.
//!
//! Must not know: connections, commands.

/// Commands behind which other connections have their turn.
pub(crate) const TURN_COMMANDS: usize = 256;
