//! Recognises inputs that are not text by their first bytes. A text in UTF-8 or Latin-1 whose lines end with a newline
//! is never mistaken for another kind, so no valid input is refused. The functions are pure, and they do not panic on
//! any input, because the bytes may come from anywhere.

use crate::byte_kind::ByteKind;
use crate::encoding::kind_of_text;

/// Maximum number of bytes of an input that [`kind_of_bytes`] examines.
pub const HEAD_BYTES: usize = 64 << 10;

/// Recognises the kind of an input by its first bytes. Returns `None` for text, and for bytes of no known kind.
///
/// The function needs [`HEAD_BYTES`], or all of a shorter input, to distinguish kinds of text. For other kinds, 512
/// bytes are enough.
///
/// ```
/// use firstseen_records::{ByteKind, kind_of_bytes};
/// let kind = kind_of_bytes(b"PK\x03\x04....").expect("a zip archive");
/// assert_eq!(kind, ByteKind::Zip);
/// assert_eq!(kind.to_string(), "a zip archive");
/// assert_eq!(kind.advice("logs.zip"), "`unzip -p logs.zip | firstseen dedup ...`");
/// assert_eq!(kind_of_bytes(b"time,user\n"), None);
/// ```
pub fn kind_of_bytes(first_bytes: &[u8]) -> Option<ByteKind> {
    let head = &first_bytes[..first_bytes.len().min(HEAD_BYTES)];
    let by_magic = MAGICS.iter().find(|magic| magic.matches_head(head)).map(|magic| magic.kind);
    by_magic
        .or_else(|| kind_by_shape(head))
        .or_else(|| kind_of_text(head))
        .or_else(|| is_binary(head).then_some(ByteKind::Binary))
}

/// Bytes at a fixed position that do not occur there in any text.
struct Magic {
    at: usize,
    bytes: &'static [u8],
    kind: ByteKind,
}

impl Magic {
    const fn new(bytes: &'static [u8], kind: ByteKind) -> Self {
        Self { at: 0, bytes, kind }
    }

    fn matches_head(&self, head: &[u8]) -> bool {
        head.get(self.at..).is_some_and(|rest| rest.starts_with(self.bytes))
    }
}

/// Magic bytes, which are the bytes at the beginning of an input that show its kind. A text must never be mistaken for
/// another kind, so the list contains only bytes with which no text begins. If a text could begin with the first bytes
/// of a kind, [`kind_by_shape`] recognises the kind, because it also examines the bytes that follow.
const MAGICS: &[Magic] = &[
    Magic::new(b"\x1F\x8B\x08", ByteKind::Gzip),
    Magic::new(b"\xFD7zXZ\0", ByteKind::Xz),
    Magic::new(b"\x28\xB5\x2F\xFD", ByteKind::Zstd),
    Magic::new(b"\x5D\0\0", ByteKind::Lzma),
    Magic::new(b"LZIP\x01", ByteKind::Lzip),
    Magic::new(b"\x04\x22\x4D\x18", ByteKind::Lz4),
    Magic::new(b"\x02\x21\x4C\x18", ByteKind::Lz4),
    Magic::new(b"\x89LZO\0\r\n\x1A\n", ByteKind::Lzop),
    Magic::new(b"\x1F\x9D", ByteKind::OldCompress),
    Magic::new(b"\xFF\x06\0\0sNaPpY", ByteKind::Snappy),
    Magic::new(b"PK\x03\x04", ByteKind::Zip),
    Magic::new(b"PK\x05\x06", ByteKind::Zip),
    Magic::new(b"PK\x07\x08", ByteKind::Zip),
    Magic::new(b"7z\xBC\xAF\x27\x1C", ByteKind::SevenZip),
    Magic::new(b"Rar!\x1A\x07", ByteKind::Rar),
    Magic { at: 257, bytes: b"ustar\0", kind: ByteKind::Tar },
    Magic { at: 257, bytes: b"ustar  \0", kind: ByteKind::Tar },
    Magic::new(b"ARROW1\0\0", ByteKind::Arrow),
    Magic::new(b"Obj\x01", ByteKind::Avro),
    Magic::new(b"\x89HDF\r\n\x1A\n", ByteKind::Hdf5),
    Magic::new(b"SQLite format 3\0", ByteKind::Sqlite),
    Magic::new(b"!<arch>\n", ByteKind::Ar),
    Magic::new(b"\x80\x04\x95", ByteKind::Pickle),
    Magic::new(b"\x80\x05\x95", ByteKind::Pickle),
    Magic::new(b"LPKSHHRH", ByteKind::Journal),
    Magic::new(b"ElfFile\0", ByteKind::WindowsEvents),
    Magic::new(b"\xD4\xC3\xB2\xA1", ByteKind::Packets),
    Magic::new(b"\x4D\x3C\xB2\xA1", ByteKind::Packets),
    Magic::new(b"\xA1\xB2\xC3\xD4", ByteKind::Packets),
    Magic { at: 8, bytes: b"\x4D\x3C\x2B\x1A", kind: ByteKind::Packets },
    Magic { at: 8, bytes: b"\x1A\x2B\x3C\x4D", kind: ByteKind::Packets },
    Magic::new(b"%PDF-", ByteKind::Pdf),
    Magic::new(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", ByteKind::OldOffice),
    Magic::new(b"\x89PNG\r\n\x1A\n", ByteKind::Image),
    Magic::new(b"\xFF\xD8\xFF", ByteKind::Image),
    Magic::new(b"\x7FELF", ByteKind::Program),
    Magic::new(b"\0asm\x01\0\0\0", ByteKind::Program),
    Magic::new(b"\xCA\xFE\xBA\xBE", ByteKind::Program),
    Magic::new(b"\xCF\xFA\xED\xFE", ByteKind::Program),
    Magic::new(b"\xCE\xFA\xED\xFE", ByteKind::Program),
    Magic::new(b"MZ\x90\0", ByteKind::Program),
    Magic::new(b"Salted__", ByteKind::Encrypted),
    Magic::new(b"age-encryption.org/v1\n", ByteKind::Encrypted),
    // UTF-32 comes first, because its byte order mark begins with that of UTF-16.
    Magic::new(b"\xFF\xFE\0\0", ByteKind::Utf32),
    Magic::new(b"\0\0\xFE\xFF", ByteKind::Utf32),
    Magic::new(b"\xFF\xFE", ByteKind::Utf16),
    Magic::new(b"\xFE\xFF", ByteKind::Utf16),
];

/// Recognises kinds whose first bytes are letters. A text may begin with the same letters, so the bytes after them
/// decide.
fn kind_by_shape(head: &[u8]) -> Option<ByteKind> {
    if crate::bzip2::is_member(head) {
        return Some(ByteKind::Bzip2);
    }
    if crate::zstd::is_frame(head) {
        return Some(ByteKind::Zstd);
    }
    for (name, kind) in [
        (&b"PAR1"[..], ByteKind::Parquet),
        (b"PARE", ByteKind::Parquet),
        (b"ORC", ByteKind::Orc),
        (b"FEA1", ByteKind::Feather),
        (b"GIF87a", ByteKind::Image),
        (b"GIF89a", ByteKind::Image),
    ] {
        if head.strip_prefix(name).is_some_and(begins_with_control) {
            return Some(kind);
        }
    }
    if head.get(8..).and_then(|rest| rest.strip_prefix(b"DUCK")).is_some_and(begins_with_control) {
        return Some(ByteKind::DuckDb);
    }
    if head.len() >= 9 && head.starts_with(b"REDIS") && head[5..9].iter().all(u8::is_ascii_digit) {
        return Some(ByteKind::RedisDump);
    }
    if head.len() >= 110 && head.starts_with(b"07070") && head[6..110].iter().all(u8::is_ascii_hexdigit) {
        return Some(ByteKind::Cpio);
    }
    if is_zlib(head) {
        return Some(ByteKind::Zlib);
    }
    is_old_tar(head).then_some(ByteKind::Tar)
}

/// Returns whether the bytes are binary data. Binary data contains many different control characters and is not valid
/// UTF-8. The function requires both properties, because a text can have one of them. Some texts separate their fields
/// with control characters, but with only one or two different ones. Texts in older encodings are not valid UTF-8, but
/// they contain no control characters.
fn is_binary(head: &[u8]) -> bool {
    const CONTROLS_MIN: u32 = 8;
    let mut seen = 0u32;
    for byte in head.iter().filter(|byte| matches!(byte, 1..=8 | 0x0E..=0x1A | 0x1C..=0x1F)) {
        seen |= 1 << byte;
    }
    // The examined bytes may end within a character, which is not an error.
    seen.count_ones() >= CONTROLS_MIN && std::str::from_utf8(head).is_err_and(|error| error.error_len().is_some())
}

/// Returns whether one of the next bytes is a control character that does not occur in text.
fn begins_with_control(rest: &[u8]) -> bool {
    rest.iter().take(16).any(|byte| *byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x1B | 0x0C))
}

/// Returns whether the input looks like a zlib stream with the default window size. Such a stream begins with the
/// letter `x`, but so can a text. The function therefore checks two further properties:
///
/// - The second byte is one of the three values that zlib writes there. These values are not ASCII letters.
/// - A control character or a byte above ASCII is among the 16 bytes after it.
fn is_zlib(head: &[u8]) -> bool {
    let [0x78, 0x01 | 0x9C | 0xDA, rest @ ..] = head else { return false };
    !rest.is_empty() && rest.iter().take(16).any(|byte| *byte >= 0x80 || matches!(byte, 0..=8 | 0x0E..=0x1A))
}

/// Returns whether the input begins with a tar header from before the `ustar` format. The header contains the sum of
/// its own bytes.
fn is_old_tar(head: &[u8]) -> bool {
    let Some(header) = head.first_chunk::<512>() else { return false };
    let written = &header[148..156];
    let digits: Vec<u8> = written.iter().copied().filter(|byte| !matches!(byte, b' ' | 0)).collect();
    let is_octal = !digits.is_empty() && digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
    let expected = digits.iter().fold(0u32, |sum, digit| sum * 8 + u32::from(digit.wrapping_sub(b'0')));
    let blanks = u32::from(b' ') * written.len() as u32;
    let rest = header[..148].iter().chain(&header[156..]);
    let sum = rest.map(|byte| u32::from(*byte)).sum::<u32>() + blanks;
    is_octal && header[0] != 0 && sum == expected
}
