//! What a node knows of an event that it heads: the facts from which `decide.rs` decides.
//!
//! Promises: reads only. Must not know: what follows from a fact.

use firstseen_filter::Refresh;

use super::claims::Claims;
use super::decide::{Asked, Head, Tested, course_of};
use super::flights::{Event, Flight, Flights, Ticket};
use super::local::LocalState;
use super::placement::Voters;
use crate::group::rules::Rule;
use crate::group::thresholds::{Course, TOO_FEW_LEFT, min_live, verdict_if_too_few};
use crate::map::WhenLost;
use crate::protocol::Operation;
use crate::verdict::{Decision, Reason};

impl LocalState {
    /// Whether slices are asked about an event, of which these positions vote.
    pub(super) fn course(&self, event: Event<'_>, voters: &Voters) -> Course {
        let Self { membership, own, present, .. } = self;
        let placement = membership.placement();
        let positions = event.positions();
        let head = match placement.head(positions) {
            None => Head::Nowhere,
            Some(head) if head == membership.site().me => Head::Here,
            Some(_) => Head::Elsewhere,
        };
        let asked = Asked {
            head,
            awaits_former_head: present.keeps(Rule::AwaitsFormerHeads)
                && membership.handing().awaits_head_of(positions),
            lacks_slice: !own.has_all(placement, positions),
            needs_unreachable: membership.unreachable().has_any(placement, positions.iter().copied()),
            has_parent: self.tree.has_parent(),
            hashes: positions.len(),
            voting: voters.voting,
        };
        course_of(&self.policies, &asked)
    }

    /// The number of voting positions below which those on slices that may lack something are asked, too.
    pub(super) fn asks_all_below(&self, event: Event<'_>) -> usize {
        match self.policies.when_lost {
            // What this level does not know climbs, so a zero counts on any slice, also on one that may lack something.
            _ if self.tree.has_parent() => usize::MAX,
            // A zero on a slice that may lack something grants nothing.
            _ if event.operation().is_claim() => 0,
            WhenLost::FirstSeen => min_live(&self.policies, event.positions().len()),
            WhenLost::Undecided | WhenLost::Duplicate => 0,
        }
    }

    /// What is known of an event that was tested.
    pub(super) fn facts(&self, flights: &Flights, claims: &Claims, ticket: Ticket) -> Option<Tested> {
        let event = flights.event(ticket)?;
        let operation = event.operation();
        let is_found = event.flight().is_found();
        let too_few_left = if is_found { self.too_few_left(event) } else { None };
        Some(Tested {
            is_found,
            operation,
            may_be_its_own: is_found && event.header().may_be_again() && self.may_be_its_own(event),
            too_few_left: too_few_left.map(|few| if operation.is_of_claims() { TOO_FEW_LEFT } else { few }),
            recorded_by: if operation == Operation::Lookup { self.recorded_by(flights, ticket) } else { None },
            is_checked_below: is_found && self.tree.is_checked_below(event.header().from),
            has_parent: self.tree.has_parent(),
            refreshes: self.refresh != Refresh::Fixed,
            closed: self.present.absent(),
            cut_off: self.present.cut_off(),
            unknown_claim: self.unknown_claim(claims, event),
        })
    }

    /// The policy's verdict on an event of which no zero was found, where too few of its slices are left. `None` if
    /// the slices decide.
    pub(super) fn too_few_left(&self, event: Event<'_>) -> Option<Decision> {
        let placement = self.membership.placement();
        if placement.is_all_complete() || self.tree.has_parent() {
            return None;
        }
        let hashes = event.positions().len();
        let voting = placement.voters(event.positions(), 0).voting;
        match verdict_if_too_few(&self.policies, voting, hashes) {
            // Few positions make no duplicate of what somebody is about to deliver.
            None if event.operation().is_claim() && voting < min_live(&self.policies, hashes) => Some(TOO_FEW_LEFT),
            verdict => verdict,
        }
    }

    /// The event of the same positions that a lookup must wait for: its cells are being set, and may come to nothing.
    /// There is none where that event was found itself, and covers the lookup.
    fn recorded_by(&self, flights: &Flights, ticket: Ticket) -> Option<Ticket> {
        let leader = flights.leader_of(ticket)?;
        let leading = flights.flight(leader)?;
        let stamp = flights.flight(ticket)?.stamp();
        let was_found =
            leading.outcome() == Decision::Duplicate && leading.covers(stamp, self.own.rule(), Refresh::Fixed);
        (leading.may_come_to_nothing() && !was_found).then_some(leader)
    }

    /// Whether a submission that is found may be found because of its own first attempt. An earlier process of this
    /// node may have replied first-seen: that process's guard is lost, the cells on other nodes are not. If the cells
    /// here are set too, another submission has recorded the event since, unless they are set by chance; below the root
    /// of a tree, one that asked meanwhile may have. Only a producer that names its submissions sends them again
    /// without knowing the reply, and no longer than for the retry horizon.
    pub(super) fn may_be_its_own(&self, event: Event<'_>) -> bool {
        if self.was_headed_elsewhere(event) {
            return true;
        }
        if !self.is_young() {
            return false;
        }
        if self.tree.has_parent() {
            return true;
        }
        let placement = self.membership.placement();
        let positions = event.positions();
        let here = positions.iter().filter(|position| placement.has_copy_here(**position)).count();
        !self.own.has_set(placement, positions, event.stamp()) || self.fill.is_likely_set(here)
    }

    /// Whether another node may have taken up an event before, whose guard this one does not have.
    pub(super) fn was_headed_elsewhere(&self, event: Event<'_>) -> bool {
        self.membership.was_headed_elsewhere(event.positions(), self.present.now_ms())
    }

    /// Whether submissions may come again whose first attempt an earlier process of this node has taken up.
    pub(super) fn is_young(&self) -> bool {
        self.membership.is_young(self.policies.durability, self.present.now_ms())
    }

    /// Returns the reply if a former head may hold an event that is not recorded. `None` if none can, or if the event
    /// is claimed and that head is asked.
    fn unknown_claim(&self, claims: &Claims, event: Event<'_>) -> Option<Reason> {
        let claiming = claims.get()?;
        let now_ms = self.present.now_ms();
        if claiming.is_sure(now_ms) {
            return None;
        }
        let placement = self.membership.placement();
        let positions = event.positions();
        claiming.unknown(
            |former| {
                let Some(former) = former else { return true };
                let head = former.head(positions).filter(|head| *head != self.membership.site().me);
                head.is_some_and(|head| {
                    !event.operation().is_claim() || !placement.has_former_head(former, head, positions)
                })
            },
            now_ms,
        )
    }

    /// Whether an event needs no test of its own once `leader`, of the same positions, is decided.
    pub(super) fn covers(&self, leader: &Flight, event: Event<'_>) -> bool {
        let stamp = event.stamp();
        let operation = event.operation();
        if operation.is_brought_up() {
            // Its verdict is given, so the event is recorded, unless the leader is recorded for as long.
            return leader.outcome() == Decision::FirstSeen && stamp.unit <= leader.stamp().unit;
        }
        // What is only looked up leaves nothing to be set, so whether cells would be refreshed does not matter.
        let refresh = if operation.records() { self.refresh } else { Refresh::Fixed };
        leader.covers(stamp, self.own.rule(), refresh)
    }

    /// Whether an event is a duplicate of a leader that is decided, and whose cells may not all be set yet.
    pub(super) fn is_decided_by(&self, flights: &Flights, leader: Ticket, ticket: Ticket) -> bool {
        let Some(leader) = flights.flight(leader).filter(|leader| leader.is_decided()) else { return false };
        flights.event(ticket).is_some_and(|event| self.covers(leader, event))
    }

    /// Whether this node heads an event by the present map.
    pub(super) fn heads(&self, event: Event<'_>) -> bool {
        self.membership.placement().head(event.positions()) == Some(self.membership.site().me)
    }

    /// Whether a node that is gone misses an event.
    pub(super) fn is_missed(&self, event: Event<'_>) -> bool {
        let placement = self.membership.placement();
        let mut gone = placement.gone_peers().filter_map(|node| placement.index_of(node));
        gone.any(|node| event.positions().iter().any(|position| placement.has_copy(node, *position)))
    }
}
