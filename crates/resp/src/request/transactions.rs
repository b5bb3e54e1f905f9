//! Commands that begin and end transactions.
//!
//! This module does not depend on the commands in a transaction.

/// Command about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionRequest {
    /// `MULTI`, after which commands are queued.
    Begin,
    /// `EXEC`, which executes the queued commands.
    Execute,
    /// `DISCARD`, which drops the queued commands.
    Discard,
    /// `UNWATCH`, which clients send even without `WATCH`. The command has no effect.
    Unwatch,
}
