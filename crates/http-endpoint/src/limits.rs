//! Fixed limits of the HTTP endpoint, which are not settings.
//!
//! This module does not depend on what the values limit.

use std::time::Duration;

/// Maximum number of events in a call. A call with more events is rejected.
pub(crate) const EVENTS_MAX: usize = 8192;
/// Maximum size of the request line and the headers of a request, in bytes. hyper rejects larger requests with status
/// code 431.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum number of headers of a request.
pub(crate) const HEADERS_MAX: usize = 100;
/// Memory for a body or a reply that a connection may use without taking it from the budget that all connections share,
/// in bytes.
pub(crate) const FREE_BYTES: usize = 64 << 10;
/// Maximum memory of one `dedup` request, in bytes. The limit covers the blocks of records that are being read, parsed
/// or sent. If the body is compressed, it also covers the window of the decompressor.
pub(crate) const STREAM_BYTES: usize = 8 << 20;
/// Maximum size of a record in a `dedup` request, in bytes. Longer records are rejected.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;
/// Maximum time for the head of the next request, counted from the end of the previous request.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for the body of a call.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum pause in the body of a `dedup` request.
pub(crate) const PAUSE_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time for which a client may read nothing of a reply that is being sent.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Latest time of an event, in milliseconds since 1970. The value is the end of the year 9999.
pub(crate) const TIME_MS_MAX: u64 = 253_402_300_799_999;
/// Longest time to live and longest lease that a client can request, in milliseconds. The value is 100 years.
pub(crate) const SPAN_MS_MAX: u64 = 3_155_760_000_000;
