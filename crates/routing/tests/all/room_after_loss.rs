//! Tests the remaining room of a filter after a node has restarted and lost its cells. Events of this node become
//! first-seen again, and nodes that have kept their cells must not count their keys twice. Otherwise the filter would
//! be reported as full too early. A plain set of the keys serves as the model.

use std::collections::BTreeSet;

use crate::common::{Producer, TestRng, definition, digest, growing};
use crate::network::Network;
use firstseen_filter::{Kind, Limit};
use firstseen_routing::{Decision, FilterPolicies, NodeId, OwnerLimits, Reason};

const CAPACITY: u64 = 2_000;
const RESTARTED: NodeId = NodeId(3);
const TIME_MS: u64 = 1_000_000;

/// Creates two slices on each of three nodes, for [`CAPACITY`] keys in one generation.
fn network(kind: Kind, window: &str, limit: Limit) -> (Network, Producer) {
    let definition = definition(&growing(kind, window, CAPACITY, limit, 1), "vertical:6");
    let (owners, limits) = ([1, 2, 3, 1, 2, 3].map(NodeId), OwnerLimits::default());
    let network = Network::new(&definition, FilterPolicies::default(), &owners, limits, TestRng(7));
    (network, Producer::new(1, &definition))
}

/// Returns how many different keys are recorded before a node that has kept its cells reports the filter as full.
/// First, keys are sent until half of the capacity is used. Then another node restarts and loses its cells, and all
/// these keys are sent again. This is repeated `restarts` times. Finally, further keys are sent until the filter is
/// full.
fn keys_when_full(kind: Kind, window: &str, limit: Limit, restarts: u32) -> u64 {
    let (mut network, mut producer) = network(kind, window, limit);
    let mut recorded = BTreeSet::new();
    let mut submit = |network: &mut Network, key: u64| {
        let decision = producer.ask_alone(network, digest(key), TIME_MS, true);
        if decision == Decision::FirstSeen {
            recorded.insert(key);
        }
        (decision, recorded.len() as u64)
    };
    for key in 0..CAPACITY / 2 {
        submit(&mut network, key);
    }
    for _ in 0..restarts {
        network.restart(RESTARTED);
        for key in 0..CAPACITY / 2 {
            submit(&mut network, key);
        }
    }
    for key in CAPACITY / 2.. {
        let (decision, keys) = submit(&mut network, key);
        if decision == Decision::Undecided(Reason::Full) && network.head_of(digest(key)).node != RESTARTED {
            return keys;
        }
    }
    unreachable!("keys do not end")
}

#[test]
fn keys_that_come_again_after_a_loss_take_no_room() {
    for (kind, window) in [(Kind::Bloom, "unbounded"), (Kind::Timing, "1h")] {
        for restarts in [0, 1, 3] {
            let keys = keys_when_full(kind, window, Limit::Cardinality, restarts);
            println!("{kind}, {restarts} restarts: full at {keys} keys of {CAPACITY}");
            let allowed = CAPACITY * 9 / 10..=CAPACITY * 11 / 10;
            assert!(allowed.contains(&keys), "{kind}, {restarts} restarts: full at {keys} keys of {CAPACITY}");
        }
    }
}

#[test]
fn where_cells_are_the_limit_nothing_changes() {
    for restarts in [0, 1] {
        let keys = keys_when_full(Kind::Bloom, "unbounded", Limit::Density, restarts);
        assert!((CAPACITY * 9 / 10..=CAPACITY * 11 / 10).contains(&keys), "{restarts} restarts: full at {keys} keys");
    }
}
