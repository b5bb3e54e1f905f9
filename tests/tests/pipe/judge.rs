//! Judges the output of a pipe by its input, with an exact model that keeps all keys.
//!
//! The model relies only on what the pipe promises: each record of the input is delivered exactly once, unchanged and
//! in its order, either to the output or to the duplicates. In each partition, the first record of a key in a window
//! goes to the output, and the others go to the duplicates.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};

use super::client::{Record, Stored};
use super::workload::WINDOW_MS;

/// Time after which every kind of filter has forgotten a key, in milliseconds.
const FORGOTTEN_MS: i64 = WINDOW_MS * 2;
/// Maximum number of new records that may be called duplicates. The error rate of the tests is one in a million.
const FALSE_POSITIVES_MAX: usize = 1;
/// Number of examples of each fault in a message.
const EXAMPLES: usize = 3;

/// What is wrong with the output of a pipe.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Records that were delivered although their key had been delivered less than a window ago.
    pub(super) passed_twice: Vec<String>,
    /// Records that were delivered as duplicates although their key was new.
    pub(super) wrong_duplicates: Vec<String>,
    /// Records that are neither in the output nor in the duplicates.
    pub(super) lost: Vec<String>,
    /// Records that were delivered more than once.
    pub(super) repeated: Vec<String>,
    /// Delivered records that differ from every record of the input.
    pub(super) changed: Vec<String>,
    /// Delivered records that come after a record which the input has later.
    pub(super) out_of_order: Vec<String>,
}

impl Faults {
    pub(super) fn is_empty(&self) -> bool {
        self.named().iter().all(|(_, faults)| faults.is_empty()) && self.wrong_duplicates.len() <= FALSE_POSITIVES_MAX
    }

    fn named(&self) -> [(&str, &[String]); 5] {
        [
            ("passed although their key was delivered less than a window ago", &self.passed_twice),
            ("neither in the output nor in the duplicates", &self.lost),
            ("delivered more than once", &self.repeated),
            ("equal to no record of the input", &self.changed),
            ("out of order", &self.out_of_order),
        ]
    }
}

impl Display for Faults {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let wrong = ("duplicates although their key was new", self.wrong_duplicates.as_slice());
        for (what, faults) in self.named().into_iter().chain([wrong]).filter(|(_, faults)| !faults.is_empty()) {
            writeln!(f, "{} records are {what}, such as", faults.len())?;
            for example in faults.iter().take(EXAMPLES) {
                writeln!(f, "  {example}")?;
            }
        }
        Ok(())
    }
}

/// Topics of a pipe as an independent reader has read them.
pub(super) struct Topics<'a> {
    pub(super) input: &'a [Stored],
    pub(super) output: &'a [Stored],
    pub(super) duplicates: &'a [Stored],
}

/// Judges a pipe whose key of a record is `key`.
pub(super) fn judge(topics: &Topics, key: impl Fn(&Record) -> String) -> Faults {
    let mut faults = Faults::default();
    let mut places: HashMap<&Record, usize> = HashMap::new();
    for (place, stored) in topics.input.iter().enumerate() {
        let earlier = places.insert(&stored.record, place);
        assert_eq!(earlier, None, "two records of the input are equal: {:?}", stored.record);
    }
    let in_output = deliveries(topics.output, topics, &places, &mut faults);
    let in_duplicates = deliveries(topics.duplicates, topics, &places, &mut faults);
    let mut delivered: HashMap<(u32, String), i64> = HashMap::new();
    for (place, stored) in topics.input.iter().enumerate() {
        let record = &stored.record;
        match in_output[place] + in_duplicates[place] {
            0 => faults.lost.push(shown(stored)),
            1 => {}
            _ => faults.repeated.push(shown(stored)),
        }
        let key = (record.partition, key(record));
        let since_ms = delivered.get(&key).map(|last| record.timestamp - last);
        if in_output[place] > 0 {
            if since_ms.is_some_and(|since_ms| since_ms < WINDOW_MS) {
                faults.passed_twice.push(shown(stored));
            }
            delivered.insert(key, record.timestamp);
        } else if in_duplicates[place] > 0 && since_ms.is_none_or(|since_ms| since_ms > FORGOTTEN_MS) {
            faults.wrong_duplicates.push(shown(stored));
        }
    }
    faults
}

/// Returns how often each record of the input is in a topic. Notes records that are changed or out of order.
fn deliveries(topic: &[Stored], topics: &Topics, places: &HashMap<&Record, usize>, faults: &mut Faults) -> Vec<usize> {
    let mut counts = vec![0; topics.input.len()];
    let mut last: HashMap<u32, u64> = HashMap::new();
    for stored in topic {
        let Some(place) = places.get(&stored.record) else {
            faults.changed.push(shown(stored));
            continue;
        };
        counts[*place] += 1;
        let offset = topics.input[*place].offset;
        let earlier = last.insert(stored.record.partition, offset);
        if earlier.is_some_and(|earlier| earlier >= offset) {
            faults.out_of_order.push(shown(stored));
        }
    }
    counts
}

fn shown(stored: &Stored) -> String {
    format!("offset {}: {:?}", stored.offset, stored.record)
}

#[cfg(test)]
mod tests {
    use super::super::workload::{Shape, Workload, user};
    use super::{Stored, Topics, judge};

    /// Returns the topics of a pipe without faults: input, output and duplicates.
    fn topics() -> [Vec<Stored>; 3] {
        let shape = Shape { partitions: 2, records: 200, keys: 40, epochs: 2 };
        let mut offsets = [0, 0];
        let mut topics = [Vec::new(), Vec::new(), Vec::new()];
        let mut seen = std::collections::HashSet::new();
        for (number, record) in Workload::new(1, shape).rest().into_iter().enumerate() {
            let offset = &mut offsets[record.partition as usize];
            let is_new = seen.insert((record.partition, user(&record), number as u64 / shape.records));
            let stored = Stored { offset: *offset, record };
            *offset += 1;
            topics[if is_new { 1 } else { 2 }].push(stored.clone());
            topics[0].push(stored);
        }
        topics
    }

    fn faults(topics: &[Vec<Stored>; 3]) -> super::Faults {
        let [input, output, duplicates] = topics;
        judge(&Topics { input, output, duplicates }, user)
    }

    #[test]
    fn a_correct_output_has_no_fault() {
        let faults = faults(&topics());
        assert!(faults.is_empty(), "{faults}");
    }

    #[test]
    fn every_fault_is_found() {
        let mut lost = topics();
        lost[1].remove(3);
        assert_eq!(faults(&lost).lost.len(), 1);

        let mut repeated = topics();
        let again = repeated[1][5].clone();
        repeated[1].insert(6, again);
        assert_eq!((faults(&repeated).repeated.len(), faults(&repeated).out_of_order.len()), (1, 1));

        let mut changed = topics();
        changed[2][0].record.timestamp += 1;
        assert_eq!((faults(&changed).changed.len(), faults(&changed).lost.len()), (1, 1));

        let mut swapped = topics();
        let last = swapped[1].len() - 1;
        swapped[1].swap(0, last);
        assert!(!faults(&swapped).out_of_order.is_empty());

        let mut passed = topics();
        let duplicate = passed[2].remove(0);
        passed[1].push(duplicate);
        assert_eq!(faults(&passed).passed_twice.len(), 1);

        let mut called = topics();
        for _ in 0..2 {
            let new = called[1].remove(0);
            called[2].insert(0, new);
        }
        assert!(faults(&called).wrong_duplicates.len() >= 2 && !faults(&called).is_empty());
    }
}
