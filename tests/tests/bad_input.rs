//! Checks that malformed input results in a message that names its position, and never in a panic or a lost line.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::run::{Folder, example_text, number};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

/// Output of `zstd` for the lines `a`, `b` and `a`.
const ZSTD: &[u8] =
    &[0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x06, 0x31, 0x00, 0x00, 0x61, 0x0a, 0x62, 0x0a, 0x61, 0x0a, 0xea, 0xca, 0xd3, 0x49];

#[test]
fn an_empty_file_has_no_events() {
    let ran = Folder::with("").dedup("--report json input").ok();
    assert_eq!((ran.out.as_str(), number(&ran.report(), "events")), ("", 0));
    Folder::with("").dedup("--format csv --key a input").ok();
    Folder::with(gzip("")).dedup("input").ok();
}

#[test]
fn a_last_line_without_its_newline_stays_one_record() {
    let folder = Folder::with("a\nb\nlast");
    folder.write("second", "last\nc\nlast");
    assert_eq!(folder.dedup("input").ok().out, "a\nb\nlast");
    assert_eq!(folder.dedup("input second").ok().out, "a\nb\nlast\nc\n");
    folder.write("other", "d");
    assert_eq!(folder.dedup("input other").ok().out, "a\nb\nlast\nd");
}

#[test]
fn a_line_of_ten_megabytes_is_a_record() {
    let long = "x".repeat(10_000_000);
    let folder = Folder::with(format!("{long}\nshort\n{long}\n{long}y\n"));
    let ran = folder.dedup("--report json input").ok();
    assert!(ran.out == format!("{long}\nshort\n{long}y\n"));
    assert_eq!(number(&ran.report(), "duplicates"), 1);
    assert!(ran.err.len() < 10_000, "a report of {} bytes repeats the line", ran.err.len());
}

#[test]
fn a_line_over_the_limit_is_rejected_with_its_place() {
    let folder = Folder::with(format!("first\n{}\nlast\n", "x".repeat(17 << 20)));
    let ran = folder.dedup("--report json --rejected rejected input").ok();
    assert_eq!(ran.out, "first\nlast\n");
    assert!(ran.err.contains("input:2: rejected: it is longer than 16777216 bytes (too_long)"), "{}", ran.err);
    assert_eq!(number(&ran.report(), "rejected"), 1);
    assert_eq!(folder.read("rejected").len(), (17 << 20) + 1, "all of it is kept");
}

#[test]
fn a_quoted_record_over_the_limit_is_rejected_and_not_cut_into_lines() {
    let filler = "x".repeat(17 << 20);
    for long in [format!("2,\"{}\"\n", "1,one\n".repeat(3 << 20)), format!("2,\"{filler}\n1,one\n1,one\n\"\n")] {
        let folder = Folder::with(format!("k,v\n1,one\n{long}3,\"a\nb\"\n"));
        let ran = folder.dedup("--format csv --key k --rejected rejected --report json input").ok();
        assert_eq!(ran.out, "k,v\n1,one\n3,\"a\nb\"\n");
        assert!(ran.err.contains("input:3: rejected: it is longer than 16777216 bytes"), "{}", ran.err);
        assert!(ran.err.contains(&format!("joins the next {} lines", long.lines().count() - 1)), "{}", ran.err);
        assert_eq!((number(&ran.report(), "rejected"), number(&ran.report(), "events")), (1, 2));
        assert!(folder.read("rejected") == format!("k,v\n{long}"), "all of it is kept");
    }
}

#[test]
fn bytes_that_are_no_utf8_pass_through_unchanged() {
    let folder = Folder::with(b"a\xff\nb\na\xff\n\xfe\n");
    folder.dedup("--out out --report text input").ok();
    assert_eq!(std::fs::read(folder.path("out")).expect("out"), b"a\xff\nb\n\xfe\n");
    let json = b"{\"a\":1}\n{\"a\":\"\xff\"}\n";
    let folder = Folder::with(json);
    folder.dedup("--format jsonl --key a --rejected rejected input").fails(0, &["input:2: rejected: it is not UTF-8"]);
    assert_eq!(std::fs::read(folder.path("rejected")).expect("rejected"), &json[8..]);
}

#[test]
fn records_that_lack_a_field_are_counted_and_named() {
    let folder = Folder::with("k,t\na,1\nb\nc,3\n\nd,soon\n");
    let ran = folder.dedup("--format csv --key k --time t --window 1h --report json input").ok();
    assert_eq!(ran.out, "k,t\na,1\nb\nc,3\n\nd,soon\n", "they are passed on in their place");
    let counts = ["events", "rejected", "blank_lines"].map(|name| number(&ran.report(), name));
    assert_eq!(counts, [2, 2, 1]);
    for words in [
        "input:3: passed on unjudged: it has 1 field, and the header has 2",
        "input:6: passed on unjudged: the time field `t`",
    ] {
        assert!(ran.err.contains(words), "`{words}` is not in {}", ran.err);
    }
}

#[test]
fn many_rejections_have_one_line_with_their_number() {
    let folder = Folder::with("{\"a\":1}\n".to_owned() + &"no json\n".repeat(1000));
    let ran = folder.dedup("--format jsonl --key a --report none input").ok();
    assert!(ran.err.lines().count() < 10, "{}", ran.err);
    assert!(ran.err.contains("1,000 records were not judged: 1,000 invalid_json"), "{}", ran.err);
    assert!(ran.err.contains("--rejected FILE"), "{}", ran.err);
}

#[test]
fn strict_makes_a_rejection_an_exit_code() {
    let folder = Folder::with("{\"a\":1}\nxx\n{\"a\":2}\n");
    let ran = folder.dedup("--format jsonl --key a --strict input").fails(2, &["input:2"]);
    assert_eq!(ran.out, "{\"a\":1}\nxx\n{\"a\":2}\n", "all of it is still passed on");
    folder.write("input", "{\"a\":1}\n");
    folder.dedup("--format jsonl --key a --strict input").ok();
}

#[test]
fn compressed_input_is_known_by_its_content() {
    let folder = Folder::with([gzip("a\nb\na"), gzip("\nc\n")].concat());
    folder.write("zstd", ZSTD);
    folder.write("plain", "d\na\n");
    assert_eq!(folder.dedup("input zstd plain").ok().out, "a\nb\nc\nd\n");
    assert_eq!(folder.dedup("zstd").ok().out, "a\nb\n");
    assert_eq!(folder.dedup_from("", &gzip("x\nx\n")).ok().out, "x\n");
    assert_eq!(folder.dedup_from("plain - zstd", b"e\nd\n").ok().out, "d\na\ne\nb\n");
}

/// Checks that padding after an archive is ignored. Archives from tapes and block devices are padded with zeros.
#[test]
fn bytes_behind_an_archive_are_no_damage_of_it() {
    let folder = Folder::with([gzip("a\nb\n"), vec![0; 512]].concat());
    assert_eq!(folder.dedup("--state state input").ok().out, "a\nb\n");
    folder.write("input", [gzip("b\nc\n"), b"more".to_vec()].concat());
    let ran = folder.dedup("--state state --report none input").fails(1, &["trailing bytes after the archive"]);
    assert!(!ran.err.contains("damaged") && !ran.err.contains("breaks off"), "{}", ran.err);
    assert_eq!(ran.out, "c\n");
    folder.write("input", "c\nd\n");
    assert_eq!(folder.dedup("--state state input").ok().out, "d\n", "what its checksum vouches for is known");
}

#[test]
fn truncated_input_is_an_error_and_its_whole_records_are_not_lost() {
    let text: String = example_text("apache_logs.gz").lines().take(300).map(|line| format!("{line}\n")).collect();
    let whole = gzip(&text);
    let folder = Folder::with(&whole[..whole.len() * 2 / 3]);
    folder.write("after", "after\n");
    let ran = folder
        .dedup("--format lines --rejected rejected --report none input after")
        .fails(1, &["input: gzip input breaks off"]);
    let kept = ran.out + &folder.read("rejected");
    assert!(text.starts_with(&kept) && kept.len() > text.len() / 3, "{} of {} bytes", kept.len(), text.len());
    folder.write("input", &ZSTD[..ZSTD.len() - 6]);
    folder.dedup("--report none input").fails(1, &["input: zstd input breaks off"]);
    let mut damaged = gzip(&text);
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    folder.write("input", &damaged);
    folder.dedup("--report none input").fails(1, &["input: "]);
}

#[test]
fn a_quote_that_never_closes_costs_its_line_only() {
    let folder = Folder::with("k,v\n\"open,1\nb,2\nc,3\nb,2\n");
    let ran = folder.dedup("--format csv --key k --rejected rejected input").ok();
    assert_eq!((ran.out.as_str(), folder.read("rejected").as_str()), ("k,v\nb,2\nc,3\n", "k,v\n\"open,1\n"));
    assert!(ran.err.contains("input:2: rejected: a quote opens"), "{}", ran.err);
}
