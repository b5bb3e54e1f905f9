//! Tests that the fields of comma-separated records are those that the `csv` crate reads, no matter in which pieces the
//! bytes arrive.

use crate::common::{Outcome, Pieces, config, read_into, secret};
use csv::{ReaderBuilder, Terminator};
use firstseen_records::{BlockOptions, EmptyKey, ParserConfig, Ragged, RecordFormat, RecordParser, RejectReason};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Returns the fields of all records as the crate `csv` reads them, adapted to the rules of this crate for short
/// records. If the first record has at least two fields, each shorter record gets an additional empty field. Otherwise
/// records with fewer than two fields are left out.
fn fields_by_csv(text: &str) -> Vec<Vec<Vec<u8>>> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .terminator(Terminator::Any(b'\n'))
        .from_reader(text.as_bytes());
    let records = reader.byte_records().map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect());
    let mut records: Vec<Vec<Vec<u8>>> = records.collect();
    if records.first().is_some_and(|first| first.len() >= 2) {
        records.iter_mut().filter(|fields| fields.len() < 2).for_each(|fields| fields.push(Vec::new()));
    }
    records.retain(|fields| fields.len() >= 2);
    records
}

fn read(text: &str, piece_bytes: usize, block_bytes_target: usize) -> Outcome {
    let keys = ParserConfig {
        no_header: true,
        ragged: Ragged::Pad,
        empty_key: EmptyKey::Value,
        ..config(RecordFormat::Csv, &["2", "1"])
    };
    let mut parser = RecordParser::new(keys, secret()).unwrap();
    let input = Pieces { pieces: text.as_bytes().chunks(piece_bytes).collect(), failure: None };
    let options = BlockOptions { block_bytes_target, ..BlockOptions::for_format(RecordFormat::Csv) };
    let mut outcome = Outcome::default();
    assert!(read_into(&mut outcome, input, &mut parser, options).unwrap().is_none());
    outcome
}

fn has_wrong_quotes(outcome: &Outcome) -> bool {
    let is_wrong =
        |reason: &RejectReason| matches!(reason, RejectReason::UnclosedQuote | RejectReason::JoinedLines { .. });
    outcome.rejections.iter().any(|(_, _, reason)| is_wrong(reason))
}

fn compare(text: &str, piece_bytes: usize, block_bytes_target: usize) {
    let outcome = read(text, piece_bytes, block_bytes_target);
    let expected = fields_by_csv(text);
    assert_eq!(outcome.events.len(), expected.len(), "{text:?}");
    for (event, fields) in outcome.events.iter().zip(&expected) {
        let digest = secret().digest_parts([&fields[1][..], &fields[0]], &mut Vec::new());
        assert_eq!(event.digest, digest, "{:?} of {text:?}", event.bytes);
    }
    let mut parts: Vec<(u64, &str)> = outcome.events.iter().map(|event| (event.line, &event.bytes[..])).collect();
    parts.extend(outcome.rejections.iter().map(|(line, bytes, _)| (*line, &bytes[..])));
    parts.sort();
    assert_eq!(parts.iter().map(|(_, bytes)| *bytes).collect::<String>(), text, "nothing is lost");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn fields_written_with_quotes_come_back(
        records in prop::collection::vec(prop::collection::vec("[ab,\"\n ]{0,6}", 1..4), 1..12),
        piece_bytes in 1..90usize,
        block_bytes_target in 1..200usize,
    ) {
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
        for record in &records {
            writer.write_record(record).unwrap();
        }
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        prop_assert!(!has_wrong_quotes(&read(&text, piece_bytes, block_bytes_target)));
        compare(&text, piece_bytes, block_bytes_target);
        compare(text.trim_end_matches('\n'), piece_bytes, block_bytes_target);
    }

    #[test]
    fn quotes_anywhere_mean_the_same(
        text in "[ab,,\"\"\n]{0,120}",
        piece_bytes in 1..90usize,
        block_bytes_target in 1..200usize,
    ) {
        // Two kinds of files are read differently on purpose. If a file ends inside quotes, only the line with the
        // opening quote is rejected. A record of several lines whose quotes close within a field is rejected too. In
        // such a record, an escaped quote was probably mistaken for a closing or opening quote, and lines of other
        // records would disappear in it.
        if !has_wrong_quotes(&read(&text, piece_bytes, block_bytes_target)) {
            compare(&text, piece_bytes, block_bytes_target);
        }
    }
}
