//! Helpers for tests with several nodes. The nodes run in the process of the test and communicate over real sockets.
//! All filters have the same known hash secret, and the producers use the client library.

use firstseen_client::{Client, ConnectOptions, Filter};
use firstseen_filter::FilterSecret;
use firstseen_node::{Edges, Limits, NodeConfig};
use firstseen_routing::{FilterPolicies, OwnerLimits, SlicedDefinition, TreeSpec};
use firstseen_wire::map::{
    answer_message, clock_message, definition_json, durability_message, lookup_message, when_lost_message,
};
use firstseen_wire::proto::admin::CreateFilterRequest;
use firstseen_wire::tree::encode;

use super::TestNode;

/// Secret of every filter. It is fixed so that each run has the same false positives.
const SECRET: [u8; 32] = [7; 32];

/// Returns the secret that events are hashed with.
pub fn secret() -> FilterSecret {
    FilterSecret::from_material(&SECRET)
}

/// Nodes that form a cluster.
pub struct TestCluster {
    pub nodes: Vec<TestNode>,
}

impl TestCluster {
    /// Starts a cluster of up to five nodes that tolerate a slow test machine. The nodes do not reject work that has
    /// waited for a long time in a queue, and never mark each other as down.
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, be_patient).await
    }

    /// Starts up to five nodes that can mark one of them as down.
    pub async fn start_to_lose_one(count: usize) -> Self {
        Self::start_with(count, |config| {
            let timing = config.timing.clone();
            be_patient(config);
            config.timing = timing;
        })
        .await
    }

    /// Starts up to five nodes with configurations that `change` has modified.
    pub async fn start_with(count: usize, change: impl Fn(&mut NodeConfig)) -> Self {
        Self::start_changed(count, change, |_| {}).await
    }

    /// Starts three nodes whose owners follow the rules of `owner_limits`.
    pub async fn start_keeping(owner_limits: OwnerLimits) -> Self {
        Self::start_changed(3, be_patient, |edges| edges.owner_limits = owner_limits).await
    }

    async fn start_changed(count: usize, change: impl Fn(&mut NodeConfig), change_edges: impl Fn(&mut Edges)) -> Self {
        let mut nodes: Vec<TestNode> = Vec::new();
        for name in ["a", "b", "c", "d", "e"].into_iter().take(count) {
            nodes.push(TestNode::start_changed(name, &change, &change_edges).await);
        }
        nodes[0].init().await;
        for node in &nodes[1..] {
            nodes[0].join(node).await;
        }
        Self { nodes }
    }

    /// Creates a filter, and waits until every node has its slices.
    pub async fn create(&self, name: &str, definition: &SlicedDefinition, policies: FilterPolicies) {
        create_at(&self.nodes[0], name, definition, policies).await;
        for node in &self.nodes {
            node.knows(name).await;
        }
    }

    /// Creates a filter tree, and waits until every node has its slices.
    pub async fn create_tree(
        &self,
        name: &str,
        definition: &SlicedDefinition,
        policies: FilterPolicies,
        tree: &TreeSpec,
    ) {
        let request = CreateFilterRequest { tree: Some(encode(tree)), ..request(name, definition, policies) };
        self.nodes[0].admin().create_filter(request).await.expect("create");
        for node in &self.nodes {
            node.knows(name).await;
        }
    }

    /// Returns the error message for a filter tree that cannot be created.
    pub async fn refuses_tree(&self, name: &str, definition: &SlicedDefinition, tree: &TreeSpec) -> String {
        let policies = FilterPolicies::default();
        let request = CreateFilterRequest { tree: Some(encode(tree)), ..request(name, definition, policies) };
        self.nodes[0].admin().create_filter(request).await.expect_err("no tree").message().to_owned()
    }

    /// Returns the options of a client that first connects to one of the nodes and has a long deadline.
    pub fn options(&self, endpoint: usize) -> ConnectOptions {
        let address = self.nodes[endpoint % self.nodes.len()].node.addr();
        ConnectOptions { deadline_ms: PATIENCE_MS.into(), ..ConnectOptions::from([address]) }
    }

    /// Connects a separate client, and opens a filter with it.
    pub async fn producer(&self, endpoint: usize, filter: &str) -> (Client, Filter) {
        let client = Client::connect(self.options(endpoint)).await.expect("a client");
        let filter = client.filter(filter).await.expect("a filter");
        (client, filter)
    }
}

/// Maximum time that any operation waits, in milliseconds.
const PATIENCE_MS: u32 = 180_000;

fn be_patient(config: &mut NodeConfig) {
    config.timing.unreachable_after_ms = u64::from(PATIENCE_MS);
    // On a machine with other work, heartbeats can be late by many seconds. A node whose lease ends records nothing.
    config.timing.lease_ms = 60_000;
    config.limits =
        Limits { queue_age_max_ms: PATIENCE_MS.into(), batch_deadline_max_ms: PATIENCE_MS, ..Limits::default() };
}

/// Creates a filter through `node`.
pub async fn create_at(node: &TestNode, name: &str, definition: &SlicedDefinition, policies: FilterPolicies) {
    node.admin().create_filter(request(name, definition, policies)).await.expect("create");
}

fn request(name: &str, definition: &SlicedDefinition, policies: FilterPolicies) -> CreateFilterRequest {
    CreateFilterRequest {
        name: name.to_owned(),
        definition_json: definition_json(definition),
        clock: clock_message(policies.clock).into(),
        lookup: lookup_message(policies.lookup).into(),
        answer: answer_message(policies.answer).into(),
        retry_horizon_ms: policies.retry_horizon_ms,
        secret: SECRET.to_vec().into(),
        durability: durability_message(policies.durability).0.into(),
        durability_interval_ms: durability_message(policies.durability).1,
        min_live: policies.thresholds.min_live,
        set_min: policies.thresholds.set_min,
        when_lost: when_lost_message(policies.when_lost).into(),
        copies: policies.copies,
        lease_max_ms: policies.claim_lease_max_ms.map_or(0, std::num::NonZeroU32::get),
        ..CreateFilterRequest::default()
    }
}
