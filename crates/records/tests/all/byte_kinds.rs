//! Tests that input which is not text is recognised by its first bytes, and that text is never rejected.

use firstseen_records::{ByteKind, Decompressed, HEAD_BYTES, Refused, TextInput, kind_of_bytes};
use proptest::prelude::*;
use std::io::{Read, Write};

use crate::decompress::{bzip2, gzip, xz, zstd};

/// Returns a tar header for an empty file, with `magic` after its fields, and with the checksum.
fn tar(magic: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..10].copy_from_slice(b"access.log");
    header[100..108].copy_from_slice(b"0000644\0");
    header[257..257 + magic.len()].copy_from_slice(magic);
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header.resize(1024, 0);
    header
}

#[test]
fn kinds_are_known_by_their_first_bytes() {
    let zip = b"PK\x03\x04\x14\0\x08\0\x08\0\0A\x86|]\0\0\0\0";
    let cases: [(&[u8], ByteKind); 34] = [
        (b"\x1F\x8B\x08\0\0\0", ByteKind::Gzip),
        (b"BZh91AY&SY\xE7\x8F", ByteKind::Bzip2),
        (b"BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0", ByteKind::Bzip2),
        (b"\xFD7zXZ\0\0\x04", ByteKind::Xz),
        (b"\x28\xB5\x2F\xFD\0\x88\x01", ByteKind::Zstd),
        (b"\x5D\0\0\x80\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\x30", ByteKind::Lzma),
        (b"\x5D\0\0\0\x04\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\x30", ByteKind::Lzma),
        (b"LZIP\x01\x0C", ByteKind::Lzip),
        (b"\x04\x22\x4D\x18\x64\x40\xA7", ByteKind::Lz4),
        (b"\x02\x21\x4C\x18\x0D\0\0\0", ByteKind::Lz4),
        (b"\x89LZO\0\r\n\x1A\n\x10", ByteKind::Lzop),
        (b"\x1F\x9D\x90\x61", ByteKind::OldCompress),
        (b"\xFF\x06\0\0sNaPpY\x01", ByteKind::Snappy),
        (b"x\x9C\x4B\x4C\xE2\x02", ByteKind::Zlib),
        (zip, ByteKind::Zip),
        (b"7z\xBC\xAF\x27\x1C\0\x04", ByteKind::SevenZip),
        (b"Rar!\x1A\x07\x01\0", ByteKind::Rar),
        (b"PAR1\x15\x04\x15\x80", ByteKind::Parquet),
        (b"ORC\x11\0\0\x0A\x06\x12", ByteKind::Orc),
        (b"ARROW1\0\0\xFF\xFF\xFF\xFF", ByteKind::Arrow),
        (b"FEA1\0\0\0\0", ByteKind::Feather),
        (b"Obj\x01\x04\x16avro.schema", ByteKind::Avro),
        (b"\x89HDF\r\n\x1A\n\0", ByteKind::Hdf5),
        (b"SQLite format 3\0\x10\0", ByteKind::Sqlite),
        (b"REDIS0011\xFA\x09redis-ver", ByteKind::RedisDump),
        (b"LPKSHHRH\0\0", ByteKind::Journal),
        (b"ElfFile\0\0\0", ByteKind::WindowsEvents),
        (b"\xD4\xC3\xB2\xA1\x02\0", ByteKind::Packets),
        (b"%PDF-1.7\n%\xE2\xE3", ByteKind::Pdf),
        (b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR", ByteKind::Image),
        (b"\x7FELF\x02\x01\x01\0", ByteKind::Program),
        (b"\xFF\xFEk\0,\0t\0\n\0", ByteKind::Utf16),
        (b"\xFE\xFF\0k\0,\0t\0\n", ByteKind::Utf16),
        (b"\xFF\xFE\0\0k\0\0\0\n\0\0\0", ByteKind::Utf32),
    ];
    for (bytes, kind) in cases {
        assert_eq!(kind_of_bytes(bytes), Some(kind), "{bytes:?}");
        let advice = kind.advice("the file");
        assert!(!advice.contains("FILE") && (!advice.contains('`') || advice.contains("'the file'")), "{advice}");
    }
    for magic in [&b"ustar\x0000"[..], b"ustar  \0", b""] {
        assert_eq!(kind_of_bytes(&tar(magic)), Some(ByteKind::Tar), "{magic:?}");
    }
}

#[test]
fn text_is_no_other_kind() {
    for text in [
        &b""[..],
        b"a",
        b"\n",
        b"time,user\n1,ann\n",
        b"\xEF\xBB\xBFtime,user\n",
        b"PK,name\n1,a\n",
        b"BZh9 is a name\n",
        b"BZh91AY\n",
        b"PAR1 is a name,and more\n",
        b"ORC,ELF\n",
        b"REDIS is down\n",
        b"Obj,name\n",
        b"xyz\n",
        b"x\x01\n",
        b"GIF89a,a name\n",
        b"{\"id\": 1}\n",
        b"\x1B[31mred\x1B[0m\n",
        b"caf\xE9;d\xE9j\xE0\n",
        "żółw,名前\n".as_bytes(),
        b"\0\0\0\0\0\0\0\x002024-01-01 a line behind a hole\n",
        b"a\0b\nc\0d\n",
        b"a\r\nb\r\n",
        b"127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a\\x00 HTTP/1.0\" 200 1\n",
    ] {
        assert_eq!(kind_of_bytes(text), None, "{text:?}");
    }
    assert_eq!(kind_of_bytes(&vec![0; 2 * HEAD_BYTES]), None, "an input of NUL bytes alone");
    assert_eq!(kind_of_bytes(&[&vec![b'a'; 600][..], b"\r\n"].concat()), None);
}

fn checked(bytes: &[u8], record_end: u8) -> Result<Vec<u8>, Refused> {
    let mut input = TextInput::new(Decompressed::new(bytes).unwrap(), record_end);
    let mut output = Vec::new();
    match input.read_to_end(&mut output) {
        Ok(_) => Ok(output),
        Err(error) => {
            assert!(output.is_empty(), "nothing of a refused input is passed on");
            Err(Refused::of(&error).unwrap_or_else(|| panic!("{error}")))
        }
    }
}

#[test]
fn an_archive_within_a_compressed_file_is_refused() {
    let utf16: Vec<u8> = "k,t\na,1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (inner, words) in [
        (tar(b"ustar\x0000"), "a tar archive"),
        (gzip(b"a\n"), "gzip data"),
        (utf16, "text in UTF-16 (or, with NUL bytes at the ends of records, for -z)"),
    ] {
        for (name, outer) in
            [("gzip", gzip(&inner)), ("bzip2", bzip2(&inner)), ("xz", xz(&inner)), ("zstd", zstd(&inner))]
        {
            let refused = checked(&outer, b'\n').unwrap_err();
            assert_eq!(refused.to_string(), format!("it is {words} within {name} data"));
        }
    }
    let refused = checked(&gzip(&tar(b"ustar  \0")), b'\n').unwrap_err();
    assert_eq!(refused.advice("logs.tgz"), "`tar -xOf logs.tgz | firstseen dedup ...`");
}

#[test]
fn text_passes_the_check_unchanged() {
    let long: Vec<u8> = (0..40_000).flat_map(|line| format!("{line}\n").into_bytes()).collect();
    for text in [&b""[..], b"a", b"a\nb\n", b"\0\0a\n", &long, &vec![b'a'; 3 * HEAD_BYTES]] {
        assert_eq!(checked(text, b'\n').unwrap(), text);
        assert_eq!(checked(&gzip(text), b'\n').unwrap(), text);
    }
    for text in [&b"a\0b\0a\0"[..], b"one\0two\0", b"a\rb\0", b"\0\0"] {
        assert_eq!(checked(text, 0).unwrap(), text, "records that end with NUL bytes");
    }
}

#[test]
fn a_stream_that_pauses_holds_back_no_record() {
    /// Reader that returns one piece per read, and has no end.
    struct Live(Vec<&'static [u8]>);
    impl Read for Live {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            assert!(!self.0.is_empty(), "a read that would wait");
            self.0.remove(0).read(buffer)
        }
    }
    let mut input = TextInput::new(Decompressed::new(Live(vec![b"a", b"b\nc"])).unwrap(), b'\n');
    let mut buffer = [0; 100];
    assert_eq!(input.read(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer[..4], b"ab\nc");
}

/// The last bytes of a compressed log were not written yet. Complete records before that point are passed on, followed
/// by the error.
#[test]
fn bytes_before_damage_in_the_head_are_passed_on() {
    let whole = gzip(&b"line\n".repeat(30_000));
    let mut input = TextInput::new(Decompressed::new(&whole[..whole.len() - 4]).unwrap(), b'\n');
    let mut output = Vec::new();
    let error = input.read_to_end(&mut output).unwrap_err();
    assert_eq!((error.kind(), output.len()), (std::io::ErrorKind::UnexpectedEof, 150_000));
    assert!(Refused::of(&error).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// Reads random bytes, some of which begin with the magic bytes of a compression format. The reader must never
    /// panic. If the input is not compressed and is not refused, the reader must return it unchanged.
    #[test]
    fn random_bytes_are_passed_on_or_refused_as_a_whole(
        magic in prop::sample::select(vec![&b""[..], b"\x1F\x8B\x08\0\0\0\0\0\0\x03", b"BZh91AY&SY", b"\xFD7zXZ\0\0\x04\xE6\xD6\xB4\x46", b"\x28\xB5\x2F\xFD", b"PK\x03\x04", b"\xFF\xFE", b"\0"]),
        rest in prop::collection::vec(any::<u8>(), 0..300),
        record_end in prop::sample::select(vec![b'\n', 0]),
    ) {
        let bytes = [magic, &rest].concat();
        let mut input = TextInput::new(Decompressed::new(&bytes[..]).unwrap(), record_end);
        let is_plain = input.get_ref().compression() == firstseen_records::Compression::Plain;
        let mut output = Vec::new();
        match input.read_to_end(&mut output) {
            Ok(_) => prop_assert!(!is_plain || output == bytes),
            Err(error) => prop_assert!(!is_plain || Refused::of(&error).is_some()),
        }
    }

    /// An archive with a flipped bit is never passed on as if the archive were complete.
    #[test]
    fn an_altered_archive_is_never_whole(kind in 0..4usize, place in 0.0..1.0f64, bit in 0..8u32) {
        let text: Vec<u8> = (0..300u32).flat_map(|line| format!("{}\n", line.wrapping_mul(2_654_435_761)).into_bytes()).collect();
        let mut archive = match kind { 0 => gzip(&text), 1 => bzip2(&text), 2 => xz(&text), _ => zstd(&text) };
        let at = (archive.len() as f64 * place) as usize;
        archive[at] ^= 1 << bit;
        let Ok(mut input) = Decompressed::new(&archive[..]) else { return Ok(()) };
        let mut output = Vec::new();
        let read = input.read_to_end(&mut output);
        // An altered first byte may turn the archive into uncompressed bytes. Some altered bytes are only part of a
        // name or a time in a header.
        let is_plain = input.compression() == firstseen_records::Compression::Plain;
        prop_assert!(is_plain || read.is_err() || output == text);
        std::io::sink().write_all(&output)?;
    }
}

/// Random bytes, and files of programs without magic bytes, used to be passed on as lines.
#[test]
fn bytes_of_no_text_are_refused() {
    let mut state = 7u64;
    let random: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    })
    .filter(|byte| *byte != 0)
    .take(3_000)
    .collect();
    let duck_db = [&[0x11; 8][..], b"DUCK\x40\0\0\0\0\0\0\0", &[0; 64]].concat();
    for (bytes, words) in [
        (&random[..], "it is binary data"),
        (&duck_db, "it is a DuckDB database"),
        (b"!<arch>\ndebian-binary   1410122664  0     0     100644  4         `\n2.0\n", "it is an ar archive"),
        (b"\x80\x04\x95\x0b\0\0\0\0\0\0\0]\x94", "it is a Python pickle"),
    ] {
        assert_eq!(checked(bytes, b'\n').unwrap_err().to_string(), words);
    }
    // Texts in older encodings, with colours, or with control characters between fields are accepted as text.
    for text in [
        &b"caf\xe9;1\nna\xefve;2\n"[..],
        b"\x1b[31mred\x1b[0m\n",
        b"a\x01b\x02c\x03\n\xff\xfe\x01x\n",
        b"id,name\nDUCK,1\n",
    ] {
        assert!(checked(text, b'\n').is_ok(), "{text:?}");
    }
}
