//! Real logs for experiments: the URL of each request, who asked for it, and when.
//!
//! Promises: fields are found by their names (`url`, `host`, `time`), as `firstseen dedup` finds them; a record that lacks one is
//! left out, and told. Must not know: what experiments make of a log.

use std::fs::File;
use std::path::Path;

use anyhow::Context;
use firstseen_eval::stream::Log;
use firstseen_filter::FilterSecret;
use firstseen_records::{
    Block, BlockOptions, BlockReader, Decompressed, ParsedBlock, ParserConfig, RecordFormat, RecordParser,
};

use crate::exit::UsageError;

/// Requests of one log at most: experiments go over all of them many times.
const EVENTS_MAX: usize = 5_000_000;

/// Reads a log.
///
/// # Errors
/// A file that cannot be read, lacks a field or holds no request.
pub(super) fn read(path: &Path, format: RecordFormat) -> anyhow::Result<Log> {
    let shown = path.display().to_string();
    let file = File::open(path).map_err(|error| UsageError(format!("{shown}: {error}")))?;
    let input = Decompressed::new(file).with_context(|| shown.clone())?;
    let mut reader = BlockReader::new(input, BlockOptions::for_format(format));
    let (mut urls, mut hosts) = (parser("url", format)?, parser("host", format)?);
    let name = path.file_name().map_or(shown.clone(), |name| name.to_string_lossy().into_owned());
    let mut log = Log { name, ..Log::default() };
    let (mut block, mut by_url, mut by_host) = (Block::default(), ParsedBlock::default(), ParsedBlock::default());
    let mut rejected = 0;
    while reader.read_block(&mut block).with_context(|| shown.clone())? {
        for (parser, parsed) in [(&mut urls, &mut by_url), (&mut hosts, &mut by_host)] {
            parser.parse(&block, parsed).map_err(|error| UsageError(format!("{shown}: {error}")))?;
        }
        rejected += by_url.rejections().len();
        let mut clients = by_host.spans().iter().zip(by_host.digests()).peekable();
        for ((span, digest), time_ms) in by_url.spans().iter().zip(by_url.digests()).zip(by_url.times_ms()) {
            while clients.next_if(|(other, _)| other.start < span.start).is_some() {}
            let Some((_, client)) = clients.next_if(|(other, _)| other.start == span.start) else { continue };
            log.keys.push(digest.lo);
            log.clients.push(client.lo);
            log.times_ms.push(time_ms.unsigned_abs());
        }
        if log.keys.len() > EVENTS_MAX {
            return Err(UsageError(format!("{shown} has more than {EVENTS_MAX} requests: give a part of it")).into());
        }
    }
    if log.keys.is_empty() {
        let text = format!("{shown} holds no request: {rejected} records could not be read; is --log-format right?");
        return Err(UsageError(text).into());
    }
    if rejected > 0 {
        eprintln!("firstseen: {shown}: {rejected} records could not be read, and are left out");
    }
    Ok(log)
}

/// A parser whose key is one field. Experiments hash keys again, each with secrets of its own.
fn parser(key: &str, format: RecordFormat) -> anyhow::Result<RecordParser> {
    let config = ParserConfig { key: vec![key.to_owned()], time: Some("time".to_owned()), ..ParserConfig::new(format) };
    RecordParser::new(config, FilterSecret::from_seed(0)).map_err(|error| UsageError(error.to_string()).into())
}
