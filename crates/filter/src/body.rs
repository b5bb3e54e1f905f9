//! Helper functions that write and read the state of a filter.
//!
//! All numbers are written in little-endian order, on every machine. A size that is read from the input never
//! determines how much memory is allocated, so damaged input cannot exhaust the memory.
//!
//! This module does not depend on frames, versions and checksums.

use std::io::{self, Read, Write};

pub(crate) fn write_u64(sink: &mut dyn Write, value: u64) -> io::Result<()> {
    sink.write_all(&value.to_le_bytes())
}

pub(crate) fn read_u64(source: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Returns the error for bytes that are not a valid state of this filter.
pub(crate) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Converts `len_bytes` to a size in the memory of this machine.
pub(crate) fn memory_bytes(len_bytes: u64) -> io::Result<usize> {
    usize::try_from(len_bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))
}
