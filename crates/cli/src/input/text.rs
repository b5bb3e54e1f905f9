//! Reads text files and streams one after the other, and cuts them into records. Each record is a range of bytes of a
//! block. The records come in the order of the files. If the input is a stream, reading waits only until the next
//! record is complete.

use std::path::PathBuf;

use anyhow::Context;
use firstseen_records::{Block, BlockOptions, BlockReader, ConfigError, RecordFormat, RecordParser, hint};

use super::first::Opened;
use super::{Batch, FileByFile, Input, beginning, is_stream, name};
use crate::exit::UsageError;

/// Number of bytes at the beginning of an input that are enough to recognise what it contains.
const BEGINNING_BYTES_MAX: usize = 64 << 10;

/// Text files as an input.
pub(crate) struct TextFiles {
    files: Vec<PathBuf>,
    /// The first file, if it was already opened.
    first: Option<Opened>,
    /// Format of the records.
    format: RecordFormat,
    /// How the files are cut into records.
    block_options: BlockOptions,
    parser: RecordParser,
    /// The file that is being read. `None` before the first call of [`Input::read`].
    current: Option<Current>,
    /// First bytes of the input, kept until a record could be judged. Error messages use them to suggest the right
    /// flags.
    beginning: Vec<u8>,
    /// Error with which the input ends after the batch that was read last.
    refusal: Option<UsageError>,
}

/// A file that is being read.
struct Current {
    /// Index of the file.
    file: usize,
    reader: BlockReader<Opened>,
    /// Total number of bytes of the files before this file.
    before_bytes: u64,
}

impl Current {
    /// Returns the number of bytes of the input that were used so far, counted as they are stored (possibly
    /// compressed).
    fn input_bytes(&self) -> u64 {
        self.before_bytes + self.reader.get_ref().input_bytes_used()
    }
}

impl TextFiles {
    /// Creates an input of `files`. `first` is the first of them, if it is already open.
    pub(crate) fn new(
        files: Vec<PathBuf>,
        first: Option<Opened>,
        format: RecordFormat,
        block_options: BlockOptions,
        parser: RecordParser,
    ) -> Self {
        Self { files, first, format, block_options, parser, current: None, beginning: Vec::new(), refusal: None }
    }
}

impl FileByFile for TextFiles {
    type Records = Block;

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
        parse.map_err(|error| unsuitable_error(&error, block.bytes(), self.format, self.block_options.separator))?;
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

    fn current_name(&self) -> String {
        let file = self.current.as_ref().map_or(0, |current| current.file);
        self.files.get(file).map_or_else(String::new, |path| name(path))
    }
}

impl Input for TextFiles {
    type Records = Block;

    fn is_stream(&self) -> bool {
        is_stream(&self.files)
    }

    fn read(&mut self, batch: &mut Batch<Block>) -> anyhow::Result<bool> {
        if self.read_next(batch)? {
            return Ok(true);
        }
        let separator = self.block_options.separator;
        let finished = self.parser.finish();
        finished.map_err(|error| unsuitable_error(&error, &self.beginning, self.format, separator))?;
        Ok(false)
    }
}

/// Returns an error about an input that does not fit the flags, with a hint about what the input looks like.
fn unsuitable_error(error: &ConfigError, beginning: &[u8], format: RecordFormat, separator: u8) -> UsageError {
    match hint(beginning, format, Some(separator)) {
        Some(hint) => UsageError(format!("{error}; {hint}")),
        None => UsageError(error.to_string()),
    }
}
