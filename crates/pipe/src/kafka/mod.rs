//! Kafka as input and output, by librdkafka.
//!
//! # Guarantees
//!
//! - The consumer reads committed messages only, and commits nothing itself. The positions are part of the producer's
//!   transaction, together with the membership of the group (KIP-447). A process that has lost a partition can
//!   therefore not commit a batch of that partition.
//! - Outputs keep the partition number, the key, the headers, the timestamp and the bytes of a message.

mod address;
mod client;
mod history;
mod input;
mod message;
mod output;
mod topics;

pub use address::Address;
pub use client::Properties;
pub use input::KafkaInput;
pub use message::KafkaMessage;
pub use output::{Guarantee, KafkaOutput, Targets};
pub use topics::{Checked, check_topics};

use std::sync::Arc;
use std::time::Duration;

use crate::error::PipeError;

/// How long one request to the brokers may take.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens a pipe's input and output. Both share one consumer, because a transaction contains the membership of the
/// group.
///
/// # Errors
/// Returns an error if the brokers cannot be reached or reject the settings.
pub fn open(
    from: &Address,
    group: &str,
    targets: Targets,
    properties: &Properties,
    guarantee: Guarantee,
) -> Result<(KafkaInput, KafkaOutput), PipeError> {
    let input = KafkaInput::subscribe(from, group, properties)?;
    let output = KafkaOutput::open(targets, group, properties, guarantee, Arc::clone(input.consumer()))?;
    Ok((input, output))
}
