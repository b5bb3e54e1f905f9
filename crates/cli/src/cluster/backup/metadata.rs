//! The metadata of a backup: the cluster map, and the secrets of the filters.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use firstseen_routing::{ClusterMap, FilterId};
use firstseen_wire::net::producer_client;
use firstseen_wire::proto::producer::DescribeFilterRequest;
use serde::{Deserialize, Serialize};

use crate::cluster::connect::Operator;
use crate::text::hex::{bytes_of_hex, hex};

/// Everything that a cluster knows apart from cells. This type does not implement `Debug`, because it contains secrets.
#[derive(Serialize, Deserialize)]
pub(crate) struct Metadata {
    /// Cluster map with nodes and filters.
    pub(crate) map: ClusterMap,
    /// Secret of each filter, by the filter's number: 32 bytes in hexadecimal digits.
    pub(super) secrets: BTreeMap<FilterId, String>,
    /// Names of the filters that the cluster had but this backup does not contain. A filter is left out if a restore
    /// was still creating it when the backup was taken, because its cells were not complete yet.
    ///
    /// Earlier releases also left out filters that were being altered. Backups of the oldest releases do not have this
    /// list.
    #[serde(default)]
    pub(crate) left_out: Vec<String>,
    /// Numbers of the filters that were being altered when the backup was taken. Such a filter consists of a
    /// predecessor and a new filter. The backup contains only the new filter, so the events that the predecessor
    /// recorded are missing.
    ///
    /// Backups of earlier releases leave such filters out completely, so this set is empty for them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) altered: BTreeSet<FilterId>,
}

impl Metadata {
    /// Returns the secret of a filter.
    ///
    /// # Errors
    /// Returns an error if the backup has no secret of this filter.
    pub(crate) fn secret(&self, filter: FilterId) -> anyhow::Result<Vec<u8>> {
        let digits = self.secrets.get(&filter).with_context(|| format!("filter {filter} has no secret"))?;
        bytes_of_hex(digits).with_context(|| format!("the secret of filter {filter} is none"))
    }
}

/// Asks a node for the secrets of all filters.
///
/// # Errors
/// Returns the errors of the node.
pub(super) async fn secrets(member: &Operator, map: &ClusterMap) -> anyhow::Result<BTreeMap<FilterId, String>> {
    let mut secrets = BTreeMap::new();
    for (filter, record) in &map.filters {
        let request = DescribeFilterRequest { name: record.name.clone() };
        let described =
            member.ask(async |channel| producer_client(channel).describe_filter(request.clone()).await).await;
        let described = described.with_context(|| format!("the secret of filter {}", record.name))?;
        let described_id = described.filter.as_ref().map(|filter| filter.id);
        anyhow::ensure!(
            described_id == Some(filter.0),
            "filter {} has changed meanwhile: take the backup again",
            record.name
        );
        secrets.insert(*filter, hex(&described.secret));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_of_a_former_release_names_no_filter_that_is_left_out() {
        let written = |left_out: &[&str]| {
            let left_out = left_out.iter().map(ToString::to_string).collect();
            let map = ClusterMap::default();
            let secrets = BTreeMap::new();
            let altered = BTreeSet::new();
            serde_json::to_value(Metadata { map, secrets, left_out, altered })
        };
        let mut known = written(&["clicks"]).expect("JSON");
        let read = |known: &serde_json::Value| serde_json::from_value::<Metadata>(known.clone()).expect("metadata");
        assert_eq!(read(&known).left_out, ["clicks"]);
        known.as_object_mut().and_then(|known| known.remove("left_out")).expect("it is said");
        assert!(read(&known).left_out.is_empty());
    }
}
