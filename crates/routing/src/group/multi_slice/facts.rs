//! Collects the facts about an event that this node heads, from which `decide.rs` decides the next step. The functions
//! only read.

use firstseen_filter::Refresh;

use super::claims::Claims;
use super::decide::{Asked, Head, Tested, course_of};
use super::flights::{Event, InFlightEvent, InFlightEvents, Ticket};
use super::local::LocalState;
use super::placement::Voters;
use crate::group::rules::Rule;
use crate::group::thresholds::{Course, TOO_FEW_LEFT, min_live, verdict_if_too_few};
use crate::map::WhenLost;
use crate::protocol::Operation;
use crate::verdict::{Decision, Reason};

impl LocalState {
    /// Returns whether slices are asked about an event, given the positions that vote.
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

    /// Returns the number of voting positions below which positions on incomplete slices are asked too.
    pub(super) fn asks_all_below(&self, event: Event<'_>) -> usize {
        match self.policies.when_lost {
            // An event that this level does not know is sent to the parent level, so an empty cell counts on any slice,
            // even an incomplete one.
            _ if self.tree.has_parent() => usize::MAX,
            // An empty cell on a slice that may lack events is not enough to grant a claim.
            _ if event.operation().is_claim() => 0,
            WhenLost::FirstSeen => min_live(&self.policies, event.positions().len()),
            WhenLost::Undecided | WhenLost::Duplicate => 0,
        }
    }

    /// Returns what is known about an event that was tested.
    pub(super) fn facts(&self, flights: &InFlightEvents, claims: &Claims, ticket: Ticket) -> Option<Tested> {
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

    /// Returns the policy's verdict on an event without an empty cell if too few of its slices are left. Returns `None`
    /// if the slices decide.
    pub(super) fn too_few_left(&self, event: Event<'_>) -> Option<Decision> {
        let placement = self.membership.placement();
        if placement.is_all_complete() || self.tree.has_parent() {
            return None;
        }
        let hashes = event.positions().len();
        let voting = placement.voters(event.positions(), 0).voting;
        match verdict_if_too_few(&self.policies, voting, hashes) {
            // Too few positions must not make an event a duplicate that a client is about to deliver.
            None if event.operation().is_claim() && voting < min_live(&self.policies, hashes) => Some(TOO_FEW_LEFT),
            verdict => verdict,
        }
    }

    /// Returns the event for which a lookup must wait, or `None` if the lookup need not wait.
    ///
    /// A lookup waits while the cells of another event with the same positions are being set. The lookup would find
    /// these cells, but recording that event can still fail. The cells therefore do not prove yet that the event is
    /// known.
    ///
    /// There is one exception. If the other event was itself found in the filter, and was not new, it was recorded
    /// earlier. The lookup then need not wait, unless that result is not valid for the time about which the lookup
    /// asks.
    fn recorded_by(&self, flights: &InFlightEvents, ticket: Ticket) -> Option<Ticket> {
        let leader = flights.leader_of(ticket)?;
        let leading = flights.flight(leader)?;
        let stamp = flights.flight(ticket)?.stamp();
        let was_found =
            leading.outcome() == Decision::Duplicate && leading.covers(stamp, self.own.rule(), Refresh::Fixed);
        (leading.may_come_to_nothing() && !was_found).then_some(leader)
    }

    /// Returns whether an event may have been found only because an earlier attempt of the same submission set its
    /// cells. This can happen after a restart. For example, an earlier process of this node replied first-seen to the
    /// first attempt and then crashed, and its replay guard was lost. The new process does not recognize the retry, but
    /// finds the cells that the first attempt has set on other nodes.
    ///
    /// If the cells of the event are also set on this restarted node, they were set after the restart. In that case,
    /// another submission has recorded the event, and the event is a real duplicate. There are two exceptions in which
    /// the cells prove nothing:
    ///
    /// - The cells on this node may be set by chance, because other events use the same cells.
    /// - In a filter tree below the root, an earlier query of the same submission may have set the cells.
    ///
    /// A submission can have an earlier attempt only if its producer sends idempotency keys, and only if the first
    /// attempt was made within the retry horizon. In all other cases, no earlier attempt can have set the cells.
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

    /// Returns whether another node may have accepted the event before. This node does not have the replay guard of
    /// that node.
    pub(super) fn was_headed_elsewhere(&self, event: Event<'_>) -> bool {
        self.membership.was_headed_elsewhere(event.positions(), self.present.now_ms())
    }

    /// Returns whether submissions may be retried whose first attempt an earlier process of this node accepted.
    pub(super) fn is_young(&self) -> bool {
        self.membership.is_young(self.policies.durability, self.present.now_ms())
    }

    /// Returns the reason for an undecided reply if an event is not recorded, but a former head node of the event may
    /// have granted a claim on it to a client. Returns `None` if no former head can have an active claim on the event.
    ///
    /// A client that wants to claim the event needs no undecided reply if the former head can be asked. This node then
    /// asks the former head about its claims before it grants the new claim. In that case, the result is `None` too.
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

    /// Returns whether an event needs no test of its own once `leader`, which has the same positions, is decided.
    pub(super) fn covers(&self, leader: &InFlightEvent, event: Event<'_>) -> bool {
        let stamp = event.stamp();
        let operation = event.operation();
        if operation.is_brought_up() {
            // The verdict on this event was already given at a lower level. The event is therefore recorded, unless the
            // leader is recorded for at least as long.
            return leader.outcome() == Decision::FirstSeen && stamp.unit <= leader.stamp().unit;
        }
        // A lookup sets no cells, so it does not matter for it whether cells would be refreshed.
        let refresh = if operation.records() { self.refresh } else { Refresh::Fixed };
        leader.covers(stamp, self.own.rule(), refresh)
    }

    /// Returns whether an event is a duplicate of a decided leader whose cells may not all be set yet.
    pub(super) fn is_decided_by(&self, flights: &InFlightEvents, leader: Ticket, ticket: Ticket) -> bool {
        let Some(leader) = flights.flight(leader).filter(|leader| leader.is_decided()) else { return false };
        flights.event(ticket).is_some_and(|event| self.covers(leader, event))
    }

    /// Returns whether this node heads an event according to the present cluster map.
    pub(super) fn heads(&self, event: Event<'_>) -> bool {
        self.membership.placement().head(event.positions()) == Some(self.membership.site().me)
    }

    /// Returns whether a node that is gone misses an event.
    pub(super) fn is_missed(&self, event: Event<'_>) -> bool {
        let placement = self.membership.placement();
        let mut gone = placement.gone_peers().filter_map(|node| placement.index_of(node));
        gone.any(|node| event.positions().iter().any(|position| placement.has_copy(node, *position)))
    }
}
