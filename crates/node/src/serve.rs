//! All services of a node on one listener.
//!
//! Promises: nothing reaches a service but through the listener's entrance and the gate, which know the limits and roles. Must
//! not know: what services do.

use std::sync::Arc;

use firstseen_wire::net;
use firstseen_wire::proto::FILE_DESCRIPTOR_SET;
use firstseen_wire::tls::ServerTls;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::util::MapResponseLayer;

use crate::accept::{self, Entrance};
use crate::admin::AdminService;
use crate::certificates::Certificates;
use crate::console;
use crate::dates;
use crate::edges::Incoming;
use crate::gate::GateLayer;
use crate::links::PeerService;
use crate::metrics::Scrapes;
use crate::node_error::NodeError;
use crate::shared::Shared;
use crate::streams::ProducerService;

/// How often a node that is not ready looks whether it is.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Nodes that wait at once for this one to say how it fares; the others wait to be let in.
const SAMPLES_WAITING_MAX: usize = 64;

/// Serves until `stop`; with certificates, they are looked at when told.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    tls: Option<(ServerTls, Arc<Notify>)>,
    incoming: Incoming,
    stop: CancellationToken,
) -> Result<(), NodeError> {
    let (reporter, health) = tonic_health::server::health_reporter();
    // The reporter begins with the opposite, which is wrong before the first report.
    reporter.set_service_status("", ServingStatus::NotServing).await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| NodeError::Serve(error.to_string()))?;
    let (is_secure, clock) = (shared.is_secure, shared.clock.clone());
    let (samples, telling) = Scrapes::new(SAMPLES_WAITING_MAX, clock.clone(), {
        let shared = shared.clone();
        move || {
            let shared = shared.clone();
            async move { Ok(console::sample(&shared).await) }
        }
    });
    tokio::spawn(stop.clone().run_until_cancelled_owned(telling));
    let router = net::server_builder()
        .layer(MapResponseLayer::new(move |response| dates::date(&clock, response)))
        .layer(GateLayer::new(&shared))
        .add_service(health)
        .add_service(reflection)
        .add_service(net::producer_server(ProducerService::new(shared.clone())))
        .add_service(net::peer_server(PeerService::new(shared.clone(), samples)))
        .add_service(net::admin_server(AdminService::new(shared.clone())))
        .add_service(shared.meta.service(is_secure));
    let limits = &shared.config.limits;
    let entrance = Entrance::new(limits.connections_max, limits.handshakes_max, shared.metrics.connections("nodes"));
    if let Some((tls, told)) = &tls {
        let certificates =
            Certificates::new(tls.clone(), entrance.clone(), shared.clock.clone(), shared.metrics.certificate_ends());
        tokio::spawn(certificates.keep(told.clone(), stop.clone()));
    }
    let (incoming, accepting) = accept::admitted(incoming, tls.map(|(tls, _)| (tls, shared.audit.clone())), entrance);
    let reporting = tokio::spawn(stop.clone().run_until_cancelled_owned(report(reporter, shared)));
    let served = router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned()).await;
    reporting.abort();
    // Then the address can be listened on again.
    let _ = accepting.await;
    served.map_err(|error| NodeError::Serve(error.to_string()))
}

/// Keeps the health service's answer up to date.
async fn report(reporter: HealthReporter, shared: Arc<Shared>) {
    let (mut views, mut reported) = (shared.views.clone(), None);
    loop {
        let status = match shared.not_ready() {
            None => ServingStatus::Serving,
            Some(_) => ServingStatus::NotServing,
        };
        if reported.replace(status) != Some(status) {
            reporter.set_service_status("", status).await;
        }
        let changed = tokio::select! {
            biased;
            () = shared.departure.drained.cancelled() => false,
            _ = shared.owners.loss().happened() => false,
            changed = views.changed() => changed.is_ok(),
            // The node may become ready without a change of the map.
            () = tokio::time::sleep(LOOK_AGAIN), if status == ServingStatus::NotServing => true,
        };
        if !changed {
            break;
        }
    }
    reporter.set_service_status("", ServingStatus::NotServing).await;
}
