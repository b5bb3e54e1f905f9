//! Every limit of the protocol, with its unit and its reason.
//!
//! Promises: both ends use these same numbers. Must not know: what a node may hold in memory (its configuration).

use std::time::Duration;

use firstseen_filter::HASHES_MAX;

/// The version that both ends speak. Fields are added without raising it; it rises when an old peer would misread a
/// message: then a range is spoken, whose ends travel in the first message already.
pub const PROTOCOL_VERSION: u32 = 1;

/// Events of a batch. A greater batch is no faster (1,024 already are at full speed) and keeps its owner from other
/// batches for longer.
pub const BATCH_EVENTS_MAX: u32 = 8192;

/// Events of a frame between nodes: as many as of a batch, so that a batch never needs two.
pub const FRAME_EVENTS_MAX: u32 = BATCH_EVENTS_MAX;

/// Runs of a batch: no more than its events.
pub const BATCH_RUNS_MAX: u32 = BATCH_EVENTS_MAX;

/// Bytes of the packed positions of an event: 16 of 40 bits (2^40 cells) at most; or one of 63 (every fingerprint in
/// every bucket).
pub const EVENT_PROBE_BYTES_MAX: usize = HASHES_MAX as usize * 5;

/// Bytes of the time of an event: two varints of 64 bits.
pub const EVENT_TICK_BYTES_MAX: usize = 20;

/// Bytes of the name of a submission: a source of 16 and a number of 8.
pub const NAME_BYTES: usize = 24;

/// Bytes of a batch: the greatest events there are, and room for its header and a trace context.
pub const BATCH_BYTES_MAX: usize =
    BATCH_EVENTS_MAX as usize * (EVENT_PROBE_BYTES_MAX + EVENT_TICK_BYTES_MAX + NAME_BYTES + 4) + 4096;

/// Bytes of any message. Above a batch and above a map with a thousand nodes and filters; half of what HTTP/2 lets
/// through at once, so one message never fills a window.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Batches of a stream that may be unanswered. 64 keep a stream of small batches busy at any distance; it must stay
/// far below 1,000, where HTTP/2 would end a connection of many small frames unread (the fix of RUSTSEC-2026-0258).
pub const INFLIGHT_BATCHES_MAX: u32 = 64;

/// Frames of a link between nodes that may be unacknowledged: below 1,000 for the same reason.
pub const INFLIGHT_FRAMES_MAX: u32 = 256;

/// Calls of one connection that are open at once: a client has a stream for batches and one for the map, a node its
/// link and messages of the agreement. A peer that wants more waits, or opens another connection.
pub const STREAMS_MAX: u32 = 64;

/// Bytes of the message of a small call, as most of operators and producers are: names and numbers.
pub const SMALL_MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Bytes of a message with a definition, or with as many moves as fit into a command.
pub const DEFINING_MESSAGE_BYTES_MAX: usize = 4 * DEFINITION_BYTES_MAX;

/// How long all of a small message may take to come: it is one packet, or a few, that may be lost and sent again.
pub const SMALL_MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long any message may take from its first byte to its last: the greatest needs 1.7 Mbit/s.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);

/// HTTP/2 flow control, of a stream and of a connection, in bytes. Below it, a batch in flight over a long line waits
/// for window updates; and half of it is what small unread frames may take before the connection is ended.
pub const HTTP2_WINDOW_BYTES: u32 = 8 << 20;

/// Bytes of the headers of a request: a path, a trace context, no more.
pub const HTTP2_HEADER_BYTES_MAX: u32 = 16 << 10;

/// How long a connection may take to open. A lost SYN is sent again after one second.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes with which a connection of HTTP/2 begins (RFC 9113, 3.4). A handshake of TLS begins with more.
pub const HTTP2_PREFACE_BYTES: usize = 24;

/// How long a connection that was accepted may take to begin: a silent one holds a place that others need. This is as
/// long as a lost packet or two may take.
pub const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a stream may take to say hello: a silent one holds a place that others need.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// A silent connection is asked for a sign of life after this long.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// A connection is given up when the sign of life takes longer: events in flight are undecided for no longer than both.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that is silent for so long has not even begun to speak HTTP/2: otherwise it would have answered a sign
/// of life, or have been given up for that.
pub const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Bytes of a name (of a node, site, filter) or address: what DNS allows.
pub const NAME_TEXT_BYTES_MAX: usize = 255;

/// Bytes of a definition as JSON: ten times the longest there is.
pub const DEFINITION_BYTES_MAX: usize = 64 << 10;

/// Members of a cluster; heartbeats of all to all stay cheap well beyond.
pub const NODES_MAX: usize = 1024;

/// Filters of a cluster: all of them are sent with every change of the map.
pub const FILTERS_MAX: usize = 1024;

/// Bytes that the records of all filters may take in a map, counted with room for all that changes in them later: a
/// hundred thousand slices in all. With the greatest records of as many nodes as there may be, the map still fits into
/// a message.
pub const MAP_FILTERS_BYTES_MAX: usize = 3 << 20;

/// Bytes of the record of a node at most: three texts, each with its tag and length, and five numbers.
const NODE_BYTES_MAX: usize = 3 * (NAME_TEXT_BYTES_MAX + 3) + 64;

/// Bytes of a W3C `traceparent`: 55 in version 00, room for more in later ones.
pub const TRACEPARENT_BYTES_MAX: usize = 128;

/// Characters of the text that says why a batch was refused.
pub const DETAIL_BYTES_MAX: usize = 512;

/// Numbers of sets acknowledged by one message: at most one a frame in flight, and room for another link's.
pub const SET_ACKS_MAX: usize = 4096;

/// Bytes of cells in one message between nodes.
pub const CELLS_BYTES_MAX: usize = 1 << 20;

/// Runs of cells in one message between nodes.
pub const CELL_RUNS_MAX: usize = 1 << 10;

/// Generations of cells in the outline of a slice.
pub const GENERATIONS_TOLD_MAX: usize = 64;

const _: () = assert!(BATCH_BYTES_MAX < MESSAGE_BYTES_MAX && MESSAGE_BYTES_MAX <= HTTP2_WINDOW_BYTES as usize / 2);
const _: () = assert!(DEFINING_MESSAGE_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(NODES_MAX * NODE_BYTES_MAX + MAP_FILTERS_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(SILENCE_MAX.as_secs() > KEEPALIVE_INTERVAL.as_secs() + KEEPALIVE_TIMEOUT.as_secs());
const _: () = assert!(INFLIGHT_BATCHES_MAX < 1000 && INFLIGHT_FRAMES_MAX < 1000);
