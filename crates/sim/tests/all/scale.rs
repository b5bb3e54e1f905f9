//! The measured costs of clusters agree with the formulas, and are the same when they are measured again.

use firstseen_sim::scale::{EVENTS_PER_NODE_MIN, run, slicings};

/// Returns the mean number of slices in which an event has positions: `S (1 - (1 - 1/S)^k)`.
fn slices_of_an_event(slices: f64, hashes: u32) -> f64 {
    slices * (1.0 - (1.0 - 1.0 / slices).powf(hashes.into()))
}

#[test]
fn known_events_visit_the_nodes_of_their_positions_and_a_seed_decides_everything() {
    let figures = run(5, "vertical:5", EVENTS_PER_NODE_MIN).expect("a run");
    let expected = slices_of_an_event(5.0, figures.hashes);
    let visits = figures.known.visits_per_event;
    assert!((visits / expected - 1.0).abs() < 0.02, "{visits} visits, {expected} expected");
    assert_eq!((figures.new.sent_per_event, figures.known.sent_per_event), (1.0, 1.0));
    assert_eq!((figures.new.links, figures.known.links), (20, 20), "{figures:?}");
    assert!(figures.known.visits_per_message() > 50.0, "{figures:?}");
    // Each node has a link to every other node.
    assert!(figures.cluster.connections >= 20, "{figures:?}");
    // The producer gets the whole map again. Every node gets it too, through consensus or the messages that follow.
    let change = figures.cluster.change;
    assert!(change.bytes > 500.0 && change.bytes_to_a_producer > figures.cluster.map_bytes as f64, "{figures:?}");
    assert_eq!(run(5, "vertical:5", EVENTS_PER_NODE_MIN), Ok(figures));
}

#[test]
fn events_of_horizontal_slices_stay_where_they_come_to() {
    let figures = run(3, "horizontal:3", EVENTS_PER_NODE_MIN).expect("a run");
    assert_eq!((figures.new.links, figures.known.links), (0, 0), "{figures:?}");
    assert!((figures.known.visits_per_event - 1.0).abs() < 1e-9, "{figures:?}");
    assert!(figures.new.busiest_node.is_some_and(|busiest| busiest < 1.2), "{figures:?}");
}

#[test]
fn every_node_has_one_slice() {
    assert_eq!(slicings(3), ["horizontal:3", "vertical:3"]);
    assert_eq!(slicings(12), ["horizontal:12", "horizontal-vertical:3x4", "vertical:12"]);
    assert_eq!(slicings(100), ["horizontal:100", "horizontal-vertical:20x5", "vertical:100"]);
}
