//! Ranges of election timeouts, one a slot.
//!
//! Promises: no two voters have the same slot, so no two wait equally long. Must not know: how long a slot is,
//! openraft.
//!
//! Openraft draws a node's timeout once in the life of its process. Two voters that drew alike would stand
//! against each other whenever both miss the leader, so each has a range of its own. The range follows from the node's
//! number, as it is needed before the node knows any other. Numbers are never given twice and go beyond the slots, so
//! the number of a new node is one whose slot nobody has, and a node whose slot a voter has does not become another
//! one.

use std::collections::BTreeMap;

use firstseen_routing::{NodeId, NodeRecord};

/// Most voters: more make every change slower, and no safer than losing three at once. Other nodes follow.
pub const VOTERS_MAX: usize = 7;

/// Slots that there are: the last one waits so many widths longer than the first.
pub(crate) const SLOTS: u64 = 16;

// While some voters are replaced by others, both have slots.
const _: () = assert!(2 * VOTERS_MAX as u64 <= SLOTS);

/// The slot of a node.
pub(crate) fn slot(node: u64) -> u64 {
    node.saturating_sub(1) % SLOTS
}

/// Whether none of `others` has the slot of `node`.
pub(crate) fn is_free(node: u64, others: impl IntoIterator<Item = u64>) -> bool {
    others.into_iter().all(|other| other == node || slot(other) != slot(node))
}

/// The number of a new node: the first from `next` on whose slot no member has; where all slots are taken, the first
/// one whose slot no voter has.
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

    /// Nodes come and go for long; those that may vote do.
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
