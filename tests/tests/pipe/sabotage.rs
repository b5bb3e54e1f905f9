//! Tests that the judgement of the other tests finds faults. The variable `FIRSTSEEN_PIPE_BREAK` switches off one rule
//! of the pipe on which exactly-once delivery depends.

use super::broker::Kafka;
use super::case::Case;
use super::members::suspend;
use super::workload::{Shape, Workload};

const SHAPE: Shape = Shape { partitions: 2, records: 800, keys: 60, epochs: 1 };

fn broken(rule: &str) -> (&'static str, String) {
    ("FIRSTSEEN_PIPE_BREAK", rule.to_owned())
}

/// Without the rebuild, a restarted pipe does not know what its predecessor has delivered.
#[test]
fn without_a_rebuild_keys_are_delivered_twice() {
    let Some(kafka) = Kafka::shared() else { return };
    // A batch can be larger than asked by the messages that wait for further ones, so the records fill several batches.
    let shape = Shape { records: 4_000, ..SHAPE };
    let mut case = Case::new(kafka, shape.partitions).with("--batch 50");
    case.write(&Workload::new(1, shape).rest());
    let kill = ("FIRSTSEEN_PIPE_KILL_AT", "after-commit:2".to_owned());
    assert!(case.start_with(&["--until-end"], &[broken("no-rebuild"), kill]).wait().is_killed());
    case.start_with(&["--until-end"], &[broken("no-rebuild")]).wait().ok();
    let faults = case.judge();
    assert!(!faults.passed_twice.is_empty(), "{faults}");
}

/// A checkpoint with events that were not delivered makes the next pipe call them duplicates.
#[test]
fn with_a_record_before_the_commit_keys_are_lost() {
    let Some(kafka) = Kafka::shared() else { return };
    // The first batch of a partition has no checkpoint, so all batches belong to one partition. The first batches can be
    // larger than the others, and the third one must still contain new keys.
    let shape = Shape { partitions: 1, records: 3_000, keys: 3_000, ..SHAPE };
    for point in ["after-test:3", "after-produce:3", "after-offsets:3"] {
        let mut case = Case::new(kafka, shape.partitions).with("--batch 50 --state state");
        case.write(&Workload::new(2, shape).rest());
        let kill = ("FIRSTSEEN_PIPE_KILL_AT", point.to_owned());
        assert!(case.start_with(&["--until-end"], &[broken("record-before-commit"), kill]).wait().is_killed());
        case.start_with(&["--until-end"], &[broken("record-before-commit")]).wait().ok();
        let faults = case.judge();
        assert!(faults.wrong_duplicates.len() > 1 && !faults.is_empty(), "{point}: {faults}");
    }
}

/// Without the fence, a pipe that was suspended in the middle of a batch delivers the batch that its successor has
/// delivered already.
#[test]
fn without_the_fence_a_suspended_pipe_delivers_twice() {
    let Some(kafka) = Kafka::shared() else { return };
    let faults = suspend(kafka, "after-produce:3", 20_000, &[broken("no-fencing")]).faults;
    assert!(!faults.repeated.is_empty(), "{faults}");
}
