//! Simulates an operator who moves slices from node to node while producers continue to send events. The seed and the
//! cluster map at the time of each move determine which slice moves and where.

use std::time::Duration;

use firstseen_routing::{FilterRecord, NodeId, SliceMove};

use crate::cluster;
use crate::net::SimConnector;
use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;

/// Seed of the random numbers for moves, which are independent of the other random numbers of a run.
const OF_MOVES: u64 = 0x40_7E5;

/// Moves slices while `goes_on` returns `true`.
pub(crate) async fn move_slices(
    scenario: &Scenario,
    connector: &SimConnector,
    goes_on: impl Fn() -> bool,
) -> turmoil::Result<u64> {
    let mut rng = SeededRng::new(scenario.seed ^ OF_MOVES);
    let mut begun = 0;
    while goes_on() {
        tokio::time::sleep(Duration::from_millis(200 + rng.below(1_500))).await;
        begun += begin_some(scenario, connector, &mut rng).await?;
    }
    Ok(begun)
}

/// Begins to move up to three copies of slices. Returns the number of copies that move. A move that is rejected is
/// skipped.
pub(crate) async fn begin_some(
    scenario: &Scenario,
    connector: &SimConnector,
    rng: &mut SeededRng,
) -> turmoil::Result<u64> {
    let map = cluster::map_now(connector, scenario.nodes).await?;
    // Slices of a predecessor move as well.
    let line: Vec<_> = cluster::line(&map).collect();
    let Some((filter, record)) = (!line.is_empty()).then(|| line[rng.below(line.len() as u64) as usize]) else {
        return Ok(0);
    };
    let nodes: Vec<NodeId> = map.nodes.keys().copied().collect();
    let moves: Vec<SliceMove> = (0..1 + rng.below(3)).map(|_| draw(record, &nodes, rng)).collect();
    let mut begun = 0;
    for way in moves {
        let asked = rng.below(scenario.nodes as u64) as usize;
        begun += u64::from(cluster::begin_move(connector, asked, filter, way).await);
    }
    Ok(begun)
}

/// Draws a copy of a slice, and a node to which it moves.
fn draw(record: &FilterRecord, nodes: &[NodeId], rng: &mut SeededRng) -> SliceMove {
    let slice = rng.below(record.owners.len() as u64) as u32;
    let holders: Vec<NodeId> = record.copies_of(slice).map(|copy| copy.node).collect();
    SliceMove { slice, from: rng.pick(&holders), to: rng.pick(nodes) }
}
