//! Checks of the code that decodes the metadata of a backup, and the data that the consensus group has stored or sent.
//! The input may be arbitrary, because a disk can be damaged and a backup can be edited. The fuzz targets `agreement`
//! and `backup` search for input that violates a check. `cargo test -p firstseen-meta` runs the same checks on the
//! corpus, which is a stored collection of inputs.

use firstseen_filter::{FilterSpec, Kind};
use firstseen_meta::{Change, Command, NewFilter, NewRestore, NodeProfile, RestoredPlace, State, codec};
use firstseen_routing::{ClusterId, ClusterMap, FilterPolicies, NodeId, SecretMaterial, SlicedDefinition};
use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};

const MEMORY_BYTES: u64 = 1 << 30;

/// Runs the checks of a target.
pub(crate) fn run(target: &str, data: &[u8]) {
    match target {
        "agreement" => agreement(data),
        "backup" => backup(data),
        unknown => panic!("no target {unknown}"),
    }
}

/// Checks a command or a state. The first byte of the data says which it is, and whether the rest includes the version
/// and checksum.
fn agreement(data: &[u8]) {
    let Some((pick, bytes)) = data.split_first() else { return };
    let framed = codec::encode(&Body(bytes)).expect("it is not too large");
    match pick {
        0 => command(bytes),
        1 => command(&framed),
        2 => state(bytes),
        _ => state(&framed),
    }
}

/// Checks that a command which can be decoded stays the same when it is encoded and decoded again, and that it can be
/// applied.
fn command(bytes: &[u8]) {
    let Ok(read) = codec::decode::<Command>(bytes) else { return };
    let again = codec::encode(&read).expect("what was read can be written");
    assert_eq!(codec::decode::<Command>(&again).as_ref(), Ok(&read));
    let mut state = cluster();
    let outcome = state.apply(9, read.clone());
    assert_eq!(state.apply(10, read), outcome, "what is asked twice is done once");
    assert_eq!(State::from_bytes(&state.to_bytes().expect("it is not too large")).as_ref(), Ok(&state));
}

fn state(bytes: &[u8]) {
    let Ok(read) = State::from_bytes(bytes) else { return };
    assert_eq!(State::from_bytes(&read.to_bytes().expect("it is not too large")).as_ref(), Ok(&read));
}

/// Checks that each filter of a backup is either restored or rejected, whatever cluster map the backup contains.
fn backup(data: &[u8]) {
    let Ok(map) = serde_json::from_slice::<ClusterMap>(data) else { return };
    let places: Vec<RestoredPlace> =
        map.filters.into_values().map(|record| RestoredPlace { record, sites: Vec::new() }).collect();
    let all = (places.len() > 1).then(|| places.clone());
    for places in places.into_iter().map(|place| vec![place]).chain(all) {
        let change = Change::RestoreFilter(NewRestore { places, secret: SecretMaterial([3; 32]) });
        command(&codec::encode(&Command::new([9; 16], change)).expect("it is not too large"));
    }
}

/// Returns the state of a cluster with two nodes that have started.
fn cluster() -> State {
    let mut state = State::default();
    let profile = |name: &str| NodeProfile {
        name: name.to_owned(),
        site: "here".to_owned(),
        address: format!("{name}:1"),
        memory_bytes: MEMORY_BYTES,
    };
    let started = |node| {
        let address = format!("{}:1", if node == 1 { "a" } else { "b" });
        Change::NodeStarted { node: NodeId(node), address, site: "here".to_owned(), memory_bytes: MEMORY_BYTES }
    };
    let changes = [
        Change::FoundCluster { cluster: ClusterId([5; 16]), profile: profile("a") },
        Change::AddNode { profile: profile("b") },
        started(1),
        started(2),
        filter("views"),
    ];
    for (index, change) in (1..).zip(changes) {
        state.apply(index, Command::new([index as u8; 16], change)).expect("a cluster");
    }
    state
}

fn filter(name: &str) -> Change {
    let spec = FilterSpec {
        capacity_events: Some(1000),
        rate: 0.01,
        ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, "vertical:3".parse().expect("a slicing")).expect("a small filter");
    Change::CreateFilter(NewFilter {
        name: name.to_owned(),
        definition,
        policies: FilterPolicies::default(),
        secret: SecretMaterial([9; 32]),
        if_absent: false,
        tree: None,
    })
}

/// Value that is serialized as these bytes.
struct Body<'a>(&'a [u8]);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, sink: S) -> Result<S::Ok, S::Error> {
        let mut bytes = sink.serialize_tuple(self.0.len())?;
        self.0.iter().try_for_each(|byte| bytes.serialize_element(byte))?;
        bytes.end()
    }
}

/// Returns valid inputs from which the fuzzer starts.
#[allow(dead_code)]
pub(crate) fn examples() -> Vec<(&'static str, Vec<u8>)> {
    const HEADER_BYTES: usize = 5;
    let state = cluster();
    let map = serde_json::to_vec(&**state.map()).expect("a map");
    let command = codec::encode(&Command::new([8; 16], filter("clicks"))).expect("a command");
    let kept = state.to_bytes().expect("a state");
    let of = |pick: u8, bytes: &[u8]| ("agreement", [&[pick], bytes].concat());
    vec![of(0, &command), of(1, &command[HEADER_BYTES..]), of(2, &kept), of(3, &kept[HEADER_BYTES..]), ("backup", map)]
}
