//! Tests the store on a simulated disk with faults: the disk is full, loses power, does not sync, or changes bits. For
//! example, if the disk is full, the store must use its reserved space. If that space is used up as well, readers and
//! writers must wait until there is free space, and must then find the previous data unchanged.

use std::ops::RangeInclusive;
use std::time::Duration;

use firstseen_journal::{Disk, MemoryDisk};
use openraft::RaftLogReader;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{CommittedLeaderId, Entry as AnyEntry, EntryPayload};

use crate::change::Change;
use crate::command::Command;
use crate::store::{Database, LogStore, MetaStorage, StoreError};
use crate::types::{Entry, LogId, TypeConfig, Vote};

/// Time limit that is far longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Disk space that no test uses up, in bytes.
const ROOMY_BYTES: u64 = 8 << 20;

async fn open(disk: &MemoryDisk) -> Result<(Database, LogStore), StoreError> {
    let database = Database::open(MetaStorage::Memory(disk.clone())).await?;
    Ok((database.clone(), LogStore::new(database)))
}

/// Creates an entry of about one kilobyte.
fn entry(index: u64) -> Entry {
    let change = Change::DropFilter { name: format!("{index:01000}") };
    let log_id = LogId::new(CommittedLeaderId::new(1, 1), index);
    AnyEntry::<TypeConfig> { log_id, payload: EntryPayload::Normal(Command::new([0; 16], change)) }
}

async fn append(log: &mut LogStore, indexes: RangeInclusive<u64>) -> Result<(), String> {
    for index in indexes {
        log.blocking_append([entry(index)]).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn indexes(log: &mut LogStore) -> Vec<u64> {
    let entries = log.try_get_log_entries(..).await.expect("it can be read");
    entries.iter().for_each(|found| assert_eq!(*found, entry(found.log_id.index)));
    entries.iter().map(|entry| entry.log_id.index).collect()
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it never ends")
}

#[tokio::test]
async fn what_was_kept_back_is_used_where_there_is_no_room_and_kept_back_again() {
    let disk = MemoryDisk::default();
    let (database, mut log) = open(&disk).await.expect("opens");
    let short = database.watch_nearly_full();
    database.keep_reserve().await;
    assert!(!*short.borrow() && disk.names().expect("names").contains(&"meta.reserve".to_owned()));
    disk.set_room_bytes(Some(0));
    in_time(append(&mut log, 1..=60)).await.expect("there is room for it");
    assert!(*short.borrow(), "everybody hears");
    assert!(!disk.names().expect("names").contains(&"meta.reserve".to_owned()));
    database.keep_reserve().await;
    assert!(*short.borrow(), "there is less room than that");
    disk.set_room_bytes(Some(ROOMY_BYTES));
    database.keep_reserve().await;
    assert!(!*short.borrow());
    assert_eq!(indexes(&mut log).await, Vec::from_iter(1..=60));
}

#[tokio::test]
async fn without_any_room_the_store_waits_and_goes_on_by_itself() {
    let disk = MemoryDisk::default();
    let (database, mut log) = open(&disk).await.expect("opens");
    in_time(append(&mut log, 1..=5)).await.expect("there is room");
    // No space was reserved.
    disk.set_room_bytes(Some(0));
    let (mut writer, mut reader) = (log.clone(), log.clone());
    let mut short = database.watch_nearly_full();
    let writing = tokio::spawn(async move { append(&mut writer, 6..=300).await });
    in_time(short.wait_for(|is_nearly_full| *is_nearly_full)).await.expect("it is heard");
    let found = in_time(indexes(&mut reader)).await;
    assert!(found.len() >= 5 && found.len() < 300, "what is there can be read: {found:?}");
    assert!(!writing.is_finished(), "nobody gives up");
    disk.set_room_bytes(None);
    in_time(writing).await.expect("it ends").expect("all is written");
    assert_eq!(indexes(&mut log).await, Vec::from_iter(1..=300));
    disk.cut_power(|| false);
    let (_, mut log) = open(&disk).await.expect("opens");
    assert_eq!(indexes(&mut log).await, Vec::from_iter(1..=300), "and on the medium");
}

#[tokio::test]
async fn who_stops_waits_for_no_room() {
    let disk = MemoryDisk::default();
    let (database, mut log) = open(&disk).await.expect("opens");
    disk.set_room_bytes(Some(0));
    let mut short = database.watch_nearly_full();
    let writing = tokio::spawn(async move { append(&mut log, 1..=300).await });
    in_time(short.wait_for(|is_nearly_full| *is_nearly_full)).await.expect("it is heard");
    database.stop_waiting();
    let error = in_time(writing).await.expect("it ends").expect_err("there is no room");
    assert!(error.contains("is full") && error.contains("make room"), "{error}");
    in_time(database.close()).await.expect("closes");
}

#[tokio::test]
async fn a_sync_that_fails_is_never_tried_again() {
    let disk = MemoryDisk::default();
    let (database, mut log) = open(&disk).await.expect("opens");
    database.keep_reserve().await;
    log.save_vote(&Vote::new(1, 1)).await.expect("it is well");
    // The sync fails because of a lack of space, as in file systems that detect it late.
    disk.fail_syncs(true);
    in_time(log.save_vote(&Vote::new(2, 1))).await.expect_err("nobody knows what is there");
    assert!(disk.names().expect("names").contains(&"meta.reserve".to_owned()), "room does not help");
    disk.fail_syncs(false);
    in_time(log.save_vote(&Vote::new(3, 1))).await.expect_err("and nobody will");
}

/// Pseudorandom numbers with a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, range: u64) -> u64 {
        self.0 = crate::mixed::mixed(self.0);
        self.0 % range
    }
}

/// Tests that every acknowledged write exists after any power failure and any full disk.
#[tokio::test]
async fn what_was_kept_is_there_after_power_cuts_and_full_disks() {
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let disk = MemoryDisk::default();
        let (mut kept, mut term) = (0, 0);
        for _ in 0..6 {
            let (database, mut log) = in_time(open(&disk)).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let found = indexes(&mut log).await;
            assert!(
                found.len() as u64 >= kept && found.iter().copied().eq(1..=found.len() as u64),
                "seed {seed}: {found:?}"
            );
            let vote = log.read_vote().await.expect("a vote").map_or(0, |vote| vote.leader_id.term);
            assert!(vote >= term, "seed {seed}: the vote of term {term} is forgotten");
            (kept, term) = (found.len() as u64, vote);
            database.keep_reserve().await;
            if numbers.below(2) == 0 {
                disk.set_room_bytes(Some(numbers.below(40_000)));
                if numbers.below(2) == 0 {
                    // Another program uses the reserved space.
                    disk.remove("meta.reserve").expect("it is kept back");
                }
            }
            let ends = tokio::time::Instant::now() + Duration::from_millis(numbers.below(30));
            let work = async {
                loop {
                    append(&mut log, kept + 1..=kept + 1).await.expect("it waits for room");
                    kept += 1;
                    log.save_vote(&Vote::new(term + 1, 1)).await.expect("it waits for room");
                    term += 1;
                    tokio::task::yield_now().await;
                }
            };
            let never_done: Result<(), _> = tokio::time::timeout_at(ends, work).await;
            never_done.expect_err("its process ends");
            drop(database);
            disk.set_room_bytes(None);
            let odds = numbers.below(3);
            disk.cut_power(|| numbers.below(2) < odds);
        }
    }
}

/// Tests that a changed bit is detected before any result depends on it, or is in bytes that are never read.
#[tokio::test]
async fn a_bit_that_has_changed_is_reported_or_harmless() {
    let whole = MemoryDisk::default();
    let (database, mut log) = open(&whole).await.expect("opens");
    append(&mut log, 1..=12).await.expect("there is room");
    log.save_vote(&Vote::new(7, 3)).await.expect("there is room");
    database.close().await.expect("closes");
    let bytes = whole.len_bytes("meta.redb").expect("a file");
    let (mut reported, mut harmless, mut numbers) = (0, 0, Numbers(11));
    // Half of the bits are in the header, which contains the positions of all other data. The other bits are anywhere.
    let bits = (0..80).map(|_| 0..400 * 8).chain((0..160).map(|_| 0..bytes * 8));
    for bits in bits.collect::<Vec<_>>() {
        let (disk, bit) = (whole.copy(), numbers.below(bits.end));
        disk.flip(bit);
        match open(&disk).await {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                reported += 1;
            }
            Ok((_, mut log)) => {
                let read = async {
                    let vote = log.read_vote().await.ok().flatten();
                    (vote, log.try_get_log_entries(..).await.ok())
                };
                let (vote, entries) = in_time(read).await;
                assert_eq!(vote, Some(Vote::new(7, 3)), "bit {bit}");
                let entries = entries.unwrap_or_else(|| panic!("bit {bit}"));
                assert!(entries.iter().eq(&(1..=12).map(entry).collect::<Vec<_>>()), "bit {bit}");
                harmless += 1;
            }
        }
    }
    println!("{reported} reported, {harmless} harmless");
    assert!(reported > 15 && harmless > 15, "{reported} reported, {harmless} harmless");
}

#[test]
fn another_version_is_told_what_to_do_and_not_to_remove_anything() {
    use crate::codec::CodecError;
    let of =
        |reason| StoreError::Corrupt { place: "meta.redb".into(), value: "the vote".to_owned(), reason }.to_string();
    let version = of(CodecError::Version { found: 3 });
    for words in ["the version of firstseen that wrote it", "Never remove the file", "cluster backup"] {
        assert!(version.contains(words), "{version}");
    }
    assert!(!version.contains("join"), "{version}");
    let torn = of(CodecError::Checksum);
    for words in ["let it join again", "more than one node", "forget its votes", "cluster recover"] {
        assert!(torn.contains(words), "{torn}");
    }
}
