//! The loop of a pipe over a simulated log. Processes die, attempts are aborted, outcomes are lost and partitions move;
//! every message must still be written exactly once to the topic of its outcome.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use firstseen_filter::FilterSecret;
use firstseen_pipe::{
    CheckpointFolder, Counts, Ended, Message, PartitionId, Parts, Pipe, PipeError, Settings, Target, UndecidedAction,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::filters::definition;
use crate::keys::{TestMessage, reader};
use crate::log::{Log, Stored};

const START_MS: i64 = 1_700_000_000_000;

fn settings() -> Settings {
    Settings {
        batch_events: 100,
        batch_bytes: 1 << 20,
        linger: Duration::from_millis(1),
        undecided: UndecidedAction::Pass,
        is_shadow: false,
        has_duplicates: true,
        has_dead_letters: true,
        until_end: true,
        present_ms: || 1_700_000_100_000,
    }
}

/// Returns a log of two partitions with random keys, and with gaps between the offsets.
fn stored(rng: &mut ChaCha8Rng) -> Rc<RefCell<Stored>> {
    let mut stored = Stored::default();
    for partition in 0..2 {
        let mut offset = 0;
        let messages = (0..1500).map(|index| {
            offset += rng.random_range(1..3);
            let value = rng.random_range(0..400u32).to_string().into_bytes();
            let timestamp_ms = Some(START_MS + index);
            TestMessage { offset, timestamp_ms, value: Some(value), key: Some(b"k".to_vec()), headers: Vec::new() }
        });
        stored.messages.insert(PartitionId { topic: "clicks".into(), partition }, messages.collect());
    }
    Rc::new(RefCell::new(stored))
}

/// Runs one process.
fn process(log: &Log, window: Option<&str>, folder: Option<&Path>, settings: Settings) -> Result<Ended, PipeError> {
    let definition = window.map(definition);
    let checkpoints = folder.map(|folder| CheckpointFolder::open(folder, "once").unwrap());
    let seed = checkpoints.as_ref().map_or(7, CheckpointFolder::seed);
    let reader = reader(&["@value"], "@timestamp", true);
    let mut checkpoints = checkpoints;
    if let (Some(folder), Some(definition)) = (&mut checkpoints, &definition) {
        folder.set_filter(format!("{} {seed}", reader.identity()), definition);
    }
    let secret = FilterSecret::from_seed(7);
    let parts =
        Parts { input: log.clone(), output: log.clone(), reader, secret, definition, checkpoints, clock: log.clock() };
    Pipe::new(parts, settings, Counts::default()).run(&|| false, &mut |_| {})
}

/// Checks that each message was written exactly once: the first message of each value to the output, and the others to
/// the topic of duplicates.
fn check(stored: &Stored, seed: u64) {
    let mut expected = BTreeSet::new();
    for (partition, messages) in &stored.messages {
        let mut seen = BTreeSet::new();
        for message in messages {
            let is_new = seen.insert(message.value().map(<[u8]>::to_vec));
            expected.insert((partition.clone(), message.offset, is_new));
        }
    }
    let mut found = BTreeSet::new();
    for written in &stored.written {
        let is_new = written.target == Target::Output;
        let is_first = found.insert((written.partition.clone(), written.offset, is_new));
        assert!(is_first, "seed {seed}: written twice: {written:?}");
    }
    let wrong: Vec<_> = expected.symmetric_difference(&found).take(5).collect();
    assert!(wrong.is_empty(), "seed {seed}: written to the wrong topic, or not at all: {wrong:?}");
}

fn storm(seed: u64, folder: Option<&Path>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let stored = stored(&mut rng);
    for process_number in 0.. {
        assert!(process_number < 200, "seed {seed}: no progress");
        let saved = folder.filter(|_| rng.random_bool(0.5)).map(read_folder);
        let log = Log::start(&stored, rng.random(), rng.random_range(200..4000));
        let ended = process(&log, Some("24h"), folder, settings());
        if let Ok(ended) = ended {
            assert_eq!(ended, Ended::AtEnd);
            break;
        }
        // A process that was killed has not saved its last checkpoints.
        if let (Some(folder), Some(saved)) = (folder, saved) {
            write_folder(folder, &saved);
        }
    }
    check(&stored.borrow(), seed);
}

/// Returns the names and contents of the files in a folder.
fn read_folder(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn write_folder(folder: &Path, files: &[(std::path::PathBuf, Vec<u8>)]) {
    for (path, _) in read_folder(folder) {
        fs::remove_file(path).unwrap();
    }
    files.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
}

#[test]
fn each_message_is_written_once_without_checkpoints() {
    for seed in 0..12 {
        storm(seed, None);
    }
}

#[test]
fn each_message_is_written_once_with_checkpoints() {
    for seed in 100..112 {
        let folder = tempfile::tempdir().unwrap();
        storm(seed, Some(folder.path()));
    }
}

#[test]
fn a_pipe_without_a_window_copies_everything() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let stored = stored(&mut rng);
    let log = Log::start(&stored, 1, u32::MAX);
    assert_eq!(process(&log, None, None, settings()).unwrap(), Ended::AtEnd);
    assert_eq!(stored.borrow().written.len(), 3000);
}

#[test]
fn in_shadow_mode_everything_passes() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let stored = stored(&mut rng);
    let log = Log::start(&stored, 2, u32::MAX);
    let settings = Settings { is_shadow: true, has_duplicates: false, ..settings() };
    process(&log, Some("24h"), None, settings).unwrap();
    let stored = stored.borrow();
    assert!(stored.written.len() == 3000 && stored.written.iter().all(|it| it.target == Target::Output));
}

/// A message that is no event stops the pipe if there is no topic for it. The messages before it are delivered, and the
/// error names the place.
#[test]
fn a_message_that_is_no_event_stops_the_pipe_and_is_not_skipped() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let stored = stored(&mut rng);
    let id = PartitionId { topic: "clicks".into(), partition: 1 };
    let offset = {
        let mut stored = stored.borrow_mut();
        let poison = &mut stored.messages.get_mut(&id).unwrap()[750];
        poison.value = None;
        poison.offset
    };
    for attempt in 0..20 {
        let log = Log::start(&stored, 3 + attempt, u32::MAX);
        let settings = Settings { has_dead_letters: false, ..settings() };
        // An error about a message was returned although the messages before it were never delivered, because the group
        // had taken their partition away meanwhile.
        if attempt == 0 {
            let last = stored.borrow().messages[&id][749].offset;
            log.take_away_beyond(&id, last);
        }
        let error = process(&log, Some("24h"), None, settings).unwrap_err().to_string();
        assert!(error.starts_with(&format!("clicks/1 at offset {offset}: its value is null")), "{error}");
        let committed = stored.borrow().committed[&id];
        assert!(committed <= offset && stored.borrow().messages[&id][749].offset < committed, "{committed}");
    }
    let log = Log::start(&stored, 9, u32::MAX);
    process(&log, Some("24h"), None, settings()).unwrap();
    let stored = stored.borrow();
    let dead: Vec<_> = stored.written.iter().filter(|it| it.target == Target::DeadLetters).collect();
    assert!(dead.len() == 1 && dead[0].offset == offset, "{dead:?}");
}

/// Regression guard for the anchor: the topic was deleted and created again, so the checkpoint describes another log.
#[test]
fn a_checkpoint_of_another_log_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let former = stored(&mut rng);
    process(&Log::start(&former, 4, u32::MAX), Some("24h"), Some(folder.path()), settings()).unwrap();
    let new = stored(&mut rng);
    // The group has committed offsets after those of the checkpoint.
    let ends: Vec<_> = former.borrow().committed.iter().map(|(id, end)| (id.clone(), end + 100)).collect();
    for (id, end) in ends {
        let mut new = new.borrow_mut();
        let last = new.messages.get_mut(&id).unwrap();
        last.push(TestMessage { offset: end + 5, value: Some(b"5".to_vec()), ..last[0].clone() });
        last.push(TestMessage { offset: end + 6, value: Some(b"never seen".to_vec()), ..last[0].clone() });
        new.committed.insert(id, end);
    }
    process(&Log::start(&new, 5, u32::MAX), Some("24h"), Some(folder.path()), settings()).unwrap();
    let new = new.borrow();
    let passed = new.written.iter().filter(|it| it.target == Target::Output).count();
    assert_eq!((new.written.len(), passed), (4, 2), "{:?}", new.written);
}

/// A wrong time was accepted if it was the last one of a batch, because nothing after it contradicted it. Every later
/// event was then late, and duplicates passed.
#[test]
fn a_wrong_time_at_the_end_of_a_batch_does_not_move_the_clock() {
    for index in [99, 399, 799, 1499] {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let stored = stored(&mut rng);
        let id = PartitionId { topic: "clicks".into(), partition: 0 };
        stored.borrow_mut().messages.get_mut(&id).unwrap()[index].timestamp_ms = Some(START_MS - 40 * 86_400_000);
        for message in stored.borrow_mut().messages.get_mut(&id).unwrap() {
            // All other times are much earlier, so the one above is far ahead of them and before the present.
            if message.timestamp_ms > Some(START_MS - 1) {
                message.timestamp_ms = message.timestamp_ms.map(|ms| ms - 80 * 86_400_000);
            }
        }
        let counts = Counts::default();
        let log = Log::start(&stored, 6, u32::MAX);
        let reader = reader(&["@value"], "@timestamp", true);
        let definition = Some(definition("24h"));
        let secret = FilterSecret::from_seed(7);
        let input = log.clone();
        let clock = log.clock();
        let parts = Parts { input, output: log, reader, secret, definition, checkpoints: None, clock };
        Pipe::new(parts, settings(), counts.clone()).run(&|| false, &mut |_| {}).unwrap();
        let figures = counts.figures();
        assert_eq!(figures.undecided.get("late"), None, "message {index}: {figures:?}");
    }
}
