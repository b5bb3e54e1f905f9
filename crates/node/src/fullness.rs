//! Estimates how full a slice is, and how many events it contains. The fullness is the share of a slice's capacity that
//! is used, so a slice with a fullness of 1 contains as many events as it was sized for. A growing filter adds
//! generations of cells when it needs more room. The capacity of its slices includes all generations that they may
//! still add.
//!
//! If a filter was not sized for a number of events, its slices have no known capacity, and their fullness is `None`.

use firstseen_routing::{SliceState, SlicedDefinition};

/// Estimates how many events a filter contains, based on some of its slices. Returns `None` if these slices do not
/// provide enough information.
pub(crate) fn recorded_events<'a>(
    definition: &SlicedDefinition,
    slices: impl Iterator<Item = &'a SliceState>,
) -> Option<u64> {
    let growth = definition.group.cells.growth()?;
    let used: Vec<f64> = slices.filter_map(|slice| used_share(definition, slice)).collect();
    if used.is_empty() {
        return None;
    }
    let mean = used.iter().sum::<f64>() / used.len() as f64;
    let room =
        growth.capacity_events as f64 * f64::from(growth.generations_max) * f64::from(definition.slicing.groups());
    Some((mean * room).round() as u64)
}

/// Returns the share of its capacity that a slice has used. If the slice counts its events, the share is exact.
/// Otherwise the share is estimated from the proportion of cells that are set. Returns `None` if the filter was not
/// sized for a number of events.
pub(crate) fn used_share(definition: &SlicedDefinition, slice: &SliceState) -> Option<f64> {
    let group = &definition.group;
    // Generations of increasing size mean that the filter exceeds its plan, so no capacity can be given.
    let growth = group.cells.growth().filter(|growth| growth.ratio <= 1.0)?;
    let generations_max = f64::from(growth.generations_max);
    if let Some(live_events) = slice.live_events.filter(|_| definition.slicing.slices_per_group() == 1) {
        return Some(live_events as f64 / (growth.capacity_events as f64 * generations_max));
    }
    // Each event sets `hashes` random cells, so a cell remains empty with probability `(1 - 1/cells)^(hashes *
    // events)`.
    let hashes: f64 = f64::from(group.cells.geometry()?.hashes());
    let full_fill: f64 = growth.generation_rate.powf(1.0 / hashes);
    let used = (1.0 - slice.fill?).ln() / (1.0 - full_fill).ln();
    Some(used * f64::from(slice.generations) / generations_max)
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind};

    use super::*;

    fn definition(slicing: &str) -> SlicedDefinition {
        let window = "1h".parse().expect("a window");
        let spec = FilterSpec { capacity_events: Some(10_000), ..FilterSpec::new(Kind::Timing, window) };
        SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition")
    }

    #[test]
    fn the_room_is_used_when_as_many_events_or_cells_are_set_as_it_was_sized_for() {
        let definition_of_one = definition("none");
        let growth = *definition_of_one.group.cells.growth().expect("a limit");
        let counting =
            |live_events| SliceState { live_events: Some(live_events), generations: 1, ..SliceState::default() };
        assert_eq!(used_share(&definition_of_one, &counting(growth.capacity_events)), Some(1.0));
        assert_eq!(used_share(&definition_of_one, &counting(0)), Some(0.0));
        let some = [counting(2_000), counting(1_000)];
        assert_eq!(
            recorded_events(&definition("horizontal:3"), some.iter()),
            Some(4_500),
            "the mean of two slices of three"
        );
        assert_eq!(recorded_events(&definition_of_one, [].iter()), None);
        let cut = definition("vertical:2");
        let hashes = f64::from(cut.group.cells.geometry().expect("cells").hashes());
        let full_fill = cut.group.cells.growth().expect("a limit").generation_rate.powf(1.0 / hashes);
        let filled = |fill| SliceState { fill: Some(fill), generations: 1, ..SliceState::default() };
        let share = |fill| used_share(&cut, &filled(fill)).expect("a share");
        assert!((share(full_fill) - 1.0).abs() < 1e-9 && share(0.0) == 0.0, "{}", share(full_fill));
        let half = share(1.0 - (1.0 - full_fill).sqrt());
        assert!((half - 0.5).abs() < 1e-9, "{half}");
        assert_eq!(used_share(&cut, &SliceState::default()), None);
    }
}
