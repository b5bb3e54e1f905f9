//! Tests of keys with a time to live, which clients set at the Redis endpoint of a real node. The tests cover every
//! filter kind and every type of clock that supports such keys, also while the node is stopped or killed.
//!
//! The test looks up all keys again and again and compares the replies with an exact model, which knows when each key
//! was set and how long its time to live is. Until the time to live has ended, the filter must know the key. At the
//! latest two ticks of the filter after that, it must have forgotten the key.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Connection, RedisResult, Value, cmd, pipe};

use crate::local_cluster::eventually;
use crate::redis_endpoint::{RedisEndpoint, ask};
use crate::run::Random;

/// Filters with a window of 20 s, whose ticks are at most half a second long.
const FILTERS: [Flags; 4] = [
    ("timing-wall", "--kind timing --cell-bits 8 --clock wall"),
    ("timing-event", "--kind timing --cell-bits 8 --clock event --lateness 0"),
    ("timing-late", "--kind timing --cell-bits 8 --clock event --lateness 5s"),
    ("cuckoo-wall", "--kind cuckoo --ticks 79 --clock wall"),
];
const WINDOW: &str = "20s";
/// Resolution of the endpoint's time of day, which is a millisecond as in Redis.
const CLOCK_STEP: Duration = Duration::from_millis(1);
/// Maximum delay of an expiry: twice the longest tick.
const LATER_MAX: Duration = Duration::from_millis(1_000);
/// Additional time of a busy machine between reading the clock and the answer.
const SLACK: Duration = Duration::from_millis(250);
const KEYS: u64 = 40;
const SEED: u64 = 5;
/// Number of command pairs in one pipeline, which is more than one read of the endpoint contains.
const PAIRS: usize = 5_000;
/// Limit on the duration of the whole test, which normally ends much earlier.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Key that was set.
struct Key {
    name: String,
    /// Time before the command was sent, and time after it was answered.
    asked: Instant,
    answered: Instant,
    expiry: Duration,
    /// Whether a lookup has found that the key is gone.
    is_over: bool,
}

/// Name of a filter, with its flags.
type Flags = (&'static str, &'static str);

/// Starts an endpoint for these filters. Each filter is mapped to the keys that begin with its name.
fn endpoint_to(filters: &[Flags], settings: &str) -> RedisEndpoint {
    let prefixes =
        filters.iter().map(|(name, _)| format!("[[redis.prefix]]\nmatch = \"{name}:\"\nfilter = \"{name}\"\n"));
    let endpoint = RedisEndpoint::open(&(prefixes.collect::<String>() + settings));
    endpoint.form("");
    for (name, flags) in filters {
        endpoint.run(&format!(
            "filter create {name} --window {WINDOW} --capacity 1k --fpr 1e-6 --durability durable {flags}"
        ));
    }
    endpoint
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    u64::try_from(since.as_millis()).expect("a time in this age")
}

/// Sets a key of a filter, in one of the ways that programs use.
fn set(client: &mut Connection, rng: &mut Random, filter: &str, number: u64) -> Key {
    let name = format!("{filter}:{number}");
    let ttl_ms = 1_000 + rng.below(5) * 700;
    let asked = Instant::now();
    let reply: RedisResult<Value> = match rng.below(6) {
        0 => cmd("SET").arg(&name).arg("x").arg("NX").arg("PX").arg(ttl_ms).query(client),
        1 => cmd("SET").arg(&name).arg("x").arg("PXAT").arg(unix_ms() + ttl_ms).arg("NX").query(client),
        2 => {
            let mut asked = pipe();
            asked.cmd("SETNX").arg(&name).arg("x").cmd("PEXPIRE").arg(&name).arg(ttl_ms);
            let replies: (i64, i64) = asked.query(client).expect("two replies");
            assert_eq!(replies, (1, 1), "{name}");
            Ok(Value::Okay)
        }
        3 => {
            let mut asked = pipe();
            asked.cmd("SET").arg(&name).arg("x").arg("NX").cmd("PEXPIRE").arg(&name).arg(ttl_ms).arg("NX");
            let replies: (Value, i64) = asked.query(client).expect("two replies");
            assert_eq!(replies, (Value::Okay, 1), "{name}");
            Ok(Value::Okay)
        }
        4 => {
            let mut asked = pipe();
            asked.atomic().cmd("SETNX").arg(&name).arg("x").cmd("PEXPIRE").arg(&name).arg(ttl_ms);
            let replies: (i64, i64) = asked.query(client).expect("two replies");
            assert_eq!(replies, (1, 1), "{name}");
            Ok(Value::Okay)
        }
        _ => cmd("SET").arg(&name).arg("x").arg("NX").arg("EX").arg(ttl_ms.div_ceil(1_000)).query(client),
    };
    assert_eq!(reply, Ok(Value::Okay), "{name}");
    Key { name, asked, answered: Instant::now(), expiry: Duration::from_millis(ttl_ms), is_over: false }
}

/// Looks up all keys that should exist, and checks the answers. Returns `None` while the node is away.
fn look(client: &mut Connection, keys: &mut [Key]) -> Option<()> {
    let mut asked = pipe();
    let there: Vec<&mut Key> = keys.iter_mut().filter(|key| !key.is_over).collect();
    there.iter().for_each(|key| _ = asked.cmd("EXISTS").arg(&key.name));
    let before = Instant::now();
    let replies: Vec<i64> = asked.query(client).ok()?;
    let after = Instant::now();
    for (key, is_there) in there.into_iter().zip(replies) {
        // `EX` counts whole seconds, so a key may exist for up to one second longer.
        let latest = key.answered + key.expiry + Duration::from_secs(1) + LATER_MAX + SLACK;
        if is_there == 1 {
            assert!(
                before < latest,
                "{} is there {:?} after it was set, for {:?}",
                key.name,
                before - key.answered,
                key.expiry
            );
        } else {
            let least = key.asked + key.expiry - CLOCK_STEP;
            assert!(
                after >= least,
                "{} is gone {:?} after it was set, for {:?}",
                key.name,
                after - key.asked,
                key.expiry
            );
            key.is_over = true;
        }
    }
    Some(())
}

/// Regression test for ignored times to live. For example, `SET k 1 NX EX 2` returned no error, but the key was still
/// remembered after 4 s. This happened in filters whose nodes stamp events, and in filters whose events may come late.
#[test]
fn keys_are_there_for_their_own_time_on_every_kind_and_clock() {
    println!("seed {SEED}");
    let mut endpoint = endpoint_to(&FILTERS, "");
    let mut rng = Random(SEED);
    let mut client = endpoint.client();
    let mut keys: Vec<Key> = Vec::new();
    for number in 0..KEYS {
        let (filter, _) = FILTERS[number as usize % FILTERS.len()];
        keys.push(set(&mut client, &mut rng, filter, number));
    }
    let begun = Instant::now();
    let (mut stops, mut looks) = (0, 0);
    while keys.iter().any(|key| !key.is_over) {
        assert!(begun.elapsed() < TIMEOUT, "keys stay for ever");
        looks += u32::from(look(&mut client, &mut keys).is_some());
        // The node is stopped in the middle of the keys' lives, once with a signal and once by a kill.
        if stops < 2 && begun.elapsed() > Duration::from_millis(400 * (stops + 1)) {
            stops += 1;
            if stops == 1 {
                endpoint.node.restart()
            } else {
                endpoint.node.crash()
            }
            client = endpoint.client();
            eventually("answers", || ask::<i64>(&mut client, "EXISTS timing-wall:none") == Ok(0));
        }
    }
    println!("{looks} looks");
    assert!(stops == 2 && looks > 5, "{stops} stops, {looks} looks");
    // A key is recorded again when its time has passed, and an expiry in the past records nothing.
    let over = unix_ms() - 1_000;
    for (number, (filter, _)) in (0..).zip(FILTERS) {
        set(&mut client, &mut rng, filter, number);
        for _ in 0..2 {
            assert_eq!(ask(&mut client, &format!("SET {filter}:over x NX PXAT {over}")), Ok(Value::Okay));
        }
    }
}

/// Regression test. Keys that the endpoint confirms were remembered for the window, however short their time to live
/// was.
#[test]
fn keys_that_the_endpoint_confirms_are_there_for_their_own_time() {
    const CONFIRMED: [Flags; 1] = [("confirmed", "--kind timing --cell-bits 8 --clock wall --claims 1s")];
    println!("seed {SEED}");
    let endpoint = endpoint_to(&CONFIRMED, "[[redis.filter]]\nname = \"confirmed\"\nclaim = \"on-expiry-confirm\"\n");
    let mut rng = Random(SEED);
    let mut client = endpoint.client();
    let first = |client: &mut Connection| ask::<Value>(client, "SET confirmed:first x NX PX 100");
    eventually("a first claim", || first(&mut client) == Ok(Value::Okay));
    let mut keys: Vec<Key> = (0..KEYS).map(|number| set(&mut client, &mut rng, "confirmed", number)).collect();
    // These commands are sent one after the other, before the endpoint confirms the key.
    let asked = Instant::now();
    assert_eq!(
        (ask(&mut client, "SETNX confirmed:late x"), ask(&mut client, "PEXPIRE confirmed:late 2500")),
        (Ok(1), Ok(1))
    );
    let (name, expiry) = ("confirmed:late".to_owned(), Duration::from_millis(2_500));
    keys.push(Key { name, asked, answered: Instant::now(), expiry, is_over: false });
    let begun = Instant::now();
    while keys.iter().any(|key| !key.is_over) {
        assert!(begun.elapsed() < TIMEOUT, "keys stay for ever");
        look(&mut client, &mut keys).expect("answers");
    }
}

/// Checks that a time to live which is too short for a filter is rejected, and that the error says what helps.
#[test]
fn times_that_a_filter_cannot_keep_are_refused() {
    let prefixes =
        ["day", "bloom", "fine"].map(|name| format!("[[redis.prefix]]\nmatch = \"{name}:\"\nfilter = \"{name}\"\n"));
    let endpoint = RedisEndpoint::open(&prefixes.concat());
    endpoint.form("");
    endpoint.run("filter create day --window 24h --capacity 1k --clock wall");
    endpoint.run("filter create fine --window 24h --capacity 1k --clock wall --cell-bits 16");
    endpoint.run("filter create bloom --kind generations --window 1h --capacity 1k --clock wall");
    let client = &mut endpoint.client();
    assert_eq!(ask(client, "SETNX day:there x"), Ok(1));
    assert_eq!((ask(client, "EXPIRE day:none 10"), ask(client, "EXPIRE day:none 100000")), (Ok(0), Ok(0)));
    for (command, text) in [
        // A tick of a 24-hour window is minutes long, so a key of 2 s would stay for a quarter of an hour.
        ("SET day:1 x NX EX 2", "filter 'day' counts in ticks of"),
        ("SET day:1 x NX EX 2", "--cell-bits 16"),
        ("SET bloom:1 x NX EX 600", "use kind timing or cuckoo"),
        ("FS.OBSERVE bloom TTL 1000 ITEMS x", "use kind timing or cuckoo"),
        ("EXPIRE day:there 10", "send SET key value NX EX seconds"),
        ("EXPIRE day:there 100000", "'day' remembers 86400 s"),
        ("EXPIRE other:1 10", "no filter is mapped"),
    ] {
        let said = ask::<Value>(client, command).expect_err(command).to_string();
        assert!(said.contains(text), "{command}: {said}");
    }
    assert_eq!(ask(client, "EXISTS day:1 bloom:1"), Ok(0), "nothing was recorded");
    assert_eq!(ask(client, "SET fine:1 x NX EX 60"), Ok(Value::Okay));
    assert_eq!(ask(client, "SET day:1 x NX EX 86400"), Ok(Value::Okay));
    assert_eq!(ask(client, "SET bloom:1 x NX EX 3600"), Ok(Value::Okay));
    // Hand-written code sends the two commands one after the other, with the window as the expiry.
    assert_eq!(ask(client, "SETNX day:2 x"), Ok(1));
    assert_eq!(ask(client, "EXPIRE day:2 86400"), Ok(1));
    let shorter = ask::<Value>(client, "EXPIRE day:2 3600").expect_err("it is recorded for the window").to_string();
    assert!(shorter.contains("expire = \"window\""), "{shorter}");
    let lenient =
        RedisEndpoint::with_cluster("expire = \"window\"\n[[redis.prefix]]\nmatch = \"k:\"\nfilter = \"clicks\"\n");
    let client = &mut lenient.client();
    assert_eq!((ask(client, "SETNX k:1 x"), ask(client, "EXPIRE k:1 60")), (Ok(1), Ok(1)));
    assert_eq!(ask(client, "EXPIRE k:2 60"), Ok(0), "it is not there");
}

/// Regression test for pairs of `SETNX` and `EXPIRE`. Clients send these pairs in many forms: for example next to each
/// other, with other commands in between, or with `PEXPIRE` or `EXPIREAT` as the second command.
///
/// In an earlier version, the `EXPIRE` failed with an error in some of these forms, so the key was remembered for the
/// whole window. The same happened in a long pipeline, if the endpoint received the two commands of a pair in separate
/// reads.
#[test]
fn expire_behind_setnx_counts_in_every_shape() {
    let endpoint = RedisEndpoint::open("[[redis.prefix]]\nmatch = \"shapes:\"\nfilter = \"shapes\"\n");
    endpoint.form("");
    endpoint.run("filter create shapes --window 10m --capacity 20k --fpr 1e-8 --clock wall --cell-bits 16");
    let client = &mut endpoint.client();
    let mut ask_all = |commands: &[&str]| -> Vec<Value> {
        let mut asked = pipe();
        for command in commands {
            let mut words = command.split(' ');
            asked.cmd(words.next().unwrap_or_default());
            words.for_each(|word| _ = asked.arg(word));
        }
        asked.query(client).expect("replies")
    };
    let one = || Value::Int(1);
    for (commands, replies) in [
        (
            &["SETNX shapes:a x", "SETNX shapes:b x", "PEXPIRE shapes:a 2000", "PEXPIRE shapes:b 2000"][..],
            vec![one(), one(), one(), one()],
        ),
        (&["SET shapes:c x NX", "PEXPIRE shapes:c 2000"], vec![Value::Okay, one()]),
        (&["SETNX shapes:d x", "PEXPIRE shapes:d 2000 NX", "EXISTS shapes:d"], vec![one(), one(), one()]),
        (&["SETNX shapes:over x", "EXPIRE shapes:over 0", "EXISTS shapes:over"], vec![one(), one(), Value::Int(0)]),
        (&["SETNX shapes:past x", "EXPIREAT shapes:past 1", "EXISTS shapes:past"], vec![one(), one(), Value::Int(0)]),
        (&["SETNX shapes:d x", "PEXPIRE shapes:d 2000"], vec![Value::Int(0), one()]),
        (&["SETNX shapes:e x", "SETNX shapes:f x"], vec![one(), one()]),
    ] {
        assert_eq!(ask_all(commands), replies, "{commands:?}");
    }
    let mut long = pipe();
    for pair in 0..PAIRS {
        let key = format!("shapes:pair-{pair}");
        long.cmd("SETNX").arg(&key).arg("x").cmd("PEXPIRE").arg(&key).arg(2_000);
    }
    let replies: Vec<i64> = long.query(&mut endpoint.client()).expect("no errors");
    assert_eq!(replies, vec![1; 2 * PAIRS]);
    let client = &mut endpoint.client();
    eventually("the end of the keys", || {
        ask(client, "EXISTS shapes:a shapes:b shapes:c shapes:d") == Ok(0)
            && (0..PAIRS).step_by(100).all(|pair| ask(client, &format!("EXISTS shapes:pair-{pair}")) == Ok(0))
    });
    assert_eq!(ask(client, "EXISTS shapes:e shapes:f"), Ok(2), "keys without a time stay for the window");
}

/// Regression test for keys whose prefix is mapped to several filters. In an earlier version, each command chose one of
/// these filters by its time to live, and did not look the key up in the others. The same key could therefore be new
/// twice.
#[test]
fn a_key_of_several_filters_is_new_once() {
    let prefixes = ["short", "long"].map(|name| format!("[[redis.prefix]]\nmatch = \"k:\"\nfilter = \"{name}\"\n"));
    let endpoint = RedisEndpoint::open(&prefixes.concat());
    endpoint.form("");
    endpoint.run("filter create short --window 1m --capacity 1k --fpr 1e-6 --clock wall --cell-bits 16");
    endpoint.run("filter create long --window 1h --capacity 1k --fpr 1e-6 --clock wall --cell-bits 16");
    let client = &mut endpoint.client();
    assert_eq!(ask(client, "SET k:1 x NX EX 600"), Ok(Value::Okay));
    assert_eq!(ask(client, "SET k:1 x NX EX 30"), Ok(Value::Nil), "the filter `long` has it");
    assert_eq!(ask(client, "SET k:2 x NX EX 30"), Ok(Value::Okay));
    assert_eq!(ask(client, "SETNX k:2 x"), Ok(0), "the filter `short` has it");
    let mut both = pipe();
    both.cmd("SET").arg(&["k:3", "x", "NX", "EX", "600"]).cmd("SET").arg(&["k:3", "x", "NX", "EX", "30"]);
    both.cmd("SET").arg(&["k:1", "x", "NX", "EX", "30"]).cmd("SET").arg(&["k:4", "x", "NX", "EX", "30"]);
    let replies: Vec<Value> = both.query(client).expect("replies");
    assert_eq!(replies, [Value::Okay, Value::Nil, Value::Nil, Value::Okay]);
}
