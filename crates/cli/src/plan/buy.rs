//! Computes which machines a user needs for a filter: the number of machines, and the memory, disk, network and cores
//! of each. The memory follows from the cells of the planned filter, including their copies. The other numbers are
//! estimates, which are rounded up from the defaults of nodes and from measurements (`docs/reference/performance.md`).

use firstseen_filter::{FilterSpec, Window};
use serde::Serialize;

use super::nodes::{Spread, SpreadError};

const GIB: u64 = 1 << 30;
/// Memory in bytes that a node needs in addition to its cells. It covers the table of replies that recognises retries,
/// the in-flight events, the process itself, and the operating system.
const NON_CELL_BYTES: u64 = 2 * GIB;
/// Smallest value that a node accepts for `memory_max_bytes`.
const MEMORY_MIN_BYTES: u64 = 1 << 20;
/// Upper limit for the number of cores, which no machine reaches.
const CORES_MAX: u32 = 1024;
/// Memory sizes of machines on the market, in GiB. Larger sizes are multiples of the last.
const SIZES_GIB: [u64; 12] = [4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768];
/// Disk space for the consensus log and for logs, and space that is kept free.
const DISK_BYTES: u64 = GIB;
/// Ratio of the disk space to the cell memory, for a filter that keeps a journal on disk. The journal takes about five
/// times the memory of the cells. A node needs the same space a second time while it repairs its journal, so the ratio
/// is ten (`docs/explanation/failures.md`).
const JOURNAL_TIMES: u64 = 10;
/// Ratio of the peak load to the mean load, if no measurement is known.
const PEAK_TIMES: f64 = 4.0;
/// Number of events per second that a plan expects one core to process. The value is a fifth of the measured maximum,
/// because the core also has to serve connections, and because latency rises when a core is fully loaded.
const CORE_EVENTS_PER_S: f64 = 1_000_000.0;
/// Factor by which frames, replies and acknowledgements multiply the bytes of an event on the network.
const WIRE_TIMES: f64 = 1.5;
/// Number of machines if no flag gives a number. With three machines, one may fail and the other two are still a
/// majority.
pub(super) const MACHINES: u32 = 3;

/// A number of machines of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Machines {
    pub(super) machines: u32,
    /// Number of further copies of each slice. This many machines may fail at the same time without losing any data.
    pub(super) copies: u32,
    /// Memory of the cells on each machine, including copies. This is the value for `memory_max_bytes` of a node.
    pub(super) cells_bytes: u64,
    /// Memory of each machine.
    pub(super) memory_bytes: u64,
    /// Disk space of each machine if the filter is kept only in memory.
    pub(super) disk_bytes: u64,
    /// Disk space of each machine if the filter keeps a journal.
    pub(super) durable_disk_bytes: u64,
    pub(super) cores: u32,
    /// Peak load on all machines together. `None` means that the window is not measured in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peak: Option<Peak>,
}

/// Load at the busiest moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Peak {
    pub(super) events_per_s: u64,
    /// Network traffic of each machine, in both directions together.
    pub(super) bits_per_s: u64,
}

impl Machines {
    /// Returns whether machines of this size are on the market.
    pub(super) fn is_available(&self) -> bool {
        self.cores <= CORES_MAX
    }

    /// Returns the choices of machines for a cluster of `nodes` machines. If `nodes` is `None`, returns two choices:
    /// the smallest cluster that still works when one machine fails, and a single machine.
    ///
    /// # Errors
    /// Returns a [`SpreadError`] that says why the filter cannot be spread over this number of nodes.
    pub(super) fn choices(spec: &FilterSpec, nodes: Option<u32>, copies: u32) -> Result<Vec<Self>, SpreadError> {
        match nodes {
            Some(nodes) => Ok(Self::of(spec, nodes, copies)?.into_iter().collect()),
            None => {
                let several = match Spread::of(spec, Some(MACHINES), None, None) {
                    Ok(Some(spread)) if spread.has_copies => Self::of(spec, MACHINES, 1)?,
                    // A single machine is the only possibility for a window that counts all events, or for memory that
                    // cannot be divided this way.
                    Ok(_) | Err(SpreadError::Definition(_)) => None,
                    Err(error) => return Err(error),
                };
                Ok(several.into_iter().chain(Self::of(spec, 1, 0)?).collect())
            }
        }
    }

    fn of(spec: &FilterSpec, nodes: u32, copies: u32) -> Result<Option<Self>, SpreadError> {
        let Some(slice) = Spread::of(spec, Some(nodes), None, None)?.and_then(|spread| spread.horizontal.on_nodes)
        else {
            return Ok(None);
        };
        let per_s = window_ms(&spec.window)
            .map(|window_ms| PEAK_TIMES * spec.capacity_events.unwrap_or(0) as f64 * 1000.0 / window_ms as f64);
        let held_times = u64::from(copies) + 1;
        let cells_bytes = slice.memory_bytes_per_node.saturating_mul(held_times).max(MEMORY_MIN_BYTES);
        let wire_bits = slice.wire_bits_per_event_blocked.unwrap_or(slice.wire_bits_per_event) * WIRE_TIMES;
        // The traffic of a machine consists of its share of the producers' events and of the messages for each copy.
        // Each of these messages leaves one node and enters another.
        let shares = (1.0 + 2.0 * f64::from(copies)) / f64::from(nodes);
        let peak = per_s.map(|per_s| Peak {
            events_per_s: per_s.ceil() as u64,
            bits_per_s: (per_s * wire_bits * shares).ceil() as u64,
        });
        let busy = per_s.map_or(0.0, |per_s| per_s * held_times as f64 / f64::from(nodes) / CORE_EVENTS_PER_S);
        Ok(Some(Self {
            machines: nodes,
            copies,
            cells_bytes,
            memory_bytes: market_bytes(cells_bytes.saturating_add(NON_CELL_BYTES)),
            disk_bytes: DISK_BYTES,
            durable_disk_bytes: DISK_BYTES.saturating_add(cells_bytes.saturating_mul(JOURNAL_TIMES)),
            // One core is added for everything else.
            cores: busy.ceil() as u32 + 1,
            peak,
        }))
    }
}

/// Returns the length of the window in milliseconds. `None` means that the window is not measured in time.
fn window_ms(window: &Window) -> Option<u64> {
    match window {
        Window::Duration(window_ms) | Window::LandmarkDuration(window_ms) => Some((*window_ms).max(1)),
        _ => None,
    }
}

/// Returns the smallest memory size on the market that holds `bytes` bytes.
fn market_bytes(bytes: u64) -> u64 {
    let wanted_gib = bytes.div_ceil(GIB);
    let last = SIZES_GIB.last().copied().unwrap_or(1);
    let size = SIZES_GIB.iter().copied().find(|size| *size >= wanted_gib);
    size.unwrap_or_else(|| wanted_gib.div_ceil(last).saturating_mul(last)).saturating_mul(GIB)
}

#[cfg(test)]
mod tests {
    use firstseen_filter::Kind;

    use super::*;

    fn spec(kind: Kind, window: &str, events: u64) -> FilterSpec {
        FilterSpec { capacity_events: Some(events), ..FilterSpec::new(kind, window.parse().unwrap()) }
    }

    #[test]
    fn copies_are_in_the_memory_of_a_machine() {
        let day = spec(Kind::Timing, "24h", 1_000_000_000);
        let [alone, copied] = [0, 1].map(|copies| Machines::choices(&day, Some(8), copies).unwrap().remove(0));
        assert_eq!((2 * alone.cells_bytes, alone.machines), (copied.cells_bytes, 8));
        assert!(copied.memory_bytes >= copied.cells_bytes + NON_CELL_BYTES);
        assert!(copied.durable_disk_bytes > 10 * copied.cells_bytes);
        let few = alone.peak.unwrap();
        let many = copied.peak.unwrap();
        // The numbers follow from 86,400 seconds per day and a peak of four times the mean.
        assert_eq!((few.events_per_s, many.events_per_s), (46_297, 46_297));
        assert!(many.bits_per_s.abs_diff(3 * few.bits_per_s) <= 3, "{few:?} {many:?}");
    }

    #[test]
    fn machines_of_which_one_may_fail_come_first_where_copies_are_possible() {
        let machines = |kind, window| {
            let choices = Machines::choices(&spec(kind, window, 50_000), None, 0).unwrap();
            choices.iter().map(|it| (it.machines, it.copies)).collect::<Vec<_>>()
        };
        assert_eq!(machines(Kind::Timing, "1h"), [(3, 1), (1, 0)]);
        assert_eq!(machines(Kind::Cuckoo, "1h"), [(3, 1), (1, 0)]);
        assert_eq!(machines(Kind::Cuckoo, "50000events"), [(1, 0)]);
        assert_eq!(machines(Kind::Stable, "unbounded"), [(1, 0)]);
        let busy = Machines::choices(&spec(Kind::Generations, "1s", 10_000_000), Some(1), 0).unwrap();
        assert!(busy[0].cores > 10 && busy[0].is_available(), "{busy:?}");
        let wild = Machines::choices(&spec(Kind::Generations, "1ms", 1_000_000_000), None, 0).unwrap();
        assert!(!wild.iter().any(Machines::is_available), "{wild:?}");
    }

    #[test]
    fn a_node_takes_the_memory_that_is_planned_for_it() {
        let least = Machines::choices(&spec(Kind::Timing, "1h", 1), None, 0).unwrap();
        assert!(least.iter().all(|it| it.cells_bytes == MEMORY_MIN_BYTES), "{least:?}");
    }

    #[test]
    fn memory_is_a_size_that_is_sold() {
        assert_eq!([1, 5 * GIB, 8 * GIB, 8 * GIB + 1].map(|bytes| market_bytes(bytes) / GIB), [4, 8, 8, 16]);
        assert_eq!((market_bytes(769 * GIB) / GIB, market_bytes(u64::MAX) > 768 * GIB), (1536, true));
    }
}
