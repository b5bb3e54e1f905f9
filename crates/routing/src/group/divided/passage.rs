//! What a node does for events that another node has in flight.
//!
//! Promises: a test visits the node's own slices, then goes on to the node of the event's first untested position, or
//! its result goes back to the event's head; a set is carried out and acknowledged. A message that names cells that are
//! not here sets nothing. Must not know: producers, why an event is tested.

use std::collections::BTreeMap;

use firstseen_filter::{PREFETCH_EVENTS, Sighting, Stamp, UnitNumber};

use super::membership::Membership;
use super::outbox::{Finding, Outbox, Question};
use super::own::OwnSlices;
use super::placement::Placement;
use crate::group::site::Sender;
use crate::ids::NodeId;
use crate::protocol::{Command, HandedOver, PeerBody, PeerMessage, Resolved, SetAcks, SetBatch, TestBatch, TestRun};
use crate::verdict::Reason;

/// Tests the events of a batch, and sends on those that are not decided here; `in_tree` if their heads are to know when
/// cells expire.
pub(super) fn test(
    batch: &TestBatch,
    own: &mut OwnSlices,
    membership: &Membership,
    in_tree: bool,
    outbox: &mut Outbox,
) {
    let placement = membership.placement();
    // Slices here that are asked may lack something.
    let degrades = placement.asks_incomplete_here() && !membership.wholeness().is_whole();
    let events = batch.left.iter().zip(&batch.tickets).zip(&batch.stamps).enumerate().zip(batch.run_of_each());
    // Nobody waits for the others any more: their head has given them up by its own clock.
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
        let mut found = Sighting { generations, expiry };
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

/// The stamp by which an event is tested here, and as an error why it cannot be tested.
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
    // A head whose map is older than the loss would take a missing cell here for a zero.
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

/// Sets the cells of a batch, all of them or, where one cannot be set here, none; returns how many cells that were.
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

/// Whether all cells of a batch are here, and the generation is, too; opens it where it is newer than what slices have.
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

/// The answer of a node that has none of the slices a message is about: nothing was tested or set, because of `reason`.
/// A message that is an answer itself gets none; one with events of several heads an answer to each.
pub fn refuse(from: NodeId, message: PeerMessage, reason: Reason) -> Vec<Command> {
    let PeerMessage { filter, epoch, group, body } = message;
    let sender = Sender { filter, epoch, group };
    let answer = match body {
        PeerBody::Test(test) => return refuse_tests(&test, reason, sender),
        PeerBody::ClaimTests(tests) => return refuse_tests(&tests.test, reason, sender),
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
    vec![sender.send(from, answer)]
}

fn refused_number(number: u64) -> PeerBody {
    PeerBody::SetAcks(SetAcks { refused_numbers: vec![number], ..SetAcks::default() })
}

/// The answers to each head of the events.
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
