//! Compares the cells of every complete copy with the history, at the end of a run when faults no longer occur. Two
//! rules are checked:
//!
//! - The cells of a first-seen event must be set until the event expires.
//! - A cell may be set only if it belongs to a submitted event.
//!
//! If the filter was altered during the run, the rules are checked for the new filter and for its predecessor.
//!
//! Each copy sends its cells in the format that is also used for backups, and the cells are compared one by one. In a
//! filter that stores fingerprints, the comparison also counts the fingerprints that are still alive. A copy must not
//! have more of them than its events need.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firstseen_checker::history::{Call, CellsRead, History, Stamped};
use firstseen_checker::laws::lacked_right;
use firstseen_filter::{
    BucketShape, FilterSecret, FilterSlice, Layout, Probes, REGION_BUCKETS, Stamp, Unit, UnitNumber,
};
use firstseen_routing::{AskCells, ClusterMap, Decision, FilterId, FilterRecord, GroupPlan, NodeId, Reason};
use firstseen_wire::cells::{CellsOf, decode, encode_ask};
use firstseen_wire::net::{Connector, admin_client};

use crate::alterations::{Altered, secret};
use crate::clock::{EPOCH_MS, now_us};
use crate::cluster::{line, map_now};
use crate::net::SimConnector;
use crate::scenario::Scenario;
use crate::shared_history::{SharedHistory, lock};

/// Maximum time in milliseconds by which an event may expire early, if it is stamped by clocks that differ and its unit
/// is rounded.
const CLOCKS_DIFFER_MS: u64 = 1_500;
/// Maximum time in milliseconds after a call returned without a reply at which its event may still be stamped, by a
/// clock that is ahead.
const STAMPED_LATE_MS: u64 = 5_000;

/// Time within which all nodes know a new map.
const MAP_DELAY_MAX: Duration = Duration::from_secs(1);

/// The cells that must be set in a slice, and the cells that may be set.
#[derive(Default)]
struct Expected {
    /// Calls that got first-seen, with their cells in the slice.
    must: Vec<(usize, Vec<u64>)>,
    may: BTreeSet<u64>,
}

/// Reads the cells of every complete copy, and records wrong cells in the history.
pub(crate) async fn look(
    scenario: &Scenario,
    map: &ClusterMap,
    altered: Option<&Altered>,
    connector: &SimConnector,
    history: &SharedHistory,
) -> turmoil::Result {
    let calls = lock(history).clone();
    let mut found = CellsRead::default();
    for (filter, _) in line(map) {
        let mut map = map.clone();
        // A former filter is removed when all of its events have expired.
        while let Some(record) = map.filters.get(&filter) {
            let reader = Reader { scenario, map: &map, filter, record, altered, connector, history: &calls };
            let error = match reader.look().await {
                Ok(read) => {
                    found.add(&read);
                    break;
                }
                Err(error) => error,
            };
            // If slices move while they are read, the reader gets a new map and looks for them again, as a backup does.
            tokio::time::sleep(MAP_DELAY_MAX).await;
            let now = map_now(connector, scenario.nodes).await?;
            if now.filters.get(&filter).is_some_and(|now| now.epoch == record.epoch) {
                return Err(error);
            }
            map = now;
        }
    }
    lock(history).cells = found;
    Ok(())
}

/// Reads the cells of one filter.
struct Reader<'a> {
    scenario: &'a Scenario,
    map: &'a ClusterMap,
    filter: FilterId,
    record: &'a FilterRecord,
    altered: Option<&'a Altered>,
    connector: &'a SimConnector,
    history: &'a History,
}

impl Reader<'_> {
    async fn look(&self) -> turmoil::Result<CellsRead> {
        let definition = &self.record.definition;
        let expected = self.expected()?;
        let now_ms = EPOCH_MS + now_us() / 1000;
        let unit = match definition.group.unit {
            Unit::Milliseconds(unit_ms) => UnitNumber(now_ms / unit_ms),
            _ => UnitNumber::FIRST,
        };
        let nothing = Expected::default();
        let mut found = CellsRead::default();
        for (slice, copy) in self.record.all_copies() {
            if !self.map.is_complete_copy(copy) {
                found.incomplete_copies += 1;
                continue;
            }
            let mut cells = self.read(slice, copy.node).await?;
            let expected = expected.get(&slice).unwrap_or(&nothing);
            let (wrong, set) = compare(&mut cells, expected, unit, definition.group.rule.lateness_units);
            found.copies += 1;
            found.events_due += expected.must.len() as u64;
            found.cells_set += set;
            let name = &self.record.name;
            let wrong =
                wrong.into_iter().map(|what| format!("slice {slice} of {name} on node {}: {what}", copy.node.0));
            found.wrong.extend(wrong);
        }
        Ok(found)
    }

    /// Returns the expected cells by slice.
    fn expected(&self) -> turmoil::Result<BTreeMap<u32, Expected>> {
        let secret = FilterSecret::from_material(&secret(self.scenario, self.filter, self.altered));
        let within = Within { former: self.altered.map(|altered| (altered, altered.former == self.filter)) };
        let prober = self.map.prober(self.record)?;
        let plan = GroupPlan::new(&self.record.definition)?;
        let now_ms = EPOCH_MS + now_us() / 1000;
        let mut positions = Vec::new();
        let mut expected: BTreeMap<u32, Expected> = BTreeMap::new();
        for call in self.history.calls.iter().filter(|call| self.may_be_set(call, within, now_ms)) {
            let digest = secret.digest(&call.event.to_le_bytes());
            let mut probes = Probes::new(prober.shape());
            prober.push(digest, &mut probes);
            probes.unpack(0, &mut positions);
            let first = self.record.definition.slicing.slices_of(prober.group(digest)).start;
            let mut own: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
            for position in &positions {
                let (slice, cell) = plan.as_ref().map_or((0, *position), |plan| plan.place(*position));
                own.entry(first + slice).or_default().push(cell);
            }
            for (slice, cells) in own {
                let slice = expected.entry(slice).or_default();
                slice.may.extend(&cells);
                if self.must_be_set(call, within, now_ms) {
                    slice.must.push((call.id, cells));
                }
            }
        }
        Ok(expected)
    }

    fn must_be_set(&self, call: &Call, within: Within<'_>, now_ms: u64) -> bool {
        let promises = &self.history.promises;
        let rounded_ms = match promises.stamped {
            Stamped::ByProducer { .. } => 0,
            Stamped::ByNode { .. } => CLOCKS_DIFFER_MS,
        };
        let since_ms = call.time_ms.min(EPOCH_MS + call.began_us / 1000);
        let is_alive = since_ms.saturating_add(promises.window_ms) > now_ms + rounded_ms;
        let all_nodes: Vec<usize> = (0..self.scenario.nodes).collect();
        // A head that replies before the cells are set may have ended before it set them.
        call.won()
            && is_alive
            && within.has_all_of(self.history, call)
            && (promises.answers_when_set || !self.history.has_lost(call, &all_nodes))
    }

    fn may_be_set(&self, call: &Call, within: Within<'_>, now_ms: u64) -> bool {
        // A call that was denied, or had to be denied by the map of the node that it entered, sets no cells.
        let is_refused = call.verdict == Some(Decision::Undecided(Reason::Forbidden));
        if is_refused || lacked_right(self.history, call).is_some() {
            return false;
        }
        let is_answered = call.won() || call.verdict == Some(Decision::Duplicate);
        let ended_us = call.returned_us.filter(|_| is_answered);
        let ended_ms = ended_us.map_or(now_ms, |ended_us| EPOCH_MS + ended_us / 1000);
        let until_ms = ended_ms.max(call.time_ms).saturating_add(self.history.promises.window_at_most_ms);
        !call.is_lookup && within.may_have_some_of(call, ended_us) && until_ms.saturating_add(STAMPED_LATE_MS) >= now_ms
    }

    /// Reads the cells of a copy into a slice.
    async fn read(&self, slice: u32, node: NodeId) -> turmoil::Result<FilterSlice> {
        let address = &self.map.nodes.get(&node).ok_or("no such node")?.address;
        let mut client = admin_client(self.connector.channel(address, None)?);
        let per_group = self.record.definition.slicing.slices_per_group();
        let of = CellsOf { filter: self.filter, epoch: self.record.epoch, group: slice / per_group };
        let mut request = encode_ask(of, &AskCells { slice: slice % per_group, unit: UnitNumber::FIRST, from: None });
        let mut read = FilterSlice::build(&self.record.definition.slice()?)?;
        loop {
            let reply = client.read_cells(request).await?.into_inner();
            let cells = reply.cells.ok_or("no cells")?;
            let parts = decode(&cells)?;
            request.from = cells.next;
            if let Some(outline) = &parts.outline {
                read.put_outline(outline)?;
            }
            parts.runs.iter().try_for_each(|run| read.put_cells(run))?;
            if request.from.is_none() {
                return Ok(read);
            }
        }
    }
}

/// An alteration of the filter, and whether this filter is the predecessor.
#[derive(Clone, Copy)]
struct Within<'a> {
    former: Option<(&'a Altered, bool)>,
}

impl Within<'_> {
    /// Returns whether a call can only have recorded its event in this filter.
    fn has_all_of(&self, history: &History, call: &Call) -> bool {
        match self.former {
            None => true,
            Some((altered, true)) => call.returned_us.is_some_and(|returned_us| returned_us < altered.begun_us),
            Some((altered, false)) => history.first_attempt_us(call) > altered.ended_us,
        }
    }

    /// Returns whether a call may have recorded its event in this filter. `ended_us` is the time at which it ended for
    /// good, if that is known.
    fn may_have_some_of(&self, call: &Call, ended_us: Option<u64>) -> bool {
        match self.former {
            None => true,
            Some((altered, true)) => call.began_us <= altered.ended_us,
            Some((altered, false)) => ended_us.is_none_or(|ended_us| ended_us >= altered.begun_us),
        }
    }
}

/// Returns descriptions of the wrong cells of a slice, and the number of set cells.
fn compare(cells: &mut FilterSlice, expected: &Expected, unit: UnitNumber, lateness_units: u64) -> (Vec<String>, u64) {
    let mut wrong = Vec::new();
    for (call, own) in expected.must.iter().filter(|(_, own)| !is_set(cells, own, unit)) {
        wrong.push(format!("call {call} got first-seen, and not all of its cells {own:?} are set"));
    }
    if let Layout::Buckets { .. } = cells.geometry().layout() {
        let (entries, known) = count_entries(cells, &expected.may, unit, lateness_units);
        if entries > known {
            wrong.push(format!("{entries} fingerprints are alive, and submitted events have {known} of them"));
        }
        return (wrong, entries);
    }
    let mut set = 0;
    for cell in (0..cells.geometry().cells()).filter(|cell| is_set(cells, &[*cell], unit)) {
        set += 1;
        if !expected.may.contains(&cell) {
            wrong.push(format!("cell {cell} is set, and belongs to no event"));
        }
    }
    (wrong, set)
}

fn is_set(cells: &FilterSlice, cells_of: &[u64], unit: UnitNumber) -> bool {
    cells.test_at(cells_of, Stamp::on_time(unit)).is_some_and(|found| found.is_hit())
}

/// Returns two numbers of fingerprints in a slice: how many are alive at `unit`, and how many are explained by the
/// submitted events, whose positions are in `may`. The caller checks that no more fingerprints are alive than are
/// explained. Comparing the individual fingerprints would take too long.
fn count_entries(cells: &mut FilterSlice, may: &BTreeSet<u64>, unit: UnitNumber, lateness_units: u64) -> (u64, u64) {
    // No later event is judged at an earlier unit than this, so entries that have expired by then do not count as
    // alive.
    cells.advance(unit.after(lateness_units));
    let (fill, _) = cells.fill_and_rate(usize::MAX);
    let entries = fill.unwrap_or_default() * cells.geometry().cells() as f64 * cells.generations() as f64;
    let print_bits = cells.geometry().cell_bits();
    let known = may.iter().filter(|position| is_set(cells, &[**position], unit));
    let places: BTreeSet<_> = known.map(|position| entry_place(*position, print_bits)).collect();
    (entries.round() as u64, places.len() as u64)
}

/// Returns the region, the bucket and the fingerprint of an entry. Of the two buckets that it may be in, the lower one
/// is returned.
fn entry_place(position: u64, print_bits: u32) -> (usize, usize, u32) {
    let print = (position & ((1 << print_bits) - 1)) as u32;
    let bucket = (position >> print_bits) as usize;
    let in_region = bucket % REGION_BUCKETS;
    (bucket / REGION_BUCKETS, in_region.min(BucketShape::partner(in_region, print)), print)
}
