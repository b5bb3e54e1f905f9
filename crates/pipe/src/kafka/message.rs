//! Messages of Kafka.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rdkafka::message::{BorrowedMessage, Headers, Message as _, OwnedHeaders};

use crate::message::Message;

/// A message with all that an output keeps of it.
#[derive(Clone, Debug)]
pub struct KafkaMessage {
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Option<OwnedHeaders>,
    /// Approximate size of the headers.
    headers_bytes: usize,
}

impl KafkaMessage {
    /// Copies a message that librdkafka owns.
    pub(crate) fn of(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map(rdkafka::message::BorrowedHeaders::detach);
        Self {
            headers_bytes: headers.as_ref().map_or(0, size_of_headers),
            offset: message.offset(),
            timestamp_ms: message.timestamp().to_millis().filter(|ms| *ms >= 0),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers,
        }
    }
}

/// Returns the size of the values of headers.
fn size_of_headers(headers: &OwnedHeaders) -> usize {
    // The library panics at a header whose name is not UTF-8.
    let bytes =
        catch_unwind(AssertUnwindSafe(|| headers.iter().filter_map(|header| header.value).map(<[u8]>::len).sum()));
    bytes.unwrap_or(0)
}

impl Message for KafkaMessage {
    fn offset(&self) -> i64 {
        self.offset
    }

    fn timestamp_ms(&self) -> Option<i64> {
        self.timestamp_ms
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    fn read_header(&self, name: &str, value: &mut Vec<u8>) -> bool {
        let Some(headers) = &self.headers else { return false };
        // The library panics at a header whose name is not UTF-8, and offers no other way to read headers.
        let found = catch_unwind(AssertUnwindSafe(|| {
            let last = headers.iter().filter(|header| header.key == name).last();
            last.and_then(|header| header.value).map(<[u8]>::to_vec)
        }));
        match found {
            Ok(Some(bytes)) => {
                value.extend_from_slice(&bytes);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    fn size_bytes(&self) -> usize {
        let content = self.key.as_ref().map_or(0, Vec::len) + self.value.as_ref().map_or(0, Vec::len);
        content + self.headers_bytes + size_of::<Self>()
    }
}
