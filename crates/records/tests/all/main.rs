//! From input bytes to records: formats, blocks, times, normal forms.

mod blocks;
mod common;
mod corpus;
mod csv_fields;
mod decompress;
mod formats;
mod json_numbers;
mod normalize;
mod times;
