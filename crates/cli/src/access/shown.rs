//! Prints the access rights of a cluster, as a table for users or as JSON for scripts. The field names in the JSON form
//! do not change between releases, so scripts can rely on them.

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
    /// Limits for filters with common names.
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
    /// Limits of the principal. They are empty if nothing is limited.
    #[serde(skip_serializing_if = "Quota::is_none")]
    quota: Quota,
}

#[derive(Serialize)]
struct RightDocument<'a> {
    verb: String,
    /// Names of the filters. `None` means that the verb applies to the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    filters: Option<&'a str>,
}

/// Returns everything as one JSON document.
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

/// Returns everything as a table for users.
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
        "rights are not enforced: the roles in certificates decide"
    };
    let _ = writeln!(text, "{asked}; admin.firstseen may do everything");
    text
}

/// Returns the limits for filters with common names as text.
pub(super) fn filters_quota(FiltersQuota { filters, cell_bytes }: FiltersQuota) -> String {
    let filters = filters.map(|most| format!("{} at most", grouped(most.get().into())));
    let bytes = cell_bytes.map(|most| format!("of {} together", ByteSize(most.get())));
    let bounds: Vec<String> = filters.into_iter().chain(bytes).collect();
    if bounds.is_empty() { "as many and as large as there is room".to_owned() } else { bounds.join(", ") }
}

/// Returns the limits of a principal as text.
pub(super) fn quota(Quota { events_per_s, inflight_batches }: Quota) -> String {
    let events = events_per_s.map(|most| format!("{} events a second", grouped(most.get().into())));
    let batches = inflight_batches.map(|most| format!("{most} batches at once"));
    let bounds: Vec<String> = events.into_iter().chain(batches).collect();
    if bounds.is_empty() { "as much as it likes".to_owned() } else { bounds.join(", ") }
}

/// Returns rights as a list separated by commas.
pub(super) fn list<'a>(rights: impl IntoIterator<Item = &'a Grant>) -> String {
    rights.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
