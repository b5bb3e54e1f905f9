//! Checks of the code that reads journal segments and journal records. The input may be arbitrary, because a disk can
//! be damaged. The fuzz target `journal` searches for bytes that violate a check. `cargo test -p firstseen-journal`
//! runs the same checks on the corpus.

use std::sync::Arc;

use firstseen_journal::{Disk, Journal, MemoryDisk, NodeMark, Segments, decode, encode, salvage, scan};
use firstseen_routing::{BatchName, Entry, FilterId, Record};

/// Size of the segment in the examples, in bytes.
const SEGMENT_BYTES: u32 = 4096;

const FILE: &str = "0000000000000001.journal";

/// Runs the checks. The first byte of the data says whether the rest is a record or a segment.
pub(crate) fn run(data: &[u8]) {
    match data.split_first() {
        Some((0, bytes)) => record(bytes),
        Some((_, bytes)) => segment(bytes),
        None => {}
    }
}

/// Checks that a decoded record stays the same when it is encoded and decoded again.
fn record(bytes: &[u8]) {
    let Ok(read) = decode(bytes) else { return };
    let again = decode(&encode(read.clone())).expect("what was read can be written and read");
    assert_eq!(again, read);
}

/// Checks that no bytes make a reader panic, and that a repair finds every record that a scan accepts.
fn segment(bytes: &[u8]) {
    let disk = MemoryDisk::default();
    disk.create(FILE, bytes, bytes.len() as u64).expect("memory has room");
    let (mut scanned, mut salvaged) = (Vec::new(), Vec::new());
    let is_whole = scan(&disk, NodeMark::default(), |_, record| {
        scanned.push(record.to_vec());
        Ok(())
    })
    .is_ok();
    let found = salvage(&disk, |record| {
        salvaged.push(record.to_vec());
        Ok(())
    });
    assert_eq!(found.expect("memory does not fail").records, salvaged.len() as u64);
    assert!(!is_whole || salvaged.starts_with(&scanned));
    salvaged.iter().for_each(|bytes| record(bytes));
}

/// Returns valid inputs, which the fuzzer modifies to find new ones: several journal records, and a segment that
/// contains them. The first byte of each input says whether a record or a segment follows.
#[allow(dead_code)]
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let name = BatchName { producer: 7, sequence: 3 };
    let told = Entry::Taken { name, names: Vec::new(), events: 5 };
    let entries = [vec![], vec![told.clone()], vec![told.clone(), told]];
    let of = |entries: Vec<Entry>| encode(Record { filter: FilterId(4), group: 2, entries });
    let records: Vec<Vec<u8>> = entries.into_iter().map(of).filter(|record| !record.is_empty()).collect();
    let disk = MemoryDisk::default();
    let nothing = Segments::default();
    let mut journal = Journal::after(Arc::new(disk.clone()), NodeMark::default(), SEGMENT_BYTES, &nothing);
    records.iter().for_each(|record| journal.push(record.clone()).expect("memory has room"));
    journal.sync().and_then(|()| journal.mark()).expect("memory has room");
    let segment = disk.read(FILE, SEGMENT_BYTES.into()).expect("it is there");
    let records = records.into_iter().map(|record| [&[0], &record[..]].concat());
    records.chain([[&[1], &segment[..]].concat()]).collect()
}
