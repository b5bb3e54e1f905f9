//! The trace of a run, which contains every delivery of a message. If two runs have equal traces, they have delivered
//! the same bytes over the same connections at the same times and in the same order.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::clock::now_us;

/// A delivery: something has reached its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Time of the delivery, in simulated microseconds.
    pub time_us: u64,
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// What was delivered.
    pub what: Delivered,
}

/// The content of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// A new connection.
    Connection,
    /// Bytes of a connection.
    Bytes {
        /// Number of bytes.
        length: usize,
        /// XXH3-64 hash of the bytes.
        hash: u64,
    },
    /// The end of a connection.
    End,
    /// The reset of a connection.
    Reset,
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time_us, from, to, what } = self;
        write!(f, "{time_us} us, {from} to {to}: ")?;
        match what {
            Delivered::Connection => f.write_str("a connection"),
            Delivered::Bytes { length, hash } => write!(f, "{length} bytes, {hash:016x}"),
            Delivered::End => f.write_str("the end"),
            Delivered::Reset => f.write_str("reset"),
        }
    }
}

/// All deliveries of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The deliveries, in order.
    pub deliveries: Vec<Delivery>,
}

impl Trace {
    /// Returns the first place at which `other` differs, with the deliveries of both.
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        let ours = &self.deliveries;
        let theirs = &other.deliveries;
        let longest = ours.len().max(theirs.len());
        let place = (0..longest).find(|place| ours.get(*place) != theirs.get(*place))?;
        let [ours, theirs] = [ours, theirs]
            .map(|deliveries| deliveries.get(place).map_or_else(|| "nothing more".to_owned(), ToString::to_string));
        Some(format!("delivery {place}: {ours}; the other run: {theirs}"))
    }

    /// Feeds the trace to `hasher`.
    pub fn hash_into(&self, hasher: &mut Xxh3) {
        let mut line = String::new();
        for delivery in &self.deliveries {
            line.clear();
            let _ = writeln!(line, "{delivery}");
            hasher.update(line.as_bytes());
        }
    }
}

/// Records a trace. Clones record the same trace.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Trace>>);

impl Recorder {
    /// Records bytes that have arrived.
    pub fn bytes(&self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.record(from, to, Delivered::Bytes { length: bytes.len(), hash: xxh3_64(bytes) });
    }

    /// Records a delivery that happens now.
    pub fn record(&self, from: SocketAddr, to: SocketAddr, what: Delivered) {
        let mut trace = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trace.deliveries.push(Delivery { time_us: now_us(), from, to, what });
    }

    /// Returns the trace since the last call of this function, and starts a new trace.
    pub(crate) fn take(&self) -> Trace {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the trace so far.
    pub fn trace(&self) -> Trace {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(bytes: &[&[u8]]) -> Trace {
        let (recorder, local) = (Recorder::default(), SocketAddr::from(([10, 0, 0, 1], 7400)));
        bytes.iter().for_each(|bytes| recorder.bytes(local, local, bytes));
        recorder.trace()
    }

    fn hash(trace: &Trace) -> u64 {
        let mut hasher = Xxh3::new();
        trace.hash_into(&mut hasher);
        hasher.digest()
    }

    #[test]
    fn a_byte_an_order_and_an_end_are_differences() {
        let (one, same) = (trace(&[b"a", b"b"]), trace(&[b"a", b"b"]));
        assert_eq!((one.first_difference(&same), hash(&one)), (None, hash(&same)));
        for (place, other) in [(1, trace(&[b"a", b"c"])), (0, trace(&[b"b", b"a"])), (1, trace(&[b"a"]))] {
            let difference = one.first_difference(&other).expect("they differ");
            assert!(difference.starts_with(&format!("delivery {place}:")), "{difference}");
            assert_ne!(hash(&one), hash(&other));
        }
    }
}
