//! Nodes of a filter or of a tree, as experiments ask them.
//!
//! Every slice of a filter, or every filter of a tree, is on its own node. Experiments should measure only the
//! decisions of the nodes, so nothing disturbs the nodes: messages arrive in the order in which they were sent, no
//! message is lost, and the clocks do not advance.
//!
//! This module does not depend on how nodes are connected or on what is measured.

use std::collections::BTreeMap;

use firstseen_filter::Digest;
use firstseen_mesh::{GroupInstance, Mesh, Order, ROOT, filter_map, plain_submission, tree_map};
use firstseen_routing::{
    ClusterMap, Command, Decision, FilterId, FilterPolicies, GroupOwner, GroupReply, HopCounts, Moment, MonotonicMs,
    NodeId, Operation, OwnerLimits, Reason, Seen, SlicedDefinition, TreeSpec,
};

use crate::experiment::EvalError;

/// Number of events that are in flight at once.
const BATCH_EVENTS: usize = 4096;
const NOW: Moment = Moment { monotonic_ms: MonotonicMs(1), wall_ms: 1 };

/// All nodes of a filter or tree, and their replies.
pub(crate) struct Nodes {
    experiment: &'static str,
    mesh: Mesh,
    /// Replies, by the number of the batch.
    replies: BTreeMap<u64, GroupReply>,
    asked: u64,
}

impl Nodes {
    /// Creates nodes for the slices of a filter, one node per slice.
    pub(crate) fn of_slices(
        experiment: &'static str,
        definition: &SlicedDefinition,
        policies: FilterPolicies,
    ) -> Result<Self, EvalError> {
        let owners: Vec<NodeId> = (0..definition.slicing.slices()).map(node_of).collect();
        Self::new(experiment, filter_map(ROOT, definition, policies, &owners))
    }

    /// Creates one node for each filter of a tree. The filters are not sliced. Returns the nodes together with the ids
    /// of the filters, in the order of `tree`.
    pub(crate) fn of_tree(
        experiment: &'static str,
        definition: &SlicedDefinition,
        tree: &TreeSpec,
    ) -> Result<(Self, Vec<FilterId>), EvalError> {
        let map = tree_map(tree, definition, FilterPolicies::default())?;
        let filters = tree.places.iter().filter_map(|place| map.filter_named(&place.name));
        let filters = filters.map(|(filter, _)| filter).collect();
        Ok((Self::new(experiment, map)?, filters))
    }

    fn new(experiment: &'static str, map: ClusterMap) -> Result<Self, EvalError> {
        let mesh = Mesh::new(map, OwnerLimits::default(), Order::All, NOW)?;
        Ok(Self { experiment, mesh, replies: BTreeMap::new(), asked: 0 })
    }

    /// Restarts the nodes of the given slices with empty memory. The nodes can be asked afterwards, but their slices
    /// are incomplete.
    pub(crate) fn lose(&mut self, slices: impl IntoIterator<Item = u32>) -> Result<(), EvalError> {
        self.mesh.restart(&slices.into_iter().map(node_of).collect())?;
        let map = self.mesh.map_mut();
        map.version += 1;
        map.filters.values_mut().for_each(|filter| filter.epoch.rise());
        let map = map.clone();
        self.mesh
            .instances()
            .into_iter()
            .for_each(|instance| self.command(instance, |owner| owner.map_changed(&map, NOW)));
        self.deliver_all();
        Ok(())
    }

    /// Sends events to a filter of the tree, or to the filter itself, and returns the verdicts.
    pub(crate) fn ask(
        &mut self,
        place: FilterId,
        digests: &[Digest],
        operation: Operation,
    ) -> Result<Vec<Decision>, EvalError> {
        let mut decisions = Vec::with_capacity(digests.len());
        for batch in digests.chunks(BATCH_EVENTS) {
            decisions.extend(self.ask_batch(place, batch, operation)?.into_iter().map(|(decision, _)| decision));
        }
        Ok(decisions)
    }

    /// Observes one event at a filter of the tree. Returns its verdict and, for a duplicate, the level at which it was
    /// found.
    pub(crate) fn observe(&mut self, place: FilterId, digest: Digest) -> Result<(Decision, u8), EvalError> {
        let verdicts = self.ask_batch(place, &[digest], Operation::Observe)?;
        Ok(verdicts.first().map_or((Decision::FirstSeen, 0), |(decision, seen)| (*decision, seen.level)))
    }

    /// Returns the counts of the nodes of each level of the tree, from the root down.
    pub(crate) fn hops(&mut self) -> Vec<HopCounts> {
        self.mesh.hops()
    }

    /// Sends events to the filter itself, and returns the verdicts as [`Self::ask`] does.
    pub(crate) fn ask_filter(&mut self, digests: &[Digest], operation: Operation) -> Result<Vec<Decision>, EvalError> {
        self.ask(ROOT, digests, operation)
    }

    fn ask_batch(
        &mut self,
        place: FilterId,
        digests: &[Digest],
        operation: Operation,
    ) -> Result<Vec<(Decision, Seen)>, EvalError> {
        let mut by_head: BTreeMap<GroupInstance, Vec<usize>> = BTreeMap::new();
        for (index, digest) in digests.iter().enumerate() {
            let Some(head) = self.mesh.head_of(place, *digest) else {
                let answer = format!("no filter {place}");
                return Err(EvalError::Answer { experiment: self.experiment, answer });
            };
            by_head.entry(head).or_default().push(index);
        }
        let mut asked = Vec::new();
        for (head, indices) in by_head {
            let own: Vec<Digest> = indices.iter().map(|index| digests[*index]).collect();
            self.asked += 1;
            let submission = plain_submission(self.asked, operation, self.mesh.probes(place, &own));
            self.command(head, |owner| owner.submit(submission, NOW));
            asked.push((self.asked, indices));
        }
        self.deliver_all();
        let mut verdicts = vec![(Decision::Undecided(Reason::Unknown), Seen::default()); digests.len()];
        for (number, indices) in asked {
            let Some(GroupReply { answers, .. }) = self.replies.remove(&number) else { continue };
            let (decisions, seen) = answers.into_verdicts();
            let seen = seen.into_iter().chain(std::iter::repeat(Seen::default()));
            let verdicts_here = decisions.into_iter().zip(seen);
            indices.into_iter().zip(verdicts_here).for_each(|(index, here)| verdicts[index] = here);
        }
        match verdicts.iter().find(|(decision, _)| !matches!(decision, Decision::FirstSeen | Decision::Duplicate)) {
            Some((other, _)) => Err(EvalError::Answer { experiment: self.experiment, answer: format!("{other:?}") }),
            None => Ok(verdicts),
        }
    }

    fn command(&mut self, instance: GroupInstance, run: impl FnOnce(&mut GroupOwner)) {
        self.mesh.input(instance, run);
        self.execute(instance);
    }

    fn execute(&mut self, instance: GroupInstance) {
        for command in self.mesh.take_commands(instance) {
            // The reply includes early duplicates. The experiments never open a generation, and no slice becomes
            // complete again.
            if let Some(Command::Reply(reply)) = self.mesh.execute(instance, command) {
                self.replies.insert(reply.reply_to, reply);
            }
        }
    }

    fn deliver_all(&mut self) {
        while let Some(way) = self.mesh.links_mut().take_first() {
            self.mesh.deliver(way).into_iter().for_each(|instance| self.execute(instance));
        }
    }
}

/// Returns the node of a slice.
fn node_of(slice: u32) -> NodeId {
    NodeId(1 + u64::from(slice))
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSecret, Kind, Window};
    use firstseen_routing::{Answer, CutOff, PlaceSpec, SlicedFilter, Thresholds, TreeMode, WhenLost};

    use super::*;
    use crate::measure::shaped;

    const EVENTS: u64 = 2_000;

    fn digests(from: u64) -> Vec<Digest> {
        (from..from + EVENTS).map(|key| FilterSecret::from_seed(3).digest(&key.to_le_bytes())).collect()
    }

    fn definition(slicing: &str) -> SlicedDefinition {
        let spec = shaped(Kind::Bloom, Window::Unbounded, 5 * EVENTS, 4);
        SlicedDefinition::new(&spec, slicing.parse().unwrap()).unwrap()
    }

    #[test]
    fn nodes_decide_as_the_filter_in_one_piece() {
        for slicing in ["horizontal:6", "vertical:6", "horizontal-vertical:2x3", "vertical-horizontal:3x2"] {
            let definition = definition(slicing);
            let mut nodes = Nodes::of_slices("none", &definition, FilterPolicies::default()).unwrap();
            let mut whole = SlicedFilter::build(&definition).unwrap();
            for from in [0, EVENTS / 2, 2 * EVENTS] {
                let digests = digests(from);
                let mut answers = vec![Answer::Undecided; digests.len()];
                whole.observe_batch(&digests, &[], &mut answers);
                for (digest, answer) in digests.into_iter().zip(answers) {
                    // Events are sent one at a time, because events that are in flight at once may be decided in any
                    // order.
                    let verdicts = nodes.ask_filter(&[digest], Operation::Observe).unwrap();
                    assert_eq!(verdicts[0] == Decision::FirstSeen, answer == Answer::FirstSeen, "{slicing}");
                }
            }
        }
    }

    #[test]
    fn events_that_all_nodes_have_lost_get_the_verdict_of_the_policy() {
        for slicing in ["horizontal:4", "vertical:4"] {
            for (when_lost, verdict) in
                [(WhenLost::Duplicate, Decision::Duplicate), (WhenLost::FirstSeen, Decision::FirstSeen)]
            {
                let thresholds = Thresholds { min_live: 1, set_min: 0 };
                let policies = FilterPolicies { when_lost, thresholds, ..FilterPolicies::default() };
                let mut nodes = Nodes::of_slices("none", &definition(slicing), policies).unwrap();
                nodes.ask_filter(&digests(0), Operation::Observe).unwrap();
                nodes.lose(0..4).unwrap();
                let after = nodes.ask_filter(&digests(0), Operation::Lookup).unwrap();
                assert!(after.iter().all(|decision| *decision == verdict), "{slicing}, {when_lost:?}");
            }
        }
    }

    #[test]
    fn levels_decide_as_one_filter_and_name_the_level_that_found() {
        let place = |name: &str, parent: Option<&str>| PlaceSpec {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            fold: 0,
            slicing: None,
            sites: vec![if parent.is_none() { "a" } else { name }.to_owned()],
        };
        for mode in [TreeMode::Dense, TreeMode::Sparse] {
            let places = vec![place("root", None), place("a", Some("root")), place("b", Some("root"))];
            let tree = TreeSpec { mode, cut_off: CutOff::Undecided, top_down: 0, places };
            let (mut nodes, filters) = Nodes::of_tree("none", &definition("none"), &tree).unwrap();
            let mut one = SlicedFilter::build(&definition("none")).unwrap();
            let mut found = [0, 0];
            for (turn, digest) in [digests(0), digests(EVENTS / 2)].concat().into_iter().enumerate() {
                let (decision, level) = nodes.observe(filters[1 + turn / 3 % 2], digest).unwrap();
                let mut answer = [Answer::Undecided];
                one.observe_batch(&[digest], &[], &mut answer);
                assert_eq!(decision, answer[0].into(), "{mode:?}, {turn}");
                found[usize::from(level)] += u64::from(decision == Decision::Duplicate);
            }
            let (hops, events) = (nodes.hops(), 2 * EVENTS);
            let delivered = events - found[0] - found[1];
            assert!(found[0] > 100 && found[1] > 100, "{mode:?}: {found:?}");
            assert_eq!([hops[0].tests, hops[1].tests], [events - found[1], events], "{mode:?}");
            let set_below = if mode == TreeMode::Dense { events - found[1] } else { delivered };
            assert_eq!([hops[0].sets, hops[1].sets], [delivered, set_below], "{mode:?}");
        }
    }
}
