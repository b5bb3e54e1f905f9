//! What a node does for events that another node has in flight.
//!
//! Promises: a test visits the node's own slices, then goes on to the node of the event's first untested position, or
//! its result goes back to the event's head; a set is carried out and acknowledged. A message that names cells that are
//! not here sets nothing. Must not know: producers, why an event is tested.

use std::collections::BTreeMap;

use firstseen_filter::{PREFETCH_EVENTS, Sighting, UnitNumber};

use super::membership::Unreachable;
use super::outbox::{Finding, Outbox, Question};
use super::own::OwnSlices;
use super::placement::Placement;
use crate::ids::NodeId;
use crate::protocol::{Command, HandedOver, PeerBody, PeerMessage, Resolved, SetAcks, SetBatch, TestBatch};
use crate::verdict::Reason;

/// What a node says of the events that pass it.
#[derive(Clone, Copy)]
pub(super) struct Passing {
    /// Its filter is in a tree: the head is to know when cells expire.
    pub(super) in_tree: bool,
    /// Slices here that are asked may lack something.
    pub(super) degrades: bool,
}

/// Tests the events of a batch, and sends on those that are not decided here.
pub(super) fn test(
    batch: &TestBatch,
    own: &mut OwnSlices,
    placement: &Placement,
    unreachable: &Unreachable,
    outbox: &mut Outbox,
    Passing { in_tree, degrades }: Passing,
) {
    let events = || {
        let events = batch.left.iter().zip(&batch.tickets).zip(&batch.stamps).enumerate().zip(batch.run_of_each());
        // Nobody waits for the others any more: their head has given them up by its own clock.
        events.filter(|(_, run)| run.deadline_in_ms > 0)
    };
    let newest = own.newest_generation();
    for ((_, ((left, _), _)), _) in events() {
        if placement.admits(left) {
            own.prefetch(placement, left, newest);
        }
    }
    for ((index, ((left, ticket), stamp)), run) in events() {
        let (head, degraded) = (run.head, run.degraded || degrades);
        let generations = batch.generations.get(index).copied().unwrap_or(u16::MAX);
        let refuse = |outbox: &mut Outbox, reason| outbox.resolve(head, *ticket, Finding::Undecided(reason), 0, false);
        if !placement.admits(left) {
            refuse(outbox, Reason::Invalid);
            continue;
        }
        // A head whose map is older than the loss would take a missing cell here for a zero.
        let is_taken_for_complete = !run.asks_all && !placement.has_lost_nothing_of(left);
        if !placement.is_tested_here(left[0]) || !own.has_all(placement, left) || is_taken_for_complete {
            refuse(outbox, Reason::StaleMap);
            continue;
        }
        let elsewhere = || left.iter().copied().filter(|position| !placement.is_tested_here(*position));
        if unreachable.has_any(placement, elsewhere()) {
            refuse(outbox, Reason::SlicesDown);
            continue;
        }
        let Some(stamp) = own.rejudge(*stamp) else {
            refuse(outbox, Reason::Late);
            continue;
        };
        let expiry = batch.expiries.get(index).copied().unwrap_or(UnitNumber::NEVER);
        let mut found = Sighting { generations, expiry };
        let visits = own.test(placement, left, stamp, &mut found);
        match elsewhere().next() {
            Some(first) if found.is_hit() && !batch.parallel => {
                let question = Question {
                    head,
                    ticket: *ticket,
                    stamp,
                    found,
                    in_tree,
                    parallel: false,
                    asks_all: run.asks_all,
                    deadline_in_ms: run.deadline_in_ms,
                    degraded,
                    traceparent: batch.traceparent.as_ref(),
                };
                outbox.test(placement.nodes()[placement.node_at(first)], question, elsewhere());
            }
            _ => outbox.resolve(head, *ticket, Finding::Found(found, in_tree), visits, degraded),
        }
    }
}

/// Sets the cells of a batch, all of them or, where one cannot be set here, none; returns how many cells that were.
pub(crate) fn set(
    head: NodeId,
    batch: &SetBatch,
    own: &mut OwnSlices,
    placement: &Placement,
    outbox: &mut Outbox,
) -> u64 {
    let here = |cells: &[u64]| {
        placement.admits(cells)
            && cells.iter().all(|position| placement.has_copy_here(*position))
            && own.has_all(placement, cells)
    };
    let events = || batch.cells.iter().zip(&batch.stamps);
    let all_here = batch.cells.len() == batch.stamps.len() && batch.cells.iter().all(here);
    if !all_here || !events().all(|(cells, stamp)| own.open(placement, cells, stamp.unit, batch.generation)) {
        outbox.acknowledge(head, batch.set_number, false);
        return 0;
    }
    let mut ahead = batch.cells.iter();
    ahead.by_ref().take(PREFETCH_EVENTS).for_each(|cells| own.prefetch(placement, cells, batch.generation));
    let (mut cells_set, mut has_room) = (0, true);
    for (cells, stamp) in events() {
        if let Some(next) = ahead.next() {
            own.prefetch(placement, next, batch.generation);
        }
        let set = own.set(placement, cells, *stamp, batch.generation);
        (cells_set, has_room) = (cells_set + set.unwrap_or_default(), has_room && set.is_some());
    }
    outbox.acknowledge(head, batch.set_number, has_room);
    cells_set
}

/// The answer of a node that has none of the slices a message is about: nothing was tested or set, because of `reason`.
/// A message that is an answer itself gets none; one with events of several heads an answer to each.
pub fn refuse(from: NodeId, message: PeerMessage, reason: Reason) -> Vec<Command> {
    let PeerMessage { filter, epoch, group, body } = message;
    let answer = |to, body| Command::Send { to, message: PeerMessage { filter, epoch, group, body } };
    let refused_number = |number| PeerBody::SetAcks(SetAcks { refused_numbers: vec![number], ..SetAcks::default() });
    let heads = |test| refused(test, reason).map(|(head, body)| answer(head, body)).collect();
    let body = match body {
        PeerBody::Test(test) => return heads(&test),
        PeerBody::ClaimTests(tests) => return heads(&tests.test),
        PeerBody::Set(set) => refused_number(set.set_number),
        PeerBody::Mirror(Some(number), _) => refused_number(number.number),
        // A node heads no event of a group of which it has nothing, by its map or those before.
        PeerBody::AskPast => PeerBody::HandedOver(HandedOver { epoch, told_for_ms: 0 }),
        PeerBody::Resolved(_)
        | PeerBody::SetAcks(_)
        | PeerBody::Past(_)
        | PeerBody::AskCells(_)
        | PeerBody::Cells(_)
        | PeerBody::HandedOver(_)
        | PeerBody::Mirror(None, _) => return Vec::new(),
    };
    vec![answer(from, body)]
}

/// The answers to each head.
fn refused(test: &TestBatch, reason: Reason) -> impl Iterator<Item = (NodeId, PeerBody)> {
    let mut by_head: BTreeMap<NodeId, Resolved> = BTreeMap::new();
    for (ticket, run) in test.tickets.iter().zip(test.run_of_each()) {
        let resolved = by_head.entry(run.head).or_default();
        resolved.undecided.push((resolved.tickets.len() as u32, reason));
        resolved.tickets.push(*ticket);
        resolved.hits.push(false);
    }
    by_head.into_iter().map(|(head, resolved)| (head, PeerBody::Resolved(resolved)))
}
