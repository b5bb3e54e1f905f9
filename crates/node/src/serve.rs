//! Serves all gRPC services of a node on one listener. Every request first passes the limits on connections and the
//! access checks, so that the services receive only requests that are permitted.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use firstseen_meta::Meta;
use firstseen_wire::net;
use firstseen_wire::proto::FILE_DESCRIPTOR_SET;
use firstseen_wire::tls::ServerTls;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::util::MapResponseLayer;

use crate::accept::{self, ConnectionRegistry, TlsAccept};
use crate::admin::AdminService;
use crate::certificates::Certificates;
use crate::clock::Clock;
use crate::dates;
use crate::edges::Incoming;
use crate::gate::GateLayer;
use crate::health::Health;
use crate::links::PeerService;
use crate::metrics::Metrics;
use crate::node_error::NodeError;
use crate::streams::ProducerService;

/// Interval at which a node that is not ready checks its readiness.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The services of a node, with the checks in front of them.
pub(crate) struct Services {
    pub(crate) gate: GateLayer,
    pub(crate) producer: ProducerService,
    pub(crate) peer: PeerService,
    /// Task that collects the status samples for `peer`.
    pub(crate) sampling: Pin<Box<dyn Future<Output = ()> + Send>>,
    pub(crate) admin: AdminService,
    pub(crate) meta: Meta,
    pub(crate) health: Arc<Health>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    /// Maximum number of open connections, and maximum number of additional connections that are still in their
    /// handshake.
    pub(crate) connections_max: u32,
    pub(crate) handshakes_max: u32,
}

/// TLS configuration of a listener.
pub(crate) struct ListenerTls {
    pub(crate) tls: ServerTls,
    /// Notified when the certificate files must be checked.
    pub(crate) look: Arc<Notify>,
}

impl Services {
    /// Serves requests until `stop` is cancelled.
    pub(crate) async fn serve(
        self,
        tls: Option<ListenerTls>,
        incoming: Incoming,
        stop: CancellationToken,
    ) -> Result<(), NodeError> {
        let (reporter, health) = tonic_health::server::health_reporter();
        // The initial status of the reporter would be "serving", which is wrong before the first report.
        reporter.set_service_status("", ServingStatus::NotServing).await;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .build_v1()
            .map_err(|error| NodeError::Serve(error.to_string()))?;
        tokio::spawn(stop.clone().run_until_cancelled_owned(self.sampling));
        let GateLayer { is_secure, ref audit, .. } = self.gate;
        let audit = audit.clone();
        let clock = self.clock.clone();
        let router = net::server_builder()
            .layer(MapResponseLayer::new(move |response| dates::date(&clock, response)))
            .layer(self.gate)
            .add_service(health)
            .add_service(reflection)
            .add_service(net::producer_server(self.producer))
            .add_service(net::peer_server(self.peer))
            .add_service(net::admin_server(self.admin))
            .add_service(firstseen_meta::service(&self.meta, is_secure));
        let connections = self.metrics.connections("nodes");
        let registry = ConnectionRegistry::new(self.connections_max, self.handshakes_max, connections);
        if let Some(ListenerTls { tls, look }) = &tls {
            let ends = self.metrics.certificate_ends();
            let certificates = Certificates::new(tls.clone(), registry.clone(), self.clock, ends);
            tokio::spawn(certificates.keep(look.clone(), stop.clone()));
        }
        let tls = tls.map(|tls| TlsAccept { tls: tls.tls, audit });
        let (incoming, accepting) = accept::admitted(incoming, tls, registry);
        let reporting = tokio::spawn(stop.clone().run_until_cancelled_owned(report(reporter, self.health)));
        let served = router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned()).await;
        reporting.abort();
        // After this task has ended, the address can be bound again.
        let _ = accepting.await;
        served.map_err(|error| NodeError::Serve(error.to_string()))
    }
}

/// Keeps the status of the gRPC health service up to date.
async fn report(reporter: HealthReporter, health: Arc<Health>) {
    let mut views = health.views.clone();
    let mut reported = None;
    loop {
        let status = match health.not_ready() {
            None => ServingStatus::Serving,
            Some(_) => ServingStatus::NotServing,
        };
        if reported.replace(status) != Some(status) {
            reporter.set_service_status("", status).await;
        }
        let changed = tokio::select! {
            biased;
            () = health.departure.drained.cancelled() => false,
            _ = health.owners.loss().happened() => false,
            changed = views.changed() => changed.is_ok(),
            // The node may become ready without a change of the cluster map.
            () = tokio::time::sleep(LOOK_AGAIN), if status == ServingStatus::NotServing => true,
        };
        if !changed {
            break;
        }
    }
    reporter.set_service_status("", ServingStatus::NotServing).await;
}
