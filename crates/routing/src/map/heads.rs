//! Determines the head node of each event, which is the node that decides the event.
//!
//! Producers and nodes with the same cluster map determine the same head nodes. This module does not depend on cells or
//! messages.

use std::borrow::Cow;
use std::ops::Range;

use firstseen_filter::Probes;

use super::cluster_map::{ClusterMap, FilterRecord, SliceOwner};
use crate::ids::NodeId;
use crate::plan::Prober;

/// Returns the place that decides an event. A place is a slice or a node that holds some of the event's positions. The
/// result is `None` if `is_gone` is true for all places of the event.
///
/// `places` yields one place for each position, in the order of the event's hash functions, so the same place can occur
/// several times. The first place for which `is_gone` returns `false` decides the event.
#[inline]
pub(crate) fn head_place<P>(mut places: impl Iterator<Item = P>, is_gone: impl Fn(&P) -> bool) -> Option<P> {
    places.find(|place| !is_gone(place))
}

/// Head nodes of a filter's events. The head node of an event is the node that decides the event. It is the owner of
/// the first of the event's slices that is not gone. If all of the event's slices are gone, the head node is the owner
/// of the first slice, and that node rejects the event.
pub struct Heads<'map> {
    /// Copy that is asked about each slice.
    owners: Cow<'map, [SliceOwner]>,
    /// Whether the cluster continues without the copy of each slice. The list is empty if no copy is gone.
    gone: Vec<bool>,
}

impl<'map> Heads<'map> {
    /// Determines the head nodes according to `map`.
    pub fn new(map: &ClusterMap, filter: &'map FilterRecord) -> Self {
        let owners = if filter.copies.is_empty() {
            Cow::Borrowed(&filter.owners[..])
        } else {
            Cow::Owned((0..filter.owners.len() as u32).filter_map(|slice| map.asked(filter, slice)).collect())
        };
        let mut gone = Vec::new();
        if filter.all_copies().any(|(_, copy)| map.is_gone(copy)) {
            let slicing = filter.definition.slicing;
            let by_slice = (0..).zip(owners.iter());
            gone.extend(by_slice.map(|(slice, owner)| map.is_gone_from(filter, slicing.group_of(slice), owner.node)));
        }
        Self { owners, gone }
    }

    /// Returns the head of event `index` of these probes, or `None` if the slice has no owner.
    #[inline]
    pub fn of(&self, prober: &Prober, group: u32, probes: &Probes, index: usize) -> Option<NodeId> {
        let mut slices = prober.slices(group, probes, index);
        let served = head_place(slices.clone(), |slice| self.is_gone(*slice)).or_else(|| slices.next())?;
        Some(self.owners.get(served as usize)?.node)
    }

    /// Returns the head nodes of consecutive events that belong to the same slice group. The head node of an event is
    /// the node that decides the event.
    ///
    /// If the positions of an event are spread over several slices, events of a group can have different head nodes,
    /// and the result has one entry for each event. If one slice holds all positions of an event, all events of the
    /// group have the same head node, and the result has a single entry.
    #[inline]
    pub fn of_run(
        &self,
        prober: &Prober,
        group: u32,
        probes: &Probes,
        events: Range<usize>,
    ) -> impl Iterator<Item = Option<NodeId>> {
        let events = if prober.divides() { events } else { events.start..events.start + 1 };
        events.map(move |index| self.of(prober, group, probes, index))
    }

    /// Returns whether no node has any of the event's slices.
    pub fn are_gone(&self, prober: &Prober, group: u32, probes: &Probes, index: usize) -> bool {
        prober.slices(group, probes, index).all(|slice| self.is_gone(slice))
    }

    /// Returns whether the copy that would be asked about slice `slice` is gone, so that the cluster continues without
    /// it.
    #[inline]
    pub fn is_gone(&self, slice: u32) -> bool {
        self.gone.get(slice as usize).copied().unwrap_or(false)
    }

    /// Returns the copy that is asked about each slice.
    pub fn owners(&self) -> &[SliceOwner] {
        &self.owners
    }
}
