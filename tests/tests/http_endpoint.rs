//! Tests of the HTTP endpoint, request by request: verdicts, rejected requests, rights, and claims.

use std::io::Write;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::http_wire::HttpNode;
use crate::local_cluster::eventually;
use crate::run::Folder;

const OBSERVE: &str = "/v1/filters/clicks/observe";
const TEXT: (&str, &str) = ("Content-Type", "text/plain");
const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn each_event_gets_its_verdict_whatever_the_body() {
    let endpoint = HttpNode::start("");
    let reply = endpoint.post(OBSERVE, &json!({"events": ["a", "b", "a"]}));
    assert_eq!((reply.status, reply.json()), (200, json!({"verdicts": ["first_seen", "first_seen", "duplicate"]})));
    let reply = endpoint.ask("POST", OBSERVE, &[TEXT], b"b\r\nc\n\xff\xfe\n");
    assert_eq!(reply.json(), json!({"verdicts": ["duplicate", "first_seen", "first_seen"]}));
    let test = "/v1/filters/clicks/test";
    let reply = endpoint.ask("POST", test, &[TEXT], b"c\nnever\n\xff\xfe");
    assert_eq!(reply.json(), json!({"verdicts": ["duplicate", "first_seen", "duplicate"]}));
    // The command line and other clients of the cluster know the same events.
    endpoint.node.folder.write("input", "a\nnew\n");
    assert_eq!(endpoint.run("dedup --filter clicks --lookup input"), "new\n");
    let many: Vec<String> = (0..8192).map(|number| format!("event {number}")).collect();
    let reply = endpoint.post(OBSERVE, &json!({ "events": many }));
    let verdicts = reply.json()["verdicts"].as_array().cloned().expect("verdicts");
    assert!(verdicts.len() == 8192 && verdicts.iter().all(|verdict| verdict == "first_seen"));
}

#[test]
fn the_status_tells_the_verdict_on_an_event_in_a_header() {
    let endpoint = HttpNode::start("");
    let mut wire = endpoint.wire();
    let key = [("Idempotency-Key", "abc")];
    let mut observe = |path: &str| wire.ask("POST", path, &key, b"");
    let first = observe(OBSERVE);
    assert_eq!((first.status, first.json()), (200, json!({"verdict": "first_seen"})));
    let second = observe(&format!("{OBSERVE}?for=/hooks?ttl_ms=bad"));
    assert_eq!((second.status, second.problem()), (409, "duplicate".to_owned()));
    assert_eq!(second.json()["verdict"], "duplicate");
    assert_eq!(observe("/v1/filters/clicks/test").status, 409);
    // A full filter decides nothing.
    endpoint.run("filter create tiny --capacity 1 --fpr 1e-8 --clock wall --window 1h");
    let undecided = (0..100_000).find_map(|number| {
        let key = format!("event {number}");
        let reply = endpoint.ask("POST", "/v1/filters/tiny/observe", &[("Idempotency-Key", &*key)], b"");
        (reply.status == 503).then_some(reply)
    });
    let undecided = undecided.expect("a full filter");
    assert_eq!((undecided.problem(), undecided.header("retry-after")), ("undecided".to_owned(), Some("60")));
    assert_eq!(undecided.json()["verdict"], json!({"undecided": "full"}));
}

#[test]
fn a_retry_that_names_its_submission_gets_its_first_verdict() {
    let endpoint = HttpNode::start("");
    let ask = |key: &str, source: &str, body: &[u8]| {
        let headers = [("Idempotency-Key", key), ("X-Firstseen-Source", source), TEXT];
        endpoint.ask("POST", OBSERVE, &headers[..if body.is_empty() { 2 } else { 3 }], body)
    };
    for _ in 0..2 {
        assert_eq!(ask("order-1", "shop", b"").status, 200, "the same submission");
    }
    assert_eq!(ask("order-1", "another shop", b"").status, 409);
    for _ in 0..2 {
        let reply = ask("batch-1", "shop", b"order-1\nx\ny");
        assert_eq!(reply.json(), json!({"verdicts": ["duplicate", "first_seen", "first_seen"]}));
    }
    let reused = ask("batch-1", "shop", b"order-1\nx\nz").json();
    assert_eq!(reused["verdicts"][2], json!({"undecided": "name_reused"}));
    // Keys need not be in ascending order. An event with a smaller key than the previous one is new all the same.
    for number in (0..200).rev() {
        assert_eq!(ask(&format!("{number:05}"), "countdown", b"").status, 200, "{number}");
    }
}

#[test]
fn events_bring_times_and_lives_where_their_filter_takes_them() {
    let endpoint = HttpNode::start("");
    endpoint.run("filter create timed --kind cuckoo --ticks 79 --capacity 10k --fpr 1e-8 --window 60s");
    let timed = |body: Value| endpoint.post("/v1/filters/timed/observe", &body);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let at = |ms: u64| timed(json!({"events": ["e"], "times_ms": [ms]})).json()["verdicts"][0].clone();
    assert_eq!(at(now_ms), "first_seen");
    assert_eq!(at(now_ms + 1_000), "duplicate");
    assert_eq!(timed(json!({"events": ["short"], "ttl_ms": 2_000})).json()["verdicts"][0], "first_seen");
    eventually("the end of its life", || {
        endpoint.post("/v1/filters/timed/test", &json!({"events": ["short"]})).json()["verdicts"][0] == "first_seen"
    });
    for (path, body, why) in [
        ("timed", json!({"events": ["a"], "ttl_ms": 60_001}), "remembers events for 60000 ms at most"),
        ("timed", json!({"events": ["a"], "ttl_ms": 5, "times_ms": [now_ms]}), "leave the times out"),
        ("clicks", json!({"events": ["a"], "times_ms": [now_ms]}), "bring no times"),
        ("clicks", json!({"events": ["a"], "ttl_ms": 5}), "leave ttl_ms out"),
        ("timed", json!({"events": ["a", "b"], "times_ms": [now_ms]}), "2 events with 1 times"),
    ] {
        let reply = endpoint.post(&format!("/v1/filters/{path}/observe"), &body);
        assert_eq!((reply.status, reply.problem()), (422, "impossible".to_owned()), "{body}");
        assert!(reply.json()["detail"].as_str().is_some_and(|detail| detail.contains(why)), "{body}: {}", reply.text());
    }
}

#[test]
fn claims_are_confirmed_and_released_by_their_fences() {
    let endpoint = HttpNode::start("");
    endpoint.run("filter create jobs --capacity 10k --fpr 1e-8 --clock wall --window 1h --claims 30s");
    let call = |name: &str, body: Value| endpoint.post(&format!("/v1/filters/jobs/{name}"), &body);
    let claimed = call("claim", json!({"events": ["a", "b"], "lease_ms": 20_000})).json();
    assert_eq!(claimed["verdicts"], json!(["first_seen", "first_seen"]));
    let others = call("claim", json!({"events": ["a"]})).json();
    assert_eq!((&others["verdicts"][0], &others["fences"][0]), (&json!({"undecided": "claimed"}), &Value::Null));
    assert!(others["left_ms"][0].as_u64().is_some_and(|left_ms| (1..=20_000).contains(&left_ms)), "{others}");
    let fences = &claimed["fences"];
    let confirm = json!({"events": ["a"], "fences": [fences[0]]});
    assert_eq!(call("confirm", confirm.clone()).json()["verdicts"], json!(["confirmed"]));
    assert_eq!(call("confirm", confirm).json()["verdicts"], json!(["duplicate"]), "a retry");
    let release = json!({"events": ["b"], "fences": [fences[1]]});
    assert_eq!(call("release", release.clone()).json()["verdicts"], json!(["released"]));
    assert_eq!(call("release", release).json()["verdicts"], json!(["not_held"]));
    assert_eq!(call("claim", json!({"events": ["a", "b"]})).json()["verdicts"], json!(["duplicate", "first_seen"]));
    // A single event is named by headers.
    let one =
        |name: &str, headers: &[(&str, &str)]| endpoint.ask("POST", &format!("/v1/filters/jobs/{name}"), headers, b"");
    let granted = one("claim?lease_ms=20000", &[("Idempotency-Key", "c")]);
    let fence = granted.header("x-firstseen-fence").expect("a fence").to_owned();
    assert_eq!(granted.json()["fence"], *fence);
    let held = one("claim", &[("Idempotency-Key", "c")]);
    assert!(held.status == 503 && held.header("retry-after").is_some(), "{held:?}");
    let confirmed = one("confirm", &[("Idempotency-Key", "c"), ("X-Firstseen-Fence", &fence)]);
    assert_eq!((confirmed.status, confirmed.json()["verdict"].clone()), (200, json!("confirmed")));
    assert_eq!(one("claim", &[("Idempotency-Key", "c")]).status, 409);
    let released = one("release", &[("Idempotency-Key", "c"), ("X-Firstseen-Fence", &fence)]);
    assert_eq!((released.status, released.problem()), (409, "not-held".to_owned()));
    let named = one("claim", &[("Idempotency-Key", "d"), ("X-Firstseen-Source", "shop")]);
    assert!(named.status == 422 && named.text().contains("claims have no names"), "{}", named.text());
    for (name, body, why) in [
        ("claim", json!({"events": ["d"], "lease_ms": 30_001}), "for 30000 ms at most"),
        ("confirm", json!({"events": ["d"], "fences": ["0".repeat(48)]}), "not given by filter"),
        ("confirm", json!({"events": ["d", "e"], "fences": [fence]}), "2 events with 1 fences"),
    ] {
        let reply = call(name, body);
        assert!(reply.status == 422 && reply.text().contains(why), "{name}: {}", reply.text());
    }
    let none = endpoint.post("/v1/filters/clicks/claim", &json!({"events": ["a"]}));
    assert!(none.status == 422 && none.text().contains("--claims"), "{}", none.text());
}

/// A consumer whose lease had ended was told that its confirm was undecided while another consumer held the event, and
/// `observe` told it to wait for a minute although no lease is longer than 30 s.
#[test]
fn a_claim_that_another_consumer_holds_now_is_not_held() {
    let endpoint = HttpNode::start("");
    endpoint.run("filter create jobs --capacity 10k --fpr 1e-8 --clock wall --window 1h --claims 30s");
    let one =
        |name: &str, headers: &[(&str, &str)]| endpoint.ask("POST", &format!("/v1/filters/jobs/{name}"), headers, b"");
    let key = ("Idempotency-Key", "a");
    let mut fence = None;
    eventually("a claim", || {
        fence = one("claim?lease_ms=500", &[key]).header("x-firstseen-fence").map(str::to_owned);
        fence.is_some()
    });
    let fence = fence.expect("a fence");
    eventually("another consumer's claim", || one("claim", &[key]).status == 200);
    let fenced = [key, ("X-Firstseen-Fence", &*fence)];
    let confirmed = one("confirm", &fenced);
    assert_eq!((confirmed.status, confirmed.problem()), (409, "not-held".to_owned()), "{}", confirmed.text());
    assert_eq!((confirmed.json()["verdict"].clone(), confirmed.header("retry-after")), (json!("not_held"), None));
    let body = json!({"events": ["a"], "fences": [fence]});
    for name in ["confirm", "release"] {
        let reply = endpoint.post(&format!("/v1/filters/jobs/{name}"), &body);
        assert_eq!((reply.status, reply.json()["verdicts"].clone()), (200, json!(["not_held"])), "{name}");
    }
    for name in ["observe", "test"] {
        let held = one(name, &[key]);
        assert_eq!((held.status, held.header("retry-after")), (503, Some("30")), "{name}: {}", held.text());
        assert_eq!(held.json()["verdict"], json!({"undecided": "claimed"}));
    }
}

#[test]
fn requests_that_cannot_be_carried_out_get_a_problem_document() {
    let endpoint = HttpNode::start("body_bytes_max = 1000\n");
    /// A request, followed by the status code, the kind of problem and a part of the problem document in its reply.
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8], u16, &'a str, &'a str);
    let deep = "[".repeat(900);
    let rows: [Row<'_>; 19] = [
        ("POST", "/v1/filters/absent/observe", &[TEXT], b"a", 404, "no-such-filter", "firstseen filter create"),
        ("GET", "/v1/filters/absent", &[], b"", 404, "no-such-filter", "GET /v1/filters"),
        ("GET", "/v1/nothing", &[], b"", 404, "no-such-path", "openapi.json"),
        ("GET", OBSERVE, &[], b"", 405, "method-not-allowed", "Allow"),
        ("DELETE", "/v1/filters/clicks", &[], b"", 405, "method-not-allowed", "Allow"),
        ("POST", OBSERVE, &[], b"a", 415, "unsupported-media-type", "text/plain"),
        (
            "POST",
            OBSERVE,
            &[("Content-Type", "text/plain; charset=utf-16")],
            b"a",
            415,
            "unsupported-media-type",
            "UTF-8",
        ),
        // Earlier versions recorded the compressed bytes as events.
        (
            "POST",
            OBSERVE,
            &[TEXT, ("Content-Encoding", "gzip")],
            b"\x1f\x8b\x08",
            415,
            "unsupported-media-type",
            "Content-Encoding",
        ),
        ("POST", OBSERVE, &[TEXT, ("Host", "localhost")], b"a", 400, "malformed", "2 headers Host"),
        ("POST", OBSERVE, &[JSON], b"{\"events\": [\"\xff\"]}", 400, "malformed", "body: "),
        ("POST", OBSERVE, &[JSON], br#"{"events": [1e999]}"#, 400, "malformed", "body: "),
        ("POST", OBSERVE, &[JSON], br#"{"events": ["a"], "ttl_ms": 1e999}"#, 400, "malformed", "body: "),
        (
            "POST",
            OBSERVE,
            &[JSON],
            br#"{"events": ["a"], "ttl_ms": 99999999999999999999999999}"#,
            400,
            "malformed",
            "body: ",
        ),
        ("POST", OBSERVE, &[JSON], deep.as_bytes(), 400, "malformed", "body: "),
        ("POST", "/v1/filters/clicks/observe?ttl_ms=18446744073709551616", &[TEXT], b"a", 400, "malformed", "ttl_ms"),
        ("POST", "/v1/filters/clicks/observe?ttl=5", &[TEXT], b"a", 400, "malformed", "`ttl` is no option"),
        ("POST", "/v1/filters/%ff/observe", &[TEXT], b"a", 400, "malformed", "UTF-8"),
        ("POST", OBSERVE, &[TEXT], &[b'a'; 1001], 413, "body-too-large", "body_bytes_max"),
        ("POST", OBSERVE, &[], b"", 422, "impossible", "there is no event"),
    ];
    for (method, path, headers, body, status, kind, why) in rows {
        let reply = endpoint.ask(method, path, headers, body);
        assert_eq!((reply.status, &*reply.problem()), (status, kind), "{method} {path}: {}", reply.text());
        assert!(reply.text().contains(why), "{method} {path}: {}", reply.text());
        assert_eq!(reply.header("allow").is_some(), status == 405, "{method} {path}: {reply:?}");
    }
    // None of these requests has ended the node.
    assert_eq!(endpoint.ask("POST", OBSERVE, &[TEXT], b"a").status, 200);
    let metrics = endpoint.ask("GET", "/v1/filters", &[], b"");
    assert_eq!(metrics.json(), json!({"filters": ["clicks"]}));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let endpoint = HttpNode::start("");
    let mut wire = endpoint.wire();
    let mut bytes = Vec::new();
    for number in 0..1_000 {
        let event = format!("event-{}", number / 2);
        bytes.extend_from_slice(
            format!(
                "POST {OBSERVE} HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {event}\r\nContent-Length: 0\r\n\r\n"
            )
            .as_bytes(),
        );
    }
    let mut writing = wire.stream();
    let sender = thread::spawn(move || writing.write_all(&bytes));
    for number in 0..1_000 {
        let reply = wire.reply().expect("a reply");
        assert_eq!(reply.status, if number % 2 == 0 { 200 } else { 409 }, "{number}");
    }
    sender.join().expect("a thread").expect("all is sent");
}

#[test]
fn a_filter_is_described_as_by_the_command() {
    let endpoint = HttpNode::start("");
    let shown = endpoint.ask("GET", "/v1/filters/clicks", &[], b"").json();
    let described: Value = serde_json::from_str(&endpoint.run("filter describe clicks --json")).expect("JSON");
    for (name, value) in shown.as_object().expect("an object").iter().filter(|(name, _)| *name != "slices") {
        assert_eq!(described[name], *value, "{name}");
    }
    let slices = shown["slices"].as_array().expect("slices");
    assert!(!slices.is_empty());
    for (slice, described) in slices.iter().zip(described["slices"].as_array().expect("slices")) {
        for (name, value) in slice.as_object().expect("an object") {
            assert_eq!(described[name], *value, "{name}");
        }
    }
    let openapi = endpoint.ask("GET", "/v1/openapi.json", &[], b"").json();
    assert!(openapi["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")), "{}", openapi["openapi"]);
}

#[test]
fn a_web_page_cannot_have_a_browser_ask() {
    let endpoint = HttpNode::start("hosts = [\"dedup.internal\"]\n");
    let refused = endpoint.ask("POST", OBSERVE, &[TEXT, ("Origin", "https://evil.example")], b"a");
    assert_eq!((refused.status, refused.problem()), (403, "forbidden".to_owned()));
    let as_named = |name: &str| {
        let mut wire = endpoint.wire();
        wire.write(format!("GET /v1/filters HTTP/1.1\r\nHost: {name}\r\n\r\n").as_bytes());
        wire.reply().expect("a reply").status
    };
    let names = ["evil.example", "127.0.0.1.evil.example", "dedup.internal", "localhost:7480", "[::1]"];
    assert_eq!(names.map(as_named), [421, 421, 200, 200, 200]);
    assert_eq!(endpoint.ask("POST", "/v1/filters/clicks/test", &[TEXT], b"a").json()["verdicts"][0], "first_seen");
}

#[test]
fn a_cluster_that_asks_for_rights_asks_http_clients_for_a_token() {
    let folder = Folder::new();
    folder.run("certs --out certs --nodes a --admin").ok();
    let tls = "[tls]\nca = \"certs/ca.pem\"\ncert = \"certs/a.node.pem\"\nkey = \"certs/a.node.key\"\ntokens = true";
    let endpoint = HttpNode::open_in(folder, "", &format!("{tls}\n[audit]\nfile = \"audit.jsonl\"\n"));
    let admin = "--tls-ca certs/ca.pem --tls-cert certs/admin.pem --tls-key certs/admin.key";
    endpoint.form(admin);
    for command in [
        "filter create clicks --capacity 10k --clock wall --window 1h",
        "filter create others --capacity 10k --clock wall --window 1h",
        "access grant keeper --allow security",
        "access grant crawler --filter clicks --allow observe,lookup",
    ] {
        endpoint.run(&format!("{command} {admin}"));
    }
    let token = endpoint.run(&format!("access token new crawler {admin}"));
    endpoint.opened();
    assert_eq!(
        endpoint.ask("POST", OBSERVE, &[TEXT], b"early").status,
        200,
        "roles count, and this machine is trusted"
    );
    endpoint.run(&format!("access enable {admin}"));
    let strange = || endpoint.ask("POST", OBSERVE, &[TEXT], b"a");
    eventually("an endpoint that asks who it is", || strange().status == 401);
    assert_eq!(
        (strange().problem(), strange().header("www-authenticate").is_some()),
        ("unauthorized".to_owned(), true)
    );
    assert_eq!(endpoint.ask("GET", "/v1/filters", &[], b"").status, 401);
    let bearer = format!("Bearer {}", token.trim());
    let headers = [TEXT, ("Authorization", &*bearer), ("Origin", "https://shop.example")];
    let ask =
        |path: &str, body: &[u8]| endpoint.ask(if body.is_empty() { "GET" } else { "POST" }, path, &headers, body);
    assert_eq!(ask(OBSERVE, b"a").json()["verdicts"][0], "first_seen");
    for (of_one, of_none) in [
        (ask("/v1/filters/others/observe", b"a"), ask("/v1/filters/nothing/observe", b"a")),
        (ask("/v1/filters/others", b""), ask("/v1/filters/nothing", b"")),
        (ask("/v1/filters/others/dedup", b"a"), ask("/v1/filters/nothing/dedup", b"a")),
    ] {
        assert_eq!((of_one.status, of_one.problem()), (403, "forbidden".to_owned()));
        assert_eq!(
            of_one.text().replace("others", "@"),
            of_none.text().replace("nothing", "@"),
            "nothing is told of others"
        );
    }
    assert_eq!(ask("/v1/filters", b"").json(), json!({"filters": ["clicks"]}));
    for wrong in ["Bearer fst_wrong", "Basic YTpi", "Bearer"] {
        assert_eq!(endpoint.ask("POST", OBSERVE, &[TEXT, ("Authorization", wrong)], b"a").status, 401, "{wrong}");
    }
    // The reply about an exhausted quota says when more is available.
    endpoint.run(&format!("access limit crawler --events-per-s 1 {admin}"));
    let many = "e\n".repeat(1_000);
    let mut spent = None;
    eventually("a quota that is spent", || {
        spent = Some(ask("/v1/filters/clicks/test", many.as_bytes())).filter(|reply| reply.status == 429);
        spent.is_some()
    });
    let spent = spent.expect("a reply");
    assert!(spent.problem() == "quota-spent" && spent.header("retry-after").is_some(), "{spent:?}");
    // An open connection ends when the right is revoked.
    let mut open = endpoint.wire();
    endpoint.run(&format!("access revoke crawler {admin}"));
    eventually("the next map", || [401, 403].contains(&open.ask("POST", OBSERVE, &headers, b"z").status));
    let audit = endpoint.node.folder.read("audit.jsonl");
    assert!(audit.contains(r#""event":"came","who":"crawler""#) && audit.contains(r#""event":"denied""#), "{audit}");
    assert!(!audit.contains(&token.trim()[30..]), "no line has a secret");
}
