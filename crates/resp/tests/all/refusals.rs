//! Checks that unsupported commands and invalid arguments are rejected with the error texts of Redis and RedisBloom.

use crate::common::{array, config, read, read_bytes, refused};
use firstseen_resp::{Replies, Request, ServerRequest};
use proptest::prelude::*;

#[test]
fn texts_of_redis() {
    let syntax = "ERR syntax error";
    let integer = "ERR value is not an integer or out of range";
    for (line, text) in [
        ("SET k v NX EX", syntax),
        ("SET k v NX EX 1 PX 1", syntax),
        ("SET k v NX 1", syntax),
        ("SET k v NX EX x y", syntax),
        ("SET k v NX EX 1.5", integer),
        ("SET k v NX EX 9223372036854775808", integer),
        ("SET k v NX EX 0", "ERR invalid expire time in 'set' command"),
        ("SET k v NX PX -1", "ERR invalid expire time in 'set' command"),
        ("SET k v EX 9223372036854776", "ERR invalid expire time in 'set' command"),
        ("SET k v NX EXAT 0", "ERR invalid expire time in 'set' command"),
        ("SET k v NX EX 1 EXAT 1", "ERR syntax error"),
        ("EXPIRE k 9223372036854776", "ERR invalid expire time in 'expire' command"),
        ("PEXPIREAT k x", "ERR value is not an integer or out of range"),
        ("EXPIRE k 1 GT", "ERR firstseen keeps no key's time to compare: EXPIRE takes no XX, GT or LT"),
        ("EXPIRE k 1 YY", "ERR Unsupported option"),
        (
            "EVALSHA a08c9c69b7c07ae2485190873b90d128a23e502d 2 a b v 1",
            "ERR this script takes one key, and the arguments that its program sends",
        ),
        ("FLUSHALL now", syntax),
        ("FLUSHDB SYNC ASYNC", syntax),
        ("SELECT x", integer),
        ("AUTH a b c", syntax),
        ("HELLO x", "ERR Protocol version is not an integer or out of range"),
        ("HELLO 1", "NOPROTO unsupported protocol version"),
        ("HELLO 4 AUTH", "NOPROTO unsupported protocol version"),
        ("HELLO 3 AUTH u", "ERR Syntax error in HELLO option 'AUTH'"),
        ("HELLO 3 setname", "ERR Syntax error in HELLO option 'setname'"),
        ("HELLO 3 SETNAME 'a b'", "ERR Client names cannot contain spaces, newlines or special characters."),
        ("CLIENT SETNAME 'a b'", "ERR Client names cannot contain spaces, newlines or special characters."),
        ("CLIENT SETINFO lib-name 'a b'", "ERR lib-name cannot contain spaces, newlines or special characters."),
        ("CLIENT SETINFO lib-ver é", "ERR lib-ver cannot contain spaces, newlines or special characters."),
        ("CLIENT SETINFO x y", "ERR Unrecognized option 'x'"),
        ("CLIENT NO-EVICT maybe", syntax),
        ("CLIENT FLY", "ERR unknown subcommand 'FLY'. Try CLIENT HELP."),
        ("CLIENT HELP x", "ERR unknown subcommand 'HELP'. Try CLIENT HELP."),
        ("CLIENT SETNAME", "ERR wrong number of arguments for 'client|setname' command"),
        ("CLIENT ID 1", "ERR wrong number of arguments for 'client|id' command"),
        ("CONFIG GET", "ERR wrong number of arguments for 'config|get' command"),
        ("COMMAND COUNT 1", "ERR wrong number of arguments for 'command|count' command"),
        ("CLUSTER INFO x", "ERR wrong number of arguments for 'cluster|info' command"),
        ("FS.OBSERVE f TTL 1 AT 1 ITEMS a", syntax),
        ("FS.OBSERVE f ID s 1 ID s 1 ITEMS a", syntax),
        ("FS.OBSERVE f a b c", syntax),
        ("FS.OBSERVE f ID s", syntax),
        ("FS.OBSERVE f ID s -1 ITEMS a", integer),
        ("FS.OBSERVE f AT -1 ITEMS a", integer),
        ("FS.OBSERVE f TTL 0 ITEMS a", "ERR invalid expire time in 'fs.observe' command"),
        ("FS.OBSERVE f TTL 1 ITEMS", "ERR wrong number of arguments for 'fs.observe' command"),
        ("FS.OBSERVE f ID s 1", "ERR wrong number of arguments for 'fs.observe' command"),
        ("FS.TEST f a b", syntax),
        ("FS.CLAIM k EX 1", syntax),
        ("FS.CLAIM k PX x", integer),
        ("FS.CLAIM k PX 0", "ERR invalid expire time in 'fs.claim' command"),
        ("FS.CLAIM k PX 1 ITEM a", syntax),
        ("FS.CLAIM k PX 1 ITEMS", "ERR wrong number of arguments for 'fs.claim' command"),
        ("FS.CONFIRM k FENCE", syntax),
        ("FS.CONFIRM f FENCE 0a ITEMS a b", "ERR a fence is of one event: name one item with it"),
        ("FS.CONFIRM f ITEMS", "ERR wrong number of arguments for 'fs.confirm' command"),
        ("FS.RELEASE a b", syntax),
    ] {
        assert_eq!(refused(line), text, "{line}");
    }
}

#[test]
fn texts_of_redis_bloom() {
    let rate = "ERR error rate must be in the range (0.000000, 1.000000)";
    let capacity = "ERR capacity must be in the range [1, 1073741824]";
    let expansion = "ERR expansion must be in the range [0, 32768]";
    for (line, text) in [
        ("BF.RESERVE f x 100", "ERR bad error rate"),
        ("BF.RESERVE f nan 100", "ERR bad error rate"),
        ("BF.RESERVE f 0 100", rate),
        ("BF.RESERVE f 1 100", rate),
        ("BF.RESERVE f inf 100", rate),
        ("BF.RESERVE f -0.1 x", rate),
        ("BF.RESERVE f 0.1 x", "ERR bad capacity"),
        ("BF.RESERVE f 0.1 0", capacity),
        ("BF.RESERVE f 0.1 -5", capacity),
        ("BF.RESERVE f 0.1 1073741825", capacity),
        ("BF.RESERVE f 0.1 1 EXPANSION", "ERR no expansion"),
        ("BF.RESERVE f 0.1 1 EXPANSION x", "ERR bad expansion"),
        ("BF.RESERVE f 0.1 1 EXPANSION -1", expansion),
        ("BF.RESERVE f 0.1 1 EXPANSION 32769", expansion),
        ("BF.RESERVE f 0.1 1 EXPANSION 2 NONSCALING", "Nonscaling filters cannot expand"),
        ("BF.RESERVE f 0.1 1 NONSCALING EXPANSION 2", "Nonscaling filters cannot expand"),
        ("BF.RESERVE f 0.1 1 WINDOW", "ERR syntax error"),
        ("BF.INSERT f CAPACITY 0 ITEMS a", "Bad capacity"),
        ("BF.INSERT f CAPACITY ITEMS a", "Bad capacity"),
        ("BF.INSERT f ERROR 2 ITEMS a", "Bad error rate"),
        ("BF.INSERT f EXPANSION x ITEMS a", "Bad expansion"),
        ("BF.INSERT f WINDOW ITEMS a", "Unknown argument received"),
        ("BF.INSERT f NOCREATE ITEMS", "ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT f CAPACITY 1", "ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INSERT f NOCREATE CAPACITY", "ERR wrong number of arguments for 'bf.insert' command"),
        ("BF.INFO f colour", "Invalid information value"),
    ] {
        assert_eq!(refused(line), text, "{line}");
    }
}

#[test]
fn options_that_store_values_are_named() {
    for option in ["XX", "GET", "KEEPTTL"] {
        let text = format!(
            "ERR syntax error: firstseen stores no values: SET takes NX with EX, PX, EXAT or PXAT, not {option}"
        );
        assert_eq!(refused(&format!("SET k v NX {} 1", option.to_lowercase())), text);
    }
}

#[test]
fn what_is_not_served_says_why_and_what_to_use_instead() {
    for (line, why, instead) in [
        ("incr k", "stores no values:", "SET key value NX"),
        ("MGET a b", "stores no values:", "SET key value NX"),
        ("XADD s * a b", "stores no values:", "SET key value NX"),
        ("APPEND k v", "stores no values:", "SET key value NX"),
        ("JSON.SET k . v", "stores no values:", "SET key value NX"),
        ("SETEX k 1 v", "stores no values to overwrite", "SET key value NX EX"),
        ("MSETNX a 1 b 2", "no keys all or none", "a pipeline of SET"),
        ("RENAME a b", "moves no keys", "filter alter"),
        ("PERSIST k", "takes no key's time away", "window"),
        ("TTL k", "no key's time to tell", "FS.INFO filter"),
        ("KEYS *", "keeps no keys to list", "FS.LIST"),
        ("SCAN 0", "keeps no keys to list", "EXISTS"),
        ("SMEMBERS f", "keeps no keys to list", "EXISTS"),
        ("SCARD f", "counts no events", "firstseen top"),
        ("TOUCH k", "keeps no key for longer", "EXISTS"),
        ("EVAL return 0", "runs no scripts", "SET key value NX and FS.CLAIM"),
        ("SCRIPT LOAD x", "runs no scripts", "FS.CLAIM"),
        ("FCALL f 0", "runs no scripts", "FS.CLAIM"),
        ("PUBLISH c x", "publishes no messages", "broker"),
        ("SSUBSCRIBE c", "publishes no messages", "broker"),
        ("MONITOR", "no other client's commands", "/metrics"),
        ("WATCH k", "watches no keys", "MULTI and EXEC"),
        ("BF.SCANDUMP f 0", "no bytes of filters", "`firstseen cluster backup`"),
        ("BF.LOADCHUNK f 1 x", "no bytes of filters", "backup"),
        ("OBJECT ENCODING k", "keeps no single keys", "BF.INFO filter"),
        ("MEMORY USAGE k", "keeps no single keys", "BF.INFO filter"),
        ("ACL WHOAMI", "no users of Redis", "access grant"),
        ("SLOWLOG GET", "keeps no such log", "/metrics"),
        ("BGSAVE", "saves nothing on request", "backup"),
        ("WAIT 1 0", "a cluster of its own", "--copies"),
        ("SENTINEL MASTERS", "a cluster of its own", "every node can be an endpoint"),
        ("SHUTDOWN", "ended by no client", "SIGTERM"),
        ("CF.ADD f a", "one kind of filter", "BF.ADD"),
        ("TOPK.ADD f a", "counts no keys", "firstseen estimate"),
        ("CLIENT KILL x", "speak for itself", "CLIENT HELP"),
        ("CLIENT TRACKING ON", "speak for itself", "CLIENT HELP"),
        ("CLIENT REPLY OFF", "speak for itself", "CLIENT HELP"),
        ("CONFIG SET a b", "configuration", "[redis]"),
        ("COMMAND GETKEYS get a", "COMMAND INFO", "COMMAND HELP"),
        ("MODULE LOAD x", "loads no modules", "BF.*"),
        ("CLUSTER MEET x", "a cluster of its own", "every node"),
    ] {
        let said = refused(line);
        let words: Vec<String> = line.split(' ').map(str::to_uppercase).collect();
        let parts = [&words[0], &words[..2.min(words.len())].join(" "), &format!("{}*", words[0])];
        let module = words[0].split_once('.').map(|(module, _)| format!("{module}.*"));
        let is_named = |name: &str| said.contains(&format!(": {name} is not served; "));
        assert!(
            parts.iter().any(|name| is_named(name)) || module.is_some_and(|name| is_named(&name)),
            "{line}: {said}"
        );
        assert!(said.starts_with("ERR firstseen ") && said.contains(why) && said.contains(instead), "{line}: {said}");
    }
    let setex = "ERR firstseen stores no values to overwrite: SETEX is not served; SET key value NX EX seconds records a key that \
                 is new";
    assert_eq!(refused("SETEX k 1 v"), setex);
}

#[test]
fn commands_with_a_second_word_list_those_that_are_served() {
    for command in ["CLIENT", "CLUSTER", "COMMAND", "CONFIG", "MODULE"] {
        read(&format!("{command} help"), |request| match request {
            Ok(Request::Server(ServerRequest::Help { command: of, subcommands })) => {
                assert_eq!((of, subcommands.last()), (command, Some(&"HELP")));
                for subcommand in subcommands {
                    let arguments = match *subcommand {
                        "NO-EVICT" | "NO-TOUCH" => " ON",
                        "SETINFO" => " LIB-NAME x",
                        "SETNAME" | "GET" => " x",
                        _ => "",
                    };
                    read(&format!("{command} {subcommand}{arguments}"), |request| {
                        assert!(request.is_ok(), "{request:?}")
                    });
                }
            }
            other => panic!("{command}: {other:?}"),
        });
    }
}

#[test]
fn unknown_commands_are_told_as_redis_tells_them() {
    let head = "ERR unknown command 'JUMP', with args beginning with: ";
    assert_eq!(refused("JUMP"), head);
    assert_eq!(refused("JUMP a 'b c' ''"), format!("{head}'a' 'b c' '' "));
    let long = "x".repeat(200);
    assert_eq!(refused(&format!("JUMP {long} y")), format!("{head}'{}' ", "x".repeat(128)));
    let most = "x".repeat(100);
    assert_eq!(refused(&format!("JUMP {most} {long} y")), format!("{head}'{most}' '{}' ", "x".repeat(25)));
    assert_eq!(
        refused(&format!("{long} a")),
        format!("ERR unknown command '{}', with args beginning with: 'a' ", "x".repeat(128))
    );
    for name in ["GETS", "SET\\x00", "BF.ADDS", "CF", "B"] {
        let text = refused(&format!("\"{name}\" LOAD"));
        assert!(text.starts_with(&format!("ERR unknown command '{}', ", name.trim_end_matches("\\x00"))), "{text}");
    }
    read_bytes(&array(&[&b"\xff\xfea"[..], b"\xff\0b"]), |request| {
        let text = request.expect_err("no command").to_string();
        assert_eq!(text, "ERR unknown command '\u{fffd}\u{fffd}a', with args beginning with: '\u{fffd}' ");
    });
}

#[test]
fn a_request_over_http_closes_the_connection() {
    for line in ["POST / HTTP/1.1", "Host: localhost"] {
        read(line, |request| assert!(request.expect_err("no command").closes_connection(), "{line}"));
    }
    read("GETT / HTTP/1.1", |request| assert!(!request.expect_err("no command").closes_connection()));
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn every_refusal_is_one_line_of_bounded_length(
        name in prop_oneof![
            proptest::sample::select(&["SET", "CLIENT", "HELLO", "BF.RESERVE", "EVAL", "CONFIG", "MGET", "FS.OBSERVE"][..])
                .prop_map(|name| name.as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..300),
        ],
        arguments in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
    ) {
        let words: Vec<Vec<u8>> = std::iter::once(name).chain(arguments).collect();
        let line = read_bytes(&array(&words), |request| {
            let mut replies = Replies::default();
            request.err().inspect(|refusal| replies.error(refusal)).map(|_| replies.take())
        });
        if let Some(line) = line {
            let text = line.strip_prefix(b"-").and_then(|line| line.strip_suffix(b"\r\n"));
            let text = text.expect("an error of one line");
            prop_assert!(!text.contains(&b'\r') && !text.contains(&b'\n'));
            // Both texts are shortened, and each of their bytes may have become a replacement character of three bytes.
            prop_assert!(text.len() < 100 + 3 * (128 + 128 + 3 * 6), "{}", text.len());
        }
    }
}
