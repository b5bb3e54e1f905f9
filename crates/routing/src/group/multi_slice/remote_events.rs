//! The work of a node on events that another node has in flight.
//!
//! If a head node asks this node to test an event, this node checks its own slices. If it finds no empty cell, it sends
//! the event on to the node of the first position that is still untested. Otherwise it sends the result back to the
//! head.
//!
//! If a head node asks this node to set cells, this node writes them and sends an acknowledgement. A message that
//! contains a cell of another node has no effect.

use std::collections::BTreeMap;

use firstseen_filter::{PREFETCH_EVENTS, Stamp, TestResult, UnitNumber};

use super::local_slices::OwnSlices;
use super::membership::Membership;
use super::outbox::{Finding, Outbox, Question};
use super::placement::Placement;
use crate::group::site::Sender;
use crate::ids::NodeId;
use crate::protocol::{Command, HandedOver, PeerBody, PeerMessage, Resolved, SetAcks, SetBatch, TestBatch, TestRun};
use crate::verdict::Reason;

/// Tests the events of a batch in this node's slices. If no empty cell is found for an event and some of its positions
/// are untested, the event is sent on to the next node. `in_tree` states whether the filter is part of a tree. In that
/// case, the reply to the head also contains the time at which the cells of the event expire.
pub(super) fn test(
    batch: &TestBatch,
    own: &mut OwnSlices,
    membership: &Membership,
    in_tree: bool,
    outbox: &mut Outbox,
) {
    let placement = membership.placement();
    // Whether slices here that are asked may lack events.
    let degrades = placement.asks_incomplete_here() && !membership.completeness().is_whole();
    let events = batch.left.iter().zip(&batch.tickets).zip(&batch.stamps).enumerate().zip(batch.run_of_each());
    // Events without remaining time are skipped, because their head has already abandoned them by its own clock.
    let events = events.filter(|(_, run)| run.deadline_in_ms > 0);
    let newest = own.newest_generation();
    for ((_, ((left, _), _)), _) in events.clone() {
        if placement.admits(left) {
            own.prefetch(placement, left, newest);
        }
    }
    for ((index, ((left, ticket), stamp)), run) in events {
        let head = run.head;
        let degraded = run.degraded || degrades;
        let stamp = match judge(left, *stamp, run, own, membership) {
            Ok(stamp) => stamp,
            Err(reason) => {
                outbox.resolve(head, *ticket, Finding::Undecided(reason), 0, false);
                continue;
            }
        };
        let generations = batch.generations.get(index).copied().unwrap_or(u16::MAX);
        let expiry = batch.expiries.get(index).copied().unwrap_or(UnitNumber::NEVER);
        let mut found = TestResult { generations, expiry };
        let visits = own.test(placement, left, stamp, &mut found);
        let elsewhere = left.iter().copied().filter(|position| !placement.is_tested_here(*position));
        match elsewhere.clone().next() {
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
                outbox.test(placement.nodes()[placement.node_at(first)], question, elsewhere);
            }
            _ => outbox.resolve(head, *ticket, Finding::Found(found, in_tree), visits, degraded),
        }
    }
}

/// Returns the stamp with which an event is tested here, or the reason why it cannot be tested.
fn judge(
    left: &[u64],
    stamp: Stamp,
    run: &TestRun,
    own: &mut OwnSlices,
    membership: &Membership,
) -> Result<Stamp, Reason> {
    let placement = membership.placement();
    if !placement.admits(left) {
        return Err(Reason::Invalid);
    }
    // A head whose map is older than the loss would take a lost cell here for proof that the event is new.
    let is_taken_for_complete = !run.asks_all && !placement.has_lost_nothing_of(left);
    if !placement.is_tested_here(left[0]) || !own.has_all(placement, left) || is_taken_for_complete {
        return Err(Reason::StaleMap);
    }
    let elsewhere = left.iter().copied().filter(|position| !placement.is_tested_here(*position));
    if membership.unreachable().has_any(placement, elsewhere) {
        return Err(Reason::SlicesDown);
    }
    own.rejudge(stamp).ok_or(Reason::Late)
}

/// Sets the cells of a batch. If one of them cannot be set here, none is set. Returns the number of cells that were
/// set.
pub(crate) fn set(
    head: NodeId,
    batch: &SetBatch,
    own: &mut OwnSlices,
    placement: &Placement,
    outbox: &mut Outbox,
) -> u64 {
    if !can_set(batch, own, placement) {
        outbox.acknowledge(head, batch.set_number, false);
        return 0;
    }
    let mut ahead = batch.cells.iter();
    ahead.by_ref().take(PREFETCH_EVENTS).for_each(|cells| own.prefetch(placement, cells, batch.generation));
    let mut cells_set = 0;
    let mut has_room = true;
    for (cells, stamp) in batch.cells.iter().zip(&batch.stamps) {
        if let Some(next) = ahead.next() {
            own.prefetch(placement, next, batch.generation);
        }
        match own.set(placement, cells, *stamp, batch.generation) {
            Some(cells) => cells_set += cells,
            None => has_room = false,
        }
    }
    outbox.acknowledge(head, batch.set_number, has_room);
    cells_set
}

/// Returns whether all cells of a batch are on this node and the generation exists. Slices that do not have the
/// generation yet open it.
fn can_set(batch: &SetBatch, own: &mut OwnSlices, placement: &Placement) -> bool {
    let are_here = batch.cells.iter().all(|cells| {
        placement.admits(cells)
            && cells.iter().all(|position| placement.has_copy_here(*position))
            && own.has_all(placement, cells)
    });
    let mut events = batch.cells.iter().zip(&batch.stamps);
    batch.cells.len() == batch.stamps.len()
        && are_here
        && events.all(|(cells, stamp)| own.open(placement, cells, stamp.unit, batch.generation))
}

/// Returns the replies to a message about slices that this node does not have. Each reply states that nothing was
/// tested or set, and gives `reason`. A message can contain events of several head nodes, and then each of these nodes
/// gets its own reply. If the message is itself a reply, the result is empty.
pub fn refuse(from: NodeId, message: PeerMessage, reason: Reason) -> Vec<Command> {
    let PeerMessage { filter, epoch, group, body } = message;
    let sender = Sender { filter, epoch, group };
    let answer = match body {
        PeerBody::Test(test) => return refuse_tests(&test, reason, sender),
        PeerBody::ClaimTests(tests) => return refuse_tests(&tests.test, reason, sender),
        PeerBody::Set(set) => refused_number(set.set_number),
        PeerBody::Mirror(Some(number), _) => refused_number(number.number),
        // A node that has nothing of a group heads no event of it, by its present map or any map before.
        PeerBody::AskPast => PeerBody::HandedOver(HandedOver { epoch, told_for_ms: 0 }),
        PeerBody::Resolved(_)
        | PeerBody::SetAcks(_)
        | PeerBody::Past(_)
        | PeerBody::AskCells(_)
        | PeerBody::Cells(_)
        | PeerBody::HandedOver(_)
        | PeerBody::Mirror(None, _) => return Vec::new(),
    };
    vec![sender.send(from, answer)]
}

fn refused_number(number: u64) -> PeerBody {
    PeerBody::SetAcks(SetAcks { refused_numbers: vec![number], ..SetAcks::default() })
}

/// Returns one reply for each head of the events.
fn refuse_tests(test: &TestBatch, reason: Reason, sender: Sender) -> Vec<Command> {
    let mut by_head: BTreeMap<NodeId, Resolved> = BTreeMap::new();
    for (ticket, run) in test.tickets.iter().zip(test.run_of_each()) {
        let resolved = by_head.entry(run.head).or_default();
        resolved.undecided.push((resolved.tickets.len() as u32, reason));
        resolved.tickets.push(*ticket);
        resolved.hits.push(false);
    }
    by_head.into_iter().map(|(head, resolved)| sender.send(head, PeerBody::Resolved(resolved))).collect()
}
