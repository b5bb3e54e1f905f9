//! Parses every supported command with all of its options, and compares the result with the expected typed request.

use crate::common::{array, read, read_bytes};
use firstseen_resp::{
    Arguments, BloomInfoField, BloomOptions, BloomRequest, ClaimRequest, ClaimedEvents, ClientRequest, ClusterQuery,
    CommandQuery, ConnectionRequest, EventTime, Expansion, Expiry, FilterRequest, ITEMS_MAX, KeyRequest, Limits,
    Parser, Protocol, Request, ScriptRequest, ServerRequest, SetRequest, Submission, SubscriptionKind,
    SubscriptionRequest, TransactionRequest, is_known_script,
};

/// Checks that a line parses to this request, and that the case of letters matters only where it should.
fn is(line: &str, expected: Request<'_>) {
    read(line, |request| assert_eq!(request.unwrap_or_else(|refusal| panic!("{line}: {refusal}")), expected, "{line}"));
}

/// Checks that a line parses to this request, whose items are the words of the line from index `first_item` on.
fn is_of(line: &str, first_item: usize, expected: impl for<'a> FnOnce(Arguments<'a>) -> Request<'a>) {
    let bytes = format!("{line}\r\n");
    let mut parser = Parser::new(Limits::default());
    let command = parser.next(&mut bytes.as_bytes()).expect("a request").expect("the command is complete");
    is(line, expected(command.arguments().from(first_item - 1)));
}

#[test]
fn keys() {
    fn set(ttl_ms: Option<u64>) -> Request<'static> {
        Request::Keys(KeyRequest::SetIfNew { key: b"k", expiry: ttl_ms.map(|ttl_ms| Expiry::In { ttl_ms }) })
    }
    fn set_until(unix_ms: u64) -> Request<'static> {
        Request::Keys(KeyRequest::SetIfNew { key: b"k", expiry: Some(Expiry::At { unix_ms }) })
    }
    fn expire(expiry: Expiry) -> Request<'static> {
        Request::Keys(KeyRequest::Expire { key: b"k", expiry })
    }
    is("SET k v NX", set(None));
    is("set k v nx nx", set(None));
    is("SET k v NX EX 600", set(Some(600_000)));
    is("SET k v EX 600 NX", set(Some(600_000)));
    is("SET k v PX 1 NX", set(Some(1)));
    is("SET k v NX PX 1 PX 2", set(Some(2)));
    is("SET k v NX EX 9223372036854775", set(Some(9_223_372_036_854_775_000)));
    is("SET k v NX EXAT 1700000000", set_until(1_700_000_000_000));
    is("SET k v PXAT 1700000000001 NX", set_until(1_700_000_000_001));
    is("EXPIRE k 600", expire(Expiry::In { ttl_ms: 600_000 }));
    is("PEXPIRE k 600", expire(Expiry::In { ttl_ms: 600 }));
    is("EXPIREAT k 1700000000", expire(Expiry::At { unix_ms: 1_700_000_000_000 }));
    is("PEXPIREAT k 1700000000", expire(Expiry::At { unix_ms: 1_700_000_000 }));
    is("SET k v", Request::Keys(KeyRequest::Overwrite));
    is("SET nx v EX 1", Request::Keys(KeyRequest::Overwrite));
    is("SETNX k v", Request::Keys(KeyRequest::SetNx { key: b"k" }));
    is("GET k", Request::Keys(KeyRequest::Get { key: b"k" }));
    is_of("EXISTS a b a", 1, |keys| Request::Keys(KeyRequest::Exists { keys }));
    is_of("DEL a", 1, |keys| Request::Keys(KeyRequest::Delete { keys }));
    is_of("UNLINK a b", 1, |keys| Request::Keys(KeyRequest::Delete { keys }));
    is("TYPE k", Request::Keys(KeyRequest::Type { key: b"k" }));
    is("DBSIZE", Request::Keys(KeyRequest::Count));
    for line in ["FLUSHDB", "FLUSHALL", "FLUSHDB sync", "FLUSHALL ASYNC"] {
        is(line, Request::Keys(KeyRequest::Flush));
    }
}

#[test]
fn sets() {
    is_of("SADD f a b", 2, |items| Request::Sets(SetRequest::Add { filter: b"f", items }));
    is("SISMEMBER f a", Request::Sets(SetRequest::Contains { filter: b"f", item: b"a" }));
    is_of("SMISMEMBER f a", 2, |items| Request::Sets(SetRequest::ContainsEach { filter: b"f", items }));
    is("HSETNX h f v", Request::Sets(SetRequest::SetField { filter: b"h", field: b"f" }));
    is("HGET h f", Request::Sets(SetRequest::GetField { filter: b"h", field: b"f" }));
    is_of("SREM f a b c", 2, |items| Request::Sets(SetRequest::Remove { filter: b"f", items }));
}

#[test]
fn channels() {
    for (command, kind) in [
        ("SUBSCRIBE", SubscriptionKind::Begin),
        ("PSUBSCRIBE", SubscriptionKind::BeginPattern),
        ("UNSUBSCRIBE", SubscriptionKind::End),
        ("PUNSUBSCRIBE", SubscriptionKind::EndPattern),
    ] {
        is_of(&format!("{command} a b"), 1, |channels| Request::Subscriptions(SubscriptionRequest { kind, channels }));
    }
}

/// Parses a command that is sent as an array, which is how clients send scripts.
fn read_script(words: &[&str], check: impl FnOnce(Result<Request<'_>, String>)) {
    let bytes = array(words);
    read_bytes(&bytes, |request| check(request.map_err(|refusal| refusal.to_string())));
}

#[test]
fn scripts_are_known_by_their_texts_and_hashes() {
    const ADD: &str = "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])";
    const ADD_SHA1: &str = "a08c9c69b7c07ae2485190873b90d128a23e502d";
    const RELEASE: &str =
        "\n if redis.call(\"get\",KEYS[1]) == ARGV[1]\nthen return redis.call(\"del\",KEYS[1]) else return 0 end";
    let added = |request: Result<Request<'_>, String>| {
        let expiry = Some(Expiry::In { ttl_ms: 60_000 });
        let set = ScriptRequest::Run(KeyRequest::SetIfNew { key: b"k", expiry });
        assert_eq!(request, Ok(Request::Scripts(set)));
    };
    read_script(&["EVAL", ADD, "1", "k", "value", "60"], added);
    read_script(&["evalsha", ADD_SHA1, "1", "k", "value", "60"], added);
    read_script(&["EVAL", RELEASE, "1", "k", "value"], |request| {
        let Ok(Request::Scripts(ScriptRequest::Run(KeyRequest::Delete { keys }))) = request else {
            panic!("{request:?}")
        };
        assert_eq!(keys.iter().collect::<Vec<_>>(), [b"k"]);
    });
    read_script(&["SCRIPT", "LOAD", ADD], |request| {
        assert_eq!(request, Ok(Request::Scripts(ScriptRequest::Load { sha1: ADD_SHA1 })));
    });
    read_script(&["EVALSHA", "abc", "0"], |request| {
        assert_eq!(request, Ok(Request::Scripts(ScriptRequest::Unknown)));
    });
    read_script(&["EVAL", "return 1", "0"], |request| assert!(request.is_err_and(|text| text.contains("SET key"))));
    assert!(is_known_script(ADD_SHA1.as_bytes()) && !is_known_script(b"abc"));
}

#[test]
fn bloom_filters_are_reserved() {
    let reserve = |expansion| {
        let options = BloomOptions { error_rate: Some(0.01), capacity_items: Some(100), expansion };
        Request::Bloom(BloomRequest::Reserve { filter: b"f", options })
    };
    is("BF.RESERVE f 0.01 100", reserve(Expansion::Default));
    is("bf.reserve f 1e-2 100 nonscaling", reserve(Expansion::Never));
    is("BF.RESERVE f 0.01 100 EXPANSION 4", reserve(Expansion::Factor(4)));
    is("BF.RESERVE f 0.01 100 EXPANSION 32768", reserve(Expansion::Factor(32_768)));
    is("BF.RESERVE f 0.01 100 EXPANSION 0", reserve(Expansion::Never));
    is("BF.RESERVE f 0.01 100 NONSCALING EXPANSION 0", reserve(Expansion::Never));
    let options = BloomOptions { error_rate: Some(0.5), capacity_items: Some(1 << 30), expansion: Expansion::Default };
    is("BF.RESERVE f .5 1073741824", Request::Bloom(BloomRequest::Reserve { filter: b"f", options }));
}

#[test]
fn bloom_filters_are_used() {
    is("BF.ADD f a", Request::Bloom(BloomRequest::Add { filter: b"f", item: b"a" }));
    is_of("BF.MADD f a b", 2, |items| Request::Bloom(BloomRequest::AddEach { filter: b"f", items }));
    is("BF.EXISTS f a", Request::Bloom(BloomRequest::Contains { filter: b"f", item: b"a" }));
    is_of("BF.MEXISTS f a b", 2, |items| Request::Bloom(BloomRequest::ContainsEach { filter: b"f", items }));
    is("BF.CARD f", Request::Bloom(BloomRequest::Count { filter: b"f" }));
    let none = BloomOptions::default();
    is_of("BF.INSERT f ITEMS ITEMS b", 3, |items| {
        Request::Bloom(BloomRequest::Insert { filter: b"f", options: none, must_exist: false, items })
    });
    let options = BloomOptions { error_rate: Some(0.1), capacity_items: Some(7), expansion: Expansion::Factor(2) };
    is_of("BF.INSERT f expansion 2 CAPACITY 7 NOCREATE ERROR 0.1 items a", 10, |items| {
        Request::Bloom(BloomRequest::Insert { filter: b"f", options, must_exist: true, items })
    });
    let options = BloomOptions { expansion: Expansion::Never, ..none };
    is_of("BF.INSERT f NONSCALING EXPANSION 2 ITEMS a", 6, |items| {
        Request::Bloom(BloomRequest::Insert { filter: b"f", options, must_exist: false, items })
    });
    for (word, field) in [
        ("", None),
        (" CAPACITY", Some(BloomInfoField::Capacity)),
        (" size", Some(BloomInfoField::Size)),
        (" FILTERS", Some(BloomInfoField::Filters)),
        (" ITEMS", Some(BloomInfoField::Items)),
        (" EXPANSION", Some(BloomInfoField::Expansion)),
    ] {
        is(&format!("BF.INFO f{word}"), Request::Bloom(BloomRequest::Info { filter: b"f", field }));
    }
}

#[test]
fn own_commands() {
    fn observe<'a>(submission: Option<Submission<'a>>, time: EventTime, items: Arguments<'a>) -> Request<'a> {
        Request::Filters(FilterRequest::Observe { filter: b"f", submission, time, items })
    }
    let submission = Some(Submission { source: b"s", first_number: 41 });
    is_of("FS.OBSERVE f ITEMS a b", 3, |items| observe(None, EventTime::Now, items));
    is_of("FS.OBSERVE f ID s 41 ITEMS a", 6, |items| observe(submission, EventTime::Now, items));
    is_of("fs.observe f ttl 50 id s 41 items a", 8, |items| {
        observe(submission, EventTime::NowWithTtl { ttl_ms: 50 }, items)
    });
    is_of("FS.OBSERVE f AT 0 ITEMS TTL 5", 5, |items| observe(None, EventTime::At { unix_ms: 0 }, items));
    is_of("FS.TEST f ITEMS a b", 3, |items| Request::Filters(FilterRequest::Test { filter: b"f", items }));
    is("FS.INFO f", Request::Filters(FilterRequest::Info { filter: b"f" }));
    is("FS.LIST", Request::Filters(FilterRequest::List));
}

#[test]
fn claims() {
    fn claim(events: ClaimedEvents<'_>, with_fence: bool) -> Request<'_> {
        Request::Claims(ClaimRequest::Claim { events, lease_ms: 30_000, with_fence })
    }
    let key = ClaimedEvents::Key(b"k");
    is("FS.CLAIM k px 30000", claim(key, false));
    is("FS.CLAIM k PX 30000 withfence", claim(key, true));
    is_of("FS.CLAIM f PX 30000 ITEMS a b", 5, |items| claim(ClaimedEvents::Items { filter: b"f", items }, false));
    is_of("FS.CLAIM f PX 30000 WITHFENCE items a", 6, |items| {
        claim(ClaimedEvents::Items { filter: b"f", items }, true)
    });
    is("FS.CONFIRM k", Request::Claims(ClaimRequest::Confirm { events: key, fence: None }));
    is("FS.CONFIRM k FENCE 0a", Request::Claims(ClaimRequest::Confirm { events: key, fence: Some(b"0a") }));
    is("FS.RELEASE k", Request::Claims(ClaimRequest::Release { events: key, fence: None }));
    is_of("FS.RELEASE f ITEMS a b", 3, |items| {
        Request::Claims(ClaimRequest::Release { events: ClaimedEvents::Items { filter: b"f", items }, fence: None })
    });
    is_of("FS.CONFIRM f FENCE 0a ITEMS a", 5, |items| {
        let events = ClaimedEvents::Items { filter: b"f", items };
        Request::Claims(ClaimRequest::Confirm { events, fence: Some(b"0a") })
    });
}

#[test]
fn transactions() {
    is("MULTI", Request::Transaction(TransactionRequest::Begin));
    is("EXEC", Request::Transaction(TransactionRequest::Execute));
    is("DISCARD", Request::Transaction(TransactionRequest::Discard));
    is("UNWATCH", Request::Transaction(TransactionRequest::Unwatch));
}

#[test]
fn connections() {
    let hello = |protocol| Request::Connection(ConnectionRequest::Hello { protocol, credentials: None, name: None });
    is("HELLO", hello(None));
    is("HELLO 2", hello(Some(Protocol::Resp2)));
    is("HELLO 3", hello(Some(Protocol::Resp3)));
    for (line, expected_user, expected_name) in [
        ("AUTH secret", None, None),
        ("AUTH u secret", Some(&b"u"[..]), None),
        ("HELLO 3 AUTH u secret", Some(b"u"), None),
        ("hello 3 setname n auth u secret", Some(b"u"), Some(&b"n"[..])),
    ] {
        read(line, |request| {
            let debug = format!("{request:?}");
            assert!(!debug.contains("secret") && !debug.contains("115, 101"), "{debug} contains a password");
            let (credentials, name) = match request {
                Ok(Request::Connection(ConnectionRequest::Auth(credentials))) => (credentials, None),
                Ok(Request::Connection(ConnectionRequest::Hello { credentials, name, .. })) => {
                    (credentials.expect("credentials"), name)
                }
                other => panic!("{line}: {other:?}"),
            };
            assert_eq!((credentials.user(), credentials.password()), (expected_user, &b"secret"[..]));
            assert_eq!(name, expected_name);
        });
    }
    for (line, request) in [
        ("PING", ConnectionRequest::Ping { message: None }),
        ("PING m", ConnectionRequest::Ping { message: Some(b"m") }),
        ("ECHO m", ConnectionRequest::Echo { message: b"m" }),
        ("SELECT 0", ConnectionRequest::Select { database: 0 }),
        ("SELECT -1", ConnectionRequest::Select { database: -1 }),
        ("QUIT", ConnectionRequest::Quit),
        ("QUIT now", ConnectionRequest::Quit),
        ("RESET", ConnectionRequest::Reset),
        ("READONLY", ConnectionRequest::ReadOnly),
        ("READWRITE", ConnectionRequest::ReadWrite),
        ("CLIENT ID", ConnectionRequest::Client(ClientRequest::Id)),
        ("client getname", ConnectionRequest::Client(ClientRequest::GetName)),
        ("CLIENT SETNAME n", ConnectionRequest::Client(ClientRequest::SetName { name: b"n" })),
        ("CLIENT SETNAME ''", ConnectionRequest::Client(ClientRequest::SetName { name: b"" })),
        ("CLIENT SETINFO lib-name l", ConnectionRequest::Client(ClientRequest::SetLibraryName { name: b"l" })),
        ("CLIENT SETINFO LIB-VER 1", ConnectionRequest::Client(ClientRequest::SetLibraryVersion { version: b"1" })),
        ("CLIENT NO-EVICT on", ConnectionRequest::Client(ClientRequest::Granted)),
        ("CLIENT NO-TOUCH OFF", ConnectionRequest::Client(ClientRequest::Granted)),
        ("CLIENT REPLY ON", ConnectionRequest::Client(ClientRequest::Granted)),
        ("CLIENT TRACKING OFF", ConnectionRequest::Client(ClientRequest::Granted)),
    ] {
        is(line, Request::Connection(request));
    }
}

#[test]
fn servers() {
    is_of("INFO", 1, |sections| Request::Server(ServerRequest::Info { sections }));
    is_of("INFO server replication", 1, |sections| Request::Server(ServerRequest::Info { sections }));
    is("COMMAND", Request::Server(ServerRequest::Command(CommandQuery::All)));
    is("COMMAND count", Request::Server(ServerRequest::Command(CommandQuery::Count)));
    is("COMMAND LIST", Request::Server(ServerRequest::Command(CommandQuery::List)));
    is_of("COMMAND INFO get set", 2, |names| Request::Server(ServerRequest::Command(CommandQuery::Info { names })));
    is_of("COMMAND DOCS", 2, |names| Request::Server(ServerRequest::Command(CommandQuery::Docs { names })));
    is_of("CONFIG GET save appendonly", 2, |patterns| Request::Server(ServerRequest::ConfigGet { patterns }));
    is("TIME", Request::Server(ServerRequest::Time));
    is("MODULE LIST", Request::Server(ServerRequest::ModuleList));
    for (line, query) in [
        ("CLUSTER INFO", ClusterQuery::Info),
        ("CLUSTER myid", ClusterQuery::MyId),
        ("CLUSTER NODES", ClusterQuery::Nodes),
        ("CLUSTER SHARDS", ClusterQuery::Shards),
        ("CLUSTER SLOTS", ClusterQuery::Slots),
    ] {
        is(line, Request::Server(ServerRequest::Cluster(query)));
    }
}

#[test]
fn items_are_bounded() {
    for head in [
        &["SADD", "f"][..],
        &["SMISMEMBER", "f"],
        &["SREM", "f"],
        &["EXISTS"],
        &["DEL"],
        &["UNLINK"],
        &["BF.MADD", "f"],
        &["BF.MEXISTS", "f"],
        &["BF.INSERT", "f", "ITEMS"],
        &["FS.OBSERVE", "f", "ITEMS"],
        &["FS.TEST", "f", "ITEMS"],
    ] {
        let with = |items: usize| array(&[head, &vec!["x"; items]].concat());
        read_bytes(&with(ITEMS_MAX), |request| assert!(request.is_ok(), "{head:?}"));
        read_bytes(&with(ITEMS_MAX + 1), |request| {
            let text = request.expect_err("a command with too many items must be rejected").to_string();
            assert_eq!(text, "ERR a command takes at most 8192 items");
        });
    }
}
