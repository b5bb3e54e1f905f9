//! Blocks of whole records: nothing held back, nothing lost, bounded memory.

use crate::common::{Outcome, Pieces, config, read_into, read_text, secret};
use firstseen_records::{
    Block, BlockDefect, BlockOptions, BlockReader, ParserConfig, RecordFormat, RecordParser, RejectReason,
    TRUNCATED_BYTES,
};
use std::cell::Cell;
use std::io::{ErrorKind, Read};

/// Counts the reads that have happened.
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

#[test]
fn a_record_that_is_too_long_is_skipped_in_bounded_memory() {
    let record_bytes_max = 1 << 20;
    let long = 5 << 20;
    let input = (&b"first\n"[..]).chain(std::io::repeat(b'x').take(long)).chain(&b"\nlast"[..]);
    let options =
        BlockOptions { block_bytes_target: 1 << 16, record_bytes_max, ..BlockOptions::for_format(RecordFormat::Lines) };
    let mut parser = RecordParser::new(ParserConfig::new(RecordFormat::Lines), secret()).unwrap();
    let mut outcome = Outcome::default();
    assert!(read_into(&mut outcome, input, &mut parser, options).unwrap().is_none());
    assert_eq!(outcome.keys(), ["first", "last"]);
    assert_eq!(outcome.events[1].line, 3);
    let (line, bytes, reason) = &outcome.rejections[0];
    assert_eq!((*line, bytes.len()), (2, TRUNCATED_BYTES));
    assert_eq!(*reason, RejectReason::TooLong { record_bytes: long + 1, record_bytes_max });
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
        let keys = ParserConfig { no_header: true, ..config(RecordFormat::Csv, &["2"]) };
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
        // From one just over the limit to one that is not waited for.
        for lines in [36, 40, 70, 110] {
            let long = format!("1,\"x,\"\"y\"\"\n{}\",z\n", "2,yyyy\n".repeat(lines));
            let text = format!("0,a\n{long}3,\"b\nc\"\n4,d\n");
            let keys = ParserConfig { no_header: true, ..config(RecordFormat::Csv, &["1", "2"]) };
            let mut parser = RecordParser::new(keys, secret()).unwrap();
            let mut outcome = Outcome::default();
            read_into(&mut outcome, text.as_bytes(), &mut parser, options).unwrap();
            assert_eq!(outcome.keys(), ["0|a", "3|b\nc", "4|d"], "{lines} lines");
            let reason = RejectReason::TooLong { record_bytes: long.len() as u64, record_bytes_max: 256 };
            assert_eq!(outcome.rejections, [(2, long.clone(), reason)]);
            assert_eq!(outcome.events[1].line, lines as u64 + 4);
        }
    }
}

#[test]
fn quotes_are_trusted_again_behind_the_limit() {
    let options =
        BlockOptions { block_bytes_target: 64, record_bytes_max: 256, ..BlockOptions::for_format(RecordFormat::Csv) };
    let text = format!("1,\"x\n{}900,\"a\nb\"\n", "2,yyyyyy\n".repeat(100));
    let keys = ParserConfig { no_header: true, ..config(RecordFormat::Csv, &["2"]) };
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
