//! Metrics of the HTTP endpoint. A node without an HTTP endpoint has none of these metrics.

use firstseen_http_endpoint::HttpCounts;

use super::gathering::Gathering;
use super::{show_counter, show_gauge};

/// Adds the counters of the HTTP endpoint.
pub(super) fn show(now: &mut Gathering, endpoint: &HttpCounts) {
    for count in endpoint.calls() {
        now.of("call", count.call).count("http_api_calls", "Calls of HTTP clients").inc_by(count.count);
    }
    let counters = [
        ("http_api_events", "Events in requests of HTTP clients", endpoint.events()),
        ("http_api_refused", "Requests of HTTP clients that were rejected", endpoint.refused()),
        ("http_api_undecided", "Events of HTTP clients that were undecided", endpoint.undecided()),
        (
            "http_api_turned_away",
            "Connections of HTTP clients that were rejected because there was no room",
            endpoint.rejected_connections(),
        ),
    ];
    for (name, help, value) in counters {
        show_counter(&mut now.registry, name, help, value);
    }
    let gauges = [
        ("http_api_connections", "Open connections of HTTP clients", endpoint.open()),
        ("http_api_streams", "Calls of dedup in progress", endpoint.streams()),
    ];
    for (name, help, value) in gauges {
        show_gauge(&mut now.registry, name, help, value);
    }
}
