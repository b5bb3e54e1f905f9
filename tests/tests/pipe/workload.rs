//! Generates records with duplicates from a seed.
//!
//! Each record has a value of its own, so that a reader can tell records apart. All times of one epoch are closer
//! together than the window, and epochs are several windows apart. Whether a record is a duplicate therefore never
//! depends on how exactly a filter measures its window.

use crate::run::Random;

use super::client::Record;

/// Window that the tests ask for, in milliseconds and as a flag.
pub(super) const WINDOW_MS: i64 = 3_600_000;
pub(super) const WINDOW_FLAG: &str = "1h";

/// Time of the first record.
const BEGIN_MS: i64 = 1_700_000_000_000;
/// Maximum time by which records are out of order. It is less than the default lateness of a filter (W/8).
const DISORDER_MS: u64 = 120_000;
/// Part of the window in which all times of an epoch are.
const EPOCH_PARTS: i64 = 4;
/// Windows between the beginnings of two epochs.
const EPOCH_WINDOWS: i64 = 4;

/// Numbers that describe a workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) partitions: u32,
    /// Number of records of an epoch.
    pub(super) records: u64,
    /// Number of different keys, from which the records of each partition draw theirs.
    pub(super) keys: u64,
    pub(super) epochs: u32,
}

/// Source of records, which continues a stream as long as a test needs it.
pub(super) struct Workload {
    shape: Shape,
    random: Random,
    /// Number of records so far.
    count: u64,
}

impl Workload {
    pub(super) fn new(seed: u64, shape: Shape) -> Self {
        Self { shape, random: Random(seed), count: 0 }
    }

    /// Returns the records of all epochs that are left.
    pub(super) fn rest(&mut self) -> Vec<Record> {
        let all = self.shape.records * u64::from(self.shape.epochs);
        self.next(all.saturating_sub(self.count))
    }

    /// Returns the next records. The last epoch continues if there are more records than the shape says.
    pub(super) fn next(&mut self, count: u64) -> Vec<Record> {
        (0..count).map(|_| self.record()).collect()
    }

    fn record(&mut self) -> Record {
        let Shape { partitions, records, keys, epochs } = self.shape;
        let number = self.count;
        self.count += 1;
        let epoch = (number / records).min(u64::from(epochs) - 1);
        // After the shape's records, all times are at the end of the last epoch.
        let place = (number - epoch * records).min(records);
        let since_epoch_ms = WINDOW_MS / EPOCH_PARTS * signed(place) / signed(records);
        let disorder_ms = signed(self.random.below(DISORDER_MS));
        let timestamp = BEGIN_MS + signed(epoch) * EPOCH_WINDOWS * WINDOW_MS + since_epoch_ms + disorder_ms;
        let user = self.random.below(keys);
        let value = format!("{{\"user\":\"u{user}\",\"number\":{number},\"text\":\"\u{e4}\\u0000\"}}");
        let headers = match self.random.below(3) {
            0 => Vec::new(),
            1 => vec![("trace".to_owned(), Some(vec![0, 0xff, b'\n']))],
            _ => vec![("twice".to_owned(), None), ("twice".to_owned(), Some(number.to_le_bytes().to_vec()))],
        };
        let key = (self.random.below(4) > 0).then(|| format!("key of u{user}").into_bytes());
        let partition = u32::try_from(self.random.below(partitions.into())).expect("a partition");
        Record { partition, timestamp, key, headers, value: Some(value.into_bytes()) }
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("a small number")
}

/// Returns what `--key json:user` finds in a record of a workload.
pub(super) fn user(record: &Record) -> String {
    let value: serde_json::Value = serde_json::from_str(&record.text()).expect("a record of a workload");
    value["user"].as_str().expect("a user").to_owned()
}
