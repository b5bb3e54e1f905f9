//! Lists the places of filter trees. A filter tree is a hierarchy of filters, for example one filter per site below a
//! common root, and each filter of the tree is called a place. The list contains the sites of each place, and the load
//! that the place is sized for. A place comes after its parent, and the children of a parent follow each other.

use std::collections::BTreeSet;

use firstseen_filter::{CellDefinition, Geometry, Growth};
use firstseen_routing::{Branch, ClusterMap, FilterId, FilterRecord, SlicedDefinition, TreeMode};
use serde::Serialize;

use crate::text::numbers::{grouped, rate};
use crate::text::size::ByteSize;
use crate::text::table::Table;

/// A place of a tree.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Place<'a> {
    /// Name of the place, which producers use.
    pub(crate) place: &'a str,
    /// Name of its filter.
    pub(crate) filter: &'a str,
    /// Parent of the place. `None` means that the place is the root.
    pub(crate) parent: Option<&'a str>,
    /// Number of steps down from the root.
    pub(crate) level: u8,
    /// Fold of the place: it has `2^fold` times fewer cells than the root, and each of its cells summarises that many
    /// cells of the root.
    pub(crate) fold: u8,
    /// Sites of the nodes that own its slices.
    pub(crate) sites: BTreeSet<&'a str>,
    /// Number of events that the filter has room for. `None` means that only its memory was specified.
    pub(crate) capacity_events: Option<u64>,
    /// Memory of its cells.
    pub(crate) bytes: u64,
    /// Expected false-positive rate of lookups that begin at this place, when all filters of the tree are full. A
    /// lookup that does not find the event in the filter of this place continues in the filter of the parent place, and
    /// so on up to the root. Each of these filters can report a false positive, so the rate includes all of them.
    pub(crate) expected_fpr: Option<f64>,
}

/// Returns the name of what a tree remembers below its root, as text for users.
pub(crate) fn mode_name(mode: TreeMode) -> &'static str {
    match mode {
        TreeMode::Sparse => "sparse",
        TreeMode::Dense => "dense",
    }
}

/// Returns the places of the tree whose root is the filter `root`, the root first. The result is empty if the filter is
/// not a root.
pub(crate) fn places(map: &ClusterMap, root: FilterId) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for (_, filter) in map.filters_in_order() {
        let Some(branch) = filter.branch.as_ref().filter(|branch| branch.root == root) else { continue };
        let parent = branch.parent.and_then(|parent| map.filters.get(&parent)?.branch.as_ref());
        let parent = parent.and_then(|parent| places.iter().find(|place| place.place == parent.place));
        places.push(Place {
            place: &branch.place,
            filter: &filter.name,
            parent: parent.map(|parent| parent.place),
            level: branch.level,
            fold: branch.fold,
            sites: sites(map, filter),
            capacity_events: capacity_events(&filter.definition),
            bytes: bytes(&filter.definition),
            expected_fpr: expected_fpr(&filter.definition, branch, parent),
        });
    }
    places
}

/// Returns the sites of the nodes that own the filter's slices.
fn sites<'a>(map: &'a ClusterMap, filter: &FilterRecord) -> BTreeSet<&'a str> {
    filter.owners.iter().filter_map(|owner| Some(map.nodes.get(&owner.node)?.site.as_str())).collect()
}

/// Returns the geometry of the cells and the growth of a filter that can be in a tree.
fn cells(definition: &CellDefinition) -> Option<(&Geometry, Option<&Growth>)> {
    Some((definition.geometry()?, definition.growth()))
}

fn capacity_events(definition: &SlicedDefinition) -> Option<u64> {
    let (_, growth) = cells(&definition.group.cells)?;
    let Growth { capacity_events, generations_max, .. } = growth?;
    Some(capacity_events.saturating_mul(u64::from(*generations_max)) * u64::from(definition.slicing.groups()))
}

/// Returns the maximum memory of the cells of a filter, in bytes.
pub(crate) fn bytes(definition: &SlicedDefinition) -> u64 {
    let of_slice = definition.slice().ok().and_then(|slice| {
        let (geometry, growth) = cells(&slice.cells)?;
        Some(geometry.bytes().saturating_mul(growth.map_or(1, |growth| growth.generations_max.into())))
    });
    of_slice.unwrap_or(0).saturating_mul(definition.slicing.slices().into())
}

fn expected_fpr(definition: &SlicedDefinition, branch: &Branch, parent: Option<&Place<'_>>) -> Option<f64> {
    capacity_events(definition)?;
    let own = definition.group.rate;
    match parent {
        None => Some(own),
        // An event that is recorded here is also recorded at the parent, in the same cells. This place therefore has no
        // false positive that the parent does not have.
        Some(parent) if parent.fold == branch.fold => parent.expected_fpr,
        Some(parent) => Some(1.0 - (1.0 - own) * (1.0 - parent.expected_fpr?)),
    }
}

/// Returns the places as a table for users.
pub(crate) fn table(places: &[Place<'_>]) -> String {
    let mut table = Table::new(&["place", "filter", "level", "fold", "room", "memory", "expected fpr", "sites"]);
    for place in places {
        table.row([
            format!("{:indent$}{}", "", place.place, indent = 2 * usize::from(place.level)),
            place.filter.to_owned(),
            place.level.to_string(),
            place.fold.to_string(),
            place.capacity_events.map_or_else(|| "-".to_owned(), grouped),
            ByteSize(place.bytes).to_string(),
            place.expected_fpr.map_or_else(|| "-".to_owned(), rate),
            place.sites.iter().copied().collect::<Vec<_>>().join(", "),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind, Layout, Window};
    use firstseen_routing::{CutOff, Epoch, FilterPolicies, Slicing, folded};

    use super::*;

    fn root() -> SlicedDefinition {
        let layout = Some(Layout::Classic);
        let spec =
            FilterSpec { capacity_events: Some(8_000), layout, ..FilterSpec::new(Kind::Bloom, Window::Unbounded) };
        SlicedDefinition::new(&spec, Slicing::NONE).unwrap()
    }

    /// Returns a map with one filter before the tree. The filters of the tree are numbered in order of their level.
    fn map() -> ClusterMap {
        let mut map = ClusterMap::default();
        let mut add = |number: u64, place: &str, parent: Option<u64>, level: u8, fold: u8| {
            let branch = Branch {
                root: FilterId(2),
                parent: parent.map(FilterId),
                level,
                fold,
                place: place.to_owned(),
                mode: TreeMode::Dense,
                cut_off: CutOff::default(),
                top_down: 0,
            };
            let record = FilterRecord {
                name: place.to_owned(),
                epoch: Epoch::FIRST,
                definition: folded(&root(), fold, Slicing::NONE).unwrap(),
                policies: FilterPolicies::default(),
                owners: Vec::new(),
                copies: Vec::new(),
                generations: Vec::new(),
                branch: (number > 1).then_some(branch),
                line: Default::default(),
            };
            map.filters.insert(FilterId(number), record);
        };
        add(1, "flat", None, 0, 0);
        add(2, "world", None, 0, 0);
        add(3, "greece", Some(2), 1, 1);
        add(4, "oslo", Some(2), 1, 0);
        add(5, "athens", Some(3), 2, 1);
        add(6, "ioannina", Some(3), 2, 3);
        map
    }

    #[test]
    fn places_stand_below_their_parents() {
        let map = map();
        let names: Vec<&str> = map.filters_in_order().iter().map(|(_, filter)| filter.name.as_str()).collect();
        assert_eq!(names, ["flat", "world", "greece", "athens", "ioannina", "oslo"]);
        let of = |root| places(&map, FilterId(root)).iter().map(|place| place.parent).collect::<Vec<_>>();
        assert_eq!(of(2), [None, Some("world"), Some("greece"), Some("greece"), Some("world")]);
        assert_eq!((of(1).len(), of(3).len()), (0, 0));
    }

    #[test]
    fn a_fold_takes_less_and_errs_more() {
        let map = map();
        let [world, greece, athens, ioannina, oslo] = &places(&map, FilterId(2))[..] else { panic!("five places") };
        assert_eq!(
            [world, greece, athens, ioannina, oslo].map(|it| it.capacity_events.unwrap() / 1_000),
            [8, 4, 4, 1, 8]
        );
        assert!(greece.bytes < world.bytes && world.bytes < 3 * greece.bytes, "{} {}", greece.bytes, world.bytes);
        let rates = [world, oslo, greece, athens, ioannina].map(|place| place.expected_fpr.unwrap());
        assert_eq!((rates[0], rates[1], rates[2]), (0.01, 0.01, rates[3]));
        assert!((rates[2] - 0.0199).abs() < 1e-9 && (rates[4] - 0.029_701).abs() < 1e-9, "{rates:?}");
        assert!(table(&[]).starts_with("place"));
    }
}
