//! Kinds of input that do not contain records as text, such as archives, database files, and texts in other encodings.
//! Each kind has a name for error messages.

/// Kind of an input that contains no records as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ByteKind {
    /// gzip data (RFC 1952).
    Gzip,
    /// bzip2 data.
    Bzip2,
    /// xz data.
    Xz,
    /// zstd data (RFC 8878).
    Zstd,
    /// zstd data that needs more memory than this program allows.
    ZstdWindow {
        /// Size in bytes of the window that a frame requires.
        window_bytes: u64,
    },
    /// zstd data that was compressed with a custom dictionary.
    ZstdDictionary {
        /// Number of the dictionary.
        id: u32,
    },
    /// xz data that needs more memory than this program allows.
    XzDictionary,
    /// xz data with a check or a filter that this program does not know.
    XzUnsupported,
    /// The older format of xz (`.lzma`).
    Lzma,
    /// lzip data.
    Lzip,
    /// lz4 data: a frame, or the legacy format.
    Lz4,
    /// lzop data.
    Lzop,
    /// Data of `compress` (`.Z`).
    OldCompress,
    /// A framed snappy stream.
    Snappy,
    /// A zlib stream (RFC 1950).
    Zlib,
    /// A zip archive, also a spreadsheet (`.xlsx`, `.ods`).
    Zip,
    /// A 7z archive.
    SevenZip,
    /// A rar archive.
    Rar,
    /// A tar archive.
    Tar,
    /// A cpio archive.
    Cpio,
    /// A table of Apache Parquet.
    Parquet,
    /// A table of Apache ORC.
    Orc,
    /// An Apache Arrow file (Feather version 2).
    Arrow,
    /// A Feather file of version 1.
    Feather,
    /// An Apache Avro container.
    Avro,
    /// An HDF5 file.
    Hdf5,
    /// An SQLite database.
    Sqlite,
    /// A dump of Redis (RDB).
    RedisDump,
    /// A journal of systemd.
    Journal,
    /// A Windows event log.
    WindowsEvents,
    /// A capture of network packets.
    Packets,
    /// A PDF document.
    Pdf,
    /// An old document of Microsoft Office (`.xls`, `.doc`).
    OldOffice,
    /// An image: PNG, JPEG, GIF.
    Image,
    /// A program: ELF, Mach-O, Windows, WebAssembly, Java.
    Program,
    /// Encrypted data of OpenSSL or age.
    Encrypted,
    /// UTF-16 with a byte order mark.
    Utf16,
    /// UTF-16 without a byte order mark, little-endian.
    Utf16LittleEndian,
    /// UTF-16 without a byte order mark, big-endian.
    Utf16BigEndian,
    /// UTF-32 with a byte order mark.
    Utf32,
    /// UTF-32 without a byte order mark, little-endian.
    Utf32LittleEndian,
    /// UTF-32 without a byte order mark, big-endian.
    Utf32BigEndian,
    /// Text whose lines end with a single carriage return.
    CarriageReturns,
    /// Text whose records end with a NUL byte.
    NulTerminated,
    /// A file of DuckDB.
    DuckDb,
    /// An `ar` archive, such as a package of Debian.
    Ar,
    /// Serialised values of Python (`pickle`).
    Pickle,
    /// Bytes of no known kind that are not text in any encoding.
    Binary,
}

impl std::fmt::Display for ByteKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip data",
            Self::Bzip2 => "bzip2 data",
            Self::Xz => "xz data",
            Self::Zstd => "zstd data",
            Self::ZstdWindow { window_bytes } => {
                let mib = window_bytes.div_ceil(1 << 20);
                return write!(f, "zstd data with a window of {mib} MiB, above the limit of 128 MiB");
            }
            Self::ZstdDictionary { id } => {
                return write!(f, "zstd data that needs the dictionary {id} to be decompressed");
            }
            Self::XzDictionary => "xz data with a dictionary above the limit of 128 MiB",
            Self::XzUnsupported => "xz data with a filter or a check that firstseen does not know",
            Self::Lzma => "lzma data",
            Self::Lzip => "lzip data",
            Self::Lz4 => "lz4 data",
            Self::Lzop => "lzop data",
            Self::OldCompress => "data of `compress` (.Z)",
            Self::Snappy => "snappy data",
            Self::Zlib => "zlib data",
            Self::Zip => "a zip archive",
            Self::SevenZip => "a 7z archive",
            Self::Rar => "a rar archive",
            Self::Tar => "a tar archive",
            Self::Cpio => "a cpio archive",
            Self::Parquet => "a Parquet table",
            Self::Orc => "an ORC table",
            Self::Arrow => "an Arrow (Feather) table",
            Self::Feather => "a Feather table",
            Self::Avro => "an Avro file",
            Self::Hdf5 => "an HDF5 file",
            Self::Sqlite => "an SQLite database",
            Self::RedisDump => "a Redis dump",
            Self::Journal => "a journal of systemd",
            Self::WindowsEvents => "a Windows event log",
            Self::Packets => "a capture of network packets",
            Self::Pdf => "a PDF document",
            Self::OldOffice => "a document of Microsoft Office",
            Self::Image => "an image",
            Self::Program => "a program",
            Self::Encrypted => "encrypted data",
            Self::Utf16 | Self::Utf16BigEndian => "text in UTF-16",
            // Records of one character that end with NUL bytes look like UTF-16.
            Self::Utf16LittleEndian => "text in UTF-16 (or, with NUL bytes at the ends of records, for -z)",
            Self::Utf32 | Self::Utf32LittleEndian | Self::Utf32BigEndian => "text in UTF-32",
            Self::CarriageReturns => "text whose lines end with a carriage return alone",
            Self::NulTerminated => "text whose records end with a NUL byte",
            Self::DuckDb => "a DuckDB database",
            Self::Ar => "an ar archive",
            Self::Pickle => "a Python pickle",
            Self::Binary => "binary data",
        })
    }
}

impl ByteKind {
    /// Returns whether records that end with NUL bytes may look like this kind.
    pub(crate) fn is_guessed_by_line_ends(self) -> bool {
        matches!(
            self,
            Self::CarriageReturns
                | Self::NulTerminated
                | Self::Utf16LittleEndian
                | Self::Utf16BigEndian
                | Self::Utf32LittleEndian
                | Self::Utf32BigEndian
        )
    }
}
