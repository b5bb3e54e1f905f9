//! The compression formats of an input. Each format has a name for messages, and a shell command with which a user can
//! decompress the input.

/// Compression of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed, or compressed in a format that this crate does not know.
    Plain,
    /// gzip (RFC 1952), with one or more members.
    Gzip,
    /// zstd (RFC 8878), with one or more frames.
    Zstd,
    /// bzip2, with one or more members, as `pbzip2` writes them.
    Bzip2,
    /// xz, with one or more streams.
    Xz,
}

impl Compression {
    /// Returns the command that decompresses a file to standard output. `None` means that the input is not compressed.
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
