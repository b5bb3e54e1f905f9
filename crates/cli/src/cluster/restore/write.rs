//! Executes a restore in three steps:
//!
//! - The restore creates the filters under temporary names, which no producer uses.
//! - It writes the cells of the filters from the backup.
//! - It gives the filters their real names.
//!
//! The restore fails if a node restarts before all steps are complete, because the node may have lost cells that the
//! restore had already written to it. A restore that fails drops the filters that it has created, so no incomplete
//! filter remains.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use firstseen_node::restoring_name;
use firstseen_routing::{ClusterMap, FilterId, FilterRecord, NodeId};
use firstseen_wire::map as wire_map;
use firstseen_wire::proto::admin::{
    DropFilterRequest, FinishRestoreRequest, ForgiveFilterRequest, RestoreFilterRequest, RestoredFilter,
};

use super::plan::Plan;
use crate::cluster::backup::{Backup, pieces};
use crate::cluster::connect::{Operator, fresh_id};
use crate::cluster::status;
use crate::terminal::progress::Progress;

/// A restore in progress.
pub(super) struct Restoring<'a> {
    member: &'a Operator,
    backup: &'a Backup,
    map: &'a ClusterMap,
    nodes: BTreeMap<NodeId, Operator>,
    /// Filters and roots that were created, with their temporary names.
    made: Vec<(FilterId, String)>,
    progress: Option<Progress>,
    done_bytes: u64,
}

/// A filter that was created and has no cells yet.
struct Begun {
    /// Number of the filter in the backup.
    former: FilterId,
    filter: FilterId,
    record: FilterRecord,
}

impl<'a> Restoring<'a> {
    pub(super) fn new(member: &'a Operator, backup: &'a Backup, map: &'a ClusterMap) -> Self {
        Self { member, backup, map, nodes: BTreeMap::new(), made: Vec::new(), progress: None, done_bytes: 0 }
    }

    /// Executes the whole plan. Returns the filters whose missing events could not be given up, and why.
    ///
    /// # Errors
    /// Returns the errors of the cluster, or an error if a node was restarted during the restore.
    pub(super) async fn carry_out(&mut self, plan: &Plan) -> anyhow::Result<Vec<String>> {
        let mut begun = Vec::new();
        for tree in &plan.trees {
            begun.extend(self.begin(tree).await?);
        }
        let mut total_bytes = 0;
        for Begun { former, record, .. } in &begun {
            for slice in 0..record.owners.len() as u32 {
                if let Some((_, entry)) = self.backup.cells_of(former.0, slice) {
                    total_bytes += entry.bytes * record.copies_of(slice).count() as u64;
                }
            }
        }
        self.progress = Some(Progress::new(Some(total_bytes), false));
        for filter in &begun {
            for slice in 0..filter.record.owners.len() as u32 {
                for copy in filter.record.copies_of(slice) {
                    self.write(filter, slice, copy.node).await?;
                }
            }
        }
        self.check_starts().await?;
        let not_forgiven = self.forgive(plan).await;
        // Data that a node loses after this check must not be forgiven together with the rest. If a node was restarted
        // before the check, the restore fails. If it restarts afterwards, its slices count as incomplete.
        self.check_starts().await?;
        while let Some((filter, name)) = self.made.first().cloned() {
            let request = FinishRestoreRequest { command_id: fresh_id().into(), filter_id: filter.0 };
            let finished = self.member.call(async |mut client| client.finish_restore(request.clone()).await).await;
            finished.with_context(|| format!("{name} has its cells, but could not be renamed"))?;
            self.made.remove(0);
        }
        Ok(not_forgiven)
    }

    /// Sends a forgive request for each restored filter that may report lost events as first-seen again. The lost
    /// events of a restored filter are the events that were recorded after the backup began. The operator has agreed to
    /// this before the restore. Returns a message for each filter whose request failed.
    async fn forgive(&self, plan: &Plan) -> Vec<String> {
        let mut not_forgiven = Vec::new();
        for name in plan.decided() {
            let request = ForgiveFilterRequest { command_id: fresh_id().into(), name: restoring_name(name) };
            let forgiven = self.member.call(async |mut client| client.forgive_filter(request.clone()).await).await;
            if let Err(error) = forgiven {
                not_forgiven.push(format!(
                    "filter {name} is restored, but events that are not in the backup are undecided ({error:#}): solve \
                     this problem, then run {}",
                    plan.forgive(name)
                ));
            }
        }
        not_forgiven
    }

    /// Creates a filter or a tree.
    async fn begin(&mut self, tree: &[(FilterId, FilterRecord, Vec<String>)]) -> anyhow::Result<Vec<Begun>> {
        let Some((root, record, _)) = tree.first() else { return Ok(Vec::new()) };
        let filters = tree.iter().map(|(filter, record, sites)| RestoredFilter {
            filter: Some(wire_map::filter_message(*filter, record)),
            sites: sites.clone(),
        });
        let request = RestoreFilterRequest {
            command_id: fresh_id().into(),
            filters: filters.collect(),
            secret: self.backup.metadata.secret(*root)?.into(),
        };
        let reply = self.member.call(async |mut client| client.restore_filter(request.clone()).await).await;
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                // The filter may have been created although the request failed, for example if a node cannot hold its
                // slices.
                self.find_made(&record.name).await;
                return Err(error.context(format!("filter {} cannot be restored", record.name)));
            }
        };
        let made = reply.filters.into_iter().map(wire_map::filter_record).collect::<Result<Vec<_>, _>>()?;
        let Some((filter, record)) = made.first() else { bail!("the node has restored nothing") };
        self.made.push((*filter, record.name.clone()));
        if made.len() != tree.len() {
            bail!("filter {} has {} levels instead of {}", record.name, made.len(), tree.len());
        }
        let formers = tree.iter().map(|(former, ..)| *former);
        Ok(formers.zip(made).map(|(former, (filter, record))| Begun { former, filter, record }).collect())
    }

    /// Notes a filter that was created although the request failed.
    async fn find_made(&mut self, name: &str) {
        let Ok(now) = status::ask(self.member).await else { return };
        let made = now
            .map
            .filters
            .iter()
            .find(|(filter, record)| !self.map.filters.contains_key(filter) && record.name == restoring_name(name));
        self.made.extend(made.map(|(filter, record)| (*filter, record.name.clone())));
    }

    fn operator(&mut self, node: NodeId) -> anyhow::Result<Operator> {
        let Self { nodes, member, map, .. } = self;
        let record = map.nodes.get(&node).with_context(|| format!("node {node} is new: run it again"))?;
        Ok(nodes.entry(node).or_insert_with(|| member.at(&record.address)).clone())
    }

    /// Sends the cells of a slice to a node.
    async fn write(
        &mut self,
        Begun { former, filter, record }: &Begun,
        slice: u32,
        node: NodeId,
    ) -> anyhow::Result<()> {
        let Some((path, entry)) = self.backup.cells_of(former.0, slice) else { return Ok(()) };
        let operator = self.operator(node)?;
        let per_group = record.definition.slicing.slices_per_group().max(1);
        let start = self.map.nodes.get(&node).map_or(0, |node| node.incarnation.0);
        let (mut pieces, reading) = pieces(path);
        while let Some(mut piece) = pieces.recv().await {
            piece.filter_id = filter.0;
            piece.filter_epoch = record.epoch.0;
            piece.group = slice / per_group;
            piece.slice = slice % per_group;
            let reply = operator.call(async |mut client| client.write_cells(piece.clone()).await).await?;
            if reply.incarnation != start {
                bail!("{}", started_again(self.map, node));
            }
        }
        reading.await.context("the thread that reads has ended")??;
        self.done_bytes += entry.bytes;
        if let Some(progress) = &self.progress {
            progress.at(self.done_bytes, || format!("{} {slice}", record.name));
        }
        Ok(())
    }

    /// Checks that no node was restarted, because such a node has lost its data in memory.
    async fn check_starts(&self) -> anyhow::Result<()> {
        let now = status::ask(self.member).await?.map;
        for (id, before) in &self.map.nodes {
            let is_same = now
                .nodes
                .get(id)
                .is_some_and(|node| node.incarnation == before.incarnation && node.is_down == before.is_down);
            if !is_same {
                bail!("{}", started_again(self.map, *id));
            }
        }
        Ok(())
    }

    /// Removes the progress bar.
    pub(super) fn progress_ends(&mut self) {
        if let Some(progress) = self.progress.take() {
            progress.end();
        }
    }

    /// Drops the filters that were created, and returns a message about the result.
    pub(super) async fn undo(&mut self) -> String {
        let mut left = Vec::new();
        for (_, name) in std::mem::take(&mut self.made) {
            let request = DropFilterRequest { command_id: fresh_id().into(), name: name.clone() };
            if self.member.call(async |mut client| client.drop_filter(request.clone()).await).await.is_err() {
                left.push(name);
            }
        }
        if left.is_empty() {
            "the restore has failed, and the filters that it had created are dropped".to_owned()
        } else {
            format!("the restore has failed, and these filters are left: drop {}", left.join(", "))
        }
    }
}

fn started_again(map: &ClusterMap, node: NodeId) -> String {
    let name = map.node_name(node);
    format!("node {name} was down or started again meanwhile, and may have lost cells: run the restore again")
}
