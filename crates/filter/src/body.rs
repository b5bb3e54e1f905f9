//! Small steps of writing and reading the state of a filter.
//!
//! Promises: little-endian on every machine; no size that is read decides an allocation. Must not know: framing,
//! versions and checksums.

use std::io::{self, Read, Write};

pub(crate) fn write_u64(sink: &mut dyn Write, value: u64) -> io::Result<()> {
    sink.write_all(&value.to_le_bytes())
}

pub(crate) fn read_u64(source: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The error of bytes that cannot be the state of this filter.
pub(crate) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// `len_bytes` as a size of this machine's memory.
pub(crate) fn memory_bytes(len_bytes: u64) -> io::Result<usize> {
    usize::try_from(len_bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))
}
