//! The alarms of the console. Each alarm describes a problem, and contains a command that helps.
//!
//! # Guarantees
//! - Alarms depend only on the overview.
//! - An unknown value raises no alarm, but a node that does not answer does.
//! - A command can be pasted into a shell, whatever characters its names contain.
//!
//! This module does not depend on how the overview is collected or on how alarms are displayed.

mod words;

use super::overview::{Alarm, FilterLine, NodeLine, Overview, PlaceLine, Severity, Undecided, WorkLine, is_harmless};
use words::{bytes, count, duration, percent, word};

/// Maximum number of displayed alarms.
pub(super) const ALARMS_MAX: usize = 100;

/// Share of its capacity from which a filter counts as nearly full.
const NEARLY_FULL: f64 = 0.8;

/// Share of its memory limit from which a node counts as short of memory.
const MEMORY_SHORT: f64 = 0.95;

/// Time in seconds after which a move of slices counts as stuck if it makes no progress. A healthy move can also stand
/// still for a while, because it waits for a retry horizon (one minute by default) and for the cells of a slice to
/// arrive. The limit is therefore much longer than these waiting times.
const STUCK_S: u64 = 600;

/// Time in seconds for which a place may have decided events without its parent place before this counts as a problem.
/// A healthy place reports such events within a few seconds after its parent can be reached again.
const OWED_LONG_S: u64 = 60;

const DAY_MS: u64 = 24 * 3600 * 1000;
/// Times before the expiry of a certificate at which a warning, and later a critical alarm, is raised, in milliseconds.
const CERTIFICATE_SOON_MS: [u64; 2] = [30 * DAY_MS, 7 * DAY_MS];

/// Returns the alarms of an overview, with the most severe alarms first.
pub(super) fn alarms(overview: &Overview) -> Vec<Alarm> {
    let at = At { overview };
    let mut alarms: Vec<Alarm> = at.leaderless().into_iter().collect();
    alarms.extend(overview.nodes.iter().flat_map(|node| at.of_node(node)));
    alarms.extend(overview.filters.iter().flat_map(|filter| at.of_filter(filter)));
    alarms.extend(overview.trees.iter().flat_map(|tree| &tree.places).filter_map(|place| at.owed(place)));
    alarms.extend(overview.work.iter().filter_map(|work| at.stuck(work)));
    alarms.extend(at.upgrade());
    // The sort is stable, so alarms of the same severity keep their order.
    alarms.sort_by_key(|alarm| alarm.severity);
    alarms
}

/// Creates alarms from an overview, with commands for its cluster.
struct At<'a> {
    overview: &'a Overview,
}

fn alarm(severity: Severity, kind: &str, subject: &str, text: String, command: String) -> Alarm {
    Alarm { severity, kind: kind.to_owned(), subject: subject.to_owned(), text, command, on: None }
}

/// Creates an alarm about a node, whose command must be executed on that node.
fn alarm_on(node: &NodeLine, severity: Severity, kind: &str, text: String, command: &str) -> Alarm {
    Alarm { on: Some(node.name.clone()), ..alarm(severity, kind, &node.name, text, command.to_owned()) }
}

impl At<'_> {
    /// Returns a command for the cluster. `verb` ends with the flag that takes an address.
    fn command(&self, verb: &str, rest: &str) -> String {
        let cluster = &self.overview.cluster;
        let tls = if cluster.tls { " $TLS" } else { "" };
        format!("firstseen {verb} {}{rest}{tls}", word(&cluster.address))
    }

    fn status(&self) -> String {
        self.command("cluster status --addr", "")
    }

    fn describe(&self, filter: &str) -> String {
        self.command(&format!("filter describe {} --cluster", word(filter)), "")
    }

    /// Returns the cause of undecided events with this reason, if another alarm already reports the cause.
    fn cause(&self, filter: &FilterLine, reason: &str) -> Option<&'static str> {
        let Overview { nodes, cluster, .. } = self.overview;
        let most_ahead_ms =
            nodes.iter().filter_map(|node| node.clock_ahead_ms).map(i64::unsigned_abs).max().unwrap_or(0);
        match reason {
            "slices_down" if nodes.iter().any(|node| node.state == "down") => Some("as a node is down"),
            "cut_off" | "not_ready" if self.leaderless().is_some() => Some("as no node leads the cluster"),
            "clock_skew" if most_ahead_ms > cluster.clock_skew_max_ms => Some("as the clock of a node is wrong"),
            "full" if filter.full.is_some_and(|full| full >= 1.0) => Some("as the filter is full"),
            _ => None,
        }
    }

    /// Returns the severity and the text of an alarm. If the alarm only follows from another problem, `cause` names
    /// that problem, and the severity is a warning. Otherwise, the severity is critical. The number of critical alarms
    /// therefore equals the number of independent problems. For example, a node that is down causes one critical alarm,
    /// and the events that are undecided for this reason cause a warning.
    fn critical_by_itself(cause: Option<&str>, text: String) -> (Severity, String) {
        match cause {
            Some(cause) => (Severity::Warning, format!("{text} ({cause})")),
            None => (Severity::Critical, text),
        }
    }

    fn leaderless(&self) -> Option<Alarm> {
        let cluster = &self.overview.cluster;
        let text = "no majority of the voters agrees on a leader: the cluster map cannot be changed, and nodes record \
                    no new events when their leases have ended; start the other nodes";
        let is_none = cluster.leader.is_none() && !cluster.id.is_empty();
        is_none.then(|| alarm(Severity::Critical, "no_leader", &cluster.node, text.to_owned(), self.status()))
    }

    fn of_node(&self, node: &NodeLine) -> Vec<Alarm> {
        let name = &node.name;
        let mut alarms = Vec::new();
        match node.state.as_str() {
            "down" => {
                let text = format!(
                    "node {name} is down, and the others go on without it: start it again (in a cluster of `firstseen up`: \
                     `firstseen up --restart {name}`)"
                );
                alarms.push(alarm_on(node, Severity::Critical, "node_down", text, "systemctl start firstseen"));
            }
            "not_reached" | "silent" => {
                let text = format!("node {name} does not answer: its values are unknown");
                alarms.push(alarm(Severity::Warning, "node_silent", name, text, self.status()));
            }
            _ => {}
        }
        if let Some(reason) = &node.not_ready {
            let text = format!("node {name} is not ready: {reason}");
            alarms.push(alarm_on(node, Severity::Warning, "node_not_ready", text, "journalctl -u firstseen -n 50"));
        }
        alarms.extend(self.clock(node));
        alarms.extend(self.certificate(node));
        alarms.extend(self.memory(node));
        if let Some(unsure_ms) = node.claims_unsure_ms.filter(|unsure_ms| *unsure_ms > 0) {
            let text = format!(
                "node {name} will know only in {} which consumers hold the events that it took over: claims of these \
                 events are undecided until then",
                duration(unsure_ms / 1000)
            );
            alarms.push(alarm(Severity::Warning, "claims_unsure", name, text, self.status()));
        }
        alarms
    }

    fn clock(&self, node: &NodeLine) -> Option<Alarm> {
        let max_ms = self.overview.cluster.clock_skew_max_ms;
        let ahead_ms = node.clock_ahead_ms.filter(|ahead_ms| ahead_ms.unsigned_abs() > max_ms / 2)?;
        let side = if ahead_ms < 0 { "behind" } else { "ahead of" };
        let (severity, then) = if ahead_ms.unsigned_abs() > max_ms {
            (Severity::Critical, "events in windows of time are undecided there until the clock is corrected")
        } else {
            (Severity::Warning, "check the clock")
        };
        let text = format!(
            "the clock of node {} is {} ms {side} most others, and {max_ms} ms are allowed: {then}",
            node.name,
            ahead_ms.unsigned_abs()
        );
        Some(alarm_on(node, severity, "clock", text, "timedatectl status"))
    }

    fn certificate(&self, node: &NodeLine) -> Option<Alarm> {
        let left_ms = node.certificate_ends_ms?.saturating_sub(self.overview.at_ms);
        let [soon_ms, urgent_ms] = CERTIFICATE_SOON_MS;
        let severity = if left_ms < urgent_ms { Severity::Critical } else { Severity::Warning };
        let name = &node.name;
        let text = match left_ms {
            0 => format!("a certificate of node {name} has expired: replace it by a new one"),
            left_ms => format!(
                "a certificate of node {name} expires in {}: replace it by a new one, which the node then loads",
                duration(left_ms / 1000)
            ),
        };
        let command = "firstseen node --config node.toml --check-config";
        (left_ms < soon_ms).then(|| alarm_on(node, severity, "certificate", text, command))
    }

    fn memory(&self, node: &NodeLine) -> Option<Alarm> {
        let used = node.memory_used_bytes?;
        let limit = node.memory_limit_bytes;
        let is_short = limit > 0 && used as f64 >= limit as f64 * MEMORY_SHORT;
        let text =
            format!("the cells of node {} take {} of the {} that it may use", node.name, bytes(used), bytes(limit));
        let command = self.command("cluster rebalance --plan --addr", "");
        is_short.then(|| alarm(Severity::Warning, "memory", &node.name, text, command))
    }

    fn of_filter(&self, filter: &FilterLine) -> Vec<Alarm> {
        let FilterLine { name, slices, .. } = filter;
        let mut alarms = Vec::new();
        if slices.down > 0 {
            let text = format!(
                "{} of {} slices of filter {name} are down: start the nodes that own them",
                slices.down, slices.all
            );
            let (severity, text) = Self::critical_by_itself(self.cause(filter, "slices_down"), text);
            alarms.push(alarm(severity, "slices_down", name, text, self.describe(name)));
        }
        if slices.set_only > 0 {
            let until = match filter.window.as_str() {
                "unbounded" => {
                    "the loss is accepted with `firstseen filter forgive`, because the filter has no window".to_owned()
                }
                window => format!("they have expired, one window ({window}) after the loss"),
            };
            let text = format!(
                "{} of {} slices of filter {name} are set-only: they record events, but events that they may have lost \
                 are undecided until {until}",
                slices.set_only, slices.all
            );
            let (severity, text) = match slices.complete {
                0 => Self::critical_by_itself(self.cause(filter, "slices_down"), text),
                _ => (Severity::Warning, text),
            };
            alarms.push(alarm(severity, "slices_set_only", name, text, self.describe(name)));
        }
        alarms.extend(self.full(filter));
        let undecided = filter.verdicts.undecided.iter();
        alarms.extend(undecided.filter_map(|undecided| self.undecided(filter, undecided)));
        alarms
    }

    fn full(&self, filter: &FilterLine) -> Option<Alarm> {
        let full = filter.full.filter(|full| *full >= NEARLY_FULL)?;
        let name = &filter.name;
        let severity = if full >= 1.0 { Severity::Critical } else { Severity::Warning };
        let room = filter.capacity_events.unwrap_or(0);
        let text = format!(
            "the fullest slice of filter {name} contains {} of its events (the filter has room for {}): events without \
             room are undecided",
            percent(full),
            count(room)
        );
        // The size of a filter in a tree cannot be changed.
        let is_in_tree = self.overview.trees.iter().flat_map(|tree| &tree.places).any(|place| place.filter == *name);
        let command = if is_in_tree || room == 0 {
            self.describe(name)
        } else {
            let wider = room.saturating_mul(2);
            self.command(&format!("filter alter {} --capacity {wider} --plan --cluster", word(name)), "")
        };
        Some(alarm(severity, "filter_full", name, text, command))
    }

    fn undecided(&self, filter: &FilterLine, undecided: &Undecided) -> Option<Alarm> {
        let name = &filter.name;
        let rate = undecided.per_s.filter(|rate| *rate > 0.0)?;
        let reason = undecided.reason.as_str();
        if is_harmless(reason) || undecided.harmless {
            return None;
        }
        let are_all_there = reason == "slices_down" && filter.slices.down == 0 && filter.slices.set_only > 0;
        let meaning = if are_all_there {
            "no node of its slices is down, but events that these slices may have lost are undecided until they have \
             expired; this command accepts the loss at once, and lost events are first-seen again"
        } else {
            words::reason(reason)
        };
        let text = format!(
            "{} events a second of filter {name} are undecided ({reason}): {meaning}",
            count(rate.ceil() as u64)
        );
        let (severity, text) = match reason {
            "late" | "future" | "name_reused" | "too_old" | "claims_unknown" => (Severity::Warning, text),
            _ => Self::critical_by_itself(self.cause(filter, reason), text),
        };
        let command = match reason {
            _ if are_all_there => self.command(&format!("filter forgive {} --cluster", word(name)), ""),
            "slices_down" | "cut_off" | "clock_skew" | "not_ready" => self.status(),
            "forbidden" => self.command("access list --cluster", ""),
            _ => self.describe(name),
        };
        Some(alarm(severity, "undecided", name, text, command))
    }

    /// Returns the alarm about a place of a tree that has decided events without its parent place and has not reported
    /// them yet.
    fn owed(&self, place: &PlaceLine) -> Option<Alarm> {
        let events = place.owed_events.filter(|events| *events > 0)?;
        let oldest_s = place.owed_oldest_s.unwrap_or(0);
        let full = place.owed_full.unwrap_or(0.0);
        if oldest_s < OWED_LONG_S && full < NEARLY_FULL {
            return None;
        }
        let filter = &place.filter;
        let parent = place.parent.as_deref().unwrap_or("?");
        let room = match full {
            1.0.. => "; it has no room for more, so further new events are undecided".to_owned(),
            NEARLY_FULL.. => {
                format!("; when it has no room for more ({} used), new events are undecided", percent(full))
            }
            _ => String::new(),
        };
        let text = format!(
            "filter {filter} has called {} events first-seen without {parent}, and has not reported them for {}: other \
             sites may pass the same events until {parent} can be reached from there{room}",
            count(events),
            duration(oldest_s)
        );
        let severity = if full >= 1.0 { Severity::Critical } else { Severity::Warning };
        Some(alarm(severity, "owed_events", filter, text, self.status()))
    }

    fn stuck(&self, work: &WorkLine) -> Option<Alarm> {
        if work.kind != "move" || work.unchanged_s < STUCK_S {
            return None;
        }
        let filter = &work.filter;
        let left = work.left.unwrap_or(0);
        let text = format!(
            "{left} slices of filter {filter} are being moved, and none has arrived for {}: their nodes may be down \
             (`firstseen cluster rebalance --cancel` cancels the moves)",
            duration(work.unchanged_s)
        );
        Some(alarm(Severity::Warning, "moves_stuck", filter, text, self.status()))
    }

    fn upgrade(&self) -> Option<Alarm> {
        let Overview { nodes, cluster, .. } = self.overview;
        let mut versions: Vec<&str> = nodes.iter().filter_map(|node| node.version.as_deref()).collect();
        versions.sort_unstable();
        versions.dedup();
        let readable = nodes.iter().map(|node| node.newest_format).collect::<Option<Vec<u32>>>();
        let can_rise = readable.and_then(|formats| formats.into_iter().min()) > Some(u32::from(cluster.format));
        let text = match versions.len() {
            0 | 1 if can_rise => format!(
                "all nodes can read a newer format than the {} that the cluster writes: the format is raised ten \
                 minutes after the last upgrade, unless a node holds it",
                cluster.format
            ),
            0 | 1 => return None,
            _ => format!("an upgrade is unfinished: nodes run versions {}", versions.join(" and ")),
        };
        let command = self.command("cluster upgrade status --addr", "");
        Some(alarm(Severity::Warning, "upgrade", &cluster.node, text, command))
    }
}

#[cfg(test)]
mod tests;
