//! Checks pipelines at the Redis endpoint. Each command must get the same reply as if it were sent alone.

use std::collections::BTreeSet;

use redis::{Value, pipe};

use crate::redis_endpoint::RedisEndpoint;

/// Returns the reply that Redis would give to a command, using a set as the model.
fn expected(events: &mut BTreeSet<(usize, String)>, command: usize, filter: usize, item: &str) -> Value {
    let event = (filter, item.to_owned());
    match (command, events.contains(&event)) {
        (3 | 4, is_there) => Value::Int(i64::from(is_there)),
        (0, true) => Value::Nil,
        (_, true) => Value::Int(0),
        (_, false) => {
            events.insert(event);
            if command == 0 { Value::Okay } else { Value::Int(1) }
        }
    }
}

#[test]
fn each_command_of_a_pipeline_sees_what_those_before_have_recorded() {
    let prefixes: String =
        (0..3).map(|filter| format!("[[redis.prefix]]\nmatch = \"k{filter}:\"\nfilter = \"f{filter}\"\n")).collect();
    let endpoint = RedisEndpoint::open(&prefixes);
    endpoint.form("");
    for (filter, kind) in ["bloom", "cuckoo", "timing"].into_iter().enumerate() {
        // In two of the filters, each key has its own time to live.
        let window = match kind {
            "bloom" => "--window unbounded",
            _ => "--window 24h --clock event --lateness 0",
        };
        endpoint.run(&format!("filter create f{filter} --kind {kind} --capacity 10k --fpr 1e-8 {window}"));
    }
    let client = &mut endpoint.client();
    let (mut events, mut rng) = (BTreeSet::new(), 7_u64);
    for round in 0..4 {
        let (mut asked, mut all) = (pipe(), Vec::new());
        for number in 0..2_000 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let roll = (rng >> 33) as usize;
            let (command, filter, key) = (roll % 5, roll / 5 % 3, roll / 15 % 200);
            let (name, item) = (format!("f{filter}"), format!("k{filter}:{round}:{key}"));
            match command {
                // A filter without a window does not support a time to live.
                0 if filter == 0 => asked.cmd("SET").arg(&item).arg(1).arg("NX"),
                0 => asked.cmd("SET").arg(&item).arg(1).arg("NX").arg("EX").arg(40_000 + roll / 3_000 % 30_000),
                1 => asked.cmd("SETNX").arg(&item).arg(1),
                2 => asked.cmd("SADD").arg(&name).arg(&item),
                3 => asked.cmd("EXISTS").arg(&item),
                _ => asked.cmd("BF.EXISTS").arg(&name).arg(&item),
            };
            all.push((number, command, filter, item));
        }
        let replies: Vec<Value> = asked.query(client).expect("all replies");
        assert_eq!(replies.len(), all.len());
        for (reply, (number, command, filter, item)) in replies.into_iter().zip(all) {
            assert_eq!(
                reply,
                expected(&mut events, command, filter, &item),
                "round {round}: {number} {command} {item}"
            );
        }
    }
}
