//! From input bytes to records with the digests that a filter needs.
//!
//! The path of a file: [`Decompressed`] opens it (gzip, zstd, bzip2 and xz by content), [`TextInput`] refuses what is no
//! text, [`BlockReader`] cuts it into [`Block`]s
//! of whole records, [`RecordParser`] turns each block into a [`ParsedBlock`]: for every record its bytes, its line,
//! the [`Digest`](firstseen_filter::Digest) of its key, its time and its source; for every record that cannot be
//! decoded its bytes, its line and the reason. Every byte of the input is in exactly one record, header or rejection.
//!
//! Promises: no panic and no loss on any input, memory bounded by [`BlockOptions`], no allocation per record in the
//! usual case. Must not know: filters, windows, the clock, threads, files. Text comes through [`std::io::Read`]. Records
//! that are no text (rows of columns, messages) come through [`Records`], which describes what outputs and reports need
//! of a block in any form.
//!
//! ```
//! use firstseen_filter::FilterSecret;
//! use firstseen_records::{Block, BlockOptions, BlockReader, ParsedBlock, ParserConfig, RecordFormat, RecordParser};
//!
//! let input = "time,user\n1700000000,ann\n1700000001,bob\n1700000002,\"ann\"\n";
//! let config = ParserConfig { key: vec!["user".into()], ..ParserConfig::new(RecordFormat::Csv) };
//! let mut parser = RecordParser::new(config, FilterSecret::from_seed(1))?;
//! let mut reader = BlockReader::new(input.as_bytes(), BlockOptions::for_format(RecordFormat::Csv));
//! let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
//! while reader.read_block(&mut block)? {
//!     parser.parse(&block, &mut parsed)?;
//!     assert_eq!(parsed.len(), 3);
//!     assert_eq!(parsed.digests()[0], parsed.digests()[2]);
//!     assert_eq!(&block.bytes()[parsed.spans()[1].range()], b"1700000001,bob\n");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod archive;
mod block;
mod byte_kind;
mod bzip2;
mod canonical;
mod clf;
mod compression;
mod counted_input;
mod cut;
mod decompress;
mod detect;
mod encoding;
mod error;
mod field;
mod format;
mod gzip;
mod heading;
mod hint;
mod json;
mod json_number;
mod key;
mod lacking;
mod layout;
mod marks;
mod names;
mod normalize;
mod parsed;
mod parser;
mod printable;
mod quotes;
mod reader;
mod recognise;
mod records;
mod refused;
mod rows;
mod rules;
mod separated;
mod text_input;
mod time;
mod unescape;
mod walk;
mod wanted;
mod xz;
mod zstd;

pub use block::{Block, BlockDefect, BlockOptions};
pub use byte_kind::ByteKind;
pub use compression::Compression;
pub use decompress::Decompressed;
pub use detect::{Detected, detect};
pub use error::{ConfigError, RejectKind, RejectReason, TimeError};
pub use format::RecordFormat;
pub use hint::{hint, hint_of_document};
pub use json_number::canonical_number;
pub use normalize::{KeyNormalization, normalize_url};
pub use parsed::{Header, ParsedBlock, Rejection};
pub use parser::{ParserConfig, RecordParser};
pub use printable::printable;
pub use quotes::ends_inside_quotes;
pub use reader::BlockReader;
pub use recognise::{HEAD_BYTES, kind_of_bytes};
pub use records::Records;
pub use refused::Refused;
pub use rules::{EmptyKey, Ragged};
pub use text_input::TextInput;
pub use time::{TimeFormat, TimeParser};
pub use walk::RecordSpan;
