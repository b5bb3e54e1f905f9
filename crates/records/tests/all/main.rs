//! Tests of the path from input bytes to records: formats, blocks, times and normal forms.

mod blocks;
mod byte_kinds;
mod common;
mod corpus;
mod csv_fields;
mod decompress;
mod formats;
mod joined;
mod json_numbers;
mod normalize;
mod pieces;
mod shapes;
mod time_columns;
mod time_formats;
mod time_forms;
mod times;
mod twice;
