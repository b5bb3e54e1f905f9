//! Checks of the code that parses records, times and URLs, and that decompresses files. No input may violate these
//! checks, whatever its bytes are. The fuzz targets search for bytes that violate a check. `cargo test -p
//! firstseen-records` runs the same checks on the corpus.

use firstseen_filter::{Digest, FilterSecret};
use firstseen_records::{
    Block, BlockOptions, BlockReader, Decompressed, KeyNormalization, ParsedBlock, ParserConfig, RecordFormat,
    RecordParser, RecordSpan, Refused, RejectReason, TextInput, TimeParser, kind_of_bytes, normalize_url,
};
use std::io::Read;

/// Runs the checks of a target.
pub(crate) fn run(target: &str, data: &[u8]) {
    match target {
        "time" => time(data),
        "url" => url(data),
        "decompress" => decompress(data),
        format => records(format.parse().expect("a target is a format or named above"), data),
    }
}

/// Checks that parsed times are in range in any time zone, and do not depend on surrounding white space.
fn time(data: &[u8]) {
    for zone in ["UTC", "America/New_York"] {
        let parser = TimeParser::new(zone).expect("the zone exists");
        let parsed = parser.parse(data);
        if let Ok(time_ms) = parsed {
            assert!((0..=253_402_300_799_999).contains(&time_ms));
        }
        assert_eq!(parser.parse(&[b" ", data, b"\t"].concat()), parsed);
    }
}

/// Checks that the normal form of a URL does not change when it is normalized again. The check leaves out `file:` URLs,
/// because the `url` crate reads their drive letters differently the second time. Users do not deduplicate such URLs.
fn url(data: &[u8]) {
    let normal = normalize_url(data);
    if normal.starts_with(b"file:") {
        return;
    }
    assert_eq!(String::from_utf8_lossy(&normalize_url(&normal)), String::from_utf8_lossy(&normal));
}

/// Checks that damaged input results in an error and never in a panic. Input that is not compressed must either be
/// returned unchanged or be rejected as a whole.
fn decompress(data: &[u8]) {
    const OUTPUT_BYTES_MAX: u64 = 1 << 20;
    if let Some(kind) = kind_of_bytes(data) {
        assert!(!kind.to_string().is_empty() && !kind.advice("file").is_empty());
    }
    let input = Decompressed::new(Trickle { rest: data, read_bytes: 3 }).expect("memory does not fail");
    let is_plain = input.compression() == firstseen_records::Compression::Plain;
    let mut output = Vec::new();
    let read = input.take(OUTPUT_BYTES_MAX).read_to_end(&mut output);
    if is_plain {
        assert!(read.is_ok() && output == data[..data.len().min(OUTPUT_BYTES_MAX as usize)]);
    }
    let input = Decompressed::new(Trickle { rest: data, read_bytes: 7 }).expect("memory does not fail");
    let mut checked = Vec::new();
    // A decompressor that fails may return less data if it is asked for more at once, so the outputs may differ in
    // length.
    match TextInput::new(input, b'\n').take(OUTPUT_BYTES_MAX).read_to_end(&mut checked) {
        Ok(_) => assert!(read.is_ok() && checked == output),
        Err(error) => {
            assert!(read.is_err() || Refused::of(&error).is_some());
            assert!(output.starts_with(&checked) || checked.starts_with(&output));
        }
    }
}

/// Checks that the parser loses no bytes: every byte of the input must be in exactly one record, header or rejection.
/// The results must also be the same, however the bytes are divided into reads.
fn records(format: RecordFormat, data: &[u8]) {
    let Some((&[options, sizes], input)) = data.split_first_chunk() else { return };
    let config = config(format, options);
    let record_bytes_max = 16 << (sizes & 7);
    let small = BlockOptions {
        block_bytes_target: 1 + usize::from(sizes >> 3),
        record_bytes_max,
        ..BlockOptions::for_format(format)
    };
    let large = BlockOptions { block_bytes_target: record_bytes_max, ..small };
    let trickled = pieces(Trickle { rest: input, read_bytes: 1 + usize::from(sizes >> 5) }, &config, small);
    let whole = pieces(input, &config, large);
    assert_eq!(trickled, whole);
    let (Ok(pieces), false) = (whole, input.is_empty()) else { return };
    let mut next = (0, 1);
    for piece in &pieces {
        let hole = &input[next.0..piece.at];
        assert!(hole.iter().all(|byte| *byte == 0), "the pieces follow each other, but for NUL bytes");
        assert_eq!(piece.line, next.1);
        let bytes = &input[piece.at..][..piece.bytes.len()];
        assert_eq!(piece.bytes, bytes);
        next = (piece.at + bytes.len(), piece.line + bytes.iter().filter(|&&byte| byte == b'\n').count() as u64);
    }
    assert!(input[next.0..].iter().all(|byte| *byte == 0), "nothing is lost");
}

fn config(format: RecordFormat, options: u8) -> ParserConfig {
    let (key, time, source): (&[&str], _, _) = match format {
        RecordFormat::Lines => (&["line"], "1", "line"),
        RecordFormat::Csv | RecordFormat::Tsv | RecordFormat::W3c => (&["2", "1"], "3", "4"),
        RecordFormat::Jsonl => (&["a", "b.c"], "t", "s"),
        RecordFormat::Clf => (&["path", "agent"], "time", "ip"),
        RecordFormat::Cdxj => (&["url"], "timestamp", "mime"),
    };
    let has = |bit: u8| options >> bit & 1 == 1;
    ParserConfig {
        key: key.iter().take(usize::from(options & 3)).map(|&name| name.to_owned()).collect(),
        time: has(2).then(|| time.to_owned()),
        source: has(3).then(|| source.to_owned()),
        no_header: has(4),
        normalization: if has(5) { KeyNormalization::Url } else { KeyNormalization::None },
        ..ParserConfig::new(format)
    }
}

#[derive(Debug, PartialEq)]
struct Piece {
    at: usize,
    line: u64,
    bytes: Vec<u8>,
    verdict: Verdict,
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Header,
    RepeatedHeader,
    Event(Digest, Option<i64>, Option<Vec<u8>>, Vec<String>),
    Rejected(RejectReason),
}

/// Returns the records, headers and rejections of an input, in order.
fn pieces(input: impl Read, config: &ParserConfig, options: BlockOptions) -> Result<Vec<Piece>, String> {
    let mut parser =
        RecordParser::new(config.clone(), FilterSecret::from_seed(1)).map_err(|error| error.to_string())?;
    let mut reader = BlockReader::new(input, options);
    let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
    let mut pieces = Vec::new();
    let mut block_at = 0;
    while reader.read_block(&mut block).expect("memory does not fail") {
        parser.parse(&block, &mut parsed).map_err(|error| error.to_string())?;
        if parsed.is_rest() {
            let long: &mut Piece = pieces.last_mut().expect("the record that is too long");
            long.bytes.extend_from_slice(block.bytes());
            block_at += block.bytes().len();
            continue;
        }
        let mut found: Vec<(RecordSpan, Verdict)> = Vec::new();
        found.extend(parsed.header().map(|header| (header.span, Verdict::Header)));
        found.extend(parsed.repeated_headers().iter().map(|span| (*span, Verdict::RepeatedHeader)));
        for (index, span) in parsed.spans().iter().enumerate() {
            let source = parsed.source(index).map(<[u8]>::to_vec);
            let time_ms = parsed.times_ms().get(index).copied();
            let key = parsed.key_parts(index, &block);
            assert!(!key.is_empty());
            found.push((*span, Verdict::Event(parsed.digests()[index], time_ms, source, key)));
        }
        let rejections = parsed.rejections().iter();
        found.extend(rejections.map(|rejection| (rejection.span, Verdict::Rejected(rejection.reason.clone()))));
        found.sort_by_key(|(span, _)| span.start);
        block_at += block.hole_bytes() as usize;
        let mut end = 0;
        for (span, verdict) in found {
            block_at += span.start as usize - end;
            end = span.end as usize;
            let bytes = block.bytes()[span.range()].to_vec();
            let at = block_at;
            block_at += bytes.len();
            pieces.push(Piece { at, line: span.line, bytes, verdict });
        }
    }
    Ok(pieces)
}

/// Reader that returns only a few bytes at a time.
struct Trickle<'a> {
    rest: &'a [u8],
    read_bytes: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.read_bytes.min(buffer.len());
        let read = (&self.rest[..bytes.min(self.rest.len())]).read(buffer)?;
        self.rest = &self.rest[read..];
        Ok(read)
    }
}
