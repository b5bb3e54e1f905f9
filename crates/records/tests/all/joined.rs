//! Tests streams that were concatenated from several files, holes that `copytruncate` leaves, and records that end with
//! NUL bytes.

use crate::common::{Pieces, config, read_files, read_into, read_text, secret};
use firstseen_records::{
    Block, BlockOptions, BlockReader, EmptyKey, ParsedBlock, ParserConfig, RecordFormat, RecordParser,
};
use std::io::Read;

/// Two CSV files of a spreadsheet were concatenated with `cat a.csv b.csv`. The byte order mark of the second file used
/// to be read as part of its first field. A record that occurs in both files was therefore passed on twice.
#[test]
fn a_byte_order_mark_within_a_stream_is_no_part_of_a_key() {
    for (format, text, keys) in [
        (RecordFormat::Lines, "a\n\u{feff}a\nb\n\u{feff}\u{feff}b\r\n", &["a", "a", "b", "b"][..]),
        (RecordFormat::Csv, "k,t\na,1\n\u{feff}a,1\n\u{feff}\"a\",1\n", &["a", "a", "a"]),
        (RecordFormat::Csv, "k,t\na,1\n\u{feff}\"a,\nb\",1\nc,1\n", &["a", "a,\nb", "c"]),
        (RecordFormat::Tsv, "k\tt\na\t1\n\u{feff}a\t1\n", &["a", "a"]),
        (RecordFormat::Jsonl, "{\"k\":1}\n\u{feff}{\"k\":1}\n", &["1", "1"]),
        (RecordFormat::Cdxj, "a 1 {}\n\u{feff}a 1 {}\n", &["a", "a"]),
    ] {
        let key: &[&str] = match format {
            RecordFormat::Lines | RecordFormat::Cdxj => &[],
            _ => &["k"],
        };
        let outcome = read_text(text, config(format, key));
        assert_eq!(outcome.keys(), keys, "{format} {:?}", outcome.complaints());
        let written: String = outcome
            .headers
            .iter()
            .map(|(header, _)| header.as_str())
            .chain(outcome.events.iter().map(|event| &*event.bytes))
            .collect();
        assert_eq!(written, text, "the bytes stay as they are");
    }
    let outcome = read_text("a\u{feff}\nb\u{feff}c\n", config(RecordFormat::Lines, &[]));
    assert_eq!(outcome.keys(), ["a\u{feff}", "b\u{feff}c"], "a byte order mark within a line is an ordinary character");
}

/// With `cat a.csv b.csv`, the second header used to be passed on as a record, or was rejected when its time was read.
#[test]
fn a_header_that_is_repeated_within_a_stream_is_no_record() {
    for (format, text, repeated) in [
        (RecordFormat::Csv, "k,t\na,1\nk,t\nb,2\n", 1),
        (RecordFormat::Csv, "k,t\r\na,1\r\nk,t\nb,2\n\u{feff}k,t\r\n\0\0k,t", 3),
        (RecordFormat::Csv, "\u{feff}k,t\na,1\nk,t\nk,t\nb,2\n", 2),
        (RecordFormat::Csv, "\"k\",t\na,1\n\"k\",t\nb,2\n", 1),
        (RecordFormat::Tsv, "k\tt\na\t1\nk\tt\nb\t2\n", 1),
    ] {
        for time in [None, Some("t".to_owned())] {
            let mut parser = RecordParser::new(ParserConfig { time, ..config(format, &["k"]) }, secret()).unwrap();
            let mut reader = BlockReader::new(text.as_bytes(), BlockOptions::for_format(format));
            let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
            let (mut events, mut found) = (0, 0);
            while reader.read_block(&mut block).unwrap() {
                parser.parse(&block, &mut parsed).unwrap();
                assert_eq!(parsed.rejections(), [], "{text:?}");
                events += parsed.len();
                found += parsed.repeated_headers().len();
            }
            assert_eq!((events, found), (2, repeated), "{text:?}");
        }
    }
}

/// Rows may have more fields than the header, and a header may be written like a comment.
#[test]
fn a_repeated_header_is_none_of_the_rows_of_other_shapes() {
    for (format, text, keys) in [
        (RecordFormat::Tsv, "k\tt\na\t1\t\t\nk\tt\nb\t2\t\t\n", ["a", "b"]),
        (RecordFormat::Tsv, "k\tt\nk\tt\na\t1\t\t\n\0k\tt\nb\t2\t\t\n", ["a", "b"]),
        (RecordFormat::Csv, "#k,t\na,1\n\u{feff}#k,t\nb,2\n", ["a", "b"]),
        (RecordFormat::Csv, "# by x\nk,t\n \"a\",1\nk,t\n\u{feff} \"b\",2\n", ["a", "b"]),
    ] {
        let outcome = read_text(text, config(format, &["1"]));
        let outcome = if outcome.events.is_empty() { read_text(text, config(format, &["#k"])) } else { outcome };
        let rejected: Vec<_> = outcome.complaints().into_iter().filter(|words| !words.contains("# by x")).collect();
        assert_eq!((outcome.keys(), rejected.len()), (keys.map(str::to_owned).to_vec(), 0), "{text:?} {rejected:?}");
    }
}

/// A line `#Fields: ...` that occurs again is not a repeated header, because another such line may have come in
/// between.
#[test]
fn names_of_fields_hold_until_others_come() {
    for lead in ["", "\u{feff}", "\0\0", "\0\u{feff}\0"] {
        let text = "#Fields: a b\n1 2\n#Fields: b a\n3 4\n#Fields: a b\n5 6\n".replace('#', &format!("{lead}#"));
        let outcome = read_text(&text, config(RecordFormat::W3c, &["a"]));
        assert_eq!(outcome.keys(), ["1", "4", "5"], "{text:?}");
        assert_eq!((outcome.headers.len(), outcome.rejections.len()), (1, 2));
    }
    let outcome = read_text("#Fields: a b\n1\0 2\n3 4\n", config(RecordFormat::W3c, &["a"]));
    assert_eq!((outcome.keys(), outcome.rejections.len()), (vec!["3".to_owned()], 1));
}

#[test]
fn records_that_differ_from_the_header_are_records() {
    for text in ["k,t\nk,T\nt,k\n", "k,t\nk,t \n k,t\n", "k,t\n\"k\",t\nk,\"t\"\n"] {
        assert_eq!(read_text(text, config(RecordFormat::Csv, &["1"])).events.len(), 2, "{text:?}");
    }
    let no_header = ParserConfig { no_header: true, ..config(RecordFormat::Csv, &["1"]) };
    assert_eq!(
        read_text("k,t\nk,t\n", no_header).keys(),
        ["k", "k"],
        "without a header, no line can repeat the header"
    );
    let outcome = read_files(&["k,t\na,1\n", "k,t\nb,1\nk,t\n"], config(RecordFormat::Csv, &["k"])).unwrap();
    assert_eq!((outcome.keys().join(""), outcome.headers.len()), ("ab".to_owned(), 2));
}

/// A program that does not write in append mode continues at its old position after logrotate has truncated its log
/// (`copytruncate`). The log then begins with as many NUL bytes as it had bytes before.
///
/// These bytes used to be part of the first record. The record therefore differed from its repetition, and could exceed
/// the maximum length of a record.
#[test]
fn a_hole_in_front_of_a_record_belongs_to_none() {
    for hole_bytes in [1, 7, 4096, 70_000, 1 << 20, (1 << 20) + 1] {
        let hole = vec![0; hole_bytes];
        for (format, record, other) in [
            (RecordFormat::Lines, "a\n", "b\n"),
            (RecordFormat::Jsonl, "{\"k\":\"a\"}\n", "{\"k\":\"b\"}\n"),
            (RecordFormat::Csv, "\"a\",1\n", "b,1\n"),
            (RecordFormat::Tsv, "a\t1\n", "b\t1\n"),
        ] {
            let input = [&hole, record.as_bytes(), other.as_bytes(), &hole, record.as_bytes(), &hole].concat();
            let key: &[&str] = if format == RecordFormat::Jsonl { &["k"] } else { &["1"] };
            let config = ParserConfig { no_header: true, ..config(format, key) };
            let mut parser = RecordParser::new(config, secret()).unwrap();
            let mut reader = BlockReader::new(&input[..], BlockOptions::for_format(format));
            let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
            let (mut keys, mut holes, mut written) = (String::new(), 0, Vec::new());
            while reader.read_block(&mut block).unwrap() {
                parser.parse(&block, &mut parsed).unwrap();
                assert_eq!(parsed.rejections(), []);
                holes += parsed.hole_bytes();
                for (index, span) in parsed.spans().iter().enumerate() {
                    keys += &parsed.key_parts(index, &block).concat();
                    written.extend_from_slice(&block.bytes()[span.range()]);
                }
            }
            assert_eq!(keys, "aba", "{format} {hole_bytes}");
            assert_eq!(written, [record, other, record].concat().as_bytes());
            assert_eq!(holes, 3 * hole_bytes as u64);
        }
    }
}

/// A hole has as many bytes as the log had, which may be gigabytes.
#[test]
fn a_hole_takes_no_memory() {
    let hole_bytes = 300 << 20;
    let input = std::io::repeat(0).take(hole_bytes).chain(&b"a\n"[..]);
    let mut reader = BlockReader::new(input, BlockOptions::for_format(RecordFormat::Lines));
    let mut block = Block::default();
    assert!(reader.read_block(&mut block).unwrap());
    assert_eq!((block.bytes(), block.hole_bytes()), (&b"a\n"[..], hole_bytes));
    assert!(!reader.read_block(&mut block).unwrap());
}

#[test]
fn a_hole_at_the_end_or_alone_is_no_record() {
    for (format, text, events) in
        [(RecordFormat::Lines, "a\n\0\0\0", 1), (RecordFormat::Lines, "\0\0", 0), (RecordFormat::Csv, "\0\0", 0)]
    {
        let outcome = read_text(text, config(format, &[]));
        assert_eq!((outcome.events.len(), outcome.rejections.len()), (events, 0), "{text:?}");
    }
    let mut parser = RecordParser::new(config(RecordFormat::Lines, &[]), secret()).unwrap();
    let mut outcome = crate::common::Outcome::default();
    let input = Pieces { pieces: vec![b"a\n", b"\0\0"], failure: Some(std::io::ErrorKind::BrokenPipe) };
    let error = read_into(&mut outcome, input, &mut parser, BlockOptions::for_format(RecordFormat::Lines)).unwrap();
    assert!(error.is_some() && outcome.events.len() == 1 && outcome.rejections.is_empty());
}

#[test]
fn nul_bytes_within_a_record_are_data_in_lines_only() {
    assert_eq!(read_text("a\0b\na\0\nab\n", config(RecordFormat::Lines, &[])).keys(), ["a\0b", "a\0", "ab"]);
    for (format, text) in [
        (RecordFormat::Csv, "k,t\na\0,1\n\"a\0\",1\na,\0\n"),
        (RecordFormat::Tsv, "k\tt\na\0\t1\n\0a\t1\0\na\tb\0\n"),
        (RecordFormat::Jsonl, "{\"k\":\"a\0\"}\n{\"k\":1}\0\n{\0\"k\":1}\n"),
        (RecordFormat::Cdxj, "a\0 1 {}\na 1\0 {}\na 1 {}\0\n"),
    ] {
        let key: &[&str] = if format == RecordFormat::Cdxj { &[] } else { &["k"] };
        let outcome = read_text(text, config(format, key));
        assert_eq!((outcome.events.len(), outcome.rejections.len()), (0, 3), "{format} {:?}", outcome.keys());
    }
}

/// `find -print0 | firstseen dedup` used to read all names as one record, and passed every repeat on.
#[test]
fn records_may_end_with_nul_bytes() {
    let cases: [(RecordFormat, &str, &[&str]); 5] = [
        (RecordFormat::Lines, "a\0b\0a", &["a", "b", "a"]),
        (RecordFormat::Lines, "a\nb\0a\r\0\0a\n\0", &["a\nb", "a\r", "", "a\n"]),
        (RecordFormat::Lines, "\u{feff}a\0\u{feff}a\0", &["a", "a"]),
        (RecordFormat::Jsonl, "{\n\"k\": 1\n}\0{\"k\":2}\0{ \"k\":\n1}\n\0", &["1", "2", "1"]),
        (RecordFormat::Lines, "\"a\0b\"\0", &["\"a", "b\""]),
    ];
    for (format, text, keys) in cases {
        for piece_bytes in [1, 2, 3, 100] {
            let options = BlockOptions { record_end: 0, ..BlockOptions::for_format(format) };
            let mut outcome = crate::common::Outcome::default();
            let key: &[&str] = if format == RecordFormat::Jsonl { &["k"] } else { &[] };
            let config = ParserConfig { empty_key: EmptyKey::Value, ..config(format, key) };
            let mut parser = RecordParser::new(config, secret()).unwrap();
            let input = Pieces { pieces: text.as_bytes().chunks(piece_bytes).collect(), failure: None };
            assert!(read_into(&mut outcome, input, &mut parser, options).unwrap().is_none());
            assert_eq!(outcome.keys(), keys, "{text:?}");
            let written: String = outcome.events.iter().map(|event| &*event.bytes).collect();
            assert_eq!(written, text);
            assert_eq!(
                outcome.events.last().map(|event| event.line),
                Some(keys.len() as u64),
                "lines are counted as records"
            );
        }
    }
}

#[test]
fn a_record_without_its_nul_byte_is_bounded_too() {
    let options = BlockOptions {
        record_end: 0,
        record_bytes_max: 64,
        block_bytes_target: 16,
        ..BlockOptions::for_format(RecordFormat::Lines)
    };
    let text = ["\"\n".repeat(400), "\0a\0".to_owned(), "\n\"".repeat(40)].concat();
    let mut outcome = crate::common::Outcome::default();
    let mut parser = RecordParser::new(config(RecordFormat::Lines, &[]), secret()).unwrap();
    assert!(read_into(&mut outcome, text.as_bytes(), &mut parser, options).unwrap().is_none());
    assert_eq!((outcome.keys().join(""), outcome.rejections.len()), ("a".to_owned(), 2), "{:?}", outcome.complaints());
}
