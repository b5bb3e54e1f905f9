//! Tests blocks of complete records: no record is delayed or lost, and the memory is bounded.

use crate::common::{Outcome, Pieces, config, read_into, read_text, secret};
use firstseen_records::{
    Block, BlockDefect, BlockOptions, BlockReader, ParserConfig, Ragged, RecordFormat, RecordParser, RejectReason,
};
use std::cell::Cell;
use std::io::{ErrorKind, Read};

/// Reader that counts its reads.
struct Counting<'a>(Pieces<'a>, &'a Cell<usize>);

impl Read for Counting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1.set(self.1.get() + 1);
        self.0.read(buffer)
    }
}

#[test]
fn a_record_is_given_out_by_the_read_that_completes_it() {
    let reads = Cell::new(0);
    let pieces = vec![&b"a\nb\nc"[..], b"c", b"c\n", b"d\n"];
    let input = Counting(Pieces { pieces, failure: None }, &reads);
    let mut reader = BlockReader::new(input, BlockOptions::for_format(RecordFormat::Lines));
    let mut block = Block::default();
    let mut next = || {
        assert!(reader.read_block(&mut block).unwrap());
        (block.bytes().to_vec(), reads.get(), block.first_line(), block.first_record())
    };
    assert_eq!(next(), (b"a\nb\n".to_vec(), 1, 1, 1));
    assert_eq!(next(), (b"ccc\n".to_vec(), 3, 3, 3));
    assert_eq!(next(), (b"d\n".to_vec(), 4, 4, 4));
    assert!(!reader.read_block(&mut block).unwrap());
}

#[test]
fn a_quoted_newline_counts_as_a_line_and_not_as_a_record() {
    let text = "h,x\n1,\"a\nb\"\n2,c\n3,\"d\n";
    let options = BlockOptions { block_bytes_target: 12, ..BlockOptions::for_format(RecordFormat::Csv) };
    let mut reader = BlockReader::new(text.as_bytes(), options);
    let (mut block, mut places) = (Block::default(), Vec::new());
    while reader.read_block(&mut block).unwrap() {
        places.push((block.first_line(), block.first_record(), block.is_first(), block.defect()));
    }
    assert_eq!(places, [(1, 1, true, None), (4, 3, false, None), (5, 4, false, Some(BlockDefect::UnclosedQuote))]);
}

/// All but the first 64 KiB of such a line used to be lost, so the output contained a record that the input does not
/// have.
#[test]
fn a_line_that_is_too_long_comes_in_pieces_of_bounded_size() {
    let record_bytes_max = 1 << 20;
    for (long, end, lines_after) in
        [(5 << 20, "\nlast", 1), ((1 << 20) + 1, "\nlast", 1), (5 << 20, "\n", 0), (5 << 20, "", 0)]
    {
        let input = (&b"first\n"[..]).chain(std::io::repeat(b'x').take(long)).chain(end.as_bytes());
        let options = BlockOptions {
            block_bytes_target: 1 << 16,
            record_bytes_max,
            ..BlockOptions::for_format(RecordFormat::Lines)
        };
        let mut parser = RecordParser::new(ParserConfig::new(RecordFormat::Lines), secret()).unwrap();
        let mut outcome = Outcome::default();
        assert!(read_into(&mut outcome, input, &mut parser, options).unwrap().is_none());
        assert_eq!(outcome.keys(), ["first", "last"][..=lines_after]);
        assert!(outcome.events.iter().skip(1).all(|event| event.line == 3));
        let [(line, bytes, reason)] = outcome.rejections.as_slice() else { panic!("{}", outcome.rejections.len()) };
        assert_eq!((*line, bytes.len() as u64), (2, long + u64::from(!end.is_empty())), "no byte is lost");
        let record_bytes = record_bytes_max as u64 + 1;
        assert_eq!(*reason, RejectReason::TooLong { record_bytes, record_bytes_max, lines: 1, is_whole: false });
        assert_eq!(reason.to_string(), "it is longer than 1048576 bytes");
    }
}

#[test]
fn an_input_that_fails_within_a_long_line_loses_nothing_that_it_gave() {
    let pieces = vec![&b"1234567890"[..], b"1234567890", b"12345"];
    let input = Pieces { pieces, failure: Some(ErrorKind::ConnectionReset) };
    let options =
        BlockOptions { block_bytes_target: 8, record_bytes_max: 8, ..BlockOptions::for_format(RecordFormat::Lines) };
    let mut parser = RecordParser::new(ParserConfig::new(RecordFormat::Lines), secret()).unwrap();
    let mut outcome = Outcome::default();
    let error = read_into(&mut outcome, input, &mut parser, options).unwrap().unwrap();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(outcome.rejections[0].1, "1234567890123456789012345");
}

#[test]
fn the_limit_is_exact() {
    for (length, is_event) in [(100, true), (101, false)] {
        for end in ["\n", ""] {
            let text = format!("{}{end}", "x".repeat(length));
            let options = BlockOptions {
                block_bytes_target: 7,
                record_bytes_max: 100,
                ..BlockOptions::for_format(RecordFormat::Lines)
            };
            let mut parser = RecordParser::new(ParserConfig::new(RecordFormat::Lines), secret()).unwrap();
            let mut outcome = Outcome::default();
            read_into(&mut outcome, text.as_bytes(), &mut parser, options).unwrap();
            assert_eq!(outcome.events.len(), usize::from(is_event), "{length} bytes, then {end:?}");
        }
    }
}

#[test]
fn a_line_of_ten_megabytes_is_a_record() {
    let text = format!("a\n{}\nb\n", "x".repeat(10 << 20));
    let outcome = read_text(&text, ParserConfig::new(RecordFormat::Lines));
    assert_eq!(outcome.events.iter().map(|event| event.bytes.len()).collect::<Vec<_>>(), [2, (10 << 20) + 1, 2]);
}

#[test]
fn an_unclosed_quote_costs_its_line_and_no_other() {
    let rows: String = (3..2_000).map(|row| format!("{row},x\n")).collect();
    let outcome = read_text(&format!("id,v\n1,x\n2,\"x\n{rows}"), config(RecordFormat::Csv, &["id"]));
    assert_eq!(outcome.complaints(), ["3: \"2,\\\"x\\n\": a quote opens on this line and the record does not end"]);
    let expected: Vec<String> = (1..2_000).filter(|&row| row != 2).map(|row| row.to_string()).collect();
    assert_eq!(outcome.keys(), expected);
    assert_eq!(outcome.events.last().unwrap().line, 2_000);
}

#[test]
fn a_quote_that_flips_all_that_follow_costs_their_lines_and_no_more() {
    let options =
        BlockOptions { block_bytes_target: 64, record_bytes_max: 256, ..BlockOptions::for_format(RecordFormat::Csv) };
    // From the first quote on, every line closes one field and opens the next.
    for filler in 0..6 {
        let first = format!("{}x,\"\n", "y".repeat(filler));
        let text = format!("{first}{}last,line\n", "a\",\"\n".repeat(2_000));
        let keys = ParserConfig { no_header: true, ragged: Ragged::Pad, ..config(RecordFormat::Csv, &["2"]) };
        let mut parser = RecordParser::new(keys, secret()).unwrap();
        let mut outcome = Outcome::default();
        read_into(&mut outcome, text.as_bytes(), &mut parser, options).unwrap();
        assert_eq!(outcome.rejections.len(), 2_001);
        assert_eq!(outcome.keys(), ["line"]);
    }
}

#[test]
fn a_quoted_record_over_the_limit_is_rejected_as_one() {
    for block_bytes_target in [64, 100, 256] {
        let options =
            BlockOptions { block_bytes_target, record_bytes_max: 256, ..BlockOptions::for_format(RecordFormat::Csv) };
        // The lengths range from just over the limit to a record whose end is not searched for.
        for lines in [36, 40, 70, 110] {
            let long = format!("1,\"x,\"\"y\"\"\n{}\",z\n", "2,yyyy\n".repeat(lines));
            let text = format!("0,a\n{long}3,\"b\nc\"\n4,d\n");
            let keys = ParserConfig { no_header: true, ragged: Ragged::Pad, ..config(RecordFormat::Csv, &["1", "2"]) };
            let mut parser = RecordParser::new(keys, secret()).unwrap();
            let mut outcome = Outcome::default();
            read_into(&mut outcome, text.as_bytes(), &mut parser, options).unwrap();
            assert_eq!(outcome.keys(), ["0|a", "3|b\nc", "4|d"], "{lines} lines");
            assert_eq!(outcome.rejections, [(2, long.clone(), too_long(&long, lines as u64 + 2))]);
            let words = outcome.rejections[0].2.to_string();
            assert!(words.ends_with(&format!("joins the next {} lines to this one", lines + 1)), "{words}");
            assert_eq!(outcome.events[1].line, lines as u64 + 4);
        }
    }
}

fn csv(text: &str, block_bytes_target: usize) -> Outcome {
    read_csv(text.as_bytes(), block_bytes_target).0
}

fn read_csv(input: impl Read, block_bytes_target: usize) -> (Outcome, Option<std::io::Error>) {
    let options =
        BlockOptions { block_bytes_target, record_bytes_max: 256, ..BlockOptions::for_format(RecordFormat::Csv) };
    let keys = ParserConfig { no_header: true, ragged: Ragged::Pad, ..config(RecordFormat::Csv, &["1"]) };
    let mut parser = RecordParser::new(keys, secret()).unwrap();
    let mut outcome = Outcome::default();
    let failure = read_into(&mut outcome, input, &mut parser, options).unwrap();
    (outcome, failure)
}

/// Returns the reason for a record over the limit of `read_csv` that is kept as a whole.
fn too_long(record: &str, lines: u64) -> RejectReason {
    RejectReason::TooLong { record_bytes: record.len() as u64, record_bytes_max: 256, lines, is_whole: true }
}

#[test]
fn a_quoted_record_without_a_newline_up_to_the_limit_is_rejected_as_one() {
    for block_bytes_target in [64, 256] {
        for first_line in [255, 256, 257, 700] {
            let long = format!("1,\"{}\n2,y\n3,\"\"z\"\"\n\",w\n", "x".repeat(first_line));
            let outcome = csv(&format!("0,a\n{long}4,b\n"), block_bytes_target);
            assert_eq!(outcome.keys(), ["0", "4"], "{first_line} bytes");
            assert_eq!(outcome.rejections, [(2, long.clone(), too_long(&long, 4))]);
            assert_eq!(outcome.events[1].line, 6);
        }
    }
}

#[test]
fn the_last_record_keeps_to_the_limit() {
    for (filler, is_event) in [(249, true), (250, false)] {
        for last in [format!("1,\"{}\n\",z", "y".repeat(filler)), format!("1,{}", "y".repeat(filler + 5))] {
            let outcome = csv(&format!("0,a\n{last}"), 64);
            assert_eq!(outcome.events.len(), 1 + usize::from(is_event), "{} bytes", last.len());
            let rejected: Vec<&str> = outcome.rejections.iter().map(|(_, bytes, _)| bytes.as_str()).collect();
            assert_eq!(rejected.concat(), if is_event { "" } else { &last });
        }
    }
}

/// Two mistaken quotes that are far apart look like one long record. All lines between them are kept, and the rejection
/// names them.
#[test]
fn lines_between_two_mistaken_quotes_are_kept() {
    let between: String = (0..80).map(|line| format!("{line},fine\n")).collect();
    let long = format!("a,\"x\n{between}b,y\"\n");
    let outcome = csv(&format!("{long}c,z\n"), 64);
    assert_eq!(outcome.keys(), ["c"]);
    assert_eq!(outcome.rejections, [(1, long.clone(), too_long(&long, 82))]);
}

#[test]
fn a_failure_behind_a_mistaken_quote_loses_no_line() {
    let pieces = vec![&b"0,a\n1,\"b\n2,c\n"[..], b"3,d\n4,"];
    let (outcome, failure) = read_csv(Pieces { pieces, failure: Some(ErrorKind::ConnectionReset) }, 64);
    assert_eq!(failure.unwrap().kind(), ErrorKind::ConnectionReset);
    assert_eq!(outcome.keys(), ["0", "2", "3"]);
    assert_eq!(
        outcome.complaints(),
        [
            "2: \"1,\\\"b\\n\": a quote opens on this line and the record does not end",
            "5: \"4,\": the input broke off in it"
        ]
    );
}

#[test]
fn quotes_are_trusted_again_behind_the_limit() {
    let options =
        BlockOptions { block_bytes_target: 64, record_bytes_max: 256, ..BlockOptions::for_format(RecordFormat::Csv) };
    let text = format!("1,\"x\n{}900,\"a\nb\"\n", "2,yyyyyy\n".repeat(100));
    let keys = ParserConfig { no_header: true, ragged: Ragged::Pad, ..config(RecordFormat::Csv, &["2"]) };
    let mut parser = RecordParser::new(keys, secret()).unwrap();
    let mut outcome = Outcome::default();
    read_into(&mut outcome, text.as_bytes(), &mut parser, options).unwrap();
    assert_eq!(outcome.rejections.len(), 1);
    assert_eq!(outcome.events.len(), 101);
    assert_eq!(outcome.keys().last().unwrap(), "a\nb");
}

#[test]
fn an_input_that_fails_loses_nothing_that_it_gave() {
    let input = Pieces { pieces: vec![b"a\nb\nhal"], failure: Some(ErrorKind::ConnectionReset) };
    let mut parser = RecordParser::new(ParserConfig::new(RecordFormat::Lines), secret()).unwrap();
    let mut outcome = Outcome::default();
    let options = BlockOptions::for_format(RecordFormat::Lines);
    let error = read_into(&mut outcome, input, &mut parser, options).unwrap().unwrap();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(outcome.keys(), ["a", "b"]);
    assert_eq!(outcome.complaints(), ["3: \"hal\": the input broke off in it"]);
}

#[test]
fn short_records_make_small_blocks() {
    let text = "\n".repeat(1 << 20);
    let mut reader = BlockReader::new(text.as_bytes(), BlockOptions::for_format(RecordFormat::Lines));
    let mut block = Block::default();
    while reader.read_block(&mut block).unwrap() {
        assert!(block.bytes().len() <= 64 << 10);
    }
}
