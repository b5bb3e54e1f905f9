//! Metrics of the door for Redis clients.
//!
//! Promises: none where the node has no door. Must not know: what commands do.

use firstseen_door::DoorCounts;

use super::gathering::Gathering;
use super::{show_counter, show_gauge};

/// Shows what has happened at the door.
pub(super) fn show(now: &mut Gathering, door: &DoorCounts) {
    for count in door.commands() {
        let help = "Commands of Redis clients that were understood";
        now.of("command", count.command).count("redis_commands", help).inc_by(count.count);
    }
    let counters = [
        ("redis_refused", "Commands of Redis clients that were answered with an error", door.refused()),
        ("redis_undecided", "Events of Redis clients that were undecided", door.undecided()),
        ("redis_turned_away", "Connections of Redis clients for which there was no room", door.turned_away()),
        (
            "redis_unconfirmed",
            "Claims of Redis clients that the door was to confirm and could not, or for which it had no room",
            door.unconfirmed(),
        ),
    ];
    for (name, help, value) in counters {
        show_counter(&mut now.registry, name, help, value);
    }
    let gauges = [
        ("redis_connections", "Connections of Redis clients that are open", door.open()),
        (
            "redis_confirms_waiting",
            "Claims of Redis clients that the door confirms when their leases are nearly over",
            door.confirms_waiting(),
        ),
    ];
    for (name, help, value) in gauges {
        show_gauge(&mut now.registry, name, help, value);
    }
}
