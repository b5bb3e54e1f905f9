//! Measures how the costs of a cluster grow with the number of its nodes. The measured costs are messages, bytes and
//! visits per event, the number of connections, the size of the cluster map, and the cost of one change of the map.
//!
//! Nodes and producers run the production code, and the same seed gives the same figures. The number of producers grows
//! with the number of nodes, so that each node has the same number of events in flight in a cluster of any size.
//!
//! Every message takes one millisecond, and computing takes no time. The measurement therefore counts messages and
//! bytes, but it cannot determine throughput.
//!
//! Because all messages take equally long, the figures describe the case in which as many events as possible arrive at
//! a node at the same moment.

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

/// Maximum number of nodes that share each event in `horizontal-vertical`.
const GROUP_MAX: usize = 5;
/// Minimum number of events per node. A filter of generations rejects the events of a window that arrive at once.
pub const EVENTS_PER_NODE_MIN: u64 = 4 * IN_FLIGHT_PER_NODE;
const SEED: u64 = 27;
/// Time that a message takes, which is one step of the simulation.
const LATENCY: Duration = Duration::from_millis(1);
/// Maximum duration of a run; a longer run has hung.
const DURATION_MAX: Duration = Duration::from_secs(600);
/// Name of the filter.
const FILTER: &str = "clicks";
/// Factor by which the filter's capacity exceeds the number of its events.
const CAPACITY_TIMES: u64 = 8;
/// Rate of false positives of the filter.
const RATE: f64 = 0.01;

/// Returns the slicings to measure in a cluster of `nodes` nodes, each of which has one slice. There are up to three: a
/// horizontal slicing, a vertical slicing, and a combination of both. In the combination, the slices are divided into
/// groups of equal size, and the slices of a group share events. The combination is left out if no such division
/// exists.
pub fn slicings(nodes: usize) -> Vec<String> {
    let mut slicings = vec![format!("horizontal:{nodes}"), format!("vertical:{nodes}")];
    let group = (2..=GROUP_MAX).rev().find(|group| nodes > *group && nodes.is_multiple_of(*group));
    if let Some(group) = group {
        slicings.insert(1, format!("horizontal-vertical:{}x{group}", nodes / group));
    }
    slicings
}

/// Sends `events_per_node` new events per node through a cluster, and then the same events again. The minimum is
/// [`EVENTS_PER_NODE_MIN`].
///
/// # Errors
/// Returns the reason why the run did not end.
pub fn run(nodes: usize, slicing: &str, events_per_node: u64) -> Result<Figures, String> {
    standing_still(|| execute(nodes, slicing, events_per_node).map_err(|error| error.to_string()))
}

fn execute(nodes: usize, slicing: &str, events_per_node: u64) -> Result<Figures, Box<dyn std::error::Error>> {
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

/// Returns the scenario by which nodes start and filters are created. It uses the defaults without any faults.
fn without_faults(nodes: usize) -> Scenario {
    Scenario { nodes, kind: "generations", parallel: false, safe: false, ..Scenario::new(SEED) }
}

async fn node(index: usize, nodes: usize, connector: SimConnector, board: Board) -> turmoil::Result {
    let node = cluster::start_node(index, 0, &without_faults(nodes), &Machine::default(), connector).await?;
    tokio::select! {
        biased;
        failure = node.failure() => Err(failure.into()),
        () = board.keep(index, &node) => Ok(()),
    }
}

/// Returns the definition of the filter to measure. Recorded events are known until the end of the measurement.
///
/// The capacity of the filter is several times the number of events that it will get. The reason is that the filter
/// divides its capacity among generations, which are periods of time. All events of a batch have the same time, so with
/// a smaller capacity a batch could fill a generation at once.
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
