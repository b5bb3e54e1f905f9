//! Reads real web logs for experiments: the URL of each request, and the host that has sent it. The two fields are
//! found by their names, `url` and `host`, in the same way as `firstseen dedup` finds fields. Records that lack one of
//! these fields are left out, and the number of such records is printed.

use firstseen_cli::notice;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use firstseen_eval::stream::Log;
use firstseen_filter::FilterSecret;
use firstseen_records::{
    Block, BlockOptions, BlockReader, Decompressed, ParsedBlock, ParserConfig, RecordFormat, RecordParser, TextInput,
};

use firstseen_cli::exit::UsageError;

/// Maximum number of requests in all logs. The requests are kept in memory, because experiments read them many times.
const EVENTS_MAX: usize = 5_000_000;

/// Reads logs. Logs with the same name are numbered.
///
/// # Errors
/// Returns an error if a file cannot be read, lacks a field or contains no request, or if there are more than
/// [`EVENTS_MAX`] requests.
pub(super) fn read(paths: &[PathBuf], format: RecordFormat) -> anyhow::Result<Vec<Log>> {
    let mut logs: Vec<Log> = Vec::new();
    let mut room = EVENTS_MAX;
    let mut seen = HashMap::new();
    for path in paths {
        let mut log = read_one(path, format, room)?;
        room -= log.keys.len();
        let number = seen.entry(log.name.clone()).or_insert(0);
        *number += 1;
        if *number > 1 {
            log.name = format!("{} ({number})", log.name);
        }
        logs.push(log);
    }
    Ok(logs)
}

fn read_one(path: &Path, format: RecordFormat, room: usize) -> anyhow::Result<Log> {
    let shown = path.display().to_string();
    let file = File::open(path).map_err(|error| UsageError(format!("{shown}: {error}")))?;
    let input = Decompressed::new(file).map_err(|error| UsageError(format!("{shown}: {error}")))?;
    let mut reader = BlockReader::new(TextInput::new(input, b'\n'), BlockOptions::for_format(format));
    let mut urls = parser("url", format)?;
    let mut hosts = parser("host", format)?;
    let name = path.file_name().map_or(shown.clone(), |name| name.to_string_lossy().into_owned());
    let mut log = Log { name, ..Log::default() };
    let mut block = Block::default();
    let mut by_url = ParsedBlock::default();
    let mut by_host = ParsedBlock::default();
    let mut records = 0;
    while reader.read_block(&mut block).map_err(|error| UsageError(format!("{shown}: {error}")))? {
        for (parser, parsed) in [(&mut urls, &mut by_url), (&mut hosts, &mut by_host)] {
            parser.parse(&block, parsed).map_err(|error| UsageError(format!("{shown}: {error}")))?;
        }
        records += by_url.spans().len() + by_url.rejections().len();
        let mut clients = by_host.spans().iter().zip(by_host.digests()).peekable();
        for (span, digest) in by_url.spans().iter().zip(by_url.digests()) {
            while clients.next_if(|(other, _)| other.start < span.start).is_some() {}
            let Some((_, client)) = clients.next_if(|(other, _)| other.start == span.start) else { continue };
            log.keys.push(digest.lo);
            log.clients.push(client.lo);
        }
        if log.keys.len() > room {
            let text = format!("{shown}: there are more than {EVENTS_MAX} requests in all: give a part of them");
            return Err(UsageError(text).into());
        }
    }
    let left_out = records - log.keys.len();
    if records == 0 {
        return Err(UsageError(format!("{shown} holds no record")).into());
    }
    if log.keys.is_empty() {
        let text = format!(
            "{shown} holds no request: records that cannot be read, or lack `url` or `host`: {left_out}; is --log-format right?"
        );
        return Err(UsageError(text).into());
    }
    if left_out > 0 {
        notice!(
            "firstseen-lab: {shown}: left out because they cannot be read, or lack `url` or `host`: {left_out} records"
        );
    }
    Ok(log)
}

/// Creates a parser whose key is a single field. Experiments hash the keys again with different secrets.
fn parser(key: &str, format: RecordFormat) -> anyhow::Result<RecordParser> {
    let config = ParserConfig { key: vec![key.to_owned()], ..ParserConfig::new(format) };
    RecordParser::new(config, FilterSecret::from_seed(0)).map_err(|error| UsageError(error.to_string()).into())
}
