//! Metrics of the Redis endpoint. A node without a Redis endpoint has none of these metrics.

use firstseen_redis_endpoint::RedisEndpointCounts;

use super::gathering::Gathering;
use super::{show_counter, show_gauge};

/// Adds the counters of the Redis endpoint.
pub(super) fn show(now: &mut Gathering, endpoint: &RedisEndpointCounts) {
    for count in endpoint.commands() {
        let help = "Valid commands of Redis clients";
        now.of("command", count.command).count("redis_commands", help).inc_by(count.count);
    }
    let counters = [
        ("redis_refused", "Commands of Redis clients that were answered with an error", endpoint.refused()),
        ("redis_undecided", "Events of Redis clients that were undecided", endpoint.undecided()),
        (
            "redis_turned_away",
            "Connections of Redis clients that were rejected because there was no room",
            endpoint.rejected_connections(),
        ),
        (
            "redis_unconfirmed",
            "Claims of Redis clients that the endpoint could not confirm, or had no room for",
            endpoint.unconfirmed(),
        ),
    ];
    for (name, help, value) in counters {
        show_counter(&mut now.registry, name, help, value);
    }
    let gauges = [
        ("redis_connections", "Open connections of Redis clients", endpoint.open()),
        (
            "redis_confirms_waiting",
            "Claims of Redis clients that the endpoint will confirm shortly before their leases end",
            endpoint.confirms_waiting(),
        ),
    ];
    for (name, help, value) in gauges {
        show_gauge(&mut now.registry, name, help, value);
    }
}
