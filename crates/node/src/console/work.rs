//! The operations that are in progress in a cluster: moves of slices, restores of backups, and alterations of filters.
//! An operation is listed until it is complete. The list also shows for how long each operation has made no progress,
//! so an operator can notice that an operation is stuck.

use std::collections::BTreeMap;

use firstseen_meta::{is_restoring, slice_bytes};
use firstseen_routing::{ClusterMap, FilterRecord};

use super::overview::WorkLine;

/// The work in progress at the last observation.
#[derive(Default)]
pub(super) struct Work(BTreeMap<(String, String), Seen>);

struct Seen {
    left: Option<u64>,
    since_s: u64,
}

impl Work {
    /// Returns the work in progress at second `now_s`. The seconds may come from any monotonic clock.
    pub(super) fn lines(&mut self, map: &ClusterMap, now_s: u64) -> Vec<WorkLine> {
        let mut lines: Vec<WorkLine> = map.filters.values().flat_map(|record| of_filter(map, record)).collect();
        let mut before = std::mem::take(&mut self.0);
        for line in &mut lines {
            let name = (line.kind.clone(), line.filter.clone());
            let seen = before.remove(&name).filter(|seen| seen.left == line.left);
            let seen = seen.unwrap_or(Seen { left: line.left, since_s: now_s });
            line.unchanged_s = now_s.saturating_sub(seen.since_s);
            self.0.insert(name, seen);
        }
        lines
    }
}

fn of_filter(map: &ClusterMap, record: &FilterRecord) -> Vec<WorkLine> {
    let mut lines = Vec::new();
    let moving = record.moves().count() as u64;
    if moving > 0 {
        let bytes = slice_bytes(&record.definition).ok().map(|bytes| bytes.saturating_mul(moving));
        let are = if moving == 1 { "slice is on its" } else { "slices are on their" };
        let text = format!("{moving} {are} way to other nodes");
        lines.push(WorkLine {
            left: Some(moving),
            unit: "slices".to_owned(),
            bytes_left: bytes,
            ..line(record, "move", text)
        });
    }
    if is_restoring(&record.name) {
        lines.push(line(record, "restore", "cells of a backup are being written".to_owned()));
    }
    if let Some(closed) = &record.line.closed {
        let follower = map.filters.get(&closed.successor).map_or("another filter", |follower| follower.name.as_str());
        let (left, text) = match closed.awaited.len() as u64 {
            0 => (
                record.nodes().difference(&closed.passed).count() as u64,
                format!("replaced by {follower}; it is queried until its events have expired on all nodes"),
            ),
            awaited => (awaited, format!("replaced by {follower}; {awaited} nodes still have events in flight")),
        };
        lines.push(WorkLine { left: Some(left), unit: "nodes".to_owned(), ..line(record, "alteration", text) });
    }
    lines
}

fn line(record: &FilterRecord, kind: &str, text: String) -> WorkLine {
    WorkLine { kind: kind.to_owned(), filter: record.name.clone(), text, ..WorkLine::default() }
}
