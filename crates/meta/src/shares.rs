//! What the filters of some names take together, and may take.
//!
//! Promises: pure functions of a map; a limit that was set below what there is refuses nothing but more. Must not know: which
//! change is made, who asks for it.

use std::collections::BTreeSet;

use firstseen_routing::{ClusterMap, FilterNames, FiltersQuota};

use crate::change::Change;
use crate::placement::slice_bytes;
use crate::refusal::Refusal;

/// What filters take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    filters: u64,
    cell_bytes: u64,
}

/// Whether a change can make filters take more.
pub(crate) fn may_take_more(change: &Change) -> bool {
    matches!(change, Change::CreateFilter(_) | Change::RestoreFilter(_) | Change::AlterFilter(_))
}

/// Whether the filters of all names stay within their limits in `after`, or take no more there than in `before`.
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

/// What is over the limit, how much there is of it, and how much there may be.
fn over(quota: FiltersQuota, taken: Taken) -> Option<(&'static str, u64, u64)> {
    let filters = quota.filters.map(|most| ("filters", taken.filters, u64::from(most.get())));
    let bytes = quota.cell_bytes.map(|most| ("bytes of cells", taken.cell_bytes, most.get()));
    filters.into_iter().chain(bytes).find(|(_, used, most)| used > most)
}

/// What the filters of `names` take. A tree, and a filter that is being altered, count as one; all their cells count.
fn taken(map: &ClusterMap, names: &FilterNames) -> Taken {
    let mut seen = BTreeSet::new();
    let mut cell_bytes: u64 = 0;
    for filter in map.filters.values() {
        let name = map.name_for_rights(filter);
        if !names.cover(name) {
            continue;
        }
        seen.insert(name);
        // The definition was accepted before.
        let bytes_of_one = slice_bytes(&filter.definition).unwrap_or(u64::MAX);
        let copies = filter.all_copies().count() as u64;
        cell_bytes = cell_bytes.saturating_add(bytes_of_one.saturating_mul(copies));
    }
    Taken { filters: seen.len() as u64, cell_bytes }
}
