//! Turns the bytes of an input into records with the digests that a filter needs.
//!
//! # How a file is processed
//!
//! - [`Decompressed`] opens the file, and recognises gzip, zstd, bzip2 and xz by their content.
//! - [`TextInput`] rejects an input that is not text.
//! - [`BlockReader`] cuts the text into [`Block`]s of complete records.
//! - [`RecordParser`] turns each block into a [`ParsedBlock`]. For every record, it contains the bytes, the line, the
//!   [`Digest`](firstseen_filter::Digest) of the key, the time and the source. For every record that cannot be decoded,
//!   it contains the bytes, the line and the reason.
//!
//! Every byte of the input belongs to exactly one record, header or rejection.
//!
//! # Guarantees
//!
//! - No input causes a panic or loses data.
//! - The memory is bounded by [`BlockOptions`].
//! - In the usual case, no memory is allocated per record.
//!
//! The crate reads text only through [`std::io::Read`], and uses no threads, clocks or files of its own. Records that
//! are not text, such as rows of columns or messages, can implement the trait [`Records`]. This trait describes what
//! outputs and reports need from the records of a block.
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
pub use names::{listed, nearest_name};
pub use normalize::{KeyNormalization, normalize_url};
pub use parsed::{Header, ParsedBlock, Rejection};
pub use parser::{ParserConfig, RecordParser};
pub use printable::{printable, printable_value};
pub use quotes::ends_inside_quotes;
pub use reader::BlockReader;
pub use recognise::{HEAD_BYTES, kind_of_bytes};
pub use records::Records;
pub use refused::Refused;
pub use rules::{EmptyKey, Ragged};
pub use text_input::TextInput;
pub use time::{TIME_MS_MAX, TimeFormat, TimeParser};
pub use walk::RecordSpan;
