//! The names of compressions, and the commands that undo them. It does not know how they are recognised or undone.

/// The compression of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed, or by a method that this crate does not know.
    Plain,
    /// RFC 1952, with one or more members.
    Gzip,
    /// RFC 8878, with one or more frames.
    Zstd,
    /// bzip2, with one or more members, as `pbzip2` writes them.
    Bzip2,
    /// xz, with one or more streams.
    Xz,
}

impl Compression {
    /// The command that decompresses a file to standard output; `None` for plain input.
    pub(crate) fn command(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Gzip => Some("gzip -dc"),
            Self::Zstd => Some("zstd -dc"),
            Self::Bzip2 => Some("bzip2 -dc"),
            Self::Xz => Some("xz -dc"),
        }
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
        })
    }
}
