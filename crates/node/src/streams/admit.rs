//! Decides whether a batch is admitted, which owners receive it, and why it is rejected otherwise.
//!
//! # Guarantees
//! - A batch that is rejected here has not set any cell.
//! - An admitted batch respects all limits, matches the cluster map that this node acts on, and belongs entirely to
//!   this node or entirely to one other node.
//!
//! This module does not depend on queues or on how replies travel.

use std::sync::Arc;

use firstseen_filter::Probes;
use firstseen_meta::is_restoring;
use firstseen_routing::{FilterId, FilterVerb, Heads, NodeId, Reason, Submission};
use firstseen_wire::WireError;
use firstseen_wire::batch::{BatchHeader, BatchReader, BatchShape, OwnedRun};
use firstseen_wire::proto::producer::Batch;

use super::StreamContext;
use super::rights::{StreamRights, verb};
use crate::group_key::GroupKey;
use crate::quotas::Spent;
use crate::view::{FilterView, Me, View};

/// Reason why an entire batch is rejected.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) reason: Reason,
    pub(super) detail: String,
    /// Time after which the client may try again, in milliseconds. The time is 0 if it is not known.
    pub(super) retry_after_ms: u32,
}

/// The events of a batch that belong to one slice group.
pub(super) struct AdmittedRun {
    pub(super) key: GroupKey,
    pub(super) submission: Submission,
}

/// The node that processes a batch.
pub(super) enum Admitted {
    /// This node processes the batch.
    Here(Vec<AdmittedRun>),
    /// Another node processes the batch. The sender needs this right on the filter.
    At { node: NodeId, verb: FilterVerb },
}

/// The sender of a batch.
#[derive(Clone, Copy)]
pub(super) struct StreamSender {
    /// Incarnation of the producer.
    pub(super) producer: u128,
    /// Whether the sender is a node. Only a node may send events that another tree level has already processed.
    pub(super) is_node: bool,
}

/// Checks a batch of `sender`. `spare` contains reusable buffers for its events.
pub(super) fn admit(
    context: &StreamContext,
    view: &View,
    sender: StreamSender,
    rights: &mut StreamRights,
    message: &Batch,
    spare: &mut Vec<Probes>,
) -> Result<Admitted, Refused> {
    if context.departure.is_draining() {
        return Err(refused(Reason::NotReady, "the node is about to stop"));
    }
    let me = view.me.ok_or_else(|| refused(Reason::NotReady, "the node belongs to no cluster yet"))?;
    let events_max = context.limits.batch_events_max;
    if message.events > events_max {
        let detail = format!("`events` holds {}, at most {events_max} are allowed", message.events);
        return Err(refused(Reason::Invalid, detail));
    }
    let reader = BatchReader::new(message).map_err(invalid)?;
    let header = reader.header();
    let filter = filter(view, header)?;
    let verb = verb(header.operation);
    let may = rights.must(view, header.filter, &filter.record, verb);
    may.map_err(|missing| refused(Reason::Forbidden, missing))?;
    check_epoch(view, filter, header)?;
    check_level(view, sender, header)?;
    check_former(filter, message.former_asked)?;
    let shape = BatchShape { probes: filter.prober.shape(), groups: filter.prober.groups() };
    let runs = reader.runs(shape, spare).map_err(invalid)?;
    let head = head(view, filter, &runs)?;
    if head != me.identity.node {
        spare.extend(runs.into_iter().map(|run| run.probes));
        return Ok(Admitted::At { node: head, verb });
    }
    check_incarnation(me, header)?;
    let now_ms = context.clock.monotonic_ms();
    let deadline_max_ms = context.limits.batch_deadline_max_ms;
    let deadline_in_ms = if header.deadline_in_ms == 0 { deadline_max_ms } else { header.deadline_in_ms };
    let deadline_ms = now_ms.after(u64::from(deadline_in_ms.min(deadline_max_ms)));
    let traceparent: Option<Arc<str>> = (!header.traceparent.is_empty()).then(|| header.traceparent.as_str().into());
    let admitted = runs.into_iter().map(|run| AdmittedRun {
        key: GroupKey { filter: header.filter, group: run.group },
        submission: Submission {
            reply_to: 0,
            operation: header.operation,
            producer: sender.producer,
            sequence: header.sequence,
            names: run.names,
            fences: run.fences,
            from: header.from,
            probes: run.probes,
            times: run.times,
            deadline_ms,
            again: header.again,
            traceparent: traceparent.clone(),
        },
    });
    Ok(Admitted::Here(admitted.collect()))
}

/// Returns the rejection of a batch because a quota is used up. No cell has been set.
pub(super) fn spent(spent: Spent) -> Refused {
    match spent {
        Spent::Batches => {
            refused(Reason::Overloaded, "the quota of the principal allows no more batches before some are answered")
        }
        Spent::Events { retry_after_ms } => {
            let detail = "the events of the principal arrive faster than its quota allows";
            Refused { retry_after_ms, ..refused(Reason::Overloaded, detail) }
        }
    }
}

/// Returns the rejection of a batch for the given reason. No cell has been set.
pub(super) fn refused(reason: Reason, detail: impl Into<String>) -> Refused {
    Refused { reason, detail: detail.into(), retry_after_ms: 0 }
}

fn invalid(error: WireError) -> Refused {
    refused(Reason::Invalid, error.to_string())
}

/// Returns the filter of a batch, if it exists in the cluster map of this node.
fn filter<'view>(view: &'view View, header: &BatchHeader) -> Result<&'view FilterView, Refused> {
    let version = view.map.version;
    // Only operators can see a filter that is being restored.
    let known = view.filters.get(&header.filter).filter(|filter| !is_restoring(&filter.record.name));
    let Some(filter) = known else {
        let detail = format!("there is no filter {} in map {version}", header.filter);
        return Err(refused(Reason::UnknownFilter, detail));
    };
    Ok(filter)
}

/// Checks that the batch was created for the current epoch of the filter.
fn check_epoch(view: &View, filter: &FilterView, header: &BatchHeader) -> Result<(), Refused> {
    let version = view.map.version;
    let theirs = header.epoch;
    let ours = filter.record.epoch;
    match theirs.cmp(&ours) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(refused(
            Reason::StaleMap,
            format!("epoch {theirs} of the filter has ended, the current epoch is {ours}: fetch map {version}"),
        )),
        std::cmp::Ordering::Greater => {
            Err(refused(Reason::NotReady, format!("epoch {theirs} of the filter is unknown here, {ours} is current")))
        }
    }
}

/// Checks whether a batch may come from another level of a filter tree, if its header says so. The check is necessary
/// because the node trusts batches from a tree level more than batches from a producer, so a producer must not be able
/// to send such a header. The header is accepted only from a node, and only if its level and the filter of the batch
/// belong to the same tree.
fn check_level(view: &View, sender: StreamSender, header: &BatchHeader) -> Result<(), Refused> {
    let Some(from) = header.from else { return Ok(()) };
    if !sender.is_node {
        let detail = "only a node may send events of another level of a tree: omit `from_filter`";
        return Err(refused(Reason::Invalid, detail));
    }
    let root = root_of(view, from.filter);
    if root.is_some() && root == root_of(view, header.filter) {
        Ok(())
    } else {
        let detail = format!("filter {} is not known here as a level of filter {}'s tree", from.filter, header.filter);
        Err(refused(Reason::NotReady, detail))
    }
}

/// Returns the root of the tree that a filter belongs to as a level.
fn root_of(view: &View, filter: FilterId) -> Option<FilterId> {
    Some(view.map.filters.get(&filter)?.branch.as_ref()?.root)
}

/// Checks that the producer has first asked the predecessor of the filter. Otherwise, events that the predecessor
/// contains would count as new.
fn check_former(filter: &FilterView, is_asked: bool) -> Result<(), Refused> {
    match filter.former_has_ended {
        None => Ok(()),
        Some(_) if !is_asked => {
            let detail =
                "the filter is being altered: this producer must query its predecessor first, but has not done so";
            Err(refused(Reason::NotReady, detail))
        }
        Some(true) => Ok(()),
        Some(false) => Err(refused(Reason::NotReady, "the predecessor of the filter still has events in flight")),
    }
}

/// Returns the common head node of all events of a batch.
fn head(view: &View, filter: &FilterView, runs: &[OwnedRun]) -> Result<NodeId, Refused> {
    let heads = Heads::new(&view.map, &filter.record);
    let mut head = None;
    for run in runs {
        for found in heads.of_run(&filter.prober, run.group, &run.probes, 0..run.probes.len()) {
            if found.is_none() || head.is_some_and(|head| Some(head) != found) {
                let detail = "the events of the batch start at slices of several nodes: send a batch to each";
                return Err(refused(Reason::Invalid, detail));
            }
            head = found;
        }
    }
    head.ok_or_else(|| refused(Reason::Invalid, "`events` is missing"))
}

fn check_incarnation(me: Me, header: &BatchHeader) -> Result<(), Refused> {
    if header.incarnation == me.incarnation {
        Ok(())
    } else {
        let detail = format!(
            "this is start {} of the node, but the batch is for start {}",
            me.incarnation.0, header.incarnation.0
        );
        Err(refused(Reason::StaleMap, detail))
    }
}
