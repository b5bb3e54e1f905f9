//! Tests of claims at the Redis endpoint: `FS.CLAIM` and its related commands, and `SET NX` for a filter that allows
//! claims.

use redis::{Connection, RedisResult, Value, pipe};

use crate::local_cluster::eventually;
use crate::redis_chaos::{connect, formed};
use crate::redis_endpoint::{RedisEndpoint, ask, refusal};

const MAPPED: &str = "[[redis.prefix]]\nmatch = \"job:\"\nfilter = \"jobs\"\n\
                      [[redis.prefix]]\nmatch = \"plain:\"\nfilter = \"plain\"\n";
const CLAIMED: i64 = -16;
const UNKNOWN: i64 = -18;

/// Starts an endpoint with a filter `jobs`, whose claims last for at most `lease`, and a filter without claims.
fn endpoint(settings: &str, lease: &str) -> RedisEndpoint {
    let endpoint = RedisEndpoint::open(&format!("{settings}{MAPPED}"));
    endpoint.form("");
    let small = "--capacity 10k --fpr 1e-8 --clock wall --window 1h";
    endpoint.run(&format!("filter create jobs {small} --claims {lease}"));
    endpoint.run(&format!("filter create plain {small}"));
    let client = &mut endpoint.client();
    // A new head node grants nothing that its predecessor may have granted, so the first claim can take some time.
    eventually("a first claim", || ask(client, "FS.CLAIM job:first PX 1000") == Ok(1));
    endpoint
}

fn set(client: &mut Connection, words: &str) -> RedisResult<Value> {
    ask(client, &format!("SET {words}"))
}

#[test]
fn a_claim_is_confirmed_released_or_held_until_its_lease_is_over() {
    let endpoint = endpoint("", "60s");
    let (one, other) = (&mut endpoint.client(), &mut endpoint.client());
    assert_eq!(ask(one, "FS.CLAIM job:1 PX 60000"), Ok(1));
    assert_eq!(ask(other, "FS.CLAIM job:1 PX 60000"), Ok(CLAIMED));
    assert!(refusal(other, "FS.CONFIRM job:1").contains("has not claimed"));
    assert!(refusal(other, "SADD jobs job:1").contains("Claimed: another consumer"));
    assert_eq!(ask(one, "FS.CONFIRM job:1"), Ok(1));
    assert_eq!(ask(one, "FS.CONFIRM job:1"), Ok(0), "a retry hears that it is recorded");
    assert_eq!(ask(one, "FS.RELEASE job:1"), Ok(0), "and is not let go");
    assert_eq!(ask(other, "FS.CLAIM job:1 PX 60000"), Ok(0), "it is recorded");
    assert_eq!(ask(other, "SISMEMBER jobs job:1"), Ok(1));

    assert_eq!(ask(one, "FS.CLAIM job:2 PX 60000"), Ok(1));
    assert_eq!(ask(one, "FS.RELEASE job:2"), Ok(1));
    assert_eq!(ask(other, "FS.CLAIM job:2 PX 500"), Ok(1));
    eventually("the end of the lease", || ask(one, "FS.CLAIM job:2 PX 60000") == Ok(1));
    // A client that was too slow learns that another client delivers the event.
    assert_eq!(ask(other, "FS.CONFIRM job:2"), Ok(CLAIMED));
    assert_eq!(ask(one, "FS.CONFIRM job:2"), Ok(1));

    // Items of a filter can be claimed, several at once.
    assert_eq!(ask(one, "FS.CLAIM jobs PX 60000 ITEMS a b job:1 a"), Ok(vec![1, 1, 0, CLAIMED]));
    assert_eq!(ask(one, "FS.CONFIRM jobs ITEMS a"), Ok(vec![1]));
    assert_eq!(ask(one, "SREM jobs b c"), Ok(1));
    assert_eq!(ask(other, "FS.CLAIM jobs PX 60000 ITEMS a b"), Ok(vec![0, 1]));

    for (command, text) in [
        ("FS.CLAIM job:3 PX 60001", "'jobs' has claims of 60 s at most"),
        ("FS.CLAIM plain:1 PX 1000", "keeps no claims"),
        ("FS.CLAIM plain PX 1000 ITEMS a", "keeps no claims"),
        ("FS.CLAIM none PX 1000 ITEMS a", "not found"),
        ("FS.CLAIM else:1 PX 1000", "no filter is mapped"),
        ("FS.CONFIRM job:3", "has not claimed"),
        ("FS.CONFIRM job:3 FENCE zz", "48 hexadecimal digits"),
        ("SREM plain a", "cannot forget"),
        ("DEL plain:1", "cannot forget"),
    ] {
        let said = refusal(one, command);
        assert!(said.contains(text), "{command}: {said}");
    }
}

#[test]
fn a_fence_ends_the_claim_of_another_connection() {
    let endpoint = endpoint("", "60s");
    let (one, other) = (&mut endpoint.client(), &mut endpoint.client());
    let granted: (i64, String) = ask(one, "FS.CLAIM job:1 PX 60000 WITHFENCE").expect("a grant");
    assert_eq!((granted.0, granted.1.len()), (1, 48));
    let held: (i64, i64) = ask(other, "FS.CLAIM job:1 PX 60000 WITHFENCE").expect("who holds it");
    assert!(held.0 == CLAIMED && (1..=61_000).contains(&held.1), "{held:?}");
    let fence = granted.1;
    assert_eq!(ask(other, &format!("FS.CONFIRM job:1 FENCE {fence}")), Ok(1));
    assert_eq!(ask(other, &format!("FS.CONFIRM job:1 FENCE {fence}")), Ok(0), "a retry hears that it is recorded");
    assert_eq!(ask(one, "FS.CONFIRM job:1"), Ok(0), "and so does who has claimed it");
    let recorded: (i64, Value) = ask(one, "FS.CLAIM job:1 PX 60000 WITHFENCE").expect("that it is recorded");
    assert_eq!(recorded, (0, Value::Nil));
    let items: Vec<(i64, String)> = ask(one, "FS.CLAIM jobs PX 60000 WITHFENCE ITEMS a b").expect("two grants");
    assert!(items[0].1 != items[1].1 && items.iter().all(|(code, _)| *code == 1));
    assert_eq!(ask(other, &format!("FS.RELEASE jobs FENCE {} ITEMS a", items[0].1)), Ok(vec![1]));
    assert_eq!(ask(other, "FS.CLAIM jobs PX 60000 ITEMS a"), Ok(vec![1]));
    let stranger = "0".repeat(48);
    assert_eq!(ask(other, &format!("FS.RELEASE job:9 FENCE {stranger}")), Ok(-9), "no filter gave it");
}

/// Releases a lock with the script that redis-py sends.
fn release(client: &mut Connection, key: &str) -> RedisResult<i64> {
    ask(client, &format!("EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 {key} x"))
}

#[test]
fn a_key_that_is_set_in_a_filter_with_claims_is_held_until_it_is_deleted() {
    let endpoint = endpoint("get = \"one\"\n", "60s");
    let (one, other) = (&mut endpoint.client(), &mut endpoint.client());
    assert_eq!(set(one, "job:1 x NX EX 60"), Ok(Value::Okay));
    assert_eq!(set(other, "job:1 x NX EX 60"), Ok(Value::Nil), "as Redis says of a key that is there");
    assert_eq!((ask(other, "EXISTS job:1 job:2"), ask(other, "GET job:1")), (Ok(1), Ok(1)));
    assert_eq!(ask(other, "GET job:2"), Ok(Value::Nil));
    assert_eq!(ask(other, "DEL job:1"), Ok(0), "another one's");
    assert_eq!(ask(one, "DEL job:1 job:2"), Ok(1));
    assert_eq!(set(one, "job:lock x NX EX 60"), Ok(Value::Okay));
    assert_eq!(
        (release(other, "job:lock"), release(one, "job:lock"), release(one, "job:lock")),
        (Ok(0), Ok(1), Ok(0)),
        "each lets go what it holds"
    );
    assert_eq!(set(other, "job:lock x NX EX 60"), Ok(Value::Okay));
    assert_eq!(set(other, "job:1 x NX PX 300"), Ok(Value::Okay));
    eventually("the end of its time", || set(one, "job:1 x NX EX 60") == Ok(Value::Okay));
    assert_eq!(ask(one, "FS.CONFIRM job:1"), Ok(1));
    assert_eq!(set(other, "job:1 x NX EX 60"), Ok(Value::Nil));
    assert_eq!(ask(other, "SETNX job:3 x"), Ok(1));
    assert_eq!(ask(one, "SETNX job:3 x"), Ok(0));
    assert!(set(one, "job:4 x NX EX 61").expect_err("too long").to_string().contains("claims of 60 s at most"));
    // In a pipeline, commands see what earlier commands have claimed.
    let mut asked = pipe();
    asked.cmd("SET").arg(&["job:5", "x", "NX"]).cmd("SET").arg(&["job:5", "x", "NX"]).cmd("FS.CONFIRM").arg("job:5");
    asked.cmd("DEL").arg("job:5").cmd("SET").arg(&["job:6", "x", "NX"]).cmd("DEL").arg("job:6");
    let replies: Vec<Value> = asked.query(one).expect("all replies");
    let expected = [Value::Okay, Value::Nil, Value::Int(1), Value::Int(0), Value::Okay, Value::Int(1)];
    assert_eq!(replies, expected);
}

#[test]
fn what_set_has_claimed_is_confirmed_by_the_endpoint_unless_it_is_deleted() {
    let rule = "[[redis.filter]]\nname = \"jobs\"\nclaim = \"on-expiry-confirm\"\n";
    let endpoint = endpoint(rule, "2s");
    let (one, other) = (&mut endpoint.client(), &mut endpoint.client());
    assert_eq!(set(one, "job:kept x NX EX 3600"), Ok(Value::Okay), "longer than any claim");
    assert_eq!(set(one, "job:failed x NX EX 3600"), Ok(Value::Okay));
    assert_eq!(ask(one, "FS.CLAIM job:own PX 1000"), Ok(1));
    assert_eq!(ask(one, "DEL job:failed"), Ok(1));
    assert!(set(one, "job:long x NX EX 3601").expect_err("the window").to_string().contains("remembers 3600 s"));
    assert_eq!(set(other, "job:failed x NX EX 3600"), Ok(Value::Okay), "it was let go");
    assert_eq!(ask(other, "DEL job:failed"), Ok(1));
    eventually("its record", || ask(other, "SISMEMBER jobs job:kept") == Ok(1));
    assert_eq!(ask(one, "DEL job:kept"), Ok(0), "too late");
    assert_eq!(ask(other, "FS.TEST jobs ITEMS job:kept job:failed"), Ok(vec![0, 1]));
    // An event that was claimed with `FS.CLAIM` is not confirmed by the endpoint, because the client confirms it
    // itself.
    eventually("the end of the claim", || ask(other, "FS.TEST jobs ITEMS job:own") == Ok(vec![1]));
}

#[test]
fn a_filter_has_a_rule_of_its_own_for_what_is_undecided() {
    let rule = "undecided = \"error\"\n[[redis.filter]]\nname = \"jobs\"\nundecided = \"new\"\n";
    let endpoint = endpoint(rule, "60s");
    let (one, other) = (&mut endpoint.client(), &mut endpoint.client());
    assert_eq!(ask(one, "FS.CLAIM job:1 PX 60000"), Ok(1));
    assert_eq!(ask(other, "SADD jobs job:1"), Ok(1), "it may be new");
    assert_eq!(ask(other, "FS.OBSERVE jobs ITEMS job:1"), Ok(vec![CLAIMED]), "which this command can say");
    let late = "FS.OBSERVE plain AT 5 ITEMS x";
    assert!(refusal(other, late).contains("leave AT out"));
}

/// Checks that events are confirmed by their own grants. Head nodes on different nodes grant equal fences.
#[test]
fn the_endpoint_of_a_cluster_confirms_each_event_by_its_own_grant() {
    let rule = "[[redis.prefix]]\nmatch = \"job:\"\nfilter = \"clicks\"\n\
                [[redis.filter]]\nname = \"clicks\"\nclaim = \"on-expiry-confirm\"\n";
    let (_nodes, ports) = formed(rule, "--slicing horizontal:6 --claims 2s");
    let [one, other] = &mut ports.map(connect);
    eventually("a first claim", || ask(one, "FS.CLAIM job:first PX 1000") == Ok(1));
    let mut asked = pipe();
    (0..200).for_each(|key| _ = asked.cmd("SET").arg(&[&format!("job:{key}"), "x", "NX", "EX", "600"]));
    let replies: Vec<Value> = asked.query(one).expect("all replies");
    assert!(replies.iter().all(|reply| *reply == Value::Okay), "{replies:?}");
    let deleted: i64 = ask(one, "DEL job:7 job:77 job:177").expect("a count");
    assert_eq!(deleted, 3);
    let test = (0..200).map(|key| format!(" job:{key}")).collect::<String>();
    let recorded = |client: &mut Connection| -> Vec<i64> {
        ask(client, &format!("FS.TEST clicks ITEMS{test}")).expect("a code for each")
    };
    eventually("their records", || recorded(other).iter().filter(|code| **code == 0).count() == 197);
    let codes = recorded(other);
    assert!([7, 77, 177].iter().all(|key| codes[*key] == 1), "what was deleted is new: {codes:?}");
}

#[test]
fn claims_of_a_filter_that_is_made_again_are_forgotten_and_more_than_a_connection_knows_are_granted() {
    let endpoint = endpoint("", "60s");
    let one = &mut endpoint.client();
    let mut asked = pipe();
    (0..10_000).for_each(|key| _ = asked.cmd("SET").arg(&[&format!("job:n{key}"), "x", "NX"]));
    let replies: Vec<Value> = asked.query(one).expect("all replies");
    assert!(replies.iter().all(|reply| *reply == Value::Okay), "none is refused");
    assert_eq!(ask(one, "DEL job:n9999"), Ok(1), "the last ones are known");
    endpoint.run("filter drop jobs --yes");
    let made = "filter create jobs --capacity 10k --fpr 1e-8 --clock wall --window 1h --claims 60s";
    endpoint.run(made);
    eventually("the filter made again", || ask(one, "FS.TEST jobs ITEMS job:n9998") == Ok(vec![1]));
    assert_eq!(ask(one, "DEL job:n9998"), Ok(0));
    assert!(refusal(one, "FS.CONFIRM job:n9997").contains("has not claimed"));
}

#[test]
fn a_fence_of_another_filter_spoils_no_confirm_beside_it() {
    const INVALID: i64 = -9;
    let endpoint = endpoint("", "60s");
    let client = &mut endpoint.client();
    assert_eq!(ask(client, "FS.CLAIM job:1 PX 60000"), Ok(1));
    let foreign = format!("{:048x}", 1);
    let told: (i64, i64) = pipe()
        .cmd("FS.CONFIRM")
        .arg("job:1")
        .cmd("FS.CONFIRM")
        .arg(&["job:2", "FENCE", &foreign])
        .query(client)
        .expect("two replies");
    assert_eq!(told, (1, INVALID));
    assert_eq!(ask(client, "SISMEMBER jobs job:1"), Ok(1));
}

/// Regression test for lost events. After a graceful restart of a node, `SET NX` replied nil for keys that no client
/// had ever used, and `EXISTS` counted these keys, so consumers dropped their events. This lasted for 15 s, the longest
/// lease of the filter.
///
/// The cause was the change of the head node, which is the node that decides an event. After the restart, the new head
/// node could not know which keys had been claimed before. It treated every key as claimed by another client, even keys
/// that no client had ever used. It must now reply that such a key is undecided.
#[test]
fn after_a_restart_keys_that_nobody_has_named_are_not_called_seen() {
    let mut endpoint = RedisEndpoint::open(MAPPED);
    endpoint.form("");
    endpoint
        .run("filter create jobs --capacity 10k --fpr 1e-8 --clock wall --window 1h --durability durable --claims 60s");
    let client = &mut endpoint.client();
    eventually("an answer", || ask::<Value>(client, "FS.TEST jobs ITEMS job:x").is_ok());
    endpoint.node.restart();
    let client = &mut endpoint.client();
    eventually("an answer of the filter", || ask::<Vec<i64>>(client, "FS.TEST jobs ITEMS job:x") == Ok(vec![UNKNOWN]));
    for key in 0..50 {
        let said = set(client, &format!("job:new{key} x NX EX 10")).expect_err("nobody knows").to_string();
        assert!(said.contains("UNDECIDED") && said.contains("ClaimsUnknown"), "{said}");
        assert!(refusal(client, &format!("EXISTS job:new{key}")).contains("ClaimsUnknown"));
        assert_eq!(ask(client, &format!("FS.CLAIM job:new{key} PX 1000")), Ok(UNKNOWN));
    }
}

/// Regression test for claims that were lost at a restart. With `claim = "on-expiry-confirm"`, the endpoint confirms a
/// claim some time after the command. When the node was stopped with SIGTERM, the endpoint dropped the claims that it
/// had not confirmed yet. 300 keys that a client had set with `SET NX` were therefore new after the restart, although
/// `safe-to-stop` had reported that nothing would be lost.
#[test]
fn an_endpoint_that_closes_confirms_what_it_has_still_to_confirm() {
    let rule = "[[redis.filter]]\nname = \"jobs\"\nclaim = \"on-expiry-confirm\"\n";
    let mut endpoint = RedisEndpoint::open(&format!("{rule}{MAPPED}"));
    endpoint.form("");
    endpoint
        .run("filter create jobs --capacity 10k --fpr 1e-8 --clock wall --window 1h --durability durable --claims 60s");
    let client = &mut endpoint.client();
    eventually("a first claim", || ask(client, "FS.CLAIM job:first PX 1000") == Ok(1));
    for key in 0..300 {
        assert_eq!(set(client, &format!("job:{key} x NX EX 3600")), Ok(Value::Okay), "{key}");
    }
    assert_eq!(ask(client, "DEL job:7"), Ok(1));
    endpoint.node.restart();
    let client = &mut endpoint.client();
    let items = (0..300).map(|key| format!(" job:{key}")).collect::<String>();
    let mut codes = Vec::new();
    eventually("an answer of the filter", || {
        codes = ask::<Vec<i64>>(client, &format!("FS.TEST jobs ITEMS{items}")).unwrap_or_default();
        codes.len() == 300 && codes.iter().all(|code| [0, 1, UNKNOWN].contains(code))
    });
    let lost: Vec<usize> = (0..300).filter(|key| *key != 7 && codes[*key] != 0).collect();
    assert!(lost.is_empty() && codes[7] == UNKNOWN, "{lost:?} are not recorded, {}", codes[7]);
}
