//! An operator who moves slices from node to node while producers go on.
//!
//! Promises: what is moved is drawn from the seed and from what the map says then. Must not know: what goes wrong meanwhile.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use firstseen_routing::{NodeId, SliceMove};

use crate::cluster;
use crate::net::SimConnector;
use crate::scenario::{Dice, Scenario};

/// Dice of moves fall apart from the others of a seed.
const OF_MOVES: u64 = 0x40_7E5;

/// Moves slices until the producers have ended.
pub(crate) async fn move_slices(
    scenario: &Scenario,
    connector: &SimConnector,
    left: &AtomicU32,
) -> turmoil::Result<u64> {
    let mut dice = Dice::new(scenario.seed ^ OF_MOVES);
    let mut begun = 0;
    while left.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(Duration::from_millis(200 + dice.below(1_500))).await;
        let map = cluster::map_now(connector).await?;
        let Some((filter, record)) = map.filter_named(cluster::FILTER) else { continue };
        let nodes: Vec<NodeId> = map.nodes.keys().copied().collect();
        let draw = |dice: &mut Dice| {
            let slice = dice.below(record.owners.len() as u64) as u32;
            let holders: Vec<NodeId> = record.copies_of(slice).map(|copy| copy.node).collect();
            SliceMove { slice, from: dice.pick(&holders), to: dice.pick(&nodes) }
        };
        let moves: Vec<SliceMove> = (0..1 + dice.below(3)).map(|_| draw(&mut dice)).collect();
        for way in moves {
            // What cannot be is refused, and that is all.
            begun += u64::from(cluster::begin_move(connector, filter, way).await);
        }
    }
    Ok(begun)
}
