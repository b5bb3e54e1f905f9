//! Reads the records of a body, on a thread of its own.
//!
//! Promises: pieces come in the order of the records, and few of them wait. This module must not depend on filters.

use std::error::Error;
use std::io::Read;

use firstseen_records::{
    Block, BlockDefect, BlockReader, Compression, Decompressed, ParsedBlock, RecordParser, TextInput,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::pipe::BodyReader;
use super::query::DedupOptions;

/// Pieces that wait to be asked about.
const PIECES_MAX: usize = 2;

/// Consecutive records.
#[derive(Default)]
pub(crate) struct Piece {
    pub(crate) block: Block,
    pub(crate) parsed: ParsedBlock,
}

/// What has come of reading, one after the other.
pub(crate) enum Progress {
    /// Records.
    Piece(Box<Piece>),
    /// The body has ended; the text says which field no record has, if that is so.
    End(Option<String>),
    /// The body cannot be read from here on.
    Failed(String),
}

/// Pieces as they are read, and the way back for those that are done with.
pub(crate) struct Pieces {
    pub(crate) read: Receiver<Progress>,
    pub(crate) spent: Sender<Box<Piece>>,
}

/// Starts to read a body on a thread for blocking work.
pub(crate) fn start(body: BodyReader, options: &DedupOptions, parser: RecordParser) -> Pieces {
    let (sender, read) = channel(PIECES_MAX);
    let (spent, reusable) = channel(PIECES_MAX + 2);
    let blocks = options.blocks();
    let compression = options.compression;
    tokio::task::spawn_blocking(move || {
        let mut reading = Reading { parser, sender, reusable };
        let last = match opened(body, compression) {
            Err(why) => Progress::Failed(why),
            Ok(input) => reading.all(BlockReader::new(input, blocks)),
        };
        // Nobody may be interested any more.
        let _ = reading.sender.blocking_send(last);
    });
    Pieces { read, spent }
}

/// The text of a body, which has this compression.
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
    reusable: Receiver<Box<Piece>>,
}

impl Reading {
    /// Reads and parses all records, and returns how the body has ended.
    fn all(&mut self, mut reader: BlockReader<impl Read>) -> Progress {
        loop {
            let mut piece = self.reusable.try_recv().unwrap_or_default();
            let Piece { block, parsed } = &mut *piece;
            match reader.read_block(block) {
                Ok(true) => {}
                Ok(false) => return Progress::End(self.parser.finish().err().map(|error| error.to_string())),
                Err(error) => return Progress::Failed(with_causes(&error)),
            }
            if block.defect() == Some(BlockDefect::InputFailed) {
                // A part of a record: the client sends the whole record again.
                continue;
            }
            if let Err(error) = self.parser.parse(block, parsed) {
                return Progress::Failed(error.to_string());
            }
            let refusal = parsed.refusal().map(ToString::to_string);
            if self.sender.blocking_send(Progress::Piece(piece)).is_err() {
                return Progress::End(None);
            }
            if let Some(refusal) = refusal {
                return Progress::Failed(refusal);
            }
        }
    }
}

/// An error, and what has caused it.
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
