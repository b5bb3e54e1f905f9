//! What stands around commands that are carried out together. Must not know: these commands.

/// A command about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionRequest {
    /// `MULTI`: commands from here on are queued.
    Begin,
    /// `EXEC`: the queued commands are carried out.
    Execute,
    /// `DISCARD`: the queued commands are forgotten.
    Discard,
    /// `UNWATCH`, which clients send without `WATCH`: nothing is to be done.
    Unwatch,
}
