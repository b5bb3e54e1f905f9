//! Formats numbers and sizes for users and parses them, and formats bars, long lines and tables. The functions have no
//! hidden inputs such as the locale, so a value always gives the same text.

#[cfg(feature = "full")]
pub(crate) mod hex;
pub mod lines;
pub mod numbers;
pub mod size;
pub(crate) mod style;
#[cfg(feature = "full")]
pub mod table;
