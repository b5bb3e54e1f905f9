//! Implements `firstseen filter forgive`, which tells a cluster to treat the events that slices have lost as if these
//! events had never occurred. Such an event may then be reported as first-seen a second time, so the command first asks
//! the user for confirmation.
//!
//! The confirmation prompt lists every filter that the command affects, and states how many slices of the filter have
//! lost events. In addition to the named filter, the command affects two kinds of filters:
//!
//! - If the named filter is being altered, its predecessor is affected too.
//! - If the named filter is the root of a tree, the filters of all levels of the tree are affected too.

use std::io::Write;

use firstseen_routing::{ClusterMap, FilterId, FilterRecord};
use firstseen_wire::proto::admin::ForgiveFilterRequest;

use super::{ConfirmedArgs, agreed, find};
use crate::cluster;
use crate::cluster::connect::{Operator, fresh_id};

/// Lost slices of one filter.
#[derive(Debug, PartialEq, Eq)]
struct Losses {
    /// Name of the filter, or its relation to the filter that the user named.
    name: String,
    slices: usize,
    /// Number of slices without a complete copy.
    lost: usize,
    /// Number of these slices whose copies are only on nodes that are down or cannot hold them.
    away: usize,
}

impl Losses {
    fn of(map: &ClusterMap, name: String, filter: &FilterRecord) -> Self {
        let lost = (0..filter.owners.len() as u32).filter(|slice| !map.is_complete(filter, *slice));
        let (away, near): (Vec<_>, Vec<_>) =
            lost.partition(|slice| filter.copies_of(*slice).all(|copy| map.is_gone(copy)));
        Self { name, slices: filter.owners.len(), lost: away.len() + near.len(), away: away.len() }
    }

    fn text(&self) -> String {
        format!("{}: {} of {} slices have lost something", self.name, self.lost, self.slices)
    }
}

/// Returns the filters that are forgiven together with `filter`, which comes first.
fn losses(map: &ClusterMap, filter: FilterId) -> Vec<Losses> {
    let mut losses = Vec::new();
    for (id, record) in &map.filters {
        let is_below = record.branch.as_ref().is_some_and(|branch| branch.root == filter && *id != filter);
        if *id == filter {
            losses.insert(0, Losses::of(map, format!("filter {}", record.name), record));
        } else if is_below {
            losses.push(Losses::of(map, format!("its level {}", record.name), record));
        }
    }
    if let Some((_, former)) = map.former_of(filter) {
        let name = "the former filter, which an alteration has closed and which is asked first".to_owned();
        losses.push(Losses::of(map, name, former));
    }
    losses
}

/// Runs the command.
///
/// # Errors
/// Returns the errors of the cluster, or an error if the operator does not confirm.
pub(super) async fn run(args: &ConfirmedArgs, operator: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    let name = &args.name;
    let map = cluster::status::ask(operator).await?.map;
    let (id, _) = find(&map, name)?;
    let losses = losses(&map, id);
    for filter in &losses {
        writeln!(out, "{}", filter.text())?;
    }
    // With --yes the request is always sent. Nodes know exactly what they have lost, and the operator may know more
    // than the cluster map.
    if !args.yes && losses.iter().all(|filter| filter.lost == 0) {
        writeln!(out, "filter {name}: there is nothing to forgive")?;
        return Ok(());
    }
    out.flush()?;
    agreed(
        args.yes,
        &format!("filter `{name}`: events that these slices have lost are first-seen again, and no longer waited for"),
    )?;
    let request = ForgiveFilterRequest { command_id: fresh_id().into(), name: name.to_owned() };
    operator.call(async |mut client| client.forgive_filter(request.clone()).await).await?;
    let slices: usize = losses.iter().map(|it| it.slices).sum();
    let lost: usize = losses.iter().map(|it| it.lost).sum();
    let away: usize = losses.iter().map(|it| it.away).sum();
    writeln!(out, "filter {name}: {} of {slices} slices are forgiven what they have lost", lost - away)?;
    if away > 0 {
        writeln!(
            out,
            "{away} more are on nodes that are down, or cannot hold them: start these, or, where they are lost for good, drain \
             them (firstseen cluster drain); then forgive again"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind, Window};
    use firstseen_routing::{
        Epoch, FilterHistory, FilterPolicies, Incarnation, NodeId, NodeRecord, SliceOwner, SlicedDefinition, Slicing,
    };

    use super::*;

    fn filter(slices: u32, complete_since: u64) -> FilterRecord {
        let spec = FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Bloom, Window::Unbounded) };
        let complete_since = Incarnation(complete_since);
        let owner = SliceOwner { node: NodeId(1), complete_since, has_gap: false, missing_in: None };
        FilterRecord {
            name: "clicks".to_owned(),
            epoch: Epoch::FIRST,
            definition: SlicedDefinition::new(&spec, Slicing::NONE).unwrap(),
            policies: FilterPolicies::default(),
            owners: vec![owner; slices as usize],
            copies: Vec::new(),
            generations: Vec::new(),
            branch: None,
            line: FilterHistory::default(),
        }
    }

    /// Tests that the predecessor of an altered filter is included when its lost events are forgiven. In this test, a
    /// cluster of one node is restarted during an alteration. The predecessor existed before the restart and lost all
    /// its slices. The new filter, which has the same name, was created after the restart and has lost nothing.
    #[test]
    fn the_former_filter_of_an_alteration_is_counted() {
        let mut map = ClusterMap::default();
        let node = NodeRecord {
            name: "a".to_owned(),
            site: String::new(),
            address: String::new(),
            incarnation: Incarnation(2),
            memory_bytes: 0,
            voter: true,
            is_down: false,
        };
        map.nodes.insert(NodeId(1), node);
        map.filters.insert(FilterId(1), filter(3, 1));
        let line = FilterHistory { origin: Some(FilterId(1)), former: Some(FilterId(1)), closed: None };
        map.filters.insert(FilterId(2), FilterRecord { line, ..filter(2, 2) });
        let found = losses(&map, FilterId(2));
        assert_eq!(found.iter().map(|it| (it.slices, it.lost, it.away)).collect::<Vec<_>>(), [(2, 0, 0), (3, 3, 0)]);
        assert!(found[1].text().contains("former filter") && found[1].text().contains("3 of 3"), "{found:?}");
        map.nodes.get_mut(&NodeId(1)).unwrap().is_down = true;
        assert_eq!(losses(&map, FilterId(2))[1].away, 3);
    }
}
