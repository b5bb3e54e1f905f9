//! Quotas for groups of filters, which are selected by their names. A quota limits the number of the filters and the
//! memory of their cells. If an operator sets a limit below the current usage, the existing filters are kept, and only
//! changes that increase the usage are rejected.
//!
//! The usage is computed from the cluster map alone, so all nodes come to the same decision.

use std::collections::BTreeSet;

use firstseen_routing::{ClusterMap, FilterNames, FiltersQuota};

use crate::change::Change;
use crate::placement::slice_bytes;
use crate::refusal::Refusal;

/// Usage of filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    filters: u64,
    cell_bytes: u64,
}

/// Returns whether a change can increase the usage of filters.
pub(crate) fn can_increase_usage(change: &Change) -> bool {
    matches!(change, Change::CreateFilter(_) | Change::RestoreFilter(_) | Change::AlterFilter(_) | Change::AddPlace(_))
}

/// Checks that the filters of all name patterns are within their limits in `after`, or use no more than in `before`.
///
/// # Errors
/// [`Refusal::FiltersQuota`] names the first limit that is exceeded.
pub(crate) fn check(before: &ClusterMap, after: &ClusterMap) -> Result<(), Refusal> {
    for (names, quota) in &after.access.filters {
        let now = taken(after, names);
        if let Some((what, used, most)) = over(*quota, now)
            && grows(taken(before, names), now)
        {
            return Err(Refusal::FiltersQuota { names: names.to_string(), what: what.to_owned(), used, most });
        }
    }
    Ok(())
}

fn grows(before: Taken, after: Taken) -> bool {
    after.filters > before.filters || after.cell_bytes > before.cell_bytes
}

/// Returns the exceeded resource, its usage and its limit.
fn over(quota: FiltersQuota, taken: Taken) -> Option<(&'static str, u64, u64)> {
    let filters = quota.filters.map(|most| ("filters", taken.filters, u64::from(most.get())));
    let bytes = quota.cell_bytes.map(|most| ("bytes of cells", taken.cell_bytes, most.get()));
    filters.into_iter().chain(bytes).find(|(_, used, most)| used > most)
}

/// Returns the number of filters that match `names`, and the memory that they use. All levels of a filter tree together
/// count as one filter. A filter that is being altered and its predecessor also count as one filter. The memory
/// includes the cells of all levels, predecessors and copies.
fn taken(map: &ClusterMap, names: &FilterNames) -> Taken {
    let mut seen = BTreeSet::new();
    let mut cell_bytes: u64 = 0;
    for filter in map.filters.values() {
        let name = map.name_for_rights(filter);
        if !names.cover(name) {
            continue;
        }
        seen.insert(name);
        // The definition was accepted before, so its size can be computed.
        let bytes_of_one = slice_bytes(&filter.definition).unwrap_or(u64::MAX);
        let copies = filter.all_copies().count() as u64;
        cell_bytes = cell_bytes.saturating_add(bytes_of_one.saturating_mul(copies));
    }
    Taken { filters: seen.len() as u64, cell_bytes }
}
