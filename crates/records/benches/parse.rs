//! Measures records per second on one core: reading from memory, cutting, parsing and hashing. The data are generated.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use firstseen_filter::FilterSecret;
use firstseen_records::{
    Block, BlockOptions, BlockReader, KeyNormalization, ParsedBlock, ParserConfig, RecordFormat, RecordParser,
};
use std::fmt::Write;
use std::hint::black_box;

const RECORDS: u64 = 200_000;

/// Parses the whole input, and returns the number of events.
fn parse_all(input: &[u8], config: &ParserConfig) -> u64 {
    let mut parser = RecordParser::new(config.clone(), FilterSecret::from_seed(1)).expect("a valid configuration");
    let mut reader = BlockReader::new(input, BlockOptions::for_format(config.format));
    let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
    let mut events = 0;
    while reader.read_block(&mut block).expect("memory does not fail") {
        parser.parse(&block, &mut parsed).expect("the fields exist");
        black_box(parsed.digests());
        events += parsed.len() as u64;
    }
    events
}

fn generate(header: &str, line: impl Fn(&mut String, u64)) -> String {
    let mut text = header.to_owned();
    for number in 0..RECORDS {
        line(&mut text, number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        text.push('\n');
    }
    text
}

fn csv(text: &mut String, n: u64) {
    let _ = write!(text, "1700000000,u{:012x},c{:06},a{:08},15.26", n >> 16, n % 1_000_000, n % 100_000_000);
}

fn quoted_csv(text: &mut String, n: u64) {
    let _ =
        write!(text, "1700000000,\"u{:012x}\",c{:06},\"a \"\"{:04}\"\"\",15.26", n >> 16, n % 1_000_000, n % 10_000);
}

fn tsv(text: &mut String, n: u64) {
    let _ = write!(text, "1700000000\tu{:012x}\tc{:06}\ta{:08}\t15.26", n >> 16, n % 1_000_000, n % 100_000_000);
}

fn jsonl(text: &mut String, n: u64) {
    let _ = write!(
        text,
        r#"{{"time":1700000000.25,"user":"u{:012x}","campaign":{{"id":{},"name":"spring"}},"price":15.26,"ok":true}}"#,
        n >> 16,
        n % 1_000_000
    );
}

fn clf(text: &mut String, n: u64) {
    let _ = write!(
        text,
        "10.0.{}.{} - - [10/Oct/2000:13:{:02}:36 -0700] \"GET /page/{} HTTP/1.1\" 200 {} \"-\" \"Mozilla/5.0 (X11)\"",
        n % 256,
        (n >> 8) % 256,
        n % 60,
        n % 10_000,
        n % 90_000
    );
}

fn url(text: &mut String, n: u64) {
    let _ = write!(text, "http://www.Example.com/a/../page/{}?b={}&a=1#top", n % 10_000, n % 7);
}

fn parse(criterion: &mut Criterion) {
    const HEADER: &str = "time,user,campaign,ad,price\n";
    let with = |format, key: &[&str], time: Option<&str>| ParserConfig {
        key: key.iter().map(|&name| name.to_owned()).collect(),
        time: time.map(str::to_owned),
        ..ParserConfig::new(format)
    };
    let three = ["user", "campaign", "ad"];
    let normalized = ParserConfig { normalization: KeyNormalization::Url, ..ParserConfig::new(RecordFormat::Lines) };
    let cases = [
        ("csv, three of five fields", generate(HEADER, csv), with(RecordFormat::Csv, &three, None)),
        ("csv, with time", generate(HEADER, csv), with(RecordFormat::Csv, &three, Some("time"))),
        ("csv, quoted", generate(HEADER, quoted_csv), with(RecordFormat::Csv, &three, None)),
        ("tsv", generate(&HEADER.replace(',', "\t"), tsv), with(RecordFormat::Tsv, &three, None)),
        ("lines", generate("", csv), with(RecordFormat::Lines, &[], None)),
        ("lines, url", generate("", url), normalized),
        ("jsonl", generate("", jsonl), with(RecordFormat::Jsonl, &["user", "campaign.id"], None)),
        ("jsonl, with time", generate("", jsonl), with(RecordFormat::Jsonl, &["user"], Some("time"))),
        ("clf, with time", generate("", clf), with(RecordFormat::Clf, &[], Some("time"))),
    ];
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Elements(RECORDS)).sample_size(20);
    for (name, input, config) in &cases {
        assert_eq!(parse_all(input.as_bytes(), config), RECORDS, "{name}: every record is an event");
        group.bench_function(*name, |bencher| bencher.iter(|| parse_all(input.as_bytes(), config)));
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
