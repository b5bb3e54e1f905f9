//! Simulated network between sites. Every connection between two sites passes through a relay, which counts all bytes
//! and delays them by the one-way time between the sites. Connections within a site have no delay.
//!
//! Bytes arrive in the order in which they were sent. A relay holds a limited number of bytes in flight, so it slows
//! down a sender that exceeds the limit.
//!
//! To count the messages on a connection, a relay determines where HTTP/2 frames begin and end. It does not interpret
//! the contents of the frames.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_wire::net::{Channel, ConnectError, Connector, TcpConnector};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Names of the sites.
pub(super) const NAMES: [&str; 3] = ["athens", "ioannina", "oslo"];

/// Number of bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 14;
/// Maximum number of chunks that a relay delays in one direction of a connection.
const CHUNKS_MAX: usize = 1 << 10;
/// Length of the preface with which an HTTP/2 client begins, in bytes.
const PREFACE_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 9;
/// Type of a frame that contains a message, or a part of a large message.
const DATA: u8 = 0;

/// Network between the sites.
pub(super) struct Wan {
    delay: Duration,
    /// Site of each address.
    sites: Mutex<BTreeMap<String, usize>>,
    /// Address of the relay from a site to an address.
    relays: Mutex<BTreeMap<(usize, String), String>>,
    /// Counters of each link, indexed by the lower and the higher site of a pair.
    counts: [[Arc<Count>; NAMES.len()]; NAMES.len()],
}

/// Traffic over one link in both directions.
#[derive(Default)]
struct Count {
    bytes: AtomicU64,
    messages: AtomicU64,
}

/// Bytes and messages between each pair of sites.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic([[(u64, u64); NAMES.len()]; NAMES.len()]);

impl Traffic {
    /// Returns the bytes and messages between two sites.
    pub(super) fn between(&self, one: usize, other: usize) -> (u64, u64) {
        self.0[one.min(other)][one.max(other)]
    }

    /// Returns the traffic since `before`.
    pub(super) fn since(mut self, before: &Self) -> Self {
        self.each(before, |now, before| *now -= before);
        self
    }

    /// Adds the traffic of another run.
    pub(super) fn add(&mut self, more: &Self) {
        self.each(more, |sum, more| *sum += more);
    }

    fn each(&mut self, other: &Self, combine: impl Fn(&mut u64, u64)) {
        for (mine, other) in self.0.as_flattened_mut().iter_mut().zip(other.0.as_flattened()) {
            combine(&mut mine.0, other.0);
            combine(&mut mine.1, other.1);
        }
    }
}

impl Wan {
    pub(super) fn new(delay: Duration) -> Self {
        Self { delay, sites: Mutex::default(), relays: Mutex::default(), counts: Default::default() }
    }

    /// Notes the site of an address.
    pub(super) fn place(&self, address: &str, site: usize) {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).insert(address.to_owned(), site);
    }

    /// Returns a connector that opens connections from a site.
    pub(super) fn at(self: &Arc<Self>, site: usize) -> FromSite {
        FromSite { wan: self.clone(), site, direct: TcpConnector::default() }
    }

    /// Returns the traffic between the sites so far.
    pub(super) fn traffic(&self) -> Traffic {
        Traffic(
            self.counts
                .each_ref()
                .map(|row| row.each_ref().map(|count| (count.bytes.load(Relaxed), count.messages.load(Relaxed)))),
        )
    }

    /// Returns the address at which a client or node at site `from` reaches `address`.
    fn way(&self, from: usize, address: &str) -> io::Result<String> {
        let to = self.sites.lock().unwrap_or_else(PoisonError::into_inner).get(address).copied();
        let Some(to) = to.filter(|to| *to != from) else { return Ok(address.to_owned()) };
        let mut relays = self.relays.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (from, address.to_owned());
        if let Some(relay) = relays.get(&key) {
            return Ok(relay.clone());
        }
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let relay = listener.local_addr()?.to_string();
        let count = self.counts[from.min(to)][from.max(to)].clone();
        tokio::spawn(serve(TcpListener::from_std(listener)?, address.to_owned(), self.delay, count));
        relays.insert(key, relay.clone());
        Ok(relay)
    }
}

/// Connector that opens connections from one site.
pub(super) struct FromSite {
    wan: Arc<Wan>,
    site: usize,
    direct: TcpConnector,
}

impl Connector for FromSite {
    fn channel(&self, address: &str, node_name: Option<&str>) -> Result<Channel, ConnectError> {
        let way = self.wan.way(self.site, address);
        let way = way.map_err(|_| ConnectError::Address { address: address.to_owned() })?;
        self.direct.channel(&way, node_name)
    }
}

/// Relays each connection to `address` until the runtime ends.
async fn serve(listener: TcpListener, address: String, delay: Duration, count: Arc<Count>) {
    while let Ok((near, _)) = listener.accept().await {
        let address = address.clone();
        let count = count.clone();
        // If a connection breaks, both of its halves are dropped, which closes both sides.
        tokio::spawn(async move { relay(near, &address, delay, &count).await });
    }
}

async fn relay(near: TcpStream, address: &str, delay: Duration, count: &Count) -> io::Result<()> {
    let far = TcpStream::connect(address).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (near_reads, near_writes) = near.into_split();
    let (far_reads, far_writes) = far.into_split();
    tokio::try_join!(
        carry(near_reads, far_writes, delay, Frames::after(PREFACE_BYTES), count),
        carry(far_reads, near_writes, delay, Frames::after(0), count),
    )?;
    Ok(())
}

/// Forwards the bytes of `from` to `to`, each with a delay of `delay`.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Duration,
    mut frames: Frames,
    count: &Count,
) -> io::Result<()> {
    let (sender, mut held) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let reading = async move {
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let bytes = from.read(&mut chunk).await?;
            chunk.truncate(bytes);
            count.bytes.fetch_add(bytes as u64, Relaxed);
            count.messages.fetch_add(frames.count_data(&chunk), Relaxed);
            if bytes == 0 || sender.send((Instant::now() + delay, chunk)).await.is_err() {
                return io::Result::Ok(());
            }
        }
    };
    let writing = async move {
        while let Some((due, chunk)) = held.recv().await {
            sleep_until(due).await;
            to.write_all(&chunk).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(reading, writing)?;
    Ok(())
}

/// Position of HTTP/2 frames in one direction of a connection.
struct Frames {
    /// Number of bytes before the next frame header.
    skip: usize,
    /// Bytes of the next frame header that have already arrived.
    header: Vec<u8>,
}

impl Frames {
    fn after(skip: usize) -> Self {
        Self { skip, header: Vec::with_capacity(FRAME_HEADER_BYTES) }
    }

    /// Returns the number of data frames that begin in the next `bytes`. Frames without data are not counted.
    fn count_data(&mut self, mut bytes: &[u8]) -> u64 {
        let mut frames = 0;
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
            let lacking = (FRAME_HEADER_BYTES - self.header.len()).min(bytes.len());
            let (head, rest) = bytes.split_at(lacking);
            self.header.extend_from_slice(head);
            bytes = rest;
            if let [high, middle, low, kind, ..] = self.header[..]
                && self.header.len() == FRAME_HEADER_BYTES
            {
                self.skip = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                frames += u64::from(kind == DATA && self.skip > 0);
                self.header.clear();
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_wherever_they_are_cut() {
        let frame = |kind: u8, bytes: u8| [vec![0, 0, bytes, kind, 0, 0, 0, 0, 1], vec![DATA; bytes.into()]].concat();
        let sent = [vec![b'P'; PREFACE_BYTES], frame(4, 12), frame(DATA, 200), frame(DATA, 0), frame(DATA, 1)].concat();
        for bytes in [1, 2, 7, 9, 50, 1000] {
            let mut frames = Frames::after(PREFACE_BYTES);
            let counted: u64 = sent.chunks(bytes).map(|chunk| frames.count_data(chunk)).sum();
            assert_eq!(counted, 2, "in chunks of {bytes}");
        }
    }

    #[tokio::test]
    async fn bytes_come_late_and_in_order() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = echo.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (stream, _) = echo.accept().await.unwrap();
            let (mut reads, mut writes) = stream.into_split();
            tokio::io::copy(&mut reads, &mut writes).await
        });
        let delay = Duration::from_millis(20);
        let wan = Wan::new(delay);
        wan.place(&address, 2);
        assert_eq!(wan.way(2, &address).unwrap(), address);
        let way = wan.way(0, &address).unwrap();
        assert!(way != address && way == wan.way(0, &address).unwrap());
        let (begun, mut stream) = (Instant::now(), TcpStream::connect(way).await.unwrap());
        let sent: Vec<u8> = (0..100_000u32).map(|byte| byte as u8).collect();
        let (mut reads, mut writes) = stream.split();
        let mut back = vec![0; sent.len()];
        tokio::try_join!(writes.write_all(&sent), reads.read_exact(&mut back)).unwrap();
        assert!(begun.elapsed() >= 2 * delay && back == sent);
        assert_eq!(wan.traffic().between(2, 0).0, 2 * sent.len() as u64);
    }
}
