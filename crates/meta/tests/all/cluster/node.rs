//! A node that has only a membership in a cluster, and the part of the admin service that is necessary to join.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firstseen_meta::{Meta, MetaConfig, MetaStorage, NodeProfile, RaftTiming, service};
use firstseen_routing::{ClusterId, NodeId};
use firstseen_wire::net::{TcpConnector, incoming, server_builder};
use firstseen_wire::proto::admin;
use firstseen_wire::proto::admin::admin_server::{Admin, AdminServer};
use firstseen_wire::proto::peer;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

/// Maximum time that a test waits for any event, which is far longer than necessary.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for `event`, and fails if it does not happen in time.
pub(crate) async fn eventually<T>(what: &str, event: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, event).await.unwrap_or_else(|_| panic!("waited {PATIENCE:?}: {what}"))
}

/// The data that a node leaves behind when it stops.
#[derive(Clone)]
pub(crate) struct Kept {
    name: String,
    address: String,
    path: PathBuf,
    folder: Arc<TempDir>,
    timing: RaftTiming,
}

pub(crate) struct Node {
    pub(crate) meta: Meta,
    pub(crate) address: String,
    kept: Kept,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<()>,
}

impl Node {
    /// Starts a new node that belongs to no cluster.
    pub(crate) async fn start(name: &str) -> Self {
        Self::start_with(name, |_| {}).await
    }

    pub(crate) async fn start_with(name: &str, timing: impl FnOnce(&mut RaftTiming)) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let path = folder.path().join("meta.redb");
        let mut kept = Kept { name: name.to_owned(), address, path, folder, timing: RaftTiming::default() };
        // The machine may be busy with other tests. Except in the test of a lost leader, no test waits for these
        // limits.
        kept.timing.membership_ms = 60_000;
        kept.timing.propose_ms = 30_000;
        timing(&mut kept.timing);
        Self::run(kept, listener).await
    }

    /// Starts the same node again at the same address.
    pub(crate) async fn resume(kept: Kept) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(kept.address.parse().unwrap()).unwrap();
        let listener = socket.listen(64).unwrap();
        Self::run(kept, listener).await
    }

    async fn run(kept: Kept, listener: TcpListener) -> Self {
        let profile = NodeProfile {
            name: kept.name.clone(),
            site: "here".into(),
            address: kept.address.clone(),
            memory_bytes: 1 << 30,
        };
        let storage = MetaStorage::File(kept.path.clone());
        let seed = u64::from(kept.name.as_bytes()[0]);
        let (timing, same_on_all) = (kept.timing, Vec::new());
        let config = MetaConfig { storage, profile: profile.clone(), timing, same_on_all, audit: None, seed };
        let meta = Meta::open(config, Arc::new(TcpConnector::default())).await.unwrap();
        let stop = CancellationToken::new();
        let router = server_builder()
            .add_service(service(&meta, false))
            .add_service(AdminServer::new(Operator { meta: meta.clone(), profile }));
        let ended = stop.clone().cancelled_owned();
        let server = tokio::spawn(async move {
            router.serve_with_incoming_shutdown(incoming(listener), ended).await.unwrap();
        });
        Self { meta, address: kept.address.clone(), kept, stop, server }
    }

    pub(crate) fn keep(&self) -> Kept {
        assert!(self.kept.folder.path().exists());
        self.kept.clone()
    }

    /// Stops the node like a crash, except that all its data has been written.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.meta.shutdown().await;
        eventually("its connections end", self.server).await.unwrap();
    }
}

struct Operator {
    meta: Meta,
    profile: NodeProfile,
}

macro_rules! not_here {
    ($($name:ident: $request:ident => $reply:ident),* $(,)?) => {
        #[tonic::async_trait]
        impl Admin for Operator {
            async fn identify(
                &self,
                _: Request<admin::IdentifyRequest>,
            ) -> Result<Response<admin::IdentifyReply>, Status> {
                Ok(Response::new(self.identified()))
            }

            async fn adopt(&self, request: Request<admin::AdoptRequest>) -> Result<Response<admin::AdoptReply>, Status> {
                let admin::AdoptRequest { cluster_id, node_id } = request.into_inner();
                let cluster = ClusterId(cluster_id[..].try_into().unwrap());
                let adopted = self.meta.adopt(cluster, NodeId(node_id)).await;
                adopted.map_err(|error| Status::failed_precondition(error.to_string()))?;
                Ok(Response::new(admin::AdoptReply {}))
            }

            async fn read_cells(
                &self,
                _: Request<peer::AskCells>,
            ) -> Result<Response<admin::ReadCellsReply>, Status> {
                Err(Status::unimplemented("joining does not need it"))
            }

            async fn write_cells(&self, _: Request<peer::Cells>) -> Result<Response<admin::WriteCellsReply>, Status> {
                Err(Status::unimplemented("joining does not need it"))
            }

            $(async fn $name(&self, _: Request<admin::$request>) -> Result<Response<admin::$reply>, Status> {
                Err(Status::unimplemented("joining does not need it"))
            })*
        }
    };
}

not_here! {
    init: InitRequest => InitReply,
    join: JoinRequest => JoinReply,
    leave: LeaveRequest => LeaveReply,
    hold_format: HoldFormatRequest => HoldFormatReply,
    raise_format: RaiseFormatRequest => RaiseFormatReply,
    forgive_filter: ForgiveFilterRequest => ForgiveFilterReply,
    alter_filter: AlterFilterRequest => AlterFilterReply,
    finish_alteration: FinishAlterationRequest => FinishAlterationReply,
    plan_moves: PlanMovesRequest => PlanMovesReply,
    move_slices: MoveSlicesRequest => MoveSlicesReply,
    cancel_moves: CancelMovesRequest => CancelMovesReply,
    status: StatusRequest => StatusReply,
    create_filter: CreateFilterRequest => CreateFilterReply,
    drop_filter: DropFilterRequest => DropFilterReply,
    add_place: AddPlaceRequest => AddPlaceReply,
    remove_place: RemovePlaceRequest => RemovePlaceReply,
    inspect_filter: InspectFilterRequest => InspectFilterReply,
    restore_filter: RestoreFilterRequest => RestoreFilterReply,
    finish_restore: FinishRestoreRequest => FinishRestoreReply,
    list_access: ListAccessRequest => ListAccessReply,
    change_access: ChangeAccessRequest => ChangeAccessReply,
}

impl Operator {
    fn identified(&self) -> admin::IdentifyReply {
        let NodeProfile { name, site, address, memory_bytes } = self.profile.clone();
        let identity = self.meta.identity();
        admin::IdentifyReply {
            name,
            site,
            address,
            memory_bytes,
            cluster_id: identity.map(|known| known.cluster.0.to_vec()).unwrap_or_default().into(),
            node_id: identity.map_or(0, |known| known.node.0),
            version: String::new(),
            newest_format: firstseen_meta::NEWEST_FORMAT.0.into(),
            holds_format: false,
            same_on_all: Vec::new(),
            confirms_waiting: 0,
            owed: None,
        }
    }
}
