//! Writes records in each format, with keys that are spelled in several ways, and records that cannot be parsed.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::run::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Lines,
    Csv,
    CsvWithHeader,
    /// CSV whose keys contain separators, quotes and line breaks.
    CsvQuoted,
    /// CSV whose key consists of two fields.
    CsvTwoFields,
    Tsv,
    Jsonl,
    JsonlNested,
    Clf,
    Cdxj,
}

impl Format {
    pub(super) const ALL: [Self; 10] = [
        Self::Lines,
        Self::Csv,
        Self::CsvWithHeader,
        Self::CsvQuoted,
        Self::CsvTwoFields,
        Self::Tsv,
        Self::Jsonl,
        Self::JsonlNested,
        Self::Clf,
        Self::Cdxj,
    ];

    /// Returns flags for the format and the key.
    pub(super) fn flags(self) -> &'static str {
        match self {
            Self::Lines => "",
            Self::Csv | Self::CsvQuoted => "--format csv --no-header --key 1",
            Self::CsvWithHeader => "--format csv --key k",
            Self::CsvTwoFields => "--format csv --no-header --key 1,4",
            Self::Tsv => "--format tsv --no-header --key 1",
            Self::Jsonl => "--format jsonl --key k",
            Self::JsonlNested => "--format jsonl --key a.k",
            Self::Clf => "--format clf",
            Self::Cdxj => "--format cdxj",
        }
    }

    /// Returns flags that name the time field, or `None` if the format has no time.
    pub(super) fn time_flags(self) -> Option<&'static str> {
        match self {
            Self::Lines => None,
            Self::Csv | Self::CsvQuoted | Self::CsvTwoFields | Self::Tsv => Some("--time 2"),
            Self::CsvWithHeader | Self::Jsonl => Some("--time t"),
            Self::JsonlNested => Some("--time a.t"),
            Self::Clf | Self::Cdxj => Some(""),
        }
    }

    /// Returns the resolution of times in this format, in milliseconds.
    pub(super) fn time_step_ms(self) -> u64 {
        if matches!(self, Self::Clf | Self::Cdxj) { 1000 } else { 1 }
    }

    pub(super) fn header(self) -> &'static str {
        if self == Self::CsvWithHeader { "k,t,n\n" } else { "" }
    }

    /// Returns one event as a record. No two records are equal, except in `Lines`, where the key is the whole record.
    pub(super) fn record(self, number: usize, key: u64, time_ms: u64) -> String {
        let is_third = number.is_multiple_of(3);
        match self {
            Self::Lines => format!("key {key}\n"),
            Self::Csv | Self::CsvWithHeader if is_third => format!("\"key {key}\",{time_ms},{number}\n"),
            Self::Csv | Self::CsvWithHeader => format!("key {key},{time_ms},\"{number}\"\r\n"),
            Self::CsvQuoted => format!("\"key, \"\"{key}\"\"\n\",{time_ms},{number}\n"),
            Self::CsvTwoFields => format!("a{},{time_ms},{number},\"b{}\"\n", key / 7, key % 7),
            Self::Tsv => format!("key {key}\t{time_ms}\t{number}\n"),
            Self::Jsonl if is_third => format!("{{\"n\": {number}, \"k\": \"k\\u0065y {key}\", \"t\": {time_ms}}}\n"),
            Self::Jsonl => format!("{{\"k\":\"key {key}\",\"t\":{time_ms},\"n\":{number}}}\n"),
            Self::JsonlNested => format!("{{\"n\":{number},\"a\":{{\"x\":[{{}}],\"k\":\"{key}\",\"t\":{time_ms}}}}}\n"),
            Self::Clf => {
                let (date, clock) = date_and_clock(time_ms);
                let (year, month, day) = date;
                let month = MONTHS[month as usize - 1];
                let (host, path) = (key % 250, key / 250);
                format!(
                    "10.0.0.{host} - - [{day:02}/{month}/{year}:{clock} +0000] \"GET /{path} HTTP/1.1\" 200 {number}\n"
                )
            }
            Self::Cdxj => {
                let ((year, month, day), clock) = date_and_clock(time_ms);
                let clock = clock.replace(':', "");
                format!("com,example)/{key} {year}{month:02}{day:02}{clock} {{\"n\": \"{number}\"}}\n")
            }
        }
    }

    /// Returns a record that cannot be parsed in this format, or `None` if the format has no such record. `timed`
    /// states whether the run needs the time of a record. In some formats, the only possible error is an invalid time,
    /// which matters only if the run needs the time.
    pub(super) fn unreadable(self, number: usize, timed: bool) -> Option<String> {
        match self {
            Self::Lines => None,
            Self::Csv | Self::CsvWithHeader | Self::CsvQuoted | Self::CsvTwoFields | Self::Tsv if !timed => None,
            // Without a header, the first row determines the number of fields.
            Self::Csv => Some(format!("broken{number},soon,{number}\n")),
            Self::Tsv => Some(format!("broken{number}\tsoon\t{number}\n")),
            Self::CsvQuoted => Some(format!("\"broken\n{number}\",soon,{number}\n")),
            Self::CsvTwoFields => Some(format!("a1,soon,{number},b1\n")),
            Self::Jsonl | Self::JsonlNested => Some(format!("{{\"k\": broken {number}\n")),
            _ => Some(format!("broken{number}\n")),
        }
    }
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the year, month and day, and `hh:mm:ss`, of a time after 1970 (Fliegel and Van Flandern 1968).
fn date_and_clock(time_ms: u64) -> ((u64, u64, u64), String) {
    let (day_number, second) = (time_ms / 86_400_000, time_ms / 1000 % 86_400);
    let mut rest = day_number + 2_440_588 + 68_569;
    let centuries = 4 * rest / 146_097;
    rest -= (146_097 * centuries).div_ceil(4);
    let years = 4000 * (rest + 1) / 1_461_001;
    rest = rest - 1461 * years / 4 + 31;
    let months = 80 * rest / 2447;
    let day = rest - 2447 * months / 80;
    let carry = months / 11;
    let date = (100 * (centuries - 49) + years + carry, months + 2 - 12 * carry, day);
    (date, format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60))
}

/// Returns the contents of a file with `bytes`: uncompressed, gzip with one or two members, or zstd.
pub(super) fn packed(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => gzip(bytes),
        1 => {
            let (head, tail) = bytes.split_at(random.below(bytes.len() as u64 + 1) as usize);
            [gzip(head), gzip(tail)].concat()
        }
        2 => zstd(bytes),
        _ => bytes.to_vec(),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Returns a zstd frame of uncompressed blocks (RFC 8878, section 3.1.1).
fn zstd(bytes: &[u8]) -> Vec<u8> {
    const BLOCK_BYTES: usize = 60_000;
    const WINDOW_OF_64_KIB: u8 = 6 << 3;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, WINDOW_OF_64_KIB];
    let mut block = |bytes: &[u8], is_last: bool| {
        let header = (bytes.len() as u32) << 3 | u32::from(is_last);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(bytes);
    };
    bytes.chunks(BLOCK_BYTES).for_each(|bytes| block(bytes, false));
    block(&[], true);
    frame
}
