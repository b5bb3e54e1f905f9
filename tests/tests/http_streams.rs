//! Tests of `dedup` over HTTP, where the client sends a stream of records and receives those that are new. Records must
//! be passed on while further ones arrive. The tests also cover compressed bodies, retries, and replies that are cut
//! off.

use std::io::Write;
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::http_wire::{HttpNode, HttpReply, HttpWire};
use crate::local_cluster::eventually;
use crate::run::example_text;

const DEDUP: &str = "/v1/filters/clicks/dedup";
const TEXT: (&str, &str) = ("Content-Type", "text/plain");

/// Sends the head of a request whose body is sent in chunks.
fn begin(wire: &mut HttpWire, path: &str, headers: &str) {
    let head = format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n{headers}\r\n");
    wire.write(head.as_bytes());
}

fn send_chunk(wire: &mut HttpWire, bytes: &[u8]) {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    wire.write(&chunk);
}

/// Returns the report of a reply whose request asked for trailers.
fn report(reply: &HttpReply) -> Value {
    let text = reply.header("x-firstseen-report").unwrap_or_else(|| panic!("no report: {:?}", reply.headers));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn records_are_passed_on_while_more_come() {
    let endpoint = HttpNode::start("");
    let mut wire = endpoint.wire();
    begin(
        &mut wire,
        &format!("{DEDUP}?format=jsonl&key=user,ad"),
        "TE: trailers\r\nContent-Type: application/x-ndjson\r\n",
    );
    send_chunk(&mut wire, b"{\"user\":1,\"ad\":1}\n{\"ad\":1,\"user\":1}\n{\"user\":2,");
    let mut reply = wire.head().expect("a head");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")));
    assert_eq!(wire.chunk().as_deref(), Some(b"{\"user\":1,\"ad\":1}\n".as_slice()), "before the body has ended");
    send_chunk(&mut wire, b"\"ad\":1, \"x\":\"\xc3\xa9\"}\nno json\n");
    assert_eq!(wire.chunk().as_deref(), Some("{\"user\":2,\"ad\":1, \"x\":\"é\"}\nno json\n".as_bytes()), "unchanged");
    send_chunk(&mut wire, b"{\"user\":1,\"ad\":1}\n{\"user\":3,\"ad\":1}");
    wire.write(b"0\r\n\r\n");
    wire.rest(&mut reply);
    assert_eq!((reply.text(), reply.is_whole), ("{\"user\":3,\"ad\":1}".to_owned(), true));
    let expected = json!({"records": 5, "first_seen": 3, "duplicates": 2, "undecided": 0, "rejected": 1, "reasons": {"invalid_json": 1}});
    assert_eq!(report(&reply), expected);
    // The connection can be used for further requests.
    assert_eq!(wire.ask("GET", "/v1/filters", &[], b"").status, 200);
}

#[test]
fn a_log_gives_what_the_command_gives_compressed_or_not() {
    let endpoint = HttpNode::start("");
    let log = example_text("apache_logs.gz");
    endpoint.run("filter create here --capacity 100k --fpr 1e-8 --window 24h");
    endpoint.run("filter create there --capacity 100k --fpr 1e-8 --window 24h");
    endpoint.run("filter create packed --capacity 100k --fpr 1e-8 --window 24h");
    endpoint.node.folder.write("access.log", &log);
    let expected = endpoint.run("dedup --filter here --format clf access.log");
    let path = |filter: &str| format!("/v1/filters/{filter}/dedup?format=clf");
    let reply = endpoint.ask("POST", &path("there"), &[("TE", "trailers")], log.as_bytes());
    assert!(
        reply.is_whole && reply.text() == expected,
        "{} bytes, and {} of the command",
        reply.body.len(),
        expected.len()
    );
    let said = report(&reply);
    assert_eq!(said["first_seen"].as_u64(), Some(expected.lines().count() as u64), "{said}");
    assert!(said["duplicates"].as_u64() > Some(1_000), "{said}");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(log.as_bytes()).expect("memory");
    let packed = packed.finish().expect("memory");
    let reply = endpoint.ask("POST", &path("packed"), &[("Content-Encoding", "gzip")], &packed);
    assert!(reply.text() == expected);
    // A compression that the header does not announce is rejected, and so is an archive that is cut off at its
    // beginning.
    let refused = endpoint.ask("POST", &path("packed"), &[], &packed);
    assert!(refused.status == 422 && refused.text().contains("Content-Encoding"), "{}", refused.text());
    let refused = endpoint.ask("POST", &path("packed"), &[("Content-Encoding", "gzip")], &packed[..10]);
    assert!(refused.status == 422 && refused.text().contains("breaks off"), "{}", refused.text());
    let refused = endpoint.ask("POST", &path("packed"), &[("Content-Encoding", "br")], b"x");
    assert_eq!((refused.status, refused.problem()), (415, "unsupported-media-type".to_owned()));
    // If the archive is cut off later, the reply is incomplete. The records before the cut are passed on, and clients
    // notice that the reply is not complete.
    let reply = endpoint.ask("POST", &path("packed"), &[("Content-Encoding", "gzip")], &packed[..packed.len() / 2]);
    assert!(reply.status == 200 && !reply.is_whole, "{:?}", reply.headers);
}

/// Regression test for compressed bodies that are damaged or cut off. An earlier version had two errors:
///
/// - If only the trailer of an archive was damaged, some records were recorded by the filter but never sent to the
///   client. A retry would have reported them as duplicates, so they were lost. In one case, 90 of 150 records were lost.
/// - If an archive was cut off, the reply ended in the middle of a record.
#[test]
fn a_reply_that_is_cut_off_has_all_records_that_were_judged() {
    let endpoint = HttpNode::start("");
    let packed = |records: &str| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(records.as_bytes()).expect("memory");
        packed.finish().expect("memory")
    };
    let seen_of = |records: &str| endpoint.ask("POST", "/v1/filters/clicks/test", &[TEXT], records.as_bytes()).text();
    for round in 0..20 {
        let records: String = (0..5).map(|number| format!("record {round} {number}\n")).collect();
        let archive = packed(&records);
        let damaged = match round % 3 {
            0 => [&archive, b"garbage".as_slice()].concat(),
            // The last eight bytes are a checksum and a length.
            1 => [&archive[..archive.len() - 8], &[0; 8]].concat(),
            _ => archive[..archive.len() - 8].to_vec(),
        };
        let reply = endpoint.ask("POST", DEDUP, &[("Content-Encoding", "gzip")], &damaged);
        if reply.status == 200 {
            assert_eq!((reply.text(), reply.is_whole), (records, false), "round {round}");
        } else {
            assert_eq!((reply.status, seen_of(&records).contains("duplicate")), (422, false), "nothing was recorded");
        }
    }
    let records: String = (0..20_000).map(|number| format!("long {number}\n")).collect();
    let archive = packed(&records);
    let reply = endpoint.ask("POST", DEDUP, &[("Content-Encoding", "gzip")], &archive[..archive.len() / 2]);
    assert!(!reply.is_whole && reply.text().ends_with('\n') && records.starts_with(&reply.text()));
}

/// Checks that HTTP/1.0 is rejected. A reply in HTTP/1.0 has no chunks, so a client could not notice that the reply was
/// cut off.
#[test]
fn dedup_is_refused_to_http_1_0() {
    let endpoint = HttpNode::start("");
    let mut wire = endpoint.wire();
    wire.write(format!("POST {DEDUP} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\na\n").as_bytes());
    let reply = wire.reply().expect("a reply");
    assert_eq!((reply.status, reply.problem()), (505, "old-version".to_owned()));
    assert!(reply.text().contains("proxy_http_version 1.1"), "{}", reply.text());
}

#[test]
fn zstd_is_taken_where_the_header_says_so() {
    let endpoint = HttpNode::start("");
    // `printf 'a\nb\na\n' | zstd -c`: a frame with one raw block, without a checksum.
    let frame = [b"\x28\xb5\x2f\xfd\x20\x06\x31\x00\x00".as_slice(), b"a\nb\na\n"].concat();
    let reply = endpoint.ask("POST", DEDUP, &[("Content-Encoding", "zstd")], &frame);
    assert_eq!((reply.status, reply.text()), (200, "a\nb\n".to_owned()));
}

#[test]
fn a_stream_that_is_sent_again_gets_its_first_verdicts() {
    let endpoint = HttpNode::start("");
    let records: String = (0..5_000).map(|number| format!("record {}\n", number % 4_000)).collect();
    let named = [("X-Firstseen-Source", "importer"), ("Idempotency-Key", "file-1")];
    let ask =
        |headers: &[(&str, &str)]| endpoint.ask("POST", DEDUP, headers, records.as_bytes()).text().lines().count();
    assert_eq!(ask(&named), 4_000);
    assert_eq!(ask(&named), 4_000, "the same stream again");
    assert_eq!(ask(&[]), 0, "a stream without a name meets its events");
    let half = endpoint.ask("POST", DEDUP, &named[..1], b"a\n");
    assert_eq!((half.status, half.problem()), (422, "impossible".to_owned()));
}

#[test]
fn options_and_places_are_checked_before_anything_is_read() {
    let endpoint = HttpNode::start("streams_max = 1\n");
    for (query, status, why) in [
        ("?format=xml", 400, "format"),
        ("?keys=a", 400, "`keys` is no option of dedup"),
        ("?format=csv&key=absent", 422, "absent"),
        ("?tz=Nowhere", 422, "Nowhere"),
        ("?format=csv&time=a", 422, "--clock event"),
    ] {
        let reply = endpoint.ask("POST", &format!("{DEDUP}{query}"), &[], b"a,b\n1,2\n");
        assert!(reply.status == status && reply.text().contains(why), "{query}: {}", reply.text());
    }
    let mut first = endpoint.wire();
    begin(&mut first, DEDUP, "");
    send_chunk(&mut first, b"a\n");
    assert_eq!(first.head().map(|reply| reply.status), Some(200));
    let second = endpoint.ask("POST", DEDUP, &[], b"b\n");
    assert_eq!((second.status, second.problem(), second.header("retry-after")), (503, "no-room".to_owned(), Some("5")));
    drop(first);
    eventually("the place of one that has gone", || endpoint.ask("POST", DEDUP, &[], b"c\n").status == 200);
}

/// Checks that a client which sends without end and reads nothing does not fill the memory of the node.
#[test]
fn a_client_that_does_not_read_is_not_read_either() {
    let endpoint = HttpNode::start("");
    let resident = || memory_kib(endpoint.node.process());
    let before = resident();
    let mut wire = endpoint.wire();
    begin(&mut wire, DEDUP, "");
    let mut sending = wire.stream();
    sending.set_write_timeout(Some(std::time::Duration::from_secs(3))).expect("a timeout");
    let sent = thread::spawn(move || {
        let mut sent = 0_u64;
        for number in 0_u64.. {
            let records: String = (0..1_000).map(|record| format!("{number:030} {record:030}\n")).collect();
            if sending.write_all(format!("{:x}\r\n{records}\r\n", records.len()).as_bytes()).is_err() {
                break;
            }
            sent += records.len() as u64;
        }
        sent
    });
    let sent = sent.join().expect("a thread");
    let grown = resident().saturating_sub(before);
    println!("{sent} bytes were taken, and the node has {grown} KiB more");
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    assert!(grown < 64 << 10, "{grown} KiB");
    assert_eq!(endpoint.ask("GET", "/v1/filters", &[], b"").status, 200);
}

/// Returns the resident memory of a process, in KiB.
pub(crate) fn memory_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_node_that_stops_cuts_streams_off_and_ends_well() {
    let mut endpoint = HttpNode::start("");
    let mut wire = endpoint.wire();
    begin(&mut wire, DEDUP, "");
    send_chunk(&mut wire, b"a\nb\n");
    let mut reply = wire.head().expect("a head");
    assert_eq!(wire.chunk().as_deref(), Some(b"a\nb\n".as_slice()));
    let mut idle = endpoint.wire();
    assert_eq!(idle.ask("GET", "/v1/filters", &[], b"").status, 200);
    endpoint.node.stop();
    wire.rest(&mut reply);
    assert!(!reply.is_whole, "the rest was not asked about");
    assert!(idle.reply().is_none(), "it is closed");
}
