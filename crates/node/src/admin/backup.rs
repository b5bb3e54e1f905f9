//! Cells on their way to a backup and back, and the filters that get them back.
//!
//! Promises: a backup gets the cells that another copy would get, with the owner's word on whether they are all; cells
//! are put only into filters that nobody can ask yet, and a part that is answered as kept is persisted as the filter's
//! durability says. Must not know: files, what cells mean.

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
use super::{APPLY_MAX, AdminService, exactly};
use crate::group_key::GroupKey;
use crate::guest::Guest;
use crate::view::GroupFault;

impl AdminService {
    /// Cells of a slice that is here.
    pub(super) async fn cells_for_backup(&self, asked: &peer::AskCells) -> Result<ReadCellsReply, Status> {
        let key = GroupKey { filter: FilterId(asked.filter_id), group: asked.group };
        let GroupKey { filter, group } = key;
        let record = self.record_at(filter, Epoch(asked.filter_epoch))?;
        let ask = cells::decode_ask(asked);
        let cells = self.shared.owners.read_cells(key, ask).await;
        let missing = || {
            let (node, slice) = (&self.shared.config.name, asked.slice);
            let view = self.shared.view();
            let why = view.fault_at(key).map_or_else(String::new, |reason| format!(": {reason}"));
            let what = format!("node {node} does not have the cells of slice {slice} of group {group}{why}");
            ErrorKind::NotNow.status(what)
        };
        let BackupCells { parts, is_complete } = cells.ok_or_else(missing)?;
        let of = CellsOf { filter, epoch: record.epoch, group };
        let cells = cells::encode(of, &parts).map_err(|error| ErrorKind::Internal.status(error))?;
        Ok(ReadCellsReply { cells: Some(cells), complete: is_complete })
    }

    /// Makes a filter of a backup, or all levels of a tree; the owners of their slices are there when this is answered.
    pub(super) async fn begin_restore(
        &self,
        guest: &Guest,
        request: RestoreFilterRequest,
    ) -> Result<RestoreFilterReply, Status> {
        let named = |filter: &RestoredFilter| filter.filter.as_ref().map_or("", |filter| &filter.name).to_owned();
        // The first is the root of a tree, whose name the others bear, too.
        self.must_for(guest, &request.filters.first().map(named).unwrap_or_default())?;
        let id = request.command_id.clone();
        let secret = SecretMaterial(exactly("secret", &request.secret)?);
        if request.filters.len() > FILTERS_MAX {
            return Err(ErrorKind::Invalid.status(format!("at most {FILTERS_MAX} filters can be restored at once")));
        }
        let place = |RestoredFilter { filter, sites }: RestoredFilter| {
            let filter = filter.ok_or_else(|| ErrorKind::Invalid.status("a filter without its record"))?;
            let (_, record) = wire_map::filter_record(filter).map_err(|error| ErrorKind::Invalid.status(error))?;
            // The former owners of its slices would take room in the command, and do not matter.
            let record = FilterRecord { owners: Vec::new(), copies: Vec::new(), ..record };
            Ok(RestoredPlace { record, sites })
        };
        let places = request.filters.into_iter().map(place).collect::<Result<Vec<_>, Status>>()?;
        let skew_max_ms = self.shared.config.timing.clock_skew_max_ms;
        for RestoredPlace { record, .. } in &places {
            keeps_for_other_clocks((&record.name, &record.definition, record.policies.clock), skew_max_ms)?;
        }
        let levels = places.len() as u64;
        let change = Change::RestoreFilter(NewRestore { places, secret });
        let outcome = self.propose(guest, &id, change).await?;
        let Outcome::FilterCreated { filter: root, .. } = outcome else {
            return Err(ErrorKind::Internal.status(format!("restoring a filter ended with {outcome:?}")));
        };
        let own = || (root.0..root.0 + levels).map(FilterId);
        self.applied(|view| own().all(|filter| view.map.filters.contains_key(&filter))).await?;
        let view = self.shared.view();
        if let Some((filter, fault)) = own().find_map(|filter| Some((filter, view.fault_of(filter)?))) {
            let GroupFault { key, reason, .. } = fault;
            let (node, group) = (&self.shared.config.name, key.group);
            let name = view.map.filters.get(&filter).map_or("?", |record| &record.name);
            let what =
                format!("node {node} cannot hold group {group} of `{name}`: {reason}. Mend that, and restore again");
            return Err(ErrorKind::NotNow.status(what));
        }
        let message = |filter| Some(wire_map::filter_message(filter, view.map.filters.get(&filter)?));
        Ok(RestoreFilterReply { filters: own().filter_map(message).collect() })
    }

    /// Puts cells into a slice of a filter that is being restored.
    pub(super) async fn take_cells(&self, message: &peer::Cells) -> Result<WriteCellsReply, Status> {
        let key = GroupKey { filter: FilterId(message.filter_id), group: message.group };
        let group = key.group;
        let record = self.record_at(key.filter, Epoch(message.filter_epoch))?;
        if !is_restoring(&record.name) {
            let name = &record.name;
            return Err(
                ErrorKind::NotNow.status(format!("filter `{name}` is in use: cells of a backup are not for it"))
            );
        }
        let parts = cells::decode(message).map_err(|error| ErrorKind::Invalid.status(error))?;
        let Some(me) = self.shared.view().me else {
            return Err(ErrorKind::Unavailable.status("this node has not started yet"));
        };
        let refused = |reason: String| {
            let view = self.shared.view();
            // Where the group is not here, the fault says more.
            let reason = view.fault_at(key).unwrap_or(&reason);
            let (node, slice) = (&self.shared.config.name, message.slice);
            let what = format!("cells of slice {slice} of group {group} of `{}` on node {node}: {reason}", record.name);
            ErrorKind::NotNow.status(what)
        };
        let records = self.shared.owners.write_cells(key, parts).await.map_err(refused)?;
        let mut synced = self.shared.keeper.watch_synced();
        let kept = tokio::time::timeout(APPLY_MAX, synced.wait_for(|synced| *synced >= records)).await;
        let late = || ErrorKind::Unavailable.status("the disk of the journal is full or slow: cells are not kept yet");
        kept.map_err(|_| late())?.map_err(|_| late())?;
        Ok(WriteCellsReply { incarnation: me.incarnation.0 })
    }

    /// The record of a filter in this node's map, once that is as new as the caller's.
    fn record_at(&self, filter: FilterId, epoch: Epoch) -> Result<FilterRecord, Status> {
        let view = self.shared.view();
        match view.map.filters.get(&filter) {
            Some(record) if record.epoch >= epoch => Ok(record.clone()),
            None if filter < view.map.next_filter => {
                Err(ErrorKind::NotFound.status(format!("filter {filter} has been dropped")))
            }
            _ => Err(ErrorKind::Unavailable.status("this node's map is behind: try again")),
        }
    }
}
