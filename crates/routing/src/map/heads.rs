//! Who heads events: where each of them begins.
//!
//! Promises: the same for producers and nodes that have the same map. Must not know: cells, messages.

use std::borrow::Cow;
use std::ops::Range;

use firstseen_filter::Probes;

use super::cluster_map::{ClusterMap, FilterRecord, SliceOwner};
use crate::ids::NodeId;
use crate::plan::Prober;

/// The rule by which one node decides an event: of its places, in the order of its hash functions, the first that is not
/// gone.
#[inline]
pub(crate) fn head_place<P>(mut places: impl Iterator<Item = P>, is_gone: impl Fn(&P) -> bool) -> Option<P> {
    places.find(|place| !is_gone(place))
}

/// The heads of a filter's events: the node that is asked about the first of an event's slices that any node serves.
/// Where no node serves any, the node of the first slice: it says so.
pub struct Heads<'map> {
    /// By slice: the copy that is asked.
    owners: Cow<'map, [SliceOwner]>,
    /// By slice: whether the others go on without its copy; empty where that is so of none.
    gone: Vec<bool>,
}

impl<'map> Heads<'map> {
    /// The heads by `map`.
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

    /// The head of event `index` of these probes; none where the slice has no owner.
    #[inline]
    pub fn of(&self, prober: &Prober, group: u32, probes: &Probes, index: usize) -> Option<NodeId> {
        let mut slices = prober.slices(group, probes, index);
        let served = head_place(slices.clone(), |slice| self.is_gone(*slice)).or_else(|| slices.next())?;
        Some(self.owners.get(served as usize)?.node)
    }

    /// The heads of these events, which follow each other and have one group. Where one slice has all positions of an
    /// event, the first event speaks for all.
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

    /// Whether no node serves any of the slices of an event.
    pub fn are_gone(&self, prober: &Prober, group: u32, probes: &Probes, index: usize) -> bool {
        prober.slices(group, probes, index).all(|slice| self.is_gone(slice))
    }

    /// Whether the others go on without the copy that would be asked about slice `slice`.
    #[inline]
    pub fn is_gone(&self, slice: u32) -> bool {
        self.gone.get(slice as usize).copied().unwrap_or(false)
    }

    /// The copies that are asked, by slice.
    pub fn owners(&self) -> &[SliceOwner] {
        &self.owners
    }
}
