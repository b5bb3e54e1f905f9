//! What a node does for events that another node has in flight.
//!
//! Promises: a test visits the node's own slices, then goes on to the node of the event's first untested position, or
//! its result goes back to the event's head; a set is carried out and acknowledged. A message that names cells that are
//! not here sets nothing. Must not know: producers, why an event is tested.

use firstseen_filter::Sighting;

use super::membership::Unreachable;
use super::outbox::{Finding, Outbox, Question};
use super::own::OwnSlices;
use super::placement::Placement;
use crate::ids::NodeId;
use crate::protocol::{Command, HandedOver, PeerBody, PeerMessage, Resolved, SetAcks, SetBatch, TestBatch};
use crate::verdict::Reason;

/// Tests the events of a batch, and sends on those that are not decided here.
pub(super) fn test(
    batch: &TestBatch,
    own: &mut OwnSlices,
    placement: &Placement,
    unreachable: &Unreachable,
    outbox: &mut Outbox,
    in_tree: bool,
) {
    // No one waits for these any more: their head has given them up by its own clock.
    if batch.deadline_in_ms == 0 {
        return;
    }
    let events = || batch.left.iter().zip(&batch.tickets).zip(&batch.stamps).enumerate();
    let newest = own.newest_generation();
    for (_, ((left, _), _)) in events() {
        if placement.admits(left) {
            own.prefetch(placement, left, newest);
        }
    }
    for (index, ((left, ticket), stamp)) in events() {
        let generations = batch.generations.get(index).copied().unwrap_or(u16::MAX);
        let refuse =
            |outbox: &mut Outbox, reason| outbox.resolve(batch.head, *ticket, Finding::Undecided(reason), 0, false);
        if !placement.admits(left) {
            refuse(outbox, Reason::Invalid);
            continue;
        }
        // A head whose map is older than the loss would take a missing cell here for a zero.
        let is_taken_for_complete = !batch.asks_all && !placement.has_lost_nothing_of(left);
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
        let expiry = batch.expiries.get(index).copied().unwrap_or(u64::MAX);
        let mut found = Sighting { generations, expiry };
        let visits = own.test(placement, left, stamp, &mut found);
        match elsewhere().next() {
            Some(first) if found.is_hit() && !batch.parallel => {
                let question = Question {
                    head: batch.head,
                    ticket: *ticket,
                    stamp,
                    found,
                    in_tree,
                    parallel: false,
                    asks_all: batch.asks_all,
                    deadline_in_ms: batch.deadline_in_ms,
                    degraded: batch.degraded,
                    traceparent: batch.traceparent.as_ref(),
                };
                outbox.test(placement.nodes()[placement.node_at(first)], question, elsewhere());
            }
            _ => outbox.resolve(batch.head, *ticket, Finding::Found(found, in_tree), visits, batch.degraded),
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
            && cells.iter().all(|position| placement.is_held_here(*position))
            && own.has_all(placement, cells)
    };
    let events = || batch.cells.iter().zip(&batch.stamps);
    let all_here = batch.cells.len() == batch.stamps.len() && batch.cells.iter().all(here);
    if !all_here || !events().all(|(cells, stamp)| own.open(placement, cells, stamp.unit, batch.generation)) {
        outbox.acknowledge(head, batch.set_number, false);
        return 0;
    }
    let cells = events().map(|(cells, stamp)| own.set(placement, cells, *stamp, batch.generation)).sum();
    outbox.acknowledge(head, batch.set_number, true);
    cells
}

/// The answer of a node that has none of the slices a message is about: nothing was tested or set, because of `reason`.
/// A message that is an answer itself gets none.
pub fn refuse(from: NodeId, message: PeerMessage, reason: Reason) -> Option<Command> {
    let (to, body) = match message.body {
        PeerBody::Test(TestBatch { head, tickets, .. }) => {
            let undecided = (0..).zip(&tickets).map(|(event, _)| (event, reason)).collect();
            let hits = vec![false; tickets.len()];
            (head, PeerBody::Resolved(Resolved { tickets, hits, undecided, ..Resolved::default() }))
        }
        PeerBody::Set(set) => {
            let refused_numbers = vec![set.set_number];
            (from, PeerBody::SetAcks(SetAcks { refused_numbers, ..SetAcks::default() }))
        }
        // A node heads no event of a group of which it has nothing, by its map or those before.
        PeerBody::AskPast => (from, PeerBody::HandedOver(HandedOver { epoch: message.epoch, told_for_ms: 0 })),
        PeerBody::Resolved(_)
        | PeerBody::SetAcks(_)
        | PeerBody::Past(_)
        | PeerBody::AskCells(_)
        | PeerBody::Cells(_)
        | PeerBody::HandedOver(_) => return None,
        PeerBody::Mirror(number, _) => {
            let refused_numbers = vec![number.number];
            (from, PeerBody::SetAcks(SetAcks { refused_numbers, ..SetAcks::default() }))
        }
    };
    Some(Command::Send { to, message: PeerMessage { body, ..message } })
}
