//! Laws about access rights. There are two laws:
//!
//! - A call without the necessary right gets no verdict. This holds as soon as the nodes at which the call entered have
//!   the cluster map in which the right was revoked.
//! - A call with the necessary right is not denied.
//!
//! A call without the necessary right must also record nothing. Two other laws check this:
//!
//! - The law `no_own_duplicate` requires that every event with the verdict duplicate was recorded by another call. It
//!   does not accept a call without the right as this other call.
//! - The law `cells_exact` requires that a cell is set only if it belongs to an event that was recorded. It does not
//!   accept the cells of a call without the right.

use super::Violation;
use crate::history::{Call, History};
use crate::rights::{CallTime, Permission};
use firstseen_routing::{Decision, Reason};

const FOLLOW: &str = "rights follow the map: a call got a verdict that its producer had no right to";
const GOOD: &str = "rights are good: a call was denied although its principal has the right";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    for call in &history.calls {
        let is_broken = match call.verdict {
            Some(Decision::FirstSeen) => lacked_right(history, call).is_some().then_some(FOLLOW),
            // A producer that may still look up the event may learn that it was seen.
            Some(Decision::Duplicate) => (lacked_right(history, call) == Some(Permission::Nothing)).then_some(FOLLOW),
            Some(Decision::Undecided(Reason::Forbidden)) => is_refused_in_vain(history, call).then_some(GOOD),
            Some(Decision::Undecided(_)) | None => None,
        };
        violations.extend(is_broken.map(|law| Violation::of(law, vec![call.clone()])));
    }
}

fn is_refused_in_vain(history: &History, call: &Call) -> bool {
    let had_right = might_do(history, call).is_some_and(|(least, _)| least >= needs(call));
    had_right || !history.rights.revoked.contains(&call.producer)
}

/// Returns the greatest right that a call's producer had at the nodes at which the call may have entered, if even this
/// right was not sufficient for the call. In that case, the call has certainly recorded nothing. Returns `None` if the
/// right was sufficient at one of these nodes, or if the rights are unknown.
pub fn lacked_right(history: &History, call: &Call) -> Option<Permission> {
    might_do(history, call).map(|(_, most)| most).filter(|most| *most < needs(call))
}

/// Returns the smallest and the greatest right that the call's producer had at the nodes that the call may have
/// entered. The nodes may use different cluster maps, so their rights can differ. Returns `None` if the rights are
/// unknown.
fn might_do(history: &History, call: &Call) -> Option<(Permission, Permission)> {
    let Call { id, producer, began_us, returned_us: Some(returned_us), .. } = *call else { return None };
    history.rights.of_call(CallTime { call: id, producer, began_us, returned_us })
}

fn needs(call: &Call) -> Permission {
    if call.is_lookup && !call.is_claim { Permission::LookUp } else { Permission::Observe }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::rights::{ActedOn, RightsRecord};

    const FORBIDDEN: Decision = Decision::Undecided(Reason::Forbidden);

    fn call(is_lookup: bool, (began_us, returned_us): (u64, u64), verdict: Decision) -> Call {
        Call { is_lookup, returned_us: Some(returned_us), verdict: Some(verdict), ..Call::begun(1, 7, 0, began_us) }
    }

    /// Returns the laws that a call breaks if it may have entered the cluster at the nodes in `entries`. From time 100
    /// to time 200, producer 1 has the rights in `may`, which contains the right at node 0 and the right at node 1.
    /// From time 210 on, both nodes allow the producer to observe events.
    fn broken(call: Call, may: [Permission; 2], entries: &[usize]) -> Vec<&'static str> {
        let acted = |node: usize, may, from_us, until_us| ActedOn { node, producer: 1, may, from_us, until_us };
        let nodes = may.into_iter().enumerate();
        let acted_on = nodes
            .flat_map(|(node, may)| [acted(node, may, 100, 200), acted(node, Permission::Observe, 210, 300)])
            .collect();
        let entries = BTreeMap::from([(0, entries.iter().copied().collect())]);
        let rights = RightsRecord { revoked: BTreeSet::from([1]), acted_on, entries };
        let mut violations = Vec::new();
        check(&History { calls: vec![call], rights, ..History::default() }, &mut violations);
        violations.into_iter().map(|violation| violation.law).collect()
    }

    #[test]
    fn a_verdict_without_the_right_breaks_it() {
        use Permission::{LookUp, Nothing, Observe};
        let first = |time| call(false, time, Decision::FirstSeen);
        assert_eq!(broken(first((100, 200)), [Nothing; 2], &[0]), [FOLLOW]);
        assert_eq!(broken(first((100, 200)), [LookUp, Nothing], &[0, 1]), [FOLLOW]);
        assert_eq!(broken(first((100, 200)), [Nothing, Observe], &[0, 1]), [""; 0], "it may have entered at the other");
        assert_eq!(broken(first((99, 200)), [Nothing; 2], &[0]), [""; 0], "the node may have had an older map");
        assert_eq!(broken(first((100, 201)), [Nothing; 2], &[0]), [""; 0], "the node may have had a newer map");
        assert_eq!(broken(first((100, 200)), [Nothing; 2], &[2]), [""; 0], "nobody knows of that node");
        assert_eq!(broken(first((100, 200)), [Nothing; 2], &[]), [""; 0], "nobody knows where");
        let duplicate = |is_lookup| call(is_lookup, (100, 200), Decision::Duplicate);
        assert_eq!(broken(duplicate(false), [Nothing; 2], &[0]), [FOLLOW]);
        assert_eq!(broken(duplicate(true), [Nothing; 2], &[0]), [FOLLOW]);
        assert_eq!(broken(duplicate(true), [LookUp; 2], &[0]), [""; 0]);
    }

    #[test]
    fn a_refusal_of_who_has_the_right_breaks_it() {
        let refused = |is_lookup, time| call(is_lookup, time, FORBIDDEN);
        assert_eq!(broken(refused(false, (100, 200)), [Permission::LookUp; 2], &[0]), [""; 0]);
        assert_eq!(broken(refused(true, (100, 200)), [Permission::LookUp; 2], &[0]), [GOOD]);
        assert_eq!(broken(refused(false, (210, 300)), [Permission::Nothing; 2], &[0]), [GOOD], "it was granted again");
        assert_eq!(broken(refused(false, (205, 300)), [Permission::Nothing; 2], &[0]), [""; 0]);
        let other = Call { producer: 2, ..refused(false, (205, 300)) };
        assert_eq!(broken(other, [Permission::Nothing; 2], &[0]), [GOOD], "nothing was ever taken away from it");
    }
}
