//! Several nodes in this process on real sockets, filters whose hash secret is known, and producers that link the client.

use firstseen_client::{Builder, Client, Filter};
use firstseen_filter::FilterSecret;
use firstseen_node::{Edges, Limits, NodeConfig};
use firstseen_routing::{FilterPolicies, OwnerLimits, SlicedDefinition, TreeSpec};
use firstseen_wire::map::{
    answer_message, clock_message, definition_json, durability_message, lookup_message, when_lost_message,
};
use firstseen_wire::proto::admin::CreateFilterRequest;
use firstseen_wire::tree::encode;

use super::TestNode;

/// Of every filter: what a run finds, the next finds too.
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
    /// Up to five nodes. What waits is not refused for its age: a test machine may be slow.
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, be_patient).await
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

    /// Why a tree cannot be made.
    pub async fn refuses_tree(&self, name: &str, definition: &SlicedDefinition, tree: &TreeSpec) -> String {
        let policies = FilterPolicies::default();
        let request = CreateFilterRequest { tree: Some(encode(tree)), ..request(name, definition, policies) };
        self.nodes[0].admin().create_filter(request).await.expect_err("no tree").message().to_owned()
    }

    /// A client that starts from one of the nodes, and waits patiently.
    pub fn builder(&self, door: usize) -> Builder {
        let address = self.nodes[door % self.nodes.len()].node.addr();
        Client::builder().seeds([address]).deadline_ms(60_000)
    }

    /// A client of its own, with its own connections, and a filter in its hands.
    pub async fn producer(&self, door: usize, filter: &str) -> (Client, Filter) {
        let client = self.builder(door).connect().await.expect("a client");
        let filter = client.filter(filter).await.expect("a filter");
        (client, filter)
    }
}

fn be_patient(config: &mut NodeConfig) {
    config.limits = Limits { queue_age_max_ms: 60_000, batch_deadline_max_ms: 60_000, ..Limits::default() };
}

/// Makes a filter by way of `node`.
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
        ..CreateFilterRequest::default()
    }
}
