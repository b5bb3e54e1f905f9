//! Decides the next step of an event from the facts that are known about it, for example which node is its head and
//! whether a cell is empty. The functions are pure, so the same facts always lead to the same step. The tests contain a
//! table with a row for every combination of facts.

use super::flights::Ticket;
use crate::group::thresholds::{Course, TOO_FEW_LEFT, course};
use crate::map::FilterPolicies;
use crate::protocol::{Hold, Operation};
use crate::verdict::{Decision, Reason};

/// What is known about an event before any of its cells is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// The head of the event according to the present cluster map.
    pub(super) head: Head,
    /// Whether the former head of the event has not finished it yet.
    pub(super) awaits_former_head: bool,
    /// Whether a slice of this node that the event needs could not be built.
    pub(super) lacks_slice: bool,
    /// Whether a node that the event needs has been unreachable for a long time.
    pub(super) needs_unreachable: bool,
    /// Whether the filter has a parent level, which is queried about events that are not known here.
    pub(super) has_parent: bool,
    /// The number of the event's positions, and the number of those that vote because their slices are complete and not
    /// gone.
    pub(super) hashes: usize,
    pub(super) voting: usize,
}

/// Where the head of an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Here,
    Elsewhere,
    /// All nodes of the event are gone.
    Nowhere,
}

/// What is known about an event after its test at this level has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tested {
    /// Whether all positions that were asked are set.
    pub(super) is_found: bool,
    pub(super) operation: Operation,
    /// Whether the event may be found because an earlier attempt of the same submission has set it.
    pub(super) may_be_its_own: bool,
    /// The reply if no slice denied the event and too few of its slices voted.
    pub(super) too_few_left: Option<Decision>,
    /// For lookups, the leader of the same positions in flight whose cells are being set and that has no reply yet.
    pub(super) recorded_by: Option<Ticket>,
    /// Whether lower levels are also asked if they know the event.
    pub(super) is_checked_below: bool,
    /// Whether the filter has a parent level, which is queried about events that are not known here.
    pub(super) has_parent: bool,
    /// Whether a duplicate is recorded again, which extends its time (refresh).
    pub(super) refreshes: bool,
    /// The reason in replies for new events if a successor has replaced the filter, so that nothing is recorded here
    /// any more.
    pub(super) closed: Option<Reason>,
    /// The reason why this node may not record, because other nodes may answer in its place.
    pub(super) cut_off: Option<Reason>,
    /// The reply if a former head may have granted a claim of the event that is still active, and that head cannot be
    /// asked.
    pub(super) unknown_claim: Option<Reason>,
}

/// The next step of an event. `MultiSliceGroup::run_steps` selects the handler that executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Test the event in this node's slices, and send it to other nodes if no empty cell is found.
    Test,
    /// Continue as if this level does not know the event, whatever its slices contain.
    TreatAsMiss,
    /// Query the parent level.
    LevelQuery(Operation),
    /// Query the lower levels.
    CheckBelow,
    /// Let the event wait for this leader of the same positions.
    Await(Ticket),
    /// End the event as a duplicate of this leader of the same positions.
    DuplicateOf(Ticket),
    /// The event is new. Record it if there is room, and reply first-seen.
    Record,
    /// The event was recorded before. Record it again and reply duplicate.
    RecordAgain,
    /// Record the event and reply with this decision.
    RecordAs(Decision),
    /// The event is new. Hold it for the client that claims it.
    Grant,
    /// End the event as undecided because it is claimed. The reply says who holds it.
    Hold(Hold),
    /// Send this decision while the event's cells are still being set.
    Reply(Decision),
    /// End the event with this decision. Either nothing must be set for it, or everything is set.
    Decide(Decision),
    /// End the event with this decision, like `Decide`, if no other event waits for it.
    End(Decision),
}

/// Returns whether slices are asked about an event, and which of them.
pub(super) fn course_of(policies: &FilterPolicies, asked: &Asked) -> Course {
    match asked.head {
        Head::Nowhere => Course::Decide(TOO_FEW_LEFT),
        Head::Elsewhere => Course::Decide(Decision::Undecided(Reason::StaleMap)),
        Head::Here if asked.awaits_former_head || asked.lacks_slice => {
            Course::Decide(Decision::Undecided(Reason::NotReady))
        }
        Head::Here if asked.needs_unreachable => Course::Decide(TOO_FEW_LEFT),
        // An event that this level does not know is sent to the parent level, so any slice that can be asked may say
        // that it does not know the event.
        Head::Here if asked.has_parent => Course::Ask,
        Head::Here => course(policies, asked.voting, asked.hashes),
    }
}

/// Returns the next step after a test.
pub(super) fn after_test(tested: &Tested) -> Next {
    if tested.is_found { after_find(tested) } else { after_miss(tested) }
}

fn after_find(tested: &Tested) -> Next {
    let Tested { operation, too_few_left, cut_off, .. } = *tested;
    if operation == Operation::BringUp {
        // A lower level has already replied to the event, so the event counts from now on, at this level and above.
        return if tested.has_parent { Next::LevelQuery(Operation::BringUp) } else { Next::RecordAgain };
    }
    if tested.may_be_its_own {
        return Next::undecided(Reason::TooOld);
    }
    if let Some(decision) = too_few_left {
        return Next::Decide(decision);
    }
    // The cells that were found may have been set for the leader, and recording the leader may still fail.
    if let Some(leader) = tested.recorded_by {
        return Next::Await(leader);
    }
    if tested.is_checked_below {
        return Next::CheckBelow;
    }
    if !operation.records() || !tested.refreshes {
        return Next::Decide(Decision::Duplicate);
    }
    cut_off.map_or(Next::RecordAgain, Next::undecided)
}

/// Returns the next step if this level does not know an event.
pub(super) fn after_miss(tested: &Tested) -> Next {
    let Tested { operation, closed, cut_off, unknown_claim, .. } = *tested;
    let is_claim = operation.is_claim();
    if tested.has_parent && operation != Operation::Verify {
        return Next::LevelQuery(operation);
    }
    // A client that confirms an event has already delivered it. Recording the event keeps other clients from delivering
    // it too.
    if let Some(reason) = unknown_claim.filter(|_| operation != Operation::Confirm) {
        return Next::undecided(reason);
    }
    if let Some(reason) = closed {
        return Next::undecided(reason);
    }
    if !operation.records() && !is_claim {
        return Next::Decide(Decision::FirstSeen);
    }
    let next = if is_claim { Next::Grant } else { Next::Record };
    cut_off.map_or(next, Next::undecided)
}

impl Next {
    fn undecided(reason: Reason) -> Self {
        Self::Decide(Decision::Undecided(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of the table: a set of combinations of facts, and the step that follows from them.
    struct Row<Facts, Step> {
        what: &'static str,
        holds: fn(&Facts) -> bool,
        step: fn(&Facts) -> Step,
    }

    /// Checks that every combination of facts is in exactly one row, that no row is empty, and that the decision equals
    /// the step of the row.
    fn check<Facts: std::fmt::Debug, Step: PartialEq + std::fmt::Debug>(
        rows: &[Row<Facts, Step>],
        all: impl Iterator<Item = Facts>,
        follows: impl Fn(&Facts) -> Step,
    ) {
        let mut met = vec![0; rows.len()];
        for facts in all {
            let of: Vec<usize> = (0..rows.len()).filter(|row| (rows[*row].holds)(&facts)).collect();
            let [row] = of[..] else {
                panic!("{facts:?} is in {:?}", of.iter().map(|row| rows[*row].what).collect::<Vec<_>>());
            };
            assert_eq!(follows(&facts), (rows[row].step)(&facts), "{}: {facts:?}", rows[row].what);
            met[row] += 1;
        }
        let never = rows.iter().zip(&met).filter(|(_, met)| **met == 0).map(|(row, _)| row.what);
        assert_eq!(never.collect::<Vec<_>>(), [""; 0]);
    }

    const CLAIM: Operation = Operation::Claim { lease_ms: 10 };

    const OPERATIONS: [Operation; 6] =
        [Operation::Observe, Operation::Lookup, Operation::Verify, Operation::BringUp, CLAIM, Operation::Confirm];

    #[rustfmt::skip]
    const AFTER_TEST: [Row<Tested, Next>; 16] = [
        Row { what: "found, decided below already, a level above", holds: |it| it.is_found && it.is_brought_up() && it.has_parent,
              step: |_| Next::LevelQuery(Operation::BringUp) },
        Row { what: "found, decided below already, at the root", holds: |it| it.is_found && it.is_brought_up() && !it.has_parent,
              step: |_| Next::RecordAgain },
        Row { what: "found, perhaps because of its own attempt", holds: |it| it.is_asked_and_found() && it.may_be_its_own,
              step: |_| Next::undecided(Reason::TooOld) },
        Row { what: "found, of too few slices", holds: |it| it.is_found_by_others() && it.too_few_left.is_some(),
              step: |it| Next::Decide(it.too_few_left.unwrap()) },
        Row { what: "found, but it is being recorded", holds: |it| it.is_certain() && it.recorded_by.is_some(),
              step: |_| Next::Await(Ticket::default()) },
        Row { what: "found, levels below may deny it", holds: |it| it.is_settled() && it.is_checked_below,
              step: |_| Next::CheckBelow },
        Row { what: "found, looked up, or kept as it was", holds: |it| it.is_known() && !it.records_again(),
              step: |_| Next::Decide(Decision::Duplicate) },
        Row { what: "found, to be refreshed, cut off", holds: |it| it.is_known() && it.records_again() && it.cut_off.is_some(),
              step: |it| Next::undecided(it.cut_off.unwrap()) },
        Row { what: "found, to be refreshed", holds: |it| it.is_known() && it.records_again() && it.cut_off.is_none(),
              step: |_| Next::RecordAgain },
        Row { what: "not found, a level above", holds: |it| it.climbs(),
              step: |it| Next::LevelQuery(it.operation) },
        Row { what: "not found, a former head may hold it", holds: |it| it.is_last() && it.may_be_held(),
              step: |_| Next::undecided(Reason::ClaimsUnknown) },
        Row { what: "not found, closed", holds: |it| it.is_free() && it.closed.is_some(),
              step: |it| Next::undecided(it.closed.unwrap()) },
        Row { what: "not found, looked up", holds: |it| it.is_new() && !it.operation.moves_clock(),
              step: |_| Next::Decide(Decision::FirstSeen) },
        Row { what: "not found, cut off", holds: |it| it.is_new() && it.operation.moves_clock() && it.cut_off.is_some(),
              step: |it| Next::undecided(it.cut_off.unwrap()) },
        Row { what: "not found, to be recorded", holds: |it| it.is_new() && it.operation.records() && it.cut_off.is_none(),
              step: |_| Next::Record },
        Row { what: "not found, claimed", holds: |it| it.is_new() && it.operation == CLAIM && it.cut_off.is_none(),
              step: |_| Next::Grant },
    ];

    /// Conditions that several rows share.
    impl Tested {
        fn is_brought_up(&self) -> bool {
            self.operation == Operation::BringUp
        }
        fn is_asked_and_found(&self) -> bool {
            self.is_found && !self.is_brought_up()
        }
        fn is_found_by_others(&self) -> bool {
            self.is_asked_and_found() && !self.may_be_its_own
        }
        fn is_certain(&self) -> bool {
            self.is_found_by_others() && self.too_few_left.is_none()
        }
        fn is_settled(&self) -> bool {
            self.is_certain() && self.recorded_by.is_none()
        }
        fn is_known(&self) -> bool {
            self.is_settled() && !self.is_checked_below
        }
        fn records_again(&self) -> bool {
            self.operation.records() && self.refreshes
        }
        fn climbs(&self) -> bool {
            !self.is_found && self.has_parent && self.operation != Operation::Verify
        }
        fn is_last(&self) -> bool {
            !self.is_found && !self.climbs()
        }
        fn may_be_held(&self) -> bool {
            self.unknown_claim.is_some() && self.operation != Operation::Confirm
        }
        fn is_free(&self) -> bool {
            self.is_last() && !self.may_be_held()
        }
        fn is_new(&self) -> bool {
            self.is_free() && self.closed.is_none()
        }
    }

    fn all_tested() -> impl Iterator<Item = Tested> {
        let too_few = [None, Some(TOO_FEW_LEFT), Some(Decision::Duplicate)];
        let flags = move |operation| {
            too_few.into_iter().flat_map(move |too_few| (0..512_u32).map(move |bits| (operation, too_few, bits)))
        };
        OPERATIONS.into_iter().flat_map(flags).map(|(operation, too_few_left, bits)| {
            let is = |bit: u32| bits >> bit & 1 == 1;
            Tested {
                is_found: is(0),
                operation,
                may_be_its_own: is(1),
                too_few_left,
                is_checked_below: is(2),
                has_parent: is(3),
                refreshes: is(4),
                closed: is(5).then_some(Reason::NotReady),
                cut_off: is(6).then_some(Reason::CutOff),
                recorded_by: is(7).then(Ticket::default),
                unknown_claim: is(8).then_some(Reason::ClaimsUnknown),
            }
        })
    }

    #[test]
    fn every_event_that_was_tested_has_one_next_step() {
        check(&AFTER_TEST, all_tested(), after_test);
    }

    #[rustfmt::skip]
    const BEFORE_TEST: [Row<Asked, Course>; 7] = [
        Row { what: "all of its nodes are gone", holds: |it| it.head == Head::Nowhere,
              step: |_| Course::Decide(TOO_FEW_LEFT) },
        Row { what: "another node heads it", holds: |it| it.head == Head::Elsewhere,
              step: |_| Course::Decide(Decision::Undecided(Reason::StaleMap)) },
        Row { what: "its former head has not ended", holds: |it| it.head == Head::Here && it.awaits_former_head,
              step: |_| Course::Decide(Decision::Undecided(Reason::NotReady)) },
        Row { what: "a slice could not be built", holds: |it| it.head == Head::Here && !it.awaits_former_head && it.lacks_slice,
              step: |_| Course::Decide(Decision::Undecided(Reason::NotReady)) },
        Row { what: "a node is out of reach", holds: |it| it.is_whole_here() && it.needs_unreachable,
              step: |_| Course::Decide(TOO_FEW_LEFT) },
        Row { what: "what is not known climbs", holds: |it| it.is_in_reach() && it.has_parent,
              step: |_| Course::Ask },
        Row { what: "thresholds say", holds: |it| it.is_in_reach() && !it.has_parent,
              step: |it| course(&FilterPolicies::default(), it.voting, it.hashes) },
    ];

    impl Asked {
        fn is_whole_here(&self) -> bool {
            self.head == Head::Here && !self.awaits_former_head && !self.lacks_slice
        }
        fn is_in_reach(&self) -> bool {
            self.is_whole_here() && !self.needs_unreachable
        }
    }

    #[test]
    fn every_event_is_asked_about_or_decided_at_once() {
        let heads = [Head::Here, Head::Elsewhere, Head::Nowhere];
        let counts = (0..=7).map(|voting| (7, voting));
        let all = heads.into_iter().flat_map(|head| counts.clone().map(move |count| (head, count))).flat_map(|of| {
            (0..16_u32).map(move |bits| {
                let (is, (head, (hashes, voting))) = (|bit: u32| bits >> bit & 1 == 1, of);
                let (awaits_former_head, lacks_slice, needs_unreachable, has_parent) = (is(0), is(1), is(2), is(3));
                Asked { head, awaits_former_head, lacks_slice, needs_unreachable, has_parent, hashes, voting }
            })
        });
        check(&BEFORE_TEST, all, |asked| course_of(&FilterPolicies::default(), asked));
    }
}
