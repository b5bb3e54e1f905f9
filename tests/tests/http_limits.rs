//! Tests of the HTTP endpoint with clients that demand too much: many connections, slow requests, and endless requests.

use std::time::{Duration, Instant};

use crate::http_streams::memory_kib;
use crate::http_wire::{HttpNode, HttpWire};
use crate::local_cluster::eventually;

const OBSERVE: &str = "/v1/filters/clicks/observe";

const CONNECTIONS: usize = 10_000;

#[test]
fn ten_thousand_connections_take_bounded_memory() {
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 12_000, 12_000);
    let (soft, _) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("a limit");
    if soft < CONNECTIONS as u64 + 500 {
        println!("NOT CHECKED: ten thousand connections, as this process may open {soft} files");
        return;
    }
    let endpoint = HttpNode::start("connections_max = 9000\n");
    let before = memory_kib(endpoint.node.process());
    let mut wires = Vec::new();
    for number in 0..CONNECTIONS {
        let mut wire = HttpWire::at(endpoint.port);
        // Each connection sends half of a request head, so that all of them are read.
        if wire
            .try_write(
                format!("POST {OBSERVE} HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: {number}\r\n").as_bytes(),
            )
            .is_ok()
        {
            wires.push(wire);
        }
    }
    let metric = |name: &str| endpoint.metric(name);
    eventually("all connections", || metric("connections") + metric("turned_away_total") >= CONNECTIONS as u64);
    let grown = memory_kib(endpoint.node.process()).saturating_sub(before);
    println!("{} connections take {grown} KiB", metric("connections"));
    assert!(metric("connections") <= 9_000 && metric("turned_away_total") >= 1_000);
    assert!(grown < 400 << 10, "{grown} KiB for {CONNECTIONS} connections");
    // Connections within the limit are served. The first connections may have been open for longer than a request head
    // may take, so the test uses later ones.
    for wire in &mut wires[7_500..8_500] {
        wire.write(b"Content-Length: 0\r\n\r\n");
        assert_eq!(wire.reply().map(|reply| reply.status), Some(200));
    }
    drop(wires);
    eventually("places", || metric("connections") < 100);
    assert_eq!(endpoint.ask("GET", "/v1/filters", &[], b"").status, 200);
}

#[test]
fn endless_heads_are_refused_and_take_bounded_memory() {
    let endpoint = HttpNode::start("");
    let before = memory_kib(endpoint.node.process());
    for kind in ["one header", "many headers", "the path"] {
        let mut wire = endpoint.wire();
        let begun = match kind {
            "one header" => format!("POST {OBSERVE} HTTP/1.1\r\nX-Long: "),
            "many headers" => format!("POST {OBSERVE} HTTP/1.1\r\n"),
            _ => "POST /v1/".to_owned(),
        };
        wire.write(begun.as_bytes());
        let part = if kind == "many headers" { "X-Many: 1\r\n".repeat(1_000) } else { "a".repeat(10_000) };
        let mut sent = 0;
        while sent < 64 << 20 && wire.try_write(part.as_bytes()).is_ok() {
            sent += part.len();
        }
        let status = wire.reply().map(|reply| reply.status);
        println!("{kind}: {sent} bytes were sent, and the reply is {status:?}");
        assert!(sent < 64 << 20, "{kind} was read without end");
        // A client that is still sending when it is rejected may find the connection reset before it reads the reply.
        assert!(status.is_none_or(|status| [400, 414, 431].contains(&status)), "{kind}: {status:?}");
    }
    let grown = memory_kib(endpoint.node.process()).saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB");
    let too_many = endpoint.wire().ask("POST", OBSERVE, &[("X-Many", "1"); 120], b"a").status;
    assert_eq!(too_many, 431);
    assert_eq!(endpoint.ask("GET", "/v1/filters", &[], b"").status, 200);
}

#[test]
fn bodies_without_room_are_refused_and_small_calls_go_on() {
    let endpoint = HttpNode::start("buffered_bytes_max = 1048576\n");
    // These bodies have begun, and use up the memory budget.
    let body = "e\n".repeat(200_000);
    let mut slow: Vec<HttpWire> = Vec::new();
    let mut refused = 0;
    for _ in 0..8 {
        let mut wire = endpoint.wire();
        let head = format!(
            "POST {OBSERVE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            body.len() + 1
        );
        wire.write(head.as_bytes());
        let _ = wire.try_write(body.as_bytes());
        slow.push(wire);
    }
    let json = br#"{"events": ["a"]}"#;
    for wire in &mut slow {
        wire.stream().set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
        if let Some(reply) = wire.reply() {
            assert_eq!((reply.status, reply.problem()), (503, "no-room".to_owned()));
            refused += 1;
        }
    }
    assert!((1..8).contains(&refused), "{refused} of 8 were refused");
    let reply = endpoint.ask("POST", OBSERVE, &[("Content-Type", "application/json")], json);
    assert_eq!(reply.status, 200, "{}", reply.text());
    drop(slow);
    eventually("room", || {
        let body = "e\n".repeat(8_192);
        endpoint.ask("POST", OBSERVE, &[("Content-Type", "text/plain")], body.as_bytes()).status == 200
    });
}

#[test]
#[ignore = "half a minute: it waits for the limits of time"]
fn slow_bodies_and_heads_are_given_up() {
    let endpoint = HttpNode::start("");
    let begun = Instant::now();
    let mut slow_head = endpoint.wire();
    slow_head.write(b"POST / HTTP/1.1\r\nHost: ");
    let mut slow_body = endpoint.wire();
    slow_body.write(
        format!(
            "POST {OBSERVE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\na"
        )
        .as_bytes(),
    );
    let reply = slow_body.reply().expect("a reply");
    assert_eq!((reply.status, reply.problem()), (408, "body-too-slow".to_owned()));
    assert!(begun.elapsed() > Duration::from_secs(29));
    let ended = slow_head.reply();
    assert!(ended.is_none_or(|reply| reply.status == 408), "a head that does not come");
    assert!(begun.elapsed() > Duration::from_secs(59));
}
