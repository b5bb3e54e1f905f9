//! Metrics of the door for HTTP clients. A node without the door has none.
//!
//! This module must not depend on what calls do.

use firstseen_http_door::HttpCounts;

use super::gathering::Gathering;
use super::{show_counter, show_gauge};

/// Shows what has happened at the door.
pub(super) fn show(now: &mut Gathering, door: &HttpCounts) {
    for count in door.calls() {
        now.of("call", count.call).count("http_api_calls", "Calls of HTTP clients").inc_by(count.count);
    }
    let counters = [
        ("http_api_events", "Events that HTTP clients have asked about", door.events()),
        ("http_api_refused", "Requests of HTTP clients that were refused", door.refused()),
        ("http_api_undecided", "Events of HTTP clients that were undecided", door.undecided()),
        ("http_api_turned_away", "Connections of HTTP clients for which there was no room", door.turned_away()),
    ];
    for (name, help, value) in counters {
        show_counter(&mut now.registry, name, help, value);
    }
    let gauges = [
        ("http_api_connections", "Connections of HTTP clients that are open", door.open()),
        ("http_api_streams", "Calls of dedup that are under way", door.streams()),
    ];
    for (name, help, value) in gauges {
        show_gauge(&mut now.registry, name, help, value);
    }
}
