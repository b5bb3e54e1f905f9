//! Derives the filter of a level below the root of a tree. Each cell of the root belongs to exactly one cell of the
//! level, in the same group.

use firstseen_filter::{Ability, FilterDefinition, Geometry, Layout, Refresh, Unit};

use super::refusal::TreeRefusal;
use crate::plan::{Cut, FOLD_MAX, Fold, SlicedDefinition, Slicing};

/// Returns the definition of the filter at a lower level of a tree. The definition is that of the root filter with two
/// changes: `2^shift` cells of the root share one cell of the level, and the cells are divided into slices according to
/// `slicing`.
///
/// The filter at a lower level has only one generation of cells, even if the root can open further generations. If the
/// generation is full, the level does not record new events. When such an event occurs again, the level does not know
/// it and asks its parent.
///
/// # Errors
/// Returns [`TreeRefusal`] if the root cannot have levels, or if the number of groups in `slicing` differs from the
/// root's.
pub fn folded(root: &SlicedDefinition, shift: u8, slicing: Slicing) -> Result<SlicedDefinition, TreeRefusal> {
    check_root(root)?;
    if slicing.groups() != root.slicing.groups() {
        return Err(TreeRefusal::Groups { slicing, groups: root.slicing.groups() });
    }
    if shift > FOLD_MAX {
        return Err(TreeRefusal::Fold { fold: shift });
    }
    let mut group: FilterDefinition = root.group.clone();
    let kind = group.cells.kind();
    let Some(geometry) = group.cells.divided_geometry_mut() else {
        if shift > 0 {
            return Err(TreeRefusal::FoldOfBuckets { fold: shift });
        }
        if slicing.divides_cells() {
            return Err(TreeRefusal::Slicing { kind, slicing });
        }
        if let Some(growth) = group.cells.growth_mut() {
            growth.generations_max = 1;
        }
        return Ok(SlicedDefinition { slicing, group });
    };
    let root_cells = geometry.cells().next_multiple_of(u64::from(root.slicing.slices_per_group()));
    let cells = (Fold::new(shift).of(root_cells - 1) + 1).next_multiple_of(u64::from(slicing.slices_per_group()));
    *geometry = Geometry::new(cells, geometry.hashes(), geometry.cell_bits(), Layout::Classic)
        .map_err(|_| TreeRefusal::Fold { fold: shift })?;
    if let Some(growth) = group.cells.growth_mut() {
        growth.generations_max = 1;
        growth.capacity_events = (growth.capacity_events >> shift).max(1);
        if let Some(jumps) = &mut growth.jumps {
            jumps.events /= f64::from(shift).exp2();
        }
    }
    Ok(SlicedDefinition { slicing, group })
}

/// Checks whether a filter can be the root of a tree.
pub(super) fn check_root(root: &SlicedDefinition) -> Result<(), TreeRefusal> {
    let cells = &root.group.cells;
    let Some(geometry) = cells.geometry() else {
        return Err(TreeRefusal::Kind { kind: cells.kind() });
    };
    // The positions of cells that are not divided are the same at all levels, because no fold applies to them.
    if geometry.layout() != Layout::Classic && cells.kind().can(Ability::Divide) {
        return Err(TreeRefusal::Layout);
    }
    if let Unit::Events(_) = root.group.unit {
        return Err(TreeRefusal::CountWindow { window: root.group.window.clone() });
    }
    if cells.refresh() == Refresh::Refresh {
        return Err(TreeRefusal::Refresh);
    }
    if cells.equal_timers() >= 2 {
        return Err(TreeRefusal::EqualTimers);
    }
    let generations_max = cells.growth().map_or(1, |growth| growth.generations_max);
    if generations_max > 1 && !cells.kind().can(Ability::Grow) {
        return Err(TreeRefusal::Growth);
    }
    Ok(())
}

/// Returns the default slicing of a level: the groups of the root, with one slice for each group.
pub fn place_slicing(root: Slicing) -> Slicing {
    match root.cut() {
        Cut::Horizontal(groups) | Cut::HorizontalVertical(groups, _) => {
            Slicing::new(Cut::Horizontal(groups)).unwrap_or(Slicing::NONE)
        }
        Cut::None | Cut::Vertical(_) | Cut::VerticalHorizontal(..) => Slicing::NONE,
    }
}
