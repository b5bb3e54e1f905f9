//! Helpers that submit keys to a filter as producers do, and parse the JSON documents that commands print.

use std::collections::BTreeMap;
use std::ops::Range;

use firstseen_client::{Client, ConnectOptions, Filter, Verdict, Wait};
use serde_json::Value;

use crate::local_cluster::{eventually, eventually_eq};
use crate::own_node::OwnNode;
use crate::run::Ran;

/// Number of events in a call.
pub(crate) const BATCH_EVENTS: u64 = 500;

/// Connects a client to the cluster of `node`. Its calls wait for at most `deadline_ms` milliseconds.
pub(crate) fn client(node: &OwnNode, deadline_ms: u64) -> Client {
    let options = ConnectOptions { deadline_ms, ..ConnectOptions::from([node.address.clone()]) };
    Client::connect(options).wait().expect("a client")
}

/// Opens the filter with this name, and retries until a node describes it. On a busy machine this can take longer than
/// the deadline of a call.
pub(crate) fn opened(client: &Client, name: &str) -> Filter {
    let mut filter = None;
    eventually("a description", || {
        filter = client.filter(name).wait().ok();
        filter.is_some()
    });
    filter.expect("it was described")
}

/// Returns the verdicts on these keys.
pub(crate) fn ask(filter: &Filter, keys: Range<u64>) -> Vec<Verdict> {
    let batches = keys.clone().step_by(BATCH_EVENTS as usize).map(|first| first..(first + BATCH_EVENTS).min(keys.end));
    let verdicts = batches.map(|batch| {
        let keys: Vec<[u8; 8]> = batch.map(u64::to_le_bytes).collect();
        filter.observe_batch(&keys).wait().expect("a call")
    });
    verdicts.flatten().collect()
}

/// Returns how many verdicts equal `wanted`.
pub(crate) fn count(verdicts: &[Verdict], wanted: Verdict) -> u64 {
    verdicts.iter().filter(|verdict| **verdict == wanted).count() as u64
}

/// Submits keys until all of them are decided. Returns how many new keys were called duplicates at the first attempt.
pub(crate) fn record(filter: &Filter, keys: Range<u64>) -> u64 {
    let first = ask(filter, keys.clone());
    let is_decided = |verdict: &Verdict| !matches!(verdict, Verdict::Undecided(_));
    if !first.iter().all(is_decided) {
        // On a busy machine some keys are decided only after the deadline of a call.
        eventually("every key is decided", || ask(filter, keys.clone()).iter().all(is_decided));
    }
    count(&first, Verdict::Duplicate)
}

/// Waits until all of these keys are duplicates. None of them may be called new in the meantime.
pub(crate) fn knows(filter: &Filter, keys: Range<u64>) {
    let all = BTreeMap::from([("Duplicate".to_owned(), keys.end - keys.start)]);
    eventually_eq("verdicts", all, || {
        let mut verdicts = BTreeMap::new();
        for verdict in ask(filter, keys.clone()) {
            assert_ne!(verdict, Verdict::FirstSeen, "nothing is forgotten");
            *verdicts.entry(format!("{verdict:?}")).or_default() += 1;
        }
        verdicts
    });
}

/// Parses the JSON document that a command has printed.
pub(crate) fn document(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}
