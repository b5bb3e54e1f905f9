//! What a cluster knows beside cells: its map, and the secrets of its filters.

use std::collections::BTreeMap;

use anyhow::Context;
use firstseen_routing::{ClusterMap, FilterId};
use firstseen_wire::net::producer_client;
use firstseen_wire::proto::producer::DescribeFilterRequest;
use serde::{Deserialize, Serialize};

use crate::cluster::connect::Operator;
use crate::cluster::hex;

/// What a cluster knows beside cells. It does not print itself.
#[derive(Serialize, Deserialize)]
pub(crate) struct Metadata {
    /// Nodes and filters.
    pub(crate) map: ClusterMap,
    /// By number of the filter: 32 bytes in hexadecimal digits.
    pub(super) secrets: BTreeMap<FilterId, String>,
    /// Filters that the cluster had and the backup has not, as they were being altered or restored; former releases do not say.
    #[serde(default)]
    pub(crate) left_out: Vec<String>,
}

impl Metadata {
    /// The secret of a filter.
    ///
    /// # Errors
    /// Where there is none.
    pub(crate) fn secret(&self, filter: FilterId) -> anyhow::Result<Vec<u8>> {
        let digits = self.secrets.get(&filter).with_context(|| format!("filter {filter} has no secret"))?;
        let byte = |at: usize| digits.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes = (0..digits.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>();
        bytes.with_context(|| format!("the secret of filter {filter} is none"))
    }
}

/// Asks for the secrets of all filters.
///
/// # Errors
/// What the node says.
pub(super) async fn secrets(member: &Operator, map: &ClusterMap) -> anyhow::Result<BTreeMap<FilterId, String>> {
    let mut secrets = BTreeMap::new();
    for (filter, record) in &map.filters {
        let request = DescribeFilterRequest { name: record.name.clone() };
        let described =
            member.ask(async |channel| producer_client(channel).describe_filter(request.clone()).await).await;
        let described = described.with_context(|| format!("the secret of filter {}", record.name))?;
        let told = described.filter.as_ref().map(|filter| filter.id);
        anyhow::ensure!(told == Some(filter.0), "filter {} has changed meanwhile: take the backup again", record.name);
        secrets.insert(*filter, hex(&described.secret));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_former_releases_wrote_leaves_nothing_out() {
        let written = |left_out: &[&str]| {
            let left_out = left_out.iter().map(ToString::to_string).collect();
            serde_json::to_value(Metadata { map: ClusterMap::default(), secrets: BTreeMap::new(), left_out })
        };
        let mut known = written(&["clicks"]).expect("JSON");
        let read = |known: &serde_json::Value| serde_json::from_value::<Metadata>(known.clone()).expect("metadata");
        assert_eq!(read(&known).left_out, ["clicks"]);
        known.as_object_mut().and_then(|known| known.remove("left_out")).expect("it is said");
        assert!(read(&known).left_out.is_empty());
    }
}
