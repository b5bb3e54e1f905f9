//! Keys that a filter is asked about as producers do, and the documents that commands print for operators.

use std::collections::BTreeMap;
use std::ops::Range;

use firstseen_client::{Client, ConnectOptions, Filter, Verdict, Wait};
use serde_json::Value;

use crate::local_cluster::{eventually, eventually_is};
use crate::own_node::OwnNode;
use crate::run::Ran;

/// Events of a call.
pub(crate) const BATCH_EVENTS: u64 = 500;

/// A client of the cluster of `node`, whose calls wait for `deadline_ms` at most.
pub(crate) fn client(node: &OwnNode, deadline_ms: u64) -> Client {
    let options = ConnectOptions { deadline_ms, ..ConnectOptions::from([node.address.clone()]) };
    Client::connect(options).wait().expect("a client")
}

/// The filter of this name, as soon as a node describes it: on a busy machine that may take longer than a call waits.
pub(crate) fn opened(client: &Client, name: &str) -> Filter {
    let mut filter = None;
    eventually("a description", || {
        filter = client.filter(name).wait().ok();
        filter.is_some()
    });
    filter.expect("it was described")
}

/// The verdicts on these keys.
pub(crate) fn ask(filter: &Filter, keys: Range<u64>) -> Vec<Verdict> {
    let batches = keys.clone().step_by(BATCH_EVENTS as usize).map(|first| first..(first + BATCH_EVENTS).min(keys.end));
    let verdicts = batches.map(|batch| {
        let keys: Vec<[u8; 8]> = batch.map(u64::to_le_bytes).collect();
        filter.observe_batch(&keys).wait().expect("a call")
    });
    verdicts.flatten().collect()
}

/// How many verdicts are the wanted one.
pub(crate) fn count(verdicts: &[Verdict], wanted: Verdict) -> u64 {
    verdicts.iter().filter(|verdict| **verdict == wanted).count() as u64
}

/// Submits keys until all are decided; returns how many new ones were called duplicates at their first try.
pub(crate) fn record(filter: &Filter, keys: Range<u64>) -> u64 {
    let first = ask(filter, keys.clone());
    let is_decided = |verdict: &Verdict| !matches!(verdict, Verdict::Undecided(_));
    if !first.iter().all(is_decided) {
        // A busy machine decides some later than a call waits.
        eventually("every key is decided", || ask(filter, keys.clone()).iter().all(is_decided));
    }
    count(&first, Verdict::Duplicate)
}

/// Waits until all of these keys are duplicates; none is new meanwhile.
pub(crate) fn knows(filter: &Filter, keys: Range<u64>) {
    let all = BTreeMap::from([("Duplicate".to_owned(), keys.end - keys.start)]);
    eventually_is("verdicts", all, || {
        let mut verdicts = BTreeMap::new();
        for verdict in ask(filter, keys.clone()) {
            assert_ne!(verdict, Verdict::FirstSeen, "nothing is forgotten");
            *verdicts.entry(format!("{verdict:?}")).or_default() += 1;
        }
        verdicts
    });
}

/// The JSON document that a command has printed.
pub(crate) fn document(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}
