//! The messages of a log, and the partitions to which they belong.

use std::fmt;
use std::sync::Arc;

/// One partition of an input topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: i32,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// A message as the log delivered it. The pipe passes it on unchanged.
pub trait Message {
    /// Returns the position of the message in its partition.
    fn offset(&self) -> i64;

    /// Returns the time that the log keeps with the message, in milliseconds since 1970. `None` means that the message
    /// has no time.
    fn timestamp_ms(&self) -> Option<i64>;

    /// Returns the key of the message. `None` means that the key is null.
    fn key(&self) -> Option<&[u8]>;

    /// Returns the value of the message. `None` means that the value is null.
    fn value(&self) -> Option<&[u8]>;

    /// Appends the value of the header `name` to `value`. If several headers have this name, the last one counts, as in
    /// Kafka's own clients. Returns whether there is such a header.
    fn read_header(&self, name: &str, value: &mut Vec<u8>) -> bool;

    /// Returns the memory of the message in bytes.
    fn size_bytes(&self) -> usize;
}
