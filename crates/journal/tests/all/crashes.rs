//! Tests of journals whose disk or process fails. Data that was synced must be read back, no matter what happens to the
//! rest.

use std::io::ErrorKind;
use std::sync::Arc;

use firstseen_journal::{Disk, Journal, MemoryDisk, NodeMark, ScanError, Segments, salvage, scan};
use proptest::prelude::*;

const OF: NodeMark = NodeMark { cluster: [7; 16], node: 3 };
const SEGMENT_BYTES: u32 = 4096;

fn read(disk: &MemoryDisk) -> Result<(Segments, Vec<Vec<u8>>), ScanError> {
    let mut records = Vec::new();
    let segments = scan(disk, OF, |_, record| {
        records.push(record.to_vec());
        Ok(())
    })?;
    Ok((segments, records))
}

fn open(disk: &MemoryDisk) -> (Journal, Vec<Vec<u8>>) {
    let (found, records) = read(disk).expect("the journal has no damage");
    (Journal::after(Arc::new(disk.clone()), OF, SEGMENT_BYTES, &found), records)
}

fn record(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes.max(8)).map(|index| (number * 31 + index) as u8 | 1).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Sync,
    Mark,
    /// The process ends.
    Kill,
    /// The machine loses power. Every n-th sector survives, and none if the number is 0.
    Cut(u8),
    Full(u64),
    Empty,
    /// The segments before the newest one are removed.
    Remove,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..900usize).prop_map(Step::Push),
        4 => Just(Step::Sync),
        1 => Just(Step::Mark),
        1 => Just(Step::Kill),
        1 => (0..5u8).prop_map(Step::Cut),
        1 => (0..2000u64).prop_map(Step::Full),
        2 => Just(Step::Empty),
        1 => Just(Step::Remove),
    ]
}

/// Executes the steps. Panics if a record that was synced is missing or out of order, or if a record appears that was
/// never appended.
fn survives(steps: &[Step]) {
    let disk = MemoryDisk::default();
    let (mut journal, _) = open(&disk);
    let (mut pushed, mut synced): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
    let mut removed = 0;
    for step in steps {
        match step {
            Step::Push(bytes) => {
                let record = record(pushed.len(), *bytes);
                match journal.push(record.clone()) {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::StorageFull),
                }
                pushed.push(record);
            }
            Step::Sync => match journal.sync() {
                Ok(()) => synced = pushed.len(),
                Err(error) => assert_eq!(error.kind(), ErrorKind::StorageFull),
            },
            Step::Mark => drop(journal.mark()),
            Step::Full(room_bytes) => disk.set_room_bytes(Some(*room_bytes)),
            Step::Empty => disk.set_room_bytes(None),
            Step::Kill | Step::Cut(_) => {
                disk.set_room_bytes(None);
                if let Step::Cut(every) = step {
                    let mut sector = 0;
                    disk.cut_power(|| {
                        sector += 1;
                        *every > 0 && sector % u32::from(*every) == 0
                    });
                }
                let (next, found) = open(&disk);
                journal = next;
                let left = &pushed[removed..];
                let is_prefix = left.starts_with(&found);
                // Records at the end of the journal may be lost if they were not synced.
                assert!(is_prefix, "{} of {} records, in another order", found.len(), left.len());
                assert!(removed + found.len() >= synced, "{} records were synced", synced);
                pushed.truncate(removed + found.len());
                synced = pushed.len();
            }
            Step::Remove => {
                if journal.sync().is_ok() {
                    synced = pushed.len();
                    let before = read(&disk).expect("the journal has no damage").1.len();
                    journal.remove_before(journal.segment()).expect("segments can be removed");
                    removed += before - read(&disk).expect("the journal has no damage").1.len();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_synced_is_read_back(steps in prop::collection::vec(step(), 1..120)) {
        survives(&steps);
    }
}

/// Returns a journal with two segments, whose last record is marked as synced.
fn small() -> (MemoryDisk, Vec<Vec<u8>>) {
    let disk = MemoryDisk::default();
    let (mut journal, _) = open(&disk);
    let records: Vec<Vec<u8>> = (0..9).map(|number| record(number, 160 + number * 90)).collect();
    for record in &records {
        journal.push(record.clone()).expect("the disk has room");
        journal.sync().expect("it syncs");
    }
    journal.mark().expect("the disk has room");
    (disk, records)
}

/// Returns whether damage is reported. Otherwise, checks that all records are present.
fn is_reported_or_harmless(disk: &MemoryDisk, records: &[Vec<u8>], what: &str) -> bool {
    match read(disk) {
        Ok((_, found)) => {
            assert_eq!(found, records, "{what}");
            false
        }
        Err(ScanError::Damage(_) | ScanError::Version { .. } | ScanError::Foreign { .. }) => true,
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn every_flipped_bit_is_reported_or_harmless() {
    let (disk, records) = small();
    let files = disk.names().expect("a list");
    assert_eq!(files.len(), 2);
    let mut reported = 0u64;
    for bit in 0..u64::from(SEGMENT_BYTES) * 8 * files.len() as u64 {
        let damaged = disk.copy();
        damaged.flip(bit);
        reported += u64::from(is_reported_or_harmless(&damaged, &records, &format!("bit {bit}")));
    }
    let bits: u64 = records.iter().map(|record| record.len() as u64 * 8).sum();
    assert!(reported >= bits, "{reported} reported of {bits} bits of records");
}

#[test]
fn every_truncation_is_told() {
    let (disk, records) = small();
    for file in disk.names().expect("a list") {
        for len_bytes in 0..SEGMENT_BYTES as usize {
            let damaged = disk.copy();
            damaged.truncate(&file, len_bytes);
            assert!(is_reported_or_harmless(&damaged, &records, &format!("{file}: {len_bytes} bytes")), "{len_bytes}");
        }
    }
}

#[test]
fn a_missing_segment_is_told_and_another_node_is_not_believed() {
    let disk = MemoryDisk::default();
    let (mut journal, _) = open(&disk);
    for number in 0..20 {
        journal.push(record(number, 900)).expect("the disk has room");
    }
    journal.sync().expect("it syncs");
    let files = disk.names().expect("a list");
    assert!(files.len() > 3);
    disk.remove(&files[2]).expect("the file exists");
    let error = read(&disk).expect_err("a segment is missing").to_string();
    assert!(error.contains("is missing"), "{error}");
    let (disk, _) = small();
    let other = NodeMark { node: 4, ..OF };
    assert!(matches!(scan(&disk, other, |_, _| Ok(())), Err(ScanError::Foreign { .. })));
}

#[test]
fn a_full_disk_loses_nothing_and_a_failed_sync_is_told() {
    let disk = MemoryDisk::default();
    let (mut journal, _) = open(&disk);
    journal.push(record(0, 100)).expect("the disk has room");
    disk.set_room_bytes(Some(10));
    for number in 1..5 {
        assert_eq!(
            journal.push(record(number, 100)).expect_err("the disk must be full").kind(),
            ErrorKind::StorageFull
        );
    }
    assert_eq!(journal.sync().expect_err("the disk must be full").kind(), ErrorKind::StorageFull);
    disk.set_room_bytes(None);
    journal.sync().expect("the disk has room again");
    disk.cut_power(|| false);
    assert_eq!(
        read(&disk).expect("the journal has no damage").1,
        (0..5).map(|number| record(number, 100)).collect::<Vec<_>>()
    );
    disk.fail_syncs(true);
    journal.push(record(5, 100)).expect("the disk has room");
    assert_ne!(
        journal.sync().expect_err("the sync must fail").kind(),
        ErrorKind::StorageFull,
        "a failed sync must not look like a temporary error"
    );
}

#[test]
fn what_is_whole_in_a_damaged_journal_is_salvaged() {
    let (disk, records) = small();
    let at = |records: usize| {
        64 + (0..records).map(|number| 24 + (160 + number * 90usize).next_multiple_of(8)).sum::<usize>()
    };
    disk.flip(8 * (at(2) as u64 + 40));
    assert!(read(&disk).is_err());
    let mut found = Vec::new();
    let salvaged = salvage(&disk, |record| {
        found.push(record.to_vec());
        Ok(())
    });
    let salvaged = salvaged.expect("a disk");
    assert_eq!((salvaged.of, salvaged.segment_bytes, salvaged.records), (Some(OF), SEGMENT_BYTES, 8));
    assert_eq!(salvaged.lost_bytes as usize, at(3) - at(2));
    let expected = records.iter().enumerate().filter(|(number, _)| *number != 2).map(|(_, record)| record.clone());
    assert_eq!(found, expected.collect::<Vec<_>>());
}
