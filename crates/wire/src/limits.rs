//! All limits of the protocol, each with its unit and its reason.
//!
//! Both sides of a connection apply the same limits, which are part of the protocol. Limits on the memory of a node are
//! part of the node's configuration instead.

use std::time::Duration;

use firstseen_filter::HASHES_MAX;

/// Version of the protocol. New fields do not change the version, because old peers ignore them. The version increases
/// only if an old peer would misread a message. In that case peers will support a range of versions, and the first
/// message already has fields for the oldest and the newest version of that range.
pub const PROTOCOL_VERSION: u32 = 1;

/// Maximum number of events in a batch. A larger maximum would not be faster, because batches of 1,024 events already
/// reach full speed. It would also delay other producers, because a slice group executes one batch at a time.
pub const BATCH_EVENTS_MAX: u32 = 8192;

/// Maximum number of events in a frame between nodes. The value equals the limit for batches, so a batch always fits in
/// one frame.
pub const FRAME_EVENTS_MAX: u32 = BATCH_EVENTS_MAX;

/// Maximum number of runs in a batch, which equals the maximum number of events.
pub const BATCH_RUNS_MAX: u32 = BATCH_EVENTS_MAX;

/// Maximum size of an event's encoded cell positions, in bytes. The longest encoding has 16 positions of 40 bits each,
/// which address 2^40 cells. A filter that stores fingerprints in buckets encodes a single position of at most 63 bits,
/// which is shorter.
pub const EVENT_PROBE_BYTES_MAX: usize = HASHES_MAX as usize * 5;

/// Maximum size of an event's time, in bytes: two varints of 64 bits.
pub const EVENT_TICK_BYTES_MAX: usize = 20;

/// Size of an idempotency key, in bytes: a source of 16 bytes and a number of 8 bytes.
pub const NAME_BYTES: usize = 24;

/// Maximum size of a batch, in bytes. A batch of the largest possible events fits, together with its header and a trace
/// context.
pub const BATCH_BYTES_MAX: usize =
    BATCH_EVENTS_MAX as usize * (EVENT_PROBE_BYTES_MAX + EVENT_TICK_BYTES_MAX + NAME_BYTES + 4) + 4096;

/// Maximum size of any message, in bytes. A full batch fits into this size, and so does a cluster map with a thousand
/// nodes and filters. The limit is at most half of the HTTP/2 flow control window, so a single message never fills the
/// window.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Maximum number of unanswered batches on a stream. 64 batches are enough to keep a stream of small batches busy over
/// any distance. The limit must stay far below 1,000: since the fix of RUSTSEC-2026-0258, the HTTP/2 library ends a
/// connection with about 1,000 small unread frames.
pub const INFLIGHT_BATCHES_MAX: u32 = 64;

/// Maximum number of unacknowledged frames on a link between nodes. The value is below 1,000 for the same reason as
/// [`INFLIGHT_BATCHES_MAX`].
pub const INFLIGHT_FRAMES_MAX: u32 = 256;

/// Maximum number of concurrent calls on one connection. Few calls are needed: a client has one stream for batches and
/// one for the cluster map, and a node has its link and the messages of the consensus group. A peer that needs more
/// calls at the same time waits, or opens another connection.
pub const STREAMS_MAX: u32 = 64;

/// Maximum size of a message in a small call, in bytes. Most calls of operators and producers are small calls: their
/// messages contain only names and numbers.
pub const SMALL_MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Maximum size of a message that carries a filter definition, or as many moves of slices as fit into one command, in
/// bytes.
pub const DEFINING_MESSAGE_BYTES_MAX: usize = 4 * DEFINITION_BYTES_MAX;

/// Maximum time for a small message to arrive completely. A small message is one packet or a few packets, which may be
/// lost and sent again.
pub const SMALL_MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for any message to arrive, from its first byte to its last. The largest message needs a connection of
/// 1.7 Mbit/s.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);

/// Size of the HTTP/2 flow control window of a stream and of a connection, in bytes. The window is large for two
/// reasons. With a smaller window, batches that travel over a long distance would have to wait for window updates. A
/// connection also ends when its small unread frames fill half of the window, so a larger window allows more such
/// frames.
pub const HTTP2_WINDOW_BYTES: u32 = 8 << 20;

/// Maximum size of the headers of a request, in bytes. Headers carry only a path and a trace context.
pub const HTTP2_HEADER_BYTES_MAX: u32 = 16 << 10;

/// Maximum time to open a connection. The limit is long enough for one lost packet: if the first packet (SYN) is lost,
/// the operating system sends it again after one second.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Number of bytes that begin an HTTP/2 connection (RFC 9113, section 3.4). A TLS handshake begins with more bytes.
pub const HTTP2_PREFACE_BYTES: usize = 24;

/// Maximum time in which a new connection must send its first bytes. A silent connection is closed, because it occupies
/// a place that other clients need. The limit is long enough for one or two lost packets.
pub const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for a stream to send its first message. A silent stream occupies a place that other clients need.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without traffic after which a connection is checked with a ping.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum time to wait for the answer to a ping. If the peer does not answer within this time, the connection is
/// closed. Events in flight on a dead connection therefore become undecided after at most this time plus
/// [`KEEPALIVE_INTERVAL`].
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without any traffic after which an open connection certainly does not speak HTTP/2. If the peer spoke HTTP/2,
/// it would have answered a ping within this time, or the connection would have been closed because of the missing
/// answer.
pub const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Maximum length of an address, or of the name of a node, site or filter, in bytes. The value is the limit of DNS.
pub const NAME_TEXT_BYTES_MAX: usize = 255;

/// Maximum size of a filter definition as JSON, in bytes. The longest possible definition has a tenth of this size.
pub const DEFINITION_BYTES_MAX: usize = 64 << 10;

/// Maximum number of nodes in a cluster. Heartbeats from all nodes to all others stay cheap well beyond this number.
pub const NODES_MAX: usize = 1024;

/// Maximum number of filters in a cluster. All filters are sent with every change of the cluster map.
pub const FILTERS_MAX: usize = 1024;

/// Maximum size of all filter records in a cluster map, in bytes, which is enough for about a hundred thousand slices.
/// A cluster map with filter records of this size and the largest possible node records still fits into one message.
/// Some fields of a filter record can grow later, so each record counts with the maximum size that it can reach.
pub const MAP_FILTERS_BYTES_MAX: usize = 3 << 20;

/// Maximum size of the record of a node, in bytes: three texts, each with its tag and length, and five numbers.
const NODE_BYTES_MAX: usize = 3 * (NAME_TEXT_BYTES_MAX + 3) + 64;

/// Maximum length of a W3C `traceparent`, in bytes. Version 00 has 55 bytes, and later versions may be longer.
pub const TRACEPARENT_BYTES_MAX: usize = 128;

/// Maximum length of the text that says why a batch was refused, in bytes.
pub const DETAIL_BYTES_MAX: usize = 512;

/// Maximum number of acknowledgements of `Set` messages in one message between nodes. A link needs at most one
/// acknowledgement for each of its frames in flight. The limit is higher than that, so a message also has space for the
/// acknowledgements of another link.
pub const SET_ACKS_MAX: usize = 4096;

/// Maximum size of the cells in one message between nodes, in bytes.
pub const CELLS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of runs of cells in one message between nodes.
pub const CELL_RUNS_MAX: usize = 1 << 10;

/// Maximum number of generations of cells in the outline of a slice.
pub const OUTLINE_GENERATIONS_MAX: usize = 64;

const _: () = assert!(BATCH_BYTES_MAX < MESSAGE_BYTES_MAX && MESSAGE_BYTES_MAX <= HTTP2_WINDOW_BYTES as usize / 2);
const _: () = assert!(DEFINING_MESSAGE_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(NODES_MAX * NODE_BYTES_MAX + MAP_FILTERS_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(SILENCE_MAX.as_secs() > KEEPALIVE_INTERVAL.as_secs() + KEEPALIVE_TIMEOUT.as_secs());
const _: () = assert!(INFLIGHT_BATCHES_MAX < 1000 && INFLIGHT_FRAMES_MAX < 1000);
