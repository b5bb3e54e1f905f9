//! Tests of the cluster map as a message. Decoding an encoded map must return the same map, damaged messages must be
//! rejected, and no message may contain a secret.

use crate::common::{self, Numbers};
use firstseen_filter::{FilterSpec, GenerationNumber, Kind, UnitNumber};
use firstseen_routing::{
    AnswerWhen, Branch, ClockSource, Closed, ClusterId, ClusterMap, CutOff, Durability, Epoch, FilterHistory, FilterId,
    FilterPolicies, FilterRecord, Format, Incarnation, Lookup, NodeId, NodeRecord, SliceCopy, SliceOwner,
    SlicedDefinition, Thresholds, TreeMode, WhenLost,
};
use firstseen_wire::map::{MapError, readable};
use firstseen_wire::proto::{admin, producer};
use prost::Message;

fn map() -> ClusterMap {
    let mut map =
        ClusterMap { cluster: ClusterId([9; 16]), version: 77, next_filter: FilterId(9), ..ClusterMap::default() };
    for id in 1..=3 {
        let node = NodeRecord {
            name: format!("node-{id}"),
            site: "north".into(),
            address: format!("10.0.0.{id}:4870"),
            incarnation: Incarnation(id * 3),
            memory_bytes: 1 << 30,
            voter: id != 2,
            is_down: false,
        };
        map.nodes.insert(NodeId(id), node);
    }
    for (id, slicing) in [(4, "none"), (5, "horizontal:8"), (9, "vertical:6"), (11, "horizontal-vertical:2x3")] {
        let spec = FilterSpec {
            capacity_events: Some(1000),
            rate: 0.01,
            ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
        };
        let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("possible");
        let slices = u64::from(definition.slicing.slices());
        let record = FilterRecord {
            name: format!("filter-{id}"),
            epoch: Epoch(id * 2),
            policies: FilterPolicies {
                clock: if id % 2 == 0 { ClockSource::Event } else { ClockSource::Wall },
                lookup: Lookup::Parallel,
                answer: AnswerWhen::Safe,
                retry_horizon_ms: 1234,
                thresholds: Thresholds { min_live: 3, set_min: id as u32 },
                when_lost: [WhenLost::Undecided, WhenLost::Duplicate, WhenLost::FirstSeen][id as usize % 3],
                durability: match id % 3 {
                    0 => Durability::Memory,
                    1 => Durability::Interval { interval_ms: 500 },
                    _ => Durability::Durable,
                },
                copies: 2,
                claim_lease_max_ms: std::num::NonZeroU32::new(id as u32 % 3 * 5_000),
            },
            owners: (0..slices)
                .map(|slice| SliceOwner {
                    node: NodeId(slice % 3 + 1),
                    complete_since: Incarnation(slice),
                    ..SliceOwner::default()
                })
                .collect(),
            copies: copies(slices as u32),
            generations: vec![GenerationNumber(2); definition.slicing.groups() as usize],
            line: line(id),
            branch: (id > 1).then(|| Branch {
                root: FilterId(2),
                parent: (id > 2).then_some(FilterId(id - 1)),
                level: id as u8 - 2,
                fold: 3,
                place: format!("site-{id}"),
                top_down: id as u8,
                cut_off: if id == 2 { CutOff::Local } else { CutOff::Undecided },
                mode: if id == 2 { TreeMode::Dense } else { TreeMode::Sparse },
            }),
            definition,
        };
        map.filters.insert(FilterId(id), record);
    }
    map
}

/// Returns the links of a filter that replaced another filter, and was itself closed.
fn line(id: u64) -> FilterHistory {
    FilterHistory {
        origin: (id > 1).then_some(FilterId(1)),
        former: (id > 1).then_some(FilterId(id - 1)),
        closed: id.is_multiple_of(2).then(|| Closed {
            successor: FilterId(id + 1),
            awaited: [NodeId(1), NodeId(u64::MAX)].into(),
            newest_unit: UnitNumber::NEVER,
            passed: [NodeId(2)].into(),
        }),
    }
}

/// Returns two additional copies of each slice.
fn copies(slices: u32) -> Vec<SliceCopy> {
    let owner = |slice, node| SliceOwner {
        node,
        complete_since: Incarnation(7),
        has_gap: slice % 2 == 0,
        missing_in: (slice % 3 == 0).then_some(Incarnation(8)),
    };
    let replaces = |slice, node| (node == 5 && slice % 2 == 1).then_some(NodeId(4));
    let of_slice = |slice| {
        [4, 5].map(|node| SliceCopy {
            slice,
            owner: owner(slice, NodeId(node)),
            replaces: replaces(slice, node),
            since_epoch: Epoch(9),
        })
    };
    (0..slices).flat_map(of_slice).collect()
}

#[test]
fn maps_come_back() {
    let map = map();
    let bytes = producer::ClusterMap::from(&map).encode_to_vec();
    let message = producer::ClusterMap::decode(&bytes[..]).expect("protobuf");
    assert_eq!(ClusterMap::try_from(message), Ok(map));
}

#[test]
fn damaged_maps_are_maps_or_errors() {
    let bytes = producer::ClusterMap::from(&map()).encode_to_vec();
    for mutated in common::mutations(&bytes, &mut Numbers::new(21)) {
        let Ok(message) = producer::ClusterMap::decode(&mutated[..]) else { continue };
        let Ok(map) = ClusterMap::try_from(message) else { continue };
        let slices: usize = map.filters.values().map(|filter| filter.owners.len()).sum();
        assert!(slices <= mutated.len());
    }
}

#[test]
fn errors_name_the_field() {
    let message = || producer::ClusterMap::from(&map());
    let mut two = message();
    two.nodes[1].id = 1;
    assert_eq!(ClusterMap::try_from(two), Err(MapError::Twice { field: "nodes", id: 1 }));
    let mut few = message();
    few.filters[1].owners.pop();
    let count = MapError::Count { field: "filter.owners", found: 7, expected: 8 };
    assert_eq!(ClusterMap::try_from(few), Err(count));
    let mut clock = message();
    clock.filters[0].clock = 0;
    assert_eq!(ClusterMap::try_from(clock), Err(MapError::Unknown { field: "clock", value: 0 }));
    let mut name = message();
    name.nodes[0].name = "n".repeat(256);
    assert!(matches!(ClusterMap::try_from(name), Err(MapError::TooLong { field: "node.name", length: 256, .. })));
    let mut definition = message();
    definition.filters[0].definition_json = "{}".into();
    assert!(
        matches!(ClusterMap::try_from(definition), Err(MapError::Definition { filter, .. }) if filter == "filter-4")
    );
    let mut cluster = message();
    cluster.cluster_id = vec![1; 15].into();
    assert!(matches!(ClusterMap::try_from(cluster), Err(MapError::Count { field: "cluster_id", found: 15, .. })));
}

#[test]
fn secrets_do_not_print_themselves() {
    let secret: prost::bytes::Bytes = vec![0xAB; 32].into();
    let reply = producer::DescribeFilterReply { secret: secret.clone(), ..Default::default() };
    let request = admin::CreateFilterRequest { secret, name: "clicks".into(), ..Default::default() };
    for text in [format!("{reply:?}"), format!("{request:?}")] {
        assert!(!text.contains("171") && !text.contains("secret") && !text.to_lowercase().contains("xab"), "{text}");
    }
}

/// Checks an old client in a cluster of a newer version. If some filters of the cluster are of kinds that the client
/// does not know, the client must still be able to use all other filters.
#[test]
fn a_filter_that_cannot_be_read_hides_no_other() {
    let map = ClusterMap { format: Format(77), ..map() };
    let mut message = producer::ClusterMap::from(&map);
    let (other, name) = (message.filters[0].clone(), message.filters[0].name.clone());
    message.filters.push(producer::Filter {
        id: 4_000,
        name: "newer".to_owned(),
        definition_json: other.definition_json.replace("\"kind\":\"", "\"kind\":\"newer_"),
        ..other
    });
    let (read, unreadable) = readable(message.clone()).unwrap();
    assert_eq!(read, map, "the client reads all filters except the unknown one");
    assert!(read.filter_named(&name).is_some());
    let [newer] = &unreadable[..] else { panic!("{unreadable:?}") };
    assert!(newer.name == "newer" && newer.error.to_string().contains("newer_"), "{newer:?}");
    assert!(ClusterMap::try_from(message).is_err(), "a node must know all filters");
}
