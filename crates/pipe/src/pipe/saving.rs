//! Saves checkpoints, and updates the figures that are not counted event by event.

use super::{CHECKPOINT_EVERY, CHECKPOINT_REST, Pipe};
use crate::faults::{self, Point};
use crate::message::PartitionId;
use crate::partition::Partition;
use crate::partition_filter::PartitionFilter;
use crate::ports::{Input, Output};

impl<I: Input, O: Output<I::Message>> Pipe<I, O> {
    /// Saves checkpoints if it is time.
    pub(super) fn save_if_due(&mut self) {
        if self.checkpoints.is_none() || (self.clock)() < self.checkpoint_due {
            return;
        }
        let began = (self.clock)();
        self.save_all();
        let rest = self.since(began) * CHECKPOINT_REST;
        self.checkpoint_due = (self.clock)() + CHECKPOINT_EVERY.max(rest);
    }

    /// Saves the checkpoints of all partitions.
    pub(super) fn save_all(&mut self) {
        let ids: Vec<PartitionId> = self.partitions.keys().cloned().collect();
        self.save(&ids);
    }

    /// Saves checkpoints of partitions that have delivered something since their last one. A checkpoint that cannot be
    /// saved only makes the next start slower, so the pipe continues.
    pub(super) fn save(&mut self, ids: &[PartitionId]) {
        let Some(checkpoints) = &self.checkpoints else { return };
        for id in ids {
            let Some(partition) = self.partitions.get_mut(id) else { continue };
            let Some(filter) = partition.filter() else { continue };
            let Some(anchor) = partition.anchor else { continue };
            if filter.is_pending() || partition.saved_to == Some(partition.position) {
                continue;
            }
            let saved = checkpoints.save(id, filter, partition.position, anchor);
            self.counts.change(|figures| match saved {
                Ok(()) => figures.checkpoints.saved += 1,
                Err(_) => figures.checkpoints.failed += 1,
            });
            match saved {
                Ok(()) => partition.saved_to = Some(partition.position),
                Err(error) => {
                    self.notes.push(format!("{id}: {error}; the next start rebuilds the filter from the log"))
                }
            }
            faults::pass(Point::Saved);
        }
    }

    /// Updates the figures that are not counted event by event.
    pub(super) fn show(&mut self) {
        let ends = self.input.ends();
        let partitions = &self.partitions;
        let has_joined = !self.seen.is_empty();
        self.counts.change(|figures| {
            figures.partitions.has_joined = has_joined;
            figures.partitions.assigned = partitions.len() as u64;
            figures.partitions.ready = partitions.values().filter(|partition| partition.is_ready()).count() as u64;
            figures.partitions.filter_bytes =
                partitions.values().filter_map(Partition::filter).map(PartitionFilter::bytes).sum();
            figures.lag.retain(|id, _| partitions.contains_key(id));
            for (id, end) in ends {
                if let Some(partition) = partitions.get(&id) {
                    figures.lag.insert(id, (end - partition.position).max(0));
                }
            }
        });
    }
}
