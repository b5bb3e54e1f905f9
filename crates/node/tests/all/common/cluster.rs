//! Several nodes in this process on real sockets, filters whose hash secret is known, and producers that link the client.

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

/// The secret of every filter: each run has the same false positives.
const SECRET: [u8; 32] = [7; 32];

/// The secret that events are hashed under.
pub fn secret() -> FilterSecret {
    FilterSecret::from_material(&SECRET)
}

/// Nodes that agree on one map.
pub struct TestCluster {
    pub nodes: Vec<TestNode>,
}

impl TestCluster {
    /// Up to five nodes. What waits is not refused for its age, and no node is called down: a test machine may be slow.
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, be_patient).await
    }

    /// The same of nodes one of which is to be called down.
    pub async fn start_to_lose_one(count: usize) -> Self {
        Self::start_with(count, |config| {
            let timing = config.timing.clone();
            be_patient(config);
            config.timing = timing;
        })
        .await
    }

    /// Up to five nodes whose configurations were changed by `change`.
    pub async fn start_with(count: usize, change: impl Fn(&mut NodeConfig)) -> Self {
        Self::start_changed(count, change, |_| {}).await
    }

    /// Three nodes whose owners keep the rules of `owner_limits`.
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

    /// Makes a filter, and waits until every node has its slices.
    pub async fn create(&self, name: &str, definition: &SlicedDefinition, policies: FilterPolicies) {
        create_at(&self.nodes[0], name, definition, policies).await;
        for node in &self.nodes {
            node.knows(name).await;
        }
    }

    /// Makes a tree of filters, and waits until every node has its slices.
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

    /// The refusal of a tree that cannot be made.
    pub async fn refuses_tree(&self, name: &str, definition: &SlicedDefinition, tree: &TreeSpec) -> String {
        let policies = FilterPolicies::default();
        let request = CreateFilterRequest { tree: Some(encode(tree)), ..request(name, definition, policies) };
        self.nodes[0].admin().create_filter(request).await.expect_err("no tree").message().to_owned()
    }

    /// A client that starts from one of the nodes, with a long deadline.
    pub fn options(&self, door: usize) -> ConnectOptions {
        let address = self.nodes[door % self.nodes.len()].node.addr();
        ConnectOptions { deadline_ms: PATIENCE_MS.into(), ..ConnectOptions::from([address]) }
    }

    /// A client of its own, with its own connections, and a filter of it.
    pub async fn producer(&self, door: usize, filter: &str) -> (Client, Filter) {
        let client = Client::connect(self.options(door)).await.expect("a client");
        let filter = client.filter(filter).await.expect("a filter");
        (client, filter)
    }
}

/// Nobody waits for longer.
const PATIENCE_MS: u32 = 60_000;

fn be_patient(config: &mut NodeConfig) {
    config.timing.unreachable_after_ms = u64::from(PATIENCE_MS);
    config.limits =
        Limits { queue_age_max_ms: PATIENCE_MS.into(), batch_deadline_max_ms: PATIENCE_MS, ..Limits::default() };
}

/// Makes a filter through `node`.
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
