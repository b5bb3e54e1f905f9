//! Journals that hold more fingerprints than a slice has room for: what finds no room at a restart is missing, and the
//! node says so; once the cluster goes on without it, further restarts read the slice as complete.

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

/// More fingerprints than a region has slots.
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

/// A record of new events of this moment that fill a slice beyond its room.
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

/// Appends a record to the journal of a node that is stopped; returns the number of its segment.
fn append(data_dir: &Path, of: NodeMark, record: Record) -> u64 {
    let disk = FolderDisk::new(data_dir.join("journal"));
    let found = scan(&disk, of, |_, _| Ok(())).expect("a journal");
    let mut journal = Journal::after(Arc::new(disk), of, SEGMENT_BYTES, &found);
    let segment = journal.segment();
    journal.push(encode(record)).expect("written");
    journal.sync().expect("on the medium");
    segment
}

/// Whether a checkpoint of `filter` has ended in a segment after this one.
fn has_checkpoint_after(data_dir: &Path, of: NodeMark, filter: FilterId, segment: u64) -> bool {
    let mut has = false;
    // What is being written at this moment may be torn.
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
    // It takes no checkpoint meanwhile, so that no segment of the journal is given up.
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

    // Nothing is damaged, and the slice does not call new what it may lack.
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

    // The next process reads the record once more, and then a whole checkpoint of a slice that was complete.
    let data_dir = node.data_dir().to_owned();
    wait_for("a checkpoint", || has_checkpoint_after(&data_dir, of, number, segment)).await;
    let node = node.restart().await;
    node.ready().await;
    becomes_complete(&node).await;
    let (_client, filter) = clicks(&node, 60_000).await;
    assert_eq!(observe(&filter, 0).await, [Verdict::Duplicate; 100]);
    assert_eq!(filter.status().degraded.events, 0);
}
