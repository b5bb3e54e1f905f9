//! The limits of the door that are no settings.
//!
//! This module must not depend on what they limit.

use std::time::Duration;

/// Events of a call. One that has more is refused.
pub(crate) const EVENTS_MAX: usize = 8192;
/// Bytes of the request line and the headers of a request. hyper refuses more with status 431.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Headers of a request.
pub(crate) const HEADERS_MAX: usize = 100;
/// Bytes of a body or a reply that a connection may hold without taking them from the room that all connections share.
pub(crate) const FREE_BYTES: usize = 64 << 10;
/// Bytes that one `dedup` may hold: the blocks of records that are read, parsed and sent, and the windows of a decompressor.
pub(crate) const STREAM_BYTES: usize = 8 << 20;
/// Bytes of a record of a `dedup`. Longer ones are rejected.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;
/// How long a connection may take for the head of its next request, counted from the end of the one before.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the body of a call may take.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the body of a `dedup` may pause.
pub(crate) const PAUSE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a client may read nothing of a reply that is on its way.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The latest time of an event, in milliseconds since 1970: the end of the year 9999.
pub(crate) const TIME_MS_MAX: u64 = 253_402_300_799_999;
/// The longest time to live and the longest lease that can be asked for, in milliseconds: 100 years.
pub(crate) const SPAN_MS_MAX: u64 = 3_155_760_000_000;
