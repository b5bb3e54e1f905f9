//! Text files and streams, one after the other: the input whose records are ranges of bytes.
//!
//! Guarantees: records come in the order of the files, and a stream is waited for no longer than its next record takes.
//! It does not know what becomes of a record.

use std::path::PathBuf;

use anyhow::Context;
use firstseen_records::{Block, BlockOptions, BlockReader, ConfigError, RecordFormat, RecordParser, hint};

use super::first::Opened;
use super::{Batch, Input, beginning, is_stream, name};
use crate::exit::UsageError;

/// So many bytes show what an input is.
const BEGINNING_BYTES_MAX: usize = 64 << 10;

/// Files of text.
pub(crate) struct TextFiles {
    files: Vec<PathBuf>,
    /// The first of them, where it was opened already.
    first: Option<Opened>,
    /// How their records are written.
    format: RecordFormat,
    /// How they are cut into records.
    block_options: BlockOptions,
    parser: RecordParser,
    /// The file that is read, after the first call of [`Input::read`].
    current: Option<Current>,
    /// The first bytes of the input, kept while no record could be judged: error messages derive a hint from them.
    beginning: Vec<u8>,
    /// The error with which the input ends behind the batch that was read last.
    refusal: Option<UsageError>,
}

/// A file that is being read.
struct Current {
    /// Its index.
    file: usize,
    reader: BlockReader<Opened>,
    /// Bytes of the files before it.
    before_bytes: u64,
}

impl Current {
    /// Bytes of the input that were used so far, as it is stored.
    fn input_bytes(&self) -> u64 {
        self.before_bytes + self.reader.get_ref().input_bytes_used()
    }
}

impl TextFiles {
    /// Files that begin with `first`, where that is open already.
    pub(crate) fn new(
        files: Vec<PathBuf>,
        first: Option<Opened>,
        format: RecordFormat,
        block_options: BlockOptions,
        parser: RecordParser,
    ) -> Self {
        Self { files, first, format, block_options, parser, current: None, beginning: Vec::new(), refusal: None }
    }

    /// Opens the file behind the current one; false if there is none.
    fn open_next(&mut self) -> anyhow::Result<bool> {
        let file = self.current.as_ref().map_or(0, |current| current.file + 1);
        let before_bytes = self.current.as_ref().map_or(0, Current::input_bytes);
        let Some(path) = self.files.get(file) else { return Ok(false) };
        let opened = match self.first.take() {
            Some(opened) => opened,
            None => Opened::new(path, self.block_options.record_end).with_context(|| name(path))?,
        };
        self.current = Some(Current { file, reader: BlockReader::new(opened, self.block_options), before_bytes });
        Ok(true)
    }

    /// Fills `batch` with the next records of the current file; false at its end.
    fn read_current(&mut self, batch: &mut Batch<Block>) -> anyhow::Result<bool> {
        let Some(current) = &mut self.current else { return Ok(false) };
        if let Some(refusal) = self.refusal.take() {
            return Err(refusal.into());
        }
        let path = &self.files[current.file];
        let Batch { block, parsed, .. } = batch;
        if !current.reader.read_block(block).map_err(|error| beginning::explained(error, path))? {
            return Ok(false);
        }
        let parse = self.parser.parse(block, parsed);
        parse.map_err(|error| unfit(&error, block.bytes(), self.format, self.block_options.separator))?;
        if self.beginning.is_empty() && parsed.is_empty() {
            self.beginning.extend_from_slice(&block.bytes()[..block.bytes().len().min(BEGINNING_BYTES_MAX)]);
        }
        self.refusal = parsed.refusal().map(|error| UsageError(error.to_string()));
        batch.lacking =
            if parsed.is_empty() { self.parser.finish().err().map(|error| error.to_string()) } else { None };
        batch.file = current.file;
        batch.input_bytes = current.input_bytes();
        Ok(true)
    }
}

impl Input for TextFiles {
    type Records = Block;

    fn is_stream(&self) -> bool {
        is_stream(&self.files)
    }

    fn read(&mut self, batch: &mut Batch<Block>) -> anyhow::Result<bool> {
        loop {
            let read = self.read_current(batch);
            let file = self.current.as_ref().map_or(0, |current| current.file);
            if read.with_context(|| self.files.get(file).map_or_else(String::new, |path| name(path)))? {
                return Ok(true);
            }
            if !self.open_next()? {
                let finished = self.parser.finish();
                let separator = self.block_options.separator;
                finished.map_err(|error| unfit(&error, &self.beginning, self.format, separator))?;
                return Ok(false);
            }
        }
    }
}

/// An input that does not fit the flags, with what it looks like.
fn unfit(error: &ConfigError, beginning: &[u8], format: RecordFormat, separator: u8) -> UsageError {
    match hint(beginning, format, Some(separator)) {
        Some(hint) => UsageError(format!("{error}; {hint}")),
        None => UsageError(error.to_string()),
    }
}
