//! Who may do what, as it is shown.
//!
//! Promises: the JSON names below. Must not know: clusters.

use std::fmt::Write as _;

use firstseen_routing::{Access, FiltersQuota, Grant, Quota};
use serde::Serialize;

use crate::text::numbers::grouped;
use crate::text::size::ByteSize;
use crate::text::table::Table;

#[derive(Serialize)]
struct Document<'a> {
    /// Whether callers need rights.
    enabled: bool,
    principals: Vec<PrincipalDocument<'a>>,
    /// What filters may take together.
    filters: Vec<FiltersDocument<'a>>,
}

#[derive(Serialize)]
struct FiltersDocument<'a> {
    names: &'a str,
    #[serde(flatten)]
    quota: FiltersQuota,
}

#[derive(Serialize)]
struct PrincipalDocument<'a> {
    name: &'a str,
    rights: Vec<RightDocument<'a>>,
    /// None where nothing is bounded.
    #[serde(skip_serializing_if = "Quota::is_none")]
    quota: Quota,
}

#[derive(Serialize)]
struct RightDocument<'a> {
    verb: String,
    /// None for a verb on the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    filters: Option<&'a str>,
}

/// One JSON document.
pub(super) fn json(access: &Access) -> anyhow::Result<String> {
    let principals = access.principals.iter().map(|(name, principal)| PrincipalDocument {
        name,
        rights: principal.grants.iter().map(RightDocument::from).collect(),
        quota: principal.quota,
    });
    let filters = access.filters.iter().map(|(names, quota)| FiltersDocument { names: names.as_str(), quota: *quota });
    let document =
        Document { enabled: access.is_enabled, principals: principals.collect(), filters: filters.collect() };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

impl<'a> From<&'a Grant> for RightDocument<'a> {
    fn from(grant: &'a Grant) -> Self {
        match grant {
            Grant::Filters { names, verb } => Self { verb: verb.to_string(), filters: Some(names.as_str()) },
            Grant::Cluster(verb) => Self { verb: verb.to_string(), filters: None },
        }
    }
}

/// A table for people.
pub(super) fn text(access: &Access) -> String {
    let mut table = Table::new(&["principal", "sends at each node", "rights"]);
    for (name, principal) in &access.principals {
        table.row([name.clone(), quota(principal.quota), list(&principal.grants)]);
    }
    let mut text = if access.principals.is_empty() { "nobody has rights\n".to_owned() } else { table.text() };
    if !access.filters.is_empty() {
        let mut table = Table::new(&["filters", "may be"]);
        for (names, quota) in &access.filters {
            table.row([names.to_string(), filters_quota(*quota)]);
        }
        text += "\n";
        text += &table.text();
        text += "\n";
    }
    let asked = if access.is_enabled {
        "callers need rights"
    } else {
        "rights are not asked for: the roles of certificates count"
    };
    let _ = writeln!(text, "{asked}; admin.firstseen may do everything");
    text
}

/// How much filters may take together.
pub(super) fn filters_quota(FiltersQuota { filters, cell_bytes }: FiltersQuota) -> String {
    let filters = filters.map(|most| format!("{} at most", grouped(most.get().into())));
    let bytes = cell_bytes.map(|most| format!("of {} together", ByteSize(most.get())));
    let bounds: Vec<String> = filters.into_iter().chain(bytes).collect();
    if bounds.is_empty() { "as many and as large as there is room".to_owned() } else { bounds.join(", ") }
}

/// How much a principal may send.
pub(super) fn quota(Quota { events_per_s, inflight_batches }: Quota) -> String {
    let events = events_per_s.map(|most| format!("{} events a second", grouped(most.get().into())));
    let batches = inflight_batches.map(|most| format!("{most} batches at once"));
    let bounds: Vec<String> = events.into_iter().chain(batches).collect();
    if bounds.is_empty() { "as much as it likes".to_owned() } else { bounds.join(", ") }
}

/// Rights in a row.
pub(super) fn list<'a>(rights: impl IntoIterator<Item = &'a Grant>) -> String {
    rights.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
