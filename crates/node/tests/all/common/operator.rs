//! Requests that the operator of a test makes.

use firstseen_filter::{FilterSpec, Kind};
use firstseen_routing::SlicedDefinition;
use firstseen_wire::net::{self, Channel};
use firstseen_wire::proto::admin::change_access_request::Change;
use firstseen_wire::proto::{admin, producer};

use super::request_to_create;

/// Changes access rights.
pub async fn change(operator: &Channel, change: Change) -> Result<(), tonic::Status> {
    let request = admin::ChangeAccessRequest { change: Some(change), ..Default::default() };
    net::admin_client(operator.clone()).change_access(request).await.map(drop)
}

/// Creates a filter of kind timing with a window of one hour.
pub async fn create(operator: &Channel, name: &str) -> producer::Filter {
    let spec =
        FilterSpec { capacity_events: Some(1_000), ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window")) };
    let definition = SlicedDefinition::new(&spec, "none".parse().expect("a slicing")).expect("a definition");
    let created = net::admin_client(operator.clone()).create_filter(request_to_create(name, &definition)).await;
    created.expect("a filter").into_inner().filter.expect("the filter")
}
