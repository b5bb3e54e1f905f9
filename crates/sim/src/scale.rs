//! What a cluster costs as it grows: messages, bytes and visits of an event, connections, the map, and one change of it.
//!
//! Promises: nodes and producers are the real ones; there are more producers where there are more nodes, so that a node
//! has the same number of events in flight in a cluster of any size; the same seed gives the same figures. Every message
//! takes a millisecond and computing takes no time: rates are not to be had here, and what comes to a node at once is as
//! much as can. Must not know: how figures are shown.

mod board;
mod counts;
mod course;
pub mod figures;
mod load;
pub mod picture;
pub mod table;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firstseen_filter::{FilterSpec, Kind, Window};
use firstseen_routing::{SlicedDefinition, Slicing};

use crate::clock::EPOCH_MS;
use crate::cluster::{self, Machine, node_name};
use crate::net::SimConnector;
use crate::principals::producer_name;
use crate::real_time::standing_still;
use crate::scenario::Scenario;
use board::Board;
use course::Course;
use figures::Figures;
use load::{IN_FLIGHT_PER_NODE, Load, WINDOW_MS};

/// Nodes that share each event in `horizontal-vertical`, at most.
const GROUP_MAX: usize = 5;
/// The fewest events for each node: a filter of generations refuses those of a window that come at once.
pub const EVENTS_PER_NODE_MIN: u64 = 4 * IN_FLIGHT_PER_NODE;
const SEED: u64 = 27;
/// How long a message takes: a step of the simulation.
const LATENCY: Duration = Duration::from_millis(1);
/// A run that takes longer has hung.
const DURATION_MAX: Duration = Duration::from_secs(600);
/// The filter's name.
const FILTER: &str = "clicks";
/// The filter is for so many times the events that it gets.
const CAPACITY_TIMES: u64 = 8;
/// False positives of the filter.
const RATE: f64 = 0.01;

/// The slicings of a cluster of so many nodes, each of which has one slice. Groups of nodes share events in the second,
/// where they come out even.
pub fn slicings(nodes: usize) -> Vec<String> {
    let mut slicings = vec![format!("horizontal:{nodes}"), format!("vertical:{nodes}")];
    let group = (2..=GROUP_MAX).rev().find(|group| nodes > *group && nodes.is_multiple_of(*group));
    if let Some(group) = group {
        slicings.insert(1, format!("horizontal-vertical:{}x{group}", nodes / group));
    }
    slicings
}

/// Runs `events_per_node` new events for each node through a cluster, and then the same again: at least
/// [`EVENTS_PER_NODE_MIN`].
///
/// # Errors
/// Why the run did not end.
pub fn run(nodes: usize, slicing: &str, events_per_node: u64) -> Result<Figures, String> {
    standing_still(|| carry_out(nodes, slicing, events_per_node).map_err(|error| error.to_string()))
}

fn carry_out(nodes: usize, slicing: &str, events_per_node: u64) -> Result<Figures, Box<dyn std::error::Error>> {
    let load = Load::new(nodes, events_per_node);
    let definition = define(slicing, load.events())?;
    let mut sim = turmoil::Builder::new()
        .rng_seed(SEED)
        .epoch(SystemTime::UNIX_EPOCH + Duration::from_millis(EPOCH_MS))
        .simulation_duration(DURATION_MAX)
        .tick_duration(LATENCY)
        .min_message_latency(LATENCY)
        .max_message_latency(LATENCY)
        .tcp_capacity(1 << 16)
        .build();
    let connector = SimConnector::default();
    let board = Board::new(nodes);
    for index in 0..nodes {
        let connector = connector.clone();
        let board = board.clone();
        sim.host(node_name(index), move || node(index, nodes, connector.clone(), board.clone()));
    }
    let load = Arc::new(load);
    for place in 0..load.producers() {
        let producing = load.clone().produce(place, connector.clone());
        sim.client(producer_name(place), producing);
    }
    let hosts = (0..nodes).map(|index| sim.lookup(node_name(index))).collect();
    let producers = (0..load.producers()).map(|place| sim.lookup(producer_name(place))).collect();
    let figures = Arc::default();
    let course = Course { nodes, slicing: slicing.to_owned(), definition, connector, board, load, hosts, producers };
    sim.client("operator", course.run(Arc::clone(&figures)));
    sim.run()?;
    drop(sim);
    Ok(Arc::into_inner(figures).and_then(|figures| figures.into_inner().ok()).flatten().ok_or("no figures")?)
}

/// The scenario by which nodes start and filters are made: the defaults, and nothing goes wrong.
fn calm(nodes: usize) -> Scenario {
    Scenario { nodes, kind: "generations", parallel: false, safe: false, ..Scenario::new(SEED) }
}

async fn node(index: usize, nodes: usize, connector: SimConnector, board: Board) -> turmoil::Result {
    let node = cluster::start_node(index, 0, &calm(nodes), &Machine::default(), connector).await?;
    tokio::select! {
        biased;
        failure = node.failure() => Err(failure.into()),
        () = board.keep(index, &node) => Ok(()),
    }
}

/// A filter for more events: what was recorded is known for a while after, and a batch, whose events have one time, fills
/// no generation.
fn define(slicing: &str, events: u64) -> Result<SlicedDefinition, Box<dyn std::error::Error>> {
    let window: Window = format!("{}ms", 2 * WINDOW_MS).parse()?;
    let spec = FilterSpec {
        capacity_events: Some(CAPACITY_TIMES * events),
        rate: RATE,
        ..FilterSpec::new(Kind::Generations, window)
    };
    let slicing: Slicing = slicing.parse()?;
    Ok(SlicedDefinition::new(&spec, slicing)?)
}
