//! Where an output goes.

use std::path::Path;

use crate::input::is_stdin;

/// Where an output goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    Stdout,
    File(&'a Path),
    /// Records are not written.
    Nowhere,
}

impl<'a> Target<'a> {
    /// Returns the target of a flag that names a file. `-` means standard output. Without a file, records are not
    /// written.
    pub(crate) fn of(path: Option<&'a Path>) -> Self {
        match path {
            None => Self::Nowhere,
            Some(path) if is_stdin(path) => Self::Stdout,
            Some(path) => Self::File(path),
        }
    }

    /// Returns the target of a flag that names a file, which is standard output without the flag.
    pub(crate) fn or_stdout(path: Option<&'a Path>) -> Self {
        path.map_or(Self::Stdout, |path| Self::of(Some(path)))
    }
}
