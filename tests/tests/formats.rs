//! Tests of input formats, whose records pass through unchanged.

use crate::run::{Folder, number};

#[test]
fn a_header_passes_once_and_is_no_event() {
    let folder = Folder::with("k,v\na,1\n");
    folder.write("second", "k,v\na,2\nb,3\n");
    folder.write("none", "");
    let ran = folder.dedup("--format csv --key k --duplicates again --report json input none second").ok();
    assert_eq!(ran.out, "k,v\na,1\nb,3\n");
    assert_eq!(folder.read("again"), "k,v\na,2\n", "each output has the header, once");
    assert_eq!(number(&ran.report(), "events"), 3);
    folder.write("second", "v,k\na,2\n");
    let ran = folder.dedup("--format csv --key k input second").fails(2, &["second: the header differs"]);
    assert_eq!(ran.out, "k,v\na,1\n");
}

#[test]
fn without_a_header_fields_are_numbers() {
    let ran = Folder::with("a,1\nb,1\na,2\n").dedup("--format csv --no-header --key 1 input").ok();
    assert_eq!(ran.out, "a,1\nb,1\n");
    let ran = Folder::with("k,v\na,1\nb,1\n").dedup("--format csv --key 2 input").ok();
    assert_eq!(ran.out, "k,v\na,1\n", "numbers work with a header too");
}

#[test]
fn quoted_fields_may_hold_newlines_commas_and_quotes() {
    let input = "k,v\n\"two\nlines\",1\n\"two\nlines\",2\n\"a \"\"b\"\", c\",3\n\"a \"\"b\"\", c\",4\n";
    let ran = Folder::with(input).dedup("--format csv --key k --report json input").ok();
    assert_eq!(ran.out, "k,v\n\"two\nlines\",1\n\"a \"\"b\"\", c\",3\n");
    assert_eq!(number(&ran.report(), "events"), 4);
}

#[test]
fn line_ends_and_quotes_are_no_part_of_a_key() {
    let ran = Folder::with("k,v\r\n1,a\r\n2,a\n3,\"a\"\r\n4,b\r\n").dedup("--format csv --key v input").ok();
    assert_eq!(ran.out, "k,v\r\n1,a\r\n4,b\r\n");
    let ran = Folder::with("a\r\na\nb\r\n").dedup("input").ok();
    assert_eq!(ran.out, "a\r\nb\r\n");
}

#[test]
fn tab_separated_fields_keep_their_quotes_and_commas() {
    let ran = Folder::with("k\tv\n\"a\t1\n\"a\t2\na,b\t3\n").dedup("--format tsv --key k input").ok();
    assert_eq!(ran.out, "k\tv\n\"a\t1\na,b\t3\n");
}

#[test]
fn json_lines_are_compared_by_value() {
    let input = concat!(
        "{\"id\": \"a\", \"user\": {\"name\": \"x\"}, \"t\": 1}\n",
        "{\"t\": 2, \"user\": {\"name\": \"x\"}, \"id\": \"\\u0061\"}\n",
        "{\"id\": \"a\", \"user\": {\"name\": \"y\"}, \"t\": 3}\n",
        "{\"id\": null, \"t\": 4}\n",
    );
    let folder = Folder::with(input);
    let ran = folder.dedup("--format jsonl --key id,user.name --report json input").ok();
    let kept: Vec<&str> = input.lines().collect();
    assert_eq!(ran.out.lines().collect::<Vec<_>>(), [kept[0], kept[2], kept[3]], "what has no key is passed on");
    assert_eq!(number(&ran.report(), "rejected"), 1);
    assert_eq!(folder.dedup("--format jsonl --key id input").ok().out.lines().count(), 2);
}

#[test]
fn log_lines_have_a_key_and_a_time_of_their_own() {
    let line = |host: &str, time: &str, path: &str, rest: &str| {
        format!("{host} - - [17/May/2015:{time} +0000] \"GET {path} HTTP/1.1\" 200 10{rest}\n")
    };
    let combined = " \"http://from/\" \"Agent \\\"x\\\" 1.0\"";
    let lines = [
        line("1.1.1.1", "10:00:00", "/a", ""),
        line("1.1.1.1", "10:30:00", "/a", combined),
        line("1.1.1.1", "10:31:00", "/b", combined),
        line("2.2.2.2", "10:32:00", "/a", ""),
        line("1.1.1.1", "11:05:00", "/a", combined),
    ];
    let folder = Folder::with(lines.concat() + "what is this\n");
    let ran = folder.dedup("--format clf --window 1h --report json input").ok();
    assert_eq!(ran.out, [&lines[0][..], &lines[2], &lines[3], &lines[4], "what is this\n"].concat());
    let words = "input:6: passed on unjudged: it is no line of the common log format";
    assert!(ran.err.contains(words), "{}", ran.err);
    let by_host = folder.dedup("--format clf --key host input").ok();
    assert_eq!(by_host.out, [&lines[0][..], &lines[3], "what is this\n"].concat());
}

#[test]
fn crawl_index_lines_are_deduplicated_by_urlkey() {
    let line = |key: &str, time: &str, url: &str| format!("{key} {time} {{\"url\": \"{url}\", \"status\": \"200\"}}\n");
    let lines = [
        line("com,example)/", "20240101000000", "http://example.com/"),
        line("com,example)/", "20240101120000", "https://example.com/"),
        line("com,example)/a", "20240101130000", "https://example.com/a"),
        line("com,example)/", "20240103000000", "https://example.com/"),
    ];
    let folder = Folder::with(lines.concat());
    assert_eq!(folder.dedup("--format cdxj input").ok().out, [&lines[0][..], &lines[2]].concat());
    let within = folder.dedup("--format cdxj --window 1d input").ok().out;
    assert_eq!(within, [&lines[0][..], &lines[2], &lines[3]].concat());
    assert_eq!(folder.dedup("--format cdxj --key status input").ok().out, lines[0]);
}

#[test]
fn times_are_read_in_every_spelling() {
    let spellings = [
        "1431857103",
        "1431857103000",
        "2015-05-17T10:05:03Z",
        "2015-05-17T12:05:03.500+02:00",
        "2015-05-17 10:05:03",
        "17/May/2015:10:05:03 +0000",
    ];
    for (number, time) in spellings.iter().enumerate() {
        for (next, later) in [("1431857103", false), ("1431857203", true)] {
            let folder = Folder::with(format!("k,t\na,{time}\na,{next}\n"));
            let ran = folder.dedup("--format csv --key k --time t --window landmark:60s --report json input").ok();
            let report = ran.report();
            assert_eq!(report["first_seen"], if later { 2 } else { 1 }, "spelling {number} and {next}: {}", ran.err);
        }
    }
}
