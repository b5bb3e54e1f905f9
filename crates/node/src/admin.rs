//! The Admin service, through which operators manage the cluster, its nodes and its filters.
//!
//! # Guarantees
//! - When the service reports a change as done, this node already acts on the change.
//! - The service sends the secret of a filter only to producers.
//!
//! This module does not depend on how nodes agree on changes, or on how cells work.

mod access;
mod backup;
mod errors;
mod owed;
mod skew;
mod slices;

use std::fmt::Display;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use firstseen_filter::duration;
use firstseen_meta::{
    AlteredFilter, Change, CommandId, Meta, MetaError, NEWEST_FORMAT, NewFilter, NewPlace, Outcome, hold_format,
    holds_format, plan_alteration, propose_for, raise_format, slice_bytes,
};
use firstseen_routing::{FilterId, FilterPolicies, NodeId, SecretMaterial, SliceMove, Thresholds, check};
use firstseen_wire::map as wire_map;
use firstseen_wire::proto::admin;
use firstseen_wire::proto::admin::admin_server::Admin;
use firstseen_wire::proto::admin::{
    AddPlaceReply, AddPlaceRequest, AdoptReply, AdoptRequest, AlterFilterReply, AlterFilterRequest, CancelMovesReply,
    CancelMovesRequest, ChangeAccessReply, ChangeAccessRequest, CreateFilterReply, CreateFilterRequest,
    DropFilterReply, DropFilterRequest, FinishAlterationReply, FinishAlterationRequest, FinishRestoreReply,
    FinishRestoreRequest, ForgiveFilterReply, ForgiveFilterRequest, HoldFormatReply, HoldFormatRequest, IdentifyReply,
    IdentifyRequest, InitReply, InitRequest, InspectFilterReply, InspectFilterRequest, JoinReply, JoinRequest,
    LeaveReply, LeaveRequest, ListAccessReply, ListAccessRequest, MoveSlicesReply, MoveSlicesRequest, PlanMovesReply,
    PlanMovesRequest, PlannedMoves, RaiseFormatReply, RaiseFormatRequest, ReadCellsReply, RemovePlaceReply,
    RemovePlaceRequest, RestoreFilterReply, RestoreFilterRequest, StatusReply, StatusRequest, WriteCellsReply,
};
use firstseen_wire::proto::peer;
use firstseen_wire::proto::producer::ClusterMap;
use firstseen_wire::status::ErrorKind;
use firstseen_wire::tree as wire_tree;
use tonic::{Request, Response, Status};

use crate::audit::Audit;
use crate::authenticated_caller::AuthenticatedCaller;
use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::config::NodeConfig;
use crate::edges;
use crate::group_key::GroupKey;
use crate::ids::Ids;
use crate::journal_writer::JournalWriter;
use crate::lease::DownNodes;
use crate::open_counts::OpenEndpoints;
use crate::owner::Owners;
use crate::view::{GroupFault, View, Views};
use errors::status;
use skew::keeps_for_other_clocks;
use slices::{claims, clock_ms, slices};

/// Maximum time that a request waits until this node acts on a change that the cluster has agreed on.
const APPLY_MAX: Duration = Duration::from_secs(10);

/// Maximum number of slice copies that one request can start to move. More moves would not fit into one command.
const MOVES_MAX: usize = 2048;

/// The Admin service.
pub(crate) struct AdminService {
    pub(crate) config: Arc<NodeConfig>,
    /// Address under which other nodes and clients reach this node.
    pub(crate) address: String,
    pub(crate) meta: Meta,
    pub(crate) ids: Arc<Ids>,
    pub(crate) views: Views,
    pub(crate) owners: Arc<Owners>,
    pub(crate) keeper: Arc<JournalWriter>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clocks: Arc<Clocks>,
    pub(crate) down_nodes: Arc<DownNodes>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) endpoints: Arc<OpenEndpoints>,
}

impl AdminService {
    /// Checks that the caller has the right that this call requires on the filter `name`.
    fn must_for(&self, guest: &AuthenticatedCaller, name: &str) -> Result<(), Status> {
        let map = self.views.borrow().map.clone();
        let named = map.filter_named(name).map_or(name, |(_, record)| map.name_for_rights(record));
        guest.must_for(&map, named)
    }

    /// Checks that the caller has the right that this call requires on the filter with number `filter`. Rights are
    /// granted by filter name, so the name is looked up in the cluster map. If the map has no such filter, there is no
    /// name to check. The right is then checked for the empty name, which only a caller with a right on all filters
    /// has.
    fn must_for_number(&self, guest: &AuthenticatedCaller, filter: FilterId) -> Result<(), Status> {
        let map = self.views.borrow().map.clone();
        let named = map.filters.get(&filter).map_or("", |record| map.name_for_rights(record));
        // Filter numbers are consecutive and easy to guess. A rejected call with a number must therefore not reveal the
        // name of the filter.
        guest.must_for(&map, named).map_err(|_| {
            ErrorKind::Forbidden.status(format!("there is no right to do this with filter number {filter}"))
        })
    }

    /// Proposes a change of the cluster map to the consensus group, in the name of the caller. If the caller supplies a
    /// command id, it can safely repeat the call, because the cluster executes a command with a known id only once. If
    /// the caller supplies no id, the service generates one.
    async fn propose(&self, guest: &AuthenticatedCaller, command_id: &[u8], change: Change) -> Result<Outcome, Status> {
        let id = self.command_id(command_id)?;
        let name = change.name();
        let subject = change.subject();
        let done = propose_for(&self.meta, guest.asked_by(), id, change).await.map_err(|error| status(&error))?;
        tracing::info!(
            by = %guest.asked_by(),
            change = name,
            subject,
            "the cluster has agreed on a change that was requested at this node"
        );
        Ok(done)
    }

    fn command_id(&self, given: &[u8]) -> Result<CommandId, Status> {
        match given {
            [] => Ok(self.ids.next()),
            given => exactly("command_id", given),
        }
    }

    /// Returns the error message for a filter that exists in the cluster although this node cannot hold one of its
    /// slice groups.
    fn not_built(&self, view: &View, filter: FilterId, fault: &GroupFault) -> String {
        let GroupFault { key: GroupKey { group, .. }, reason, .. } = fault;
        let name = view.map.filters.get(&filter).map_or("?", |record| &record.name);
        let more = view.faults.iter().filter(|fault| fault.key.filter == filter).count().saturating_sub(1);
        let node = &self.config.name;
        format!(
            "filter `{name}` is created, but node {node} cannot hold group {group} of its slices: {reason} ({more} \
             more of its groups here). Events of these groups are undecided until the problem is solved and the node \
             is restarted; or drop the filter, and create one that the node can hold"
        )
    }

    /// Waits until this node acts on a view of the cluster map that fulfils `is_so`.
    async fn applied(&self, is_so: impl Fn(&View) -> bool) -> Result<(), Status> {
        let mut views = self.views.clone();
        let seen = tokio::time::timeout(APPLY_MAX, views.wait_for(|view| is_so(view))).await;
        if seen.is_ok_and(|seen| seen.is_ok()) {
            return Ok(());
        }
        Err(ErrorKind::OutcomeUnknown.status("the change is done, but this node does not act on it yet: see `status`"))
    }
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn identify(&self, request: Request<IdentifyRequest>) -> Result<Response<IdentifyReply>, Status> {
        enter(request)?;
        let config = &self.config;
        let identity = self.meta.identity();
        Ok(Response::new(IdentifyReply {
            name: config.name.clone(),
            site: config.site.clone(),
            address: self.address.clone(),
            memory_bytes: config.memory_max_bytes,
            cluster_id: identity.map(|identity| identity.cluster.0.to_vec()).unwrap_or_default().into(),
            node_id: identity.map_or(0, |identity| identity.node.0),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            newest_format: NEWEST_FORMAT.0.into(),
            holds_format: holds_format(&self.meta),
            same_on_all: config.timing.settings(),
            confirms_waiting: self.endpoints.redis.get().map_or(0, |endpoint| endpoint.confirms_waiting()),
            owed: owed::report(&self.owners, &self.views).await,
        }))
    }

    async fn init(&self, request: Request<InitRequest>) -> Result<Response<InitReply>, Status> {
        let (guest, InitRequest {}) = enter(request)?;
        let identity = self.meta.init().await.map_err(|error| status(&error))?;
        self.audit.changed_here(&guest.asked_by(), "init", &self.config.name);
        self.applied(|view| view.me.is_some()).await?;
        Ok(Response::new(InitReply { cluster_id: identity.cluster.0.to_vec().into(), node_id: identity.node.0 }))
    }

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let (guest, JoinRequest { command_id, address }) = enter(request)?;
        let id = self.command_id(&command_id)?;
        let node =
            firstseen_meta::join(&self.meta, guest.asked_by(), id, address).await.map_err(|error| status(&error))?;
        Ok(Response::new(JoinReply { node_id: node.0 }))
    }

    async fn adopt(&self, request: Request<AdoptRequest>) -> Result<Response<AdoptReply>, Status> {
        let (guest, AdoptRequest { cluster_id, node_id }) = enter(request)?;
        let cluster = wire_map::cluster_id(&cluster_id).map_err(invalid)?;
        self.meta.adopt(cluster, NodeId(node_id)).await.map_err(|error| status(&error))?;
        self.audit.changed_here(&guest.asked_by(), "adopt", &self.config.name);
        Ok(Response::new(AdoptReply {}))
    }

    async fn leave(&self, request: Request<LeaveRequest>) -> Result<Response<LeaveReply>, Status> {
        let (guest, LeaveRequest { command_id, node_id }) = enter(request)?;
        let id = self.command_id(&command_id)?;
        firstseen_meta::leave(&self.meta, guest.asked_by(), id, NodeId(node_id))
            .await
            .map_err(|error| status(&error))?;
        Ok(Response::new(LeaveReply {}))
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let (guest, StatusRequest { committed }) = enter(request)?;
        let map = if committed {
            self.meta.committed_map().await.ok_or_else(|| {
                ErrorKind::NotNow.status("this node is not the leader of the cluster, or no majority answers it")
            })?
        } else {
            self.meta.map().newest()
        };
        let agreement = self.meta.status();
        let view = self.views.newest();
        // The view may belong to an earlier or a later version of the cluster map than `map`. A copy of a slice is
        // complete in one start of its node only. The links are therefore compared with the start that the map names.
        let silent = map
            .nodes
            .iter()
            .filter(|(node, record)| view.links.contains_key(node) && !view.reaches_start(**node, record.incarnation));
        Ok(Response::new(StatusReply {
            map: Some(ClusterMap::from(&*guest.visible(&map))),
            leader: agreement.leader.map_or(0, |leader| leader.0),
            term: agreement.term,
            last_applied: agreement.last_applied,
            unreachable: view.unreachable.iter().map(|node| node.0).collect(),
            not_answering: silent.map(|(node, _)| node.0).collect(),
            clocks: self.clocks.of_nodes(self.clock.now(), &view),
            clock_skew_max_ms: self.config.timing.clock_skew_max_ms,
        }))
    }

    async fn hold_format(&self, request: Request<HoldFormatRequest>) -> Result<Response<HoldFormatReply>, Status> {
        let (guest, HoldFormatRequest { hold }) = enter(request)?;
        hold_format(&self.meta, hold).await.map_err(|error| status(&error))?;
        let change = if hold { "hold-format" } else { "let-format-go" };
        self.audit.changed_here(&guest.asked_by(), change, &self.config.name);
        Ok(Response::new(HoldFormatReply {}))
    }

    async fn raise_format(&self, request: Request<RaiseFormatRequest>) -> Result<Response<RaiseFormatReply>, Status> {
        let (guest, RaiseFormatRequest {}) = enter(request)?;
        let by = guest.asked_by();
        let format = raise_format(&self.meta, by.clone()).await.map_err(|error| status(&error))?;
        tracing::info!(%format, %by, "the format of the cluster is raised: older versions can no longer take part");
        self.applied(|view| view.map.format >= format).await?;
        Ok(Response::new(RaiseFormatReply { format: format.0.into() }))
    }

    async fn create_filter(
        &self,
        request: Request<CreateFilterRequest>,
    ) -> Result<Response<CreateFilterReply>, Status> {
        let (guest, request) = enter(request)?;
        self.must_for(&guest, &request.name)?;
        let id = request.command_id.clone();
        let secret = secret_of(&request.secret)?;
        let filter = new_filter(request, SecretMaterial(secret))?;
        let skew_max_ms = self.config.timing.clock_skew_max_ms;
        keeps_for_other_clocks(&filter.name, &filter.definition, filter.policies.clock, skew_max_ms)?;
        let outcome = self.propose(&guest, &id, Change::CreateFilter(filter)).await?;
        let Outcome::FilterCreated { filter, existed } = outcome else {
            return Err(
                ErrorKind::Internal.status(format!("creating a filter ended with the unexpected outcome {outcome:?}"))
            );
        };
        self.applied(|view| view.map.filters.contains_key(&filter)).await?;
        // When this view is published, the owner threads have already reported which slice groups they cannot hold.
        let view = self.views.newest();
        if let Some(fault) = view.fault_of(filter) {
            return Err(ErrorKind::NotNow.status(self.not_built(&view, filter, fault)));
        }
        let record = view.map.filters.get(&filter);
        let unreachable = view.unreachable.iter().filter(|node| record.is_some_and(|record| record.is_on(**node)));
        Ok(Response::new(CreateFilterReply {
            existed,
            unreachable: unreachable.map(|node| node.0).collect(),
            filter: record.map(|record| wire_map::filter_message(filter, record)),
        }))
    }

    async fn drop_filter(&self, request: Request<DropFilterRequest>) -> Result<Response<DropFilterReply>, Status> {
        let (guest, DropFilterRequest { command_id, name }) = enter(request)?;
        self.must_for(&guest, &name)?;
        self.propose(&guest, &command_id, Change::DropFilter { name: name.clone() }).await?;
        self.applied(|view| view.map.filter_named(&name).is_none()).await?;
        Ok(Response::new(DropFilterReply {}))
    }

    async fn add_place(&self, request: Request<AddPlaceRequest>) -> Result<Response<AddPlaceReply>, Status> {
        let (guest, AddPlaceRequest { command_id, filter: root, place }) = enter(request)?;
        self.must_for(&guest, &root)?;
        let place = wire_tree::decode_place(place.unwrap_or_default()).map_err(invalid)?;
        let outcome = self.propose(&guest, &command_id, Change::AddPlace(NewPlace { filter: root, place })).await?;
        let Outcome::FilterCreated { filter, .. } = outcome else {
            return Err(
                ErrorKind::Internal.status(format!("adding a place ended with the unexpected outcome {outcome:?}"))
            );
        };
        self.applied(|view| view.map.next_filter > filter).await?;
        // When this view is published, the owner threads have already reported which slice groups they cannot hold.
        let view = self.views.newest();
        if let Some(fault) = view.fault_of(filter) {
            return Err(ErrorKind::NotNow.status(self.not_built(&view, filter, fault)));
        }
        let record = view.map.filters.get(&filter);
        Ok(Response::new(AddPlaceReply { filter: record.map(|record| wire_map::filter_message(filter, record)) }))
    }

    async fn remove_place(&self, request: Request<RemovePlaceRequest>) -> Result<Response<RemovePlaceReply>, Status> {
        let (guest, RemovePlaceRequest { command_id, name }) = enter(request)?;
        self.must_for(&guest, &name)?;
        self.propose(&guest, &command_id, Change::RemovePlace { name: name.clone() }).await?;
        self.applied(|view| view.map.filter_named(&name).is_none()).await?;
        Ok(Response::new(RemovePlaceReply {}))
    }

    async fn alter_filter(&self, request: Request<AlterFilterRequest>) -> Result<Response<AlterFilterReply>, Status> {
        let (guest, request) = enter(request)?;
        self.must_for(&guest, &request.name)?;
        let id = request.command_id.clone();
        let is_plan = request.plan;
        let asked = altered_filter(request)?;
        let map = self.meta.map().newest();
        if let Some(record) = map.filters.get(&asked.filter) {
            let skew_max_ms = self.config.timing.clock_skew_max_ms;
            keeps_for_other_clocks(&asked.name, &asked.definition, record.policies.clock, skew_max_ms)?;
        }
        if is_plan {
            let planned = plan_alteration(&map, &asked).map_err(|refusal| status(&MetaError::Refused(refusal)))?;
            return Ok(Response::new(altered(&planned, map.next_filter, |_| false)));
        }
        let name = asked.name.clone();
        let forgets = asked.forgets;
        let outcome = self.propose(&guest, &id, Change::AlterFilter(asked)).await?;
        let Outcome::FilterCreated { filter, .. } = outcome else {
            return Err(
                ErrorKind::Internal.status(format!("altering a filter ended with the unexpected outcome {outcome:?}"))
            );
        };
        if forgets {
            tracing::info!(
                filter = name,
                by = %guest.asked_by(),
                "the clock of a filter begins anew, and its events are forgotten"
            );
        }
        self.applied(|view| view.map.next_filter > filter).await?;
        let view = self.views.newest();
        Ok(Response::new(altered(&view.map, filter, |node| view.unreachable.contains(&node) || view.map.is_down(node))))
    }

    async fn finish_alteration(
        &self,
        request: Request<FinishAlterationRequest>,
    ) -> Result<Response<FinishAlterationReply>, Status> {
        let (guest, FinishAlterationRequest { command_id, name }) = enter(request)?;
        self.must_for(&guest, &name)?;
        self.propose(&guest, &command_id, Change::FinishAlteration { name: name.clone() }).await?;
        self.applied(|view| view.map.filter_named(&name).is_none_or(|(id, _)| view.map.former_of(id).is_none()))
            .await?;
        Ok(Response::new(FinishAlterationReply {}))
    }

    async fn forgive_filter(
        &self,
        request: Request<ForgiveFilterRequest>,
    ) -> Result<Response<ForgiveFilterReply>, Status> {
        let (guest, ForgiveFilterRequest { command_id, name }) = enter(request)?;
        self.must_for(&guest, &name)?;
        let ended =
            self.down_nodes.ended(self.clock.monotonic_ms(), &self.config.timing).map_err(|(node, left_ms)| {
                ErrorKind::Unavailable.status(format!(
                    "node {node} is down, but for {} more it may still record new events if it is only disconnected",
                    duration(left_ms)
                ))
            })?;
        self.propose(&guest, &command_id, Change::ForgiveFilter { name: name.clone(), ended }).await?;
        Ok(Response::new(ForgiveFilterReply {}))
    }

    async fn plan_moves(&self, request: Request<PlanMovesRequest>) -> Result<Response<PlanMovesReply>, Status> {
        let (_, PlanMovesRequest { drained_nodes }) = enter(request)?;
        let drained = drained_nodes.into_iter().map(NodeId).collect();
        let map = self.meta.map().newest();
        let plan =
            firstseen_meta::plan_moves(&map, &drained).map_err(|refusal| status(&MetaError::Refused(refusal)))?;
        let planned = plan.into_iter().map(|(filter, moves)| PlannedMoves {
            filter_id: filter.0,
            slice_bytes: map.filters.get(&filter).map_or(0, |record| slice_bytes(&record.definition).unwrap_or(0)),
            moves: moves.into_iter().map(move_message).collect(),
        });
        Ok(Response::new(PlanMovesReply { filters: planned.collect() }))
    }

    async fn move_slices(&self, request: Request<MoveSlicesRequest>) -> Result<Response<MoveSlicesReply>, Status> {
        let (guest, MoveSlicesRequest { command_id, filter_id, moves }) = enter(request)?;
        if moves.len() > MOVES_MAX {
            let detail = format!("{} moves are rejected: at most {MOVES_MAX} can start at once", moves.len());
            return Err(ErrorKind::Invalid.status(detail));
        }
        let moves = moves.into_iter().map(|way| SliceMove {
            slice: way.slice,
            from: NodeId(way.from_node),
            to: NodeId(way.to_node),
        });
        let change = Change::MoveSlices { filter: FilterId(filter_id), moves: moves.collect() };
        self.propose(&guest, &command_id, change).await?;
        Ok(Response::new(MoveSlicesReply {}))
    }

    async fn cancel_moves(&self, request: Request<CancelMovesRequest>) -> Result<Response<CancelMovesReply>, Status> {
        let (guest, CancelMovesRequest { command_id, name }) = enter(request)?;
        self.propose(&guest, &command_id, Change::CancelMoves { name }).await?;
        Ok(Response::new(CancelMovesReply {}))
    }

    async fn inspect_filter(
        &self,
        request: Request<InspectFilterRequest>,
    ) -> Result<Response<InspectFilterReply>, Status> {
        let (guest, InspectFilterRequest { name }) = enter(request)?;
        self.must_for(&guest, &name)?;
        let view = self.views.newest();
        let Some((id, record)) = view.map.filter_named(&name) else {
            let unknown = format!("there is no filter `{name}` (map {})", view.map.version);
            return Err(ErrorKind::NotFound.status(unknown));
        };
        let looks = self.owners.look(Some(id)).await;
        Ok(Response::new(InspectFilterReply {
            filter: Some(wire_map::filter_message(id, record)),
            node_id: view.node().map_or(0, |node| node.0),
            slices: slices(&looks, id),
            guard_bytes: looks.iter().map(|look| look.state.guard_bytes).sum(),
            guard_bytes_per_horizon_second: looks.iter().map(|look| look.state.guard_bytes_per_horizon_second).sum(),
            claims: claims(&looks),
            clock_ms: clock_ms(&looks, id),
        }))
    }

    async fn read_cells(&self, request: Request<peer::AskCells>) -> Result<Response<ReadCellsReply>, Status> {
        let (guest, asked) = enter(request)?;
        self.must_for_number(&guest, FilterId(asked.filter_id))?;
        Ok(Response::new(self.cells_for_backup(&asked).await?))
    }

    async fn restore_filter(
        &self,
        request: Request<RestoreFilterRequest>,
    ) -> Result<Response<RestoreFilterReply>, Status> {
        let (guest, request) = enter(request)?;
        Ok(Response::new(self.begin_restore(&guest, request).await?))
    }

    async fn write_cells(&self, request: Request<peer::Cells>) -> Result<Response<WriteCellsReply>, Status> {
        let (guest, cells) = enter(request)?;
        self.must_for_number(&guest, FilterId(cells.filter_id))?;
        Ok(Response::new(self.take_cells(&cells).await?))
    }

    async fn finish_restore(
        &self,
        request: Request<FinishRestoreRequest>,
    ) -> Result<Response<FinishRestoreReply>, Status> {
        let (guest, FinishRestoreRequest { command_id, filter_id }) = enter(request)?;
        let filter = FilterId(filter_id);
        self.must_for_number(&guest, filter)?;
        self.propose(&guest, &command_id, Change::FinishRestore { filter }).await?;
        Ok(Response::new(FinishRestoreReply {}))
    }

    async fn list_access(&self, request: Request<ListAccessRequest>) -> Result<Response<ListAccessReply>, Status> {
        enter(request)?;
        Ok(Response::new(ListAccessReply::from(&*self.views.newest().map.access)))
    }

    async fn change_access(
        &self,
        request: Request<ChangeAccessRequest>,
    ) -> Result<Response<ChangeAccessReply>, Status> {
        let (guest, request) = enter(request)?;
        self.change_rights(&guest, request).await?;
        Ok(Response::new(ChangeAccessReply {}))
    }
}

/// Returns the caller of a request together with the request message.
fn enter<T>(request: Request<T>) -> Result<(Arc<AuthenticatedCaller>, T), Status> {
    Ok((AuthenticatedCaller::of(&request)?, request.into_inner()))
}

fn invalid(error: impl Display) -> Status {
    ErrorKind::Invalid.status(error)
}

fn new_filter(request: CreateFilterRequest, secret: SecretMaterial) -> Result<NewFilter, Status> {
    let CreateFilterRequest { name, definition_json, clock, lookup, answer, retry_horizon_ms, .. } = request;
    let CreateFilterRequest { if_absent, tree, durability, durability_interval_ms, .. } = request;
    let CreateFilterRequest { min_live, set_min, when_lost, copies, lease_max_ms, .. } = request;
    let definition = wire_map::definition(&name, &definition_json).map_err(invalid)?;
    let thresholds = Thresholds { min_live, set_min };
    // The cluster would also reject this definition, but only after all nodes had written the command to their logs.
    check::check_definition(&definition)
        .and_then(|()| check::check_thresholds(&definition, thresholds))
        .map_err(|refusal| invalid(format!("filter `{name}`: {refusal}")))?;
    let policies = FilterPolicies {
        thresholds,
        when_lost: wire_map::when_lost(when_lost).map_err(invalid)?,
        copies,
        claim_lease_max_ms: NonZeroU32::new(lease_max_ms),
        durability: wire_map::durability(durability, durability_interval_ms).map_err(invalid)?,
        ..wire_map::policies(clock, lookup, answer, retry_horizon_ms).map_err(invalid)?
    };
    let tree = tree.map(|tree| wire_tree::decode(tree).map_err(invalid)).transpose()?;
    Ok(NewFilter { name, definition, policies, secret, if_absent, tree })
}

/// Describes a filter that replaced another filter under the same name. `is_away` returns whether a node is currently
/// unreachable.
fn altered(
    map: &firstseen_routing::ClusterMap,
    filter: FilterId,
    is_away: impl Fn(NodeId) -> bool,
) -> AlterFilterReply {
    let former = map.former_of(filter).and_then(|(_, former)| former.line.closed.as_ref());
    let awaited = former.into_iter().flat_map(|closed| &closed.awaited);
    let record = map.filters.get(&filter);
    AlterFilterReply {
        awaited_nodes: awaited.filter(|node| is_away(**node)).map(|node| node.0).collect(),
        cells_bytes: record.map_or(0, |record| {
            slice_bytes(&record.definition).unwrap_or(0).saturating_mul(record.all_copies().count() as u64)
        }),
        filter: record.map(|record| wire_map::filter_message(filter, record)),
    }
}

fn altered_filter(request: AlterFilterRequest) -> Result<AlteredFilter, Status> {
    let AlterFilterRequest { name, filter_id, definition_json, new_secret, secret, forgets, .. } = request;
    let definition = wire_map::definition(&name, &definition_json).map_err(invalid)?;
    check::check_definition(&definition).map_err(|refusal| invalid(format!("filter `{name}`: {refusal}")))?;
    let secret = match (new_secret, &secret[..]) {
        (false, _) => None,
        (true, given) => Some(SecretMaterial(secret_of(given)?)),
    };
    Ok(AlteredFilter { name, filter: FilterId(filter_id), definition, secret, forgets })
}

/// Returns the given secret, or a new random secret if none is given.
fn secret_of(given: &[u8]) -> Result<[u8; 32], Status> {
    match given {
        [] => edges::random().map_err(|error| ErrorKind::Internal.status(error)),
        given => exactly("secret", given),
    }
}

fn move_message(way: SliceMove) -> admin::SliceMove {
    admin::SliceMove { slice: way.slice, from_node: way.from.0, to_node: way.to.0 }
}

fn exactly<const N: usize>(field: &str, bytes: &[u8]) -> Result<[u8; N], Status> {
    bytes.try_into().map_err(|_| invalid(format!("`{field}` has {} bytes instead of {N}", bytes.len())))
}
