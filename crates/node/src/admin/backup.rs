//! The part of the Admin service that reads cells for a backup, and restores filters from a backup.
//!
//! # Guarantees
//! - A backup receives the same cells that another copy of the slice would receive. It also learns from the owner
//!   whether the slice is complete.
//! - Cells are written only to filters that no client can query yet.
//! - A part of the cells is acknowledged only after it has been persisted as the durability of the filter requires.
//!
//! This module does not depend on backup files or on the meaning of cells.

use firstseen_meta::{Change, NewRestore, Outcome, RestoredPlace, is_restoring};
use firstseen_routing::{BackupCells, Epoch, FilterId, FilterRecord, SecretMaterial};
use firstseen_wire::cells::{self, CellsOf};
use firstseen_wire::limits::FILTERS_MAX;
use firstseen_wire::map as wire_map;
use firstseen_wire::proto::admin::{
    ReadCellsReply, RestoreFilterReply, RestoreFilterRequest, RestoredFilter, WriteCellsReply,
};
use firstseen_wire::proto::peer;
use firstseen_wire::status::ErrorKind;
use tonic::Status;

use super::skew::keeps_for_other_clocks;
use super::{APPLY_MAX, AdminService, exactly, invalid};
use crate::authenticated_caller::AuthenticatedCaller;
use crate::group_key::GroupKey;
use crate::view::GroupFault;

impl AdminService {
    /// Returns cells of a slice on this node.
    pub(super) async fn cells_for_backup(&self, asked: &peer::AskCells) -> Result<ReadCellsReply, Status> {
        let key = GroupKey { filter: FilterId(asked.filter_id), group: asked.group };
        let GroupKey { filter, group } = key;
        let record = self.record_at(filter, Epoch(asked.filter_epoch))?;
        let ask = cells::decode_ask(asked);
        let cells = self.owners.read_cells(key, ask).await;
        let Some(BackupCells { parts, is_complete }) = cells else {
            let view = self.views.newest();
            let node = &self.config.name;
            let slice = asked.slice;
            let why = view.fault_at(key).map_or_else(String::new, |reason| format!(": {reason}"));
            let what = format!("node {node} does not have the cells of slice {slice} of group {group}{why}");
            return Err(ErrorKind::NotNow.status(what));
        };
        let of = CellsOf { filter, epoch: record.epoch, group };
        let cells = cells::encode(of, &parts).map_err(|error| ErrorKind::Internal.status(error))?;
        Ok(ReadCellsReply { cells: Some(cells), complete: is_complete })
    }

    /// Creates an empty filter from the definition in a backup, so that the backup's cells can be written into it
    /// afterwards. If the backup contains a filter tree, this method creates the filters of all its levels. The method
    /// returns when the owner threads of this node have created their slices, so cells can be written at once.
    pub(super) async fn begin_restore(
        &self,
        guest: &AuthenticatedCaller,
        request: RestoreFilterRequest,
    ) -> Result<RestoreFilterReply, Status> {
        // The first filter is the root of a tree. The other levels have the same name, so checking the rights on the
        // root is enough.
        let first = request.filters.first().and_then(|first| first.filter.as_ref());
        self.must_for(guest, first.map_or("", |first| &first.name))?;
        let id = request.command_id.clone();
        let secret = SecretMaterial(exactly("secret", &request.secret)?);
        if request.filters.len() > FILTERS_MAX {
            return Err(invalid(format!("at most {FILTERS_MAX} filters can be restored at once")));
        }
        let places = request.filters.into_iter().map(restored_place).collect::<Result<Vec<_>, Status>>()?;
        let skew_max_ms = self.config.timing.clock_skew_max_ms;
        for RestoredPlace { record, .. } in &places {
            keeps_for_other_clocks(&record.name, &record.definition, record.policies.clock, skew_max_ms)?;
        }
        let levels = places.len() as u64;
        let change = Change::RestoreFilter(NewRestore { places, secret });
        let outcome = self.propose(guest, &id, change).await?;
        let Outcome::FilterCreated { filter: root, .. } = outcome else {
            return Err(
                ErrorKind::Internal.status(format!("restoring a filter ended with the unexpected outcome {outcome:?}"))
            );
        };
        let own: Vec<FilterId> = (root.0..root.0 + levels).map(FilterId).collect();
        self.applied(|view| own.iter().all(|filter| view.map.filters.contains_key(filter))).await?;
        let view = self.views.newest();
        if let Some(GroupFault { key, reason, .. }) = own.iter().find_map(|filter| view.fault_of(*filter)) {
            let node = &self.config.name;
            let group = key.group;
            let name = view.map.filters.get(&key.filter).map_or("?", |record| &record.name);
            let what = format!(
                "node {node} cannot hold slice group {group} of `{name}`: {reason}. Solve that problem and restore \
                 again"
            );
            return Err(ErrorKind::NotNow.status(what));
        }
        let restored = own.iter().filter_map(|filter| view.map.filters.get_key_value(filter));
        Ok(RestoreFilterReply {
            filters: restored.map(|(filter, record)| wire_map::filter_message(*filter, record)).collect(),
        })
    }

    /// Writes cells to a slice of a filter that is being restored.
    pub(super) async fn take_cells(&self, message: &peer::Cells) -> Result<WriteCellsReply, Status> {
        let key = GroupKey { filter: FilterId(message.filter_id), group: message.group };
        let group = key.group;
        let record = self.record_at(key.filter, Epoch(message.filter_epoch))?;
        if !is_restoring(&record.name) {
            let name = &record.name;
            return Err(ErrorKind::NotNow
                .status(format!("filter `{name}` is in use: cells of a backup cannot be written to it")));
        }
        let parts = cells::decode(message).map_err(invalid)?;
        let Some(me) = self.views.newest().me else {
            return Err(ErrorKind::Unavailable.status("this node has not started yet"));
        };
        let records = self.owners.write_cells(key, parts).await.map_err(|reason| {
            let view = self.views.newest();
            // If the slice group is not on this node, the view knows a more precise reason.
            let reason = view.fault_at(key).unwrap_or(&reason);
            let node = &self.config.name;
            let slice = message.slice;
            let what = format!("cells of slice {slice} of group {group} of `{}` on node {node}: {reason}", record.name);
            ErrorKind::NotNow.status(what)
        })?;
        let mut synced = self.keeper.watch_synced();
        let kept = tokio::time::timeout(APPLY_MAX, synced.wait_for(|synced| *synced >= records)).await;
        if !kept.is_ok_and(|kept| kept.is_ok()) {
            let late = "the disk of the journal is full or slow: the cells have not been stored yet";
            return Err(ErrorKind::Unavailable.status(late));
        }
        Ok(WriteCellsReply { incarnation: me.incarnation.0 })
    }

    /// Returns the record that describes a filter in this node's cluster map. The epoch of a filter is a number that
    /// increases when its slices are placed on other nodes. `epoch` is the epoch that the caller knows. If this node's
    /// map contains only an older epoch, the map is outdated, and the returned error asks the caller to try again.
    fn record_at(&self, filter: FilterId, epoch: Epoch) -> Result<FilterRecord, Status> {
        let view = self.views.newest();
        match view.map.filters.get(&filter) {
            Some(record) if record.epoch >= epoch => Ok(record.clone()),
            None if filter < view.map.next_filter => {
                Err(ErrorKind::NotFound.status(format!("filter {filter} has been dropped")))
            }
            _ => Err(ErrorKind::Unavailable.status("this node's map is behind: try again")),
        }
    }
}

/// Returns the record of the filter to restore, together with its sites.
fn restored_place(RestoredFilter { filter, sites }: RestoredFilter) -> Result<RestoredPlace, Status> {
    let filter = filter.ok_or_else(|| invalid("the record of a filter is missing"))?;
    let (_, record) = wire_map::filter_record(filter).map_err(invalid)?;
    // The nodes that owned the slices before are not needed for the restore, and would only enlarge the command.
    let record = FilterRecord { owners: Vec::new(), copies: Vec::new(), ..record };
    Ok(RestoredPlace { record, sites })
}
