//! Helpers that read a whole input into owned events.

use firstseen_filter::{Digest, FilterSecret};
use firstseen_records::{
    Block, BlockOptions, BlockReader, ConfigError, ParsedBlock, ParserConfig, RecordFormat, RecordParser, RejectReason,
};
use std::io::Read;

pub(crate) struct Event {
    pub(crate) bytes: String,
    pub(crate) line: u64,
    pub(crate) digest: Digest,
    pub(crate) time_ms: Option<i64>,
    pub(crate) source: Option<String>,
    pub(crate) key: Vec<String>,
}

#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) headers: Vec<(String, bool)>,
    pub(crate) events: Vec<Event>,
    pub(crate) rejections: Vec<(u64, String, RejectReason)>,
    pub(crate) blocks: usize,
}

impl Outcome {
    pub(crate) fn keys(&self) -> Vec<String> {
        self.events.iter().map(|event| event.key.join("|")).collect()
    }

    /// Returns line, bytes and message of each rejection.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.rejections.iter().map(|(line, bytes, reason)| format!("{line}: {bytes:?}: {reason}")).collect()
    }
}

pub(crate) fn secret() -> FilterSecret {
    FilterSecret::from_seed(1)
}

pub(crate) fn config(format: RecordFormat, key: &[&str]) -> ParserConfig {
    ParserConfig { key: key.iter().map(|&name| name.to_owned()).collect(), ..ParserConfig::new(format) }
}

/// Reads one file after another.
pub(crate) fn read_files(files: &[&str], config: ParserConfig) -> Result<Outcome, ConfigError> {
    let options = BlockOptions::for_format(config.format);
    let mut parser = RecordParser::new(config, secret())?;
    let mut outcome = Outcome::default();
    for file in files {
        read_into(&mut outcome, file.as_bytes(), &mut parser, options)?;
    }
    Ok(outcome)
}

pub(crate) fn read_text(text: &str, config: ParserConfig) -> Outcome {
    read_files(&[text], config).unwrap()
}

/// Reads an input, and stops at its first error. Returns the error together with everything that came before it.
pub(crate) fn read_into(
    outcome: &mut Outcome,
    input: impl Read,
    parser: &mut RecordParser,
    options: BlockOptions,
) -> Result<Option<std::io::Error>, ConfigError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut reader = BlockReader::new(input, options);
    let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
    loop {
        match reader.read_block(&mut block) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Ok(Some(error)),
        }
        parser.parse(&block, &mut parsed)?;
        outcome.blocks += 1;
        if parsed.is_rest() {
            let (_, bytes, _) = outcome.rejections.last_mut().expect("the record that it belongs to");
            bytes.push_str(&text(block.bytes()));
        }
        outcome
            .headers
            .extend(parsed.header().map(|header| (text(&block.bytes()[header.span.range()]), header.is_repeated)));
        outcome.events.extend(parsed.spans().iter().enumerate().map(|(index, span)| Event {
            bytes: text(&block.bytes()[span.range()]),
            line: span.line,
            digest: parsed.digests()[index],
            time_ms: parsed.times_ms().get(index).copied(),
            source: parsed.source(index).map(text),
            key: parsed.key_parts(index, &block),
        }));
        outcome.rejections.extend(parsed.rejections().iter().map(|rejection| {
            (rejection.span.line, text(&block.bytes()[rejection.span.range()]), rejection.reason.clone())
        }));
    }
}

/// Reader that returns one piece per read, and then fails or ends.
pub(crate) struct Pieces<'a> {
    pub(crate) pieces: Vec<&'a [u8]>,
    pub(crate) failure: Option<std::io::ErrorKind>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.pieces.is_empty() {
            return self.failure.map_or(Ok(0), |kind| Err(kind.into()));
        }
        let mut piece = self.pieces.remove(0);
        let read = piece.read(buffer)?;
        if !piece.is_empty() {
            self.pieces.insert(0, piece);
        }
        Ok(read)
    }
}
