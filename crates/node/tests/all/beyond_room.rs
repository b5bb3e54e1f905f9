//! Tests a node whose journal contains more fingerprints than its slice has room for. When the node restarts and reads
//! this journal, it cannot store all fingerprints, so it reports that its slice is incomplete. An operator can then
//! declare the missing events as lost. After that, the slice must count as complete, also after further restarts.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use firstseen_client::{Client, ConnectOptions, Filter, Verdict};
use firstseen_filter::{FilterSpec, GenerationNumber, Kind, ProbeShape, Probes, Stamp, Unit, UnitNumber};
use firstseen_journal::{FolderDisk, Journal, NodeMark, SEGMENT_BYTES, decode, encode, scan};
use firstseen_routing::{
    ClockSource, Durability, Entry, FilterId, FilterPolicies, Reason, Record, SlicedDefinition, Slicing,
};
use firstseen_wire::proto::admin::ForgiveFilterRequest;

use crate::common::cluster::create_at;
use crate::common::disks::becomes_complete;
use crate::common::{TestNode, wait_for};

/// Number of fingerprints that exceeds the slots of a region.
const TOO_MANY: u64 = 60_000;

fn definition(kind: Kind) -> SlicedDefinition {
    let spec = FilterSpec {
        capacity_events: Some(1_000),
        rate: 1e-8,
        ..FilterSpec::new(kind, "1h".parse().expect("a window"))
    };
    SlicedDefinition::new(&spec, Slicing::NONE).expect("a definition")
}

fn durable() -> FilterPolicies {
    FilterPolicies { clock: ClockSource::Wall, durability: Durability::Durable, ..FilterPolicies::default() }
}

/// Creates a record of new events with the current time that fill a slice beyond its capacity.
fn too_many(filter: FilterId, definition: &SlicedDefinition) -> Record {
    let ProbeShape::Spread { cells, .. } = ProbeShape::of(definition.group.cells.geometry().expect("buckets")) else {
        panic!("one position an event")
    };
    let Unit::Milliseconds(unit_ms) = definition.group.unit else { panic!("a window of time") };
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_millis() as u64;
    let mut probes = Probes::new(ProbeShape::Spread { cells, hashes: 1 });
    for event in 1..=TOO_MANY {
        let spread = (u128::from(event.wrapping_mul(0x9E37_79B9_7F4A_7C15)) * u128::from(cells)) >> 64;
        probes.push_positions(&[spread as u64]).expect("a position");
    }
    let stamps = vec![Stamp::on_time(UnitNumber(now_ms / unit_ms)); TOO_MANY as usize];
    Record { filter, group: 0, entries: vec![Entry::Events { generation: GenerationNumber::FIRST, probes, stamps }] }
}

/// Appends a record to the journal of a stopped node, and returns the number of the segment that contains it.
fn append(data_dir: &Path, of: NodeMark, record: Record) -> u64 {
    let disk = FolderDisk::new(data_dir.join("journal"));
    let found = scan(&disk, of, |_, _| Ok(())).expect("a journal");
    let mut journal = Journal::after(Arc::new(disk), of, SEGMENT_BYTES, &found);
    let segment = journal.segment();
    journal.push(encode(record)).expect("written");
    journal.sync().expect("on the medium");
    segment
}

/// Returns whether a checkpoint of `filter` has ended in a later segment than `segment`.
fn has_checkpoint_after(data_dir: &Path, of: NodeMark, filter: FilterId, segment: u64) -> bool {
    let mut has = false;
    // The record that is currently being written may be incomplete.
    let _ = scan(&FolderDisk::new(data_dir.join("journal")), of, |number, bytes| {
        let record = decode(bytes).map_err(|error| error.to_string())?;
        let ends = record.entries.iter().any(|entry| matches!(entry, Entry::CheckpointEnd));
        has |= number > segment && record.filter == filter && ends;
        Ok(())
    });
    has
}

async fn observe(filter: &Filter, from: u32) -> Vec<Verdict> {
    let keys: Vec<[u8; 4]> = (from..from + 100).map(u32::to_le_bytes).collect();
    filter.observe_batch(&keys).await.expect("a call")
}

async fn clicks(node: &TestNode, deadline_ms: u64) -> (Client, Filter) {
    let client = Client::connect(ConnectOptions { deadline_ms, ..ConnectOptions::from([node.node.addr()]) })
        .await
        .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    (client, filter)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_without_room_at_a_restart_is_missing_until_the_filter_is_forgiven_and_not_after() {
    let node = TestNode::start("a", firstseen_node::Limits::default()).await;
    node.init().await;
    let definition = definition(Kind::Cuckoo);
    create_at(&node, "clicks", &definition, durable()).await;
    // This filter takes no checkpoint in the meantime, so that no segment of the journal is deleted.
    create_at(&node, "views", &self::definition(Kind::Timing), durable()).await;
    node.knows("clicks").await;
    node.knows("views").await;
    let (_client, filter) = clicks(&node, 60_000).await;
    assert_eq!(observe(&filter, 0).await, [Verdict::FirstSeen; 100]);
    let map = node.map().await;
    let (number, _) = map.filter_named("clicks").expect("the filter");
    let of = NodeMark { cluster: map.cluster.0, node: 1 };
    let stopped = node.stop().await;
    let segment = append(stopped.data_dir(), of, too_many(number, &definition));

    // The journal is not damaged. The slice does not report an event as new if it may lack the event.
    let node = stopped.start().await;
    node.ready().await;
    let (_client, filter) = clicks(&node, 500).await;
    assert_eq!(observe(&filter, 5_000).await, [Verdict::Undecided(Reason::SlicesDown); 100]);
    let request = ForgiveFilterRequest { name: "clicks".to_owned(), ..ForgiveFilterRequest::default() };
    node.admin().forgive_filter(request).await.expect("forgiven");
    becomes_complete(&node).await;
    let (_client, filter) = clicks(&node, 60_000).await;
    assert_eq!(observe(&filter, 0).await, [Verdict::Duplicate; 100]);
    assert_eq!(observe(&filter, 5_000).await, [Verdict::Undecided(Reason::Full); 100]);

    // The next process reads the record again, followed by a complete checkpoint of a slice that was complete.
    let data_dir = node.data_dir().to_owned();
    wait_for("a checkpoint", || has_checkpoint_after(&data_dir, of, number, segment)).await;
    let node = node.restart().await;
    node.ready().await;
    becomes_complete(&node).await;
    let (_client, filter) = clicks(&node, 60_000).await;
    assert_eq!(observe(&filter, 0).await, [Verdict::Duplicate; 100]);
    assert_eq!(filter.status().degraded.events, 0);
}
