//! Slots, which ensure that no two voters have similar election timeouts. Each slot is a range of timeouts, and no two
//! voters have the same slot. If two voters had similar timeouts, both could become candidates at the same time when
//! they lose contact with the leader, and the election could fail.
//!
//! The slot of a node is computed from the node's number alone. Openraft needs the election timeout when it starts, and
//! at that moment the node does not know any other node. The timeout does not change while the process runs.
//!
//! Several node numbers share a slot, because numbers are never reused and the number of slots is fixed. A new node
//! therefore gets a number whose slot is free, if there is one. A node whose slot already belongs to a voter cannot
//! become a voter.

use std::collections::BTreeMap;

use firstseen_routing::{NodeId, NodeRecord};

/// Maximum number of voters in a cluster. A cluster with seven voters survives the loss of three of them. More voters
/// would make every change slower, because more nodes would have to acknowledge it. All nodes beyond this number are
/// followers without a vote.
pub const VOTERS_MAX: usize = 7;

/// Number of slots. The timeout of the last slot is longer than that of the first slot by this number of widths, minus
/// one.
pub(crate) const SLOTS: u64 = 16;

// While voters are being replaced, both the old and the new voters have slots.
const _: () = assert!(2 * VOTERS_MAX as u64 <= SLOTS);

/// Returns the slot of a node.
pub(crate) fn slot(node: u64) -> u64 {
    node.saturating_sub(1) % SLOTS
}

/// Returns whether none of `others` has the slot of `node`.
pub(crate) fn is_free(node: u64, others: impl IntoIterator<Item = u64>) -> bool {
    others.into_iter().all(|other| other == node || slot(other) != slot(node))
}

/// Returns the number that a new node gets. Preferably, this is the first number from `next` on whose slot no member of
/// the cluster uses. If the members use all slots, it is the first number from `next` on whose slot no voter uses.
pub(crate) fn number_for(next: u64, members: &BTreeMap<NodeId, NodeRecord>) -> u64 {
    let voters = members.iter().filter(|(_, record)| record.voter);
    let voters: Vec<u64> = voters.map(|(node, _)| node.0).collect();
    let members: Vec<u64> = members.keys().map(|node| node.0).collect();
    first_free(next, &members).or_else(|| first_free(next, &voters)).unwrap_or(next)
}

/// Returns the first number from `next` on whose slot none of `others` has.
fn first_free(next: u64, others: &[u64]) -> Option<u64> {
    (next..next.saturating_add(SLOTS)).find(|number| is_free(*number, others.iter().copied()))
}

#[cfg(test)]
mod tests {
    use firstseen_routing::Incarnation;

    use super::*;

    fn member(voter: bool) -> NodeRecord {
        let text = String::new;
        NodeRecord {
            name: text(),
            site: text(),
            address: text(),
            incarnation: Incarnation(1),
            memory_bytes: 0,
            voter,
            is_down: false,
        }
    }

    /// Simulates nodes that join and leave for a long time. Nodes that can become voters do so.
    fn run(members_max: usize) {
        let (mut members, mut next) = (BTreeMap::<NodeId, NodeRecord>::new(), 1);
        for step in 0_usize..500 {
            if members.len() == members_max {
                let leaving = *members.keys().nth(step * 7 % members_max).unwrap();
                members.remove(&leaving);
            }
            let number = number_for(next, &members);
            assert!(number >= next, "numbers are never given twice");
            next = number + 1;
            let voters: Vec<u64> = members.iter().filter(|(_, record)| record.voter).map(|(node, _)| node.0).collect();
            let has_place = voters.len() < VOTERS_MAX;
            assert!(is_free(number, voters.iter().copied()), "{number} beside voters {voters:?}");
            members.insert(NodeId(number), member(has_place));
        }
        assert!(next > 500, "{next}");
    }

    #[test]
    fn a_new_node_shares_no_slot_with_a_voter_however_many_have_come_and_gone() {
        for members_max in [1, 3, 7, 15, 16, 17, 40] {
            run(members_max);
        }
    }

    #[test]
    fn the_first_nodes_are_numbered_one_by_one() {
        let mut members = BTreeMap::new();
        for number in 1..=SLOTS {
            assert_eq!(number_for(number, &members), number);
            members.insert(NodeId(number), member(number < 8));
        }
        assert_eq!(number_for(17, &members), 24, "17 to 23 have the slots of voters 1 to 7");
    }
}
