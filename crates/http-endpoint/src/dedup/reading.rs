//! Reads and parses the records of a body, on a thread of its own.
//!
//! The body is divided into pieces of consecutive records, which are returned in order. Only a few pieces are buffered
//! at a time, so memory stays bounded.
//!
//! This module does not depend on filters.

use std::error::Error;
use std::io::Read;

use firstseen_records::{
    Block, BlockDefect, BlockReader, Compression, Decompressed, ParsedBlock, RecordParser, TextInput,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::pipe::BodyReader;
use super::query::DedupOptions;

/// Maximum number of parsed pieces that wait until the cluster decides their records.
const BATCHES_MAX: usize = 2;

/// Consecutive records.
#[derive(Default)]
pub(crate) struct RecordBatch {
    pub(crate) block: Block,
    pub(crate) parsed: ParsedBlock,
}

/// Result of a reading step.
pub(crate) enum Progress {
    /// More records.
    RecordBatch(Box<RecordBatch>),
    /// The body has ended. The text names a field that no record has, if there is such a field.
    End(Option<String>),
    /// The rest of the body cannot be read.
    Failed(String),
}

/// Channels for pieces that were read, and for returning used pieces so that their memory is reused.
pub(crate) struct RecordBatches {
    pub(crate) read: Receiver<Progress>,
    pub(crate) spent: Sender<Box<RecordBatch>>,
}

/// Starts to read a body on a thread for blocking work.
pub(crate) fn start(body: BodyReader, options: &DedupOptions, parser: RecordParser) -> RecordBatches {
    let (sender, read) = channel(BATCHES_MAX);
    let (spent, reusable) = channel(BATCHES_MAX + 2);
    let blocks = options.blocks();
    let compression = options.compression;
    tokio::task::spawn_blocking(move || {
        let mut reading = Reading { parser, sender, reusable };
        let last = match opened(body, compression) {
            Err(why) => Progress::Failed(why),
            Ok(input) => reading.all(BlockReader::new(input, blocks)),
        };
        // Sending fails if the request has ended in the meantime, which is not an error.
        let _ = reading.sender.blocking_send(last);
    });
    RecordBatches { read, spent }
}

/// Returns the text of a body that has this compression.
fn opened(body: BodyReader, compression: Compression) -> Result<TextInput<BodyReader>, String> {
    let input = Decompressed::new(body).map_err(|error| error.to_string())?;
    let found = input.compression();
    if found != compression {
        return Err(format!(
            "the body is {found}, and the header Content-Encoding says {compression}: send the header that fits (gzip or zstd), or none \
             for a plain body"
        ));
    }
    let mut input = TextInput::new(input, b'\n');
    input.check().map_err(|error| with_causes(&error))?;
    Ok(input)
}

struct Reading {
    parser: RecordParser,
    sender: Sender<Progress>,
    reusable: Receiver<Box<RecordBatch>>,
}

impl Reading {
    /// Reads and parses all records. Returns how the body has ended.
    fn all(&mut self, mut reader: BlockReader<impl Read>) -> Progress {
        loop {
            let mut batch = self.reusable.try_recv().unwrap_or_default();
            let RecordBatch { block, parsed } = &mut *batch;
            match reader.read_block(block) {
                Ok(true) => {}
                Ok(false) => return Progress::End(self.parser.finish().err().map(|error| error.to_string())),
                Err(error) => return Progress::Failed(with_causes(&error)),
            }
            if block.defect() == Some(BlockDefect::InputFailed) {
                // The input broke off in the middle of a record. The client sends the whole record again.
                continue;
            }
            if let Err(error) = self.parser.parse(block, parsed) {
                return Progress::Failed(error.to_string());
            }
            let refusal = parsed.refusal().map(ToString::to_string);
            if self.sender.blocking_send(Progress::RecordBatch(batch)).is_err() {
                return Progress::End(None);
            }
            if let Some(refusal) = refusal {
                return Progress::Failed(refusal);
            }
        }
    }
}

/// Returns the text of an error and its causes.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}
