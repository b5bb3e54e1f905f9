//! Compressed input is recognised by content, and damage is an error.

use firstseen_records::{Compression, Decompressed};
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::{ErrorKind, Read, Write};

fn text() -> Vec<u8> {
    (0..20_000u32).flat_map(|n| format!("{},line\n", n.wrapping_mul(2_654_435_761)).into_bytes()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn read(bytes: &[u8]) -> (Compression, Vec<u8>, Option<std::io::Error>) {
    let mut input = Decompressed::new(bytes).unwrap();
    let mut output = Vec::new();
    let error = input.read_to_end(&mut output).err();
    if error.is_none() {
        assert_eq!(input.input_bytes_used(), bytes.len() as u64);
    }
    (input.compression(), output, error)
}

#[test]
fn the_content_decides() {
    let text = text();
    let (first, second) = text.split_at(70_000);
    let skippable = b"\x50\x2A\x4D\x18\x03\0\0\0abc";
    for (bytes, expected) in [
        (text.clone(), Compression::Plain),
        (gzip(&text), Compression::Gzip),
        ([gzip(first), gzip(b""), gzip(second)].concat(), Compression::Gzip),
        (zstd(&text), Compression::Zstd),
        ([zstd(first), skippable.to_vec(), zstd(second)].concat(), Compression::Zstd),
        ([skippable.to_vec(), zstd(&text)].concat(), Compression::Zstd),
    ] {
        let (compression, output, error) = read(&bytes);
        assert_eq!(compression, expected);
        assert!(error.is_none() && output == text, "{compression}: {error:?}");
    }
}

#[test]
fn a_beginning_of_a_magic_is_plain() {
    for bytes in [&b""[..], b"\x1F", b"\x28\xB5\x2F", b"\x50\x2A\x4D", b"P", b"a\n"] {
        let (compression, output, error) = read(bytes);
        assert!(compression == Compression::Plain && output == bytes && error.is_none(), "{bytes:?}");
    }
}

#[test]
fn the_first_byte_of_a_plain_input_is_not_held_back() {
    struct One(bool);
    impl Read for One {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            assert!(!std::mem::replace(&mut self.0, true), "one read is enough");
            buffer[0] = b'\n';
            Ok(1)
        }
    }
    let mut input = Decompressed::new(One(false)).unwrap();
    assert_eq!(input.read(&mut [0; 100]).unwrap(), 1);
}

#[test]
fn truncated_input_says_so_and_where() {
    for (kind, whole) in [("gzip", gzip(&text())), ("zstd", zstd(&text()))] {
        for length in [5, whole.len() / 2, whole.len() - 1] {
            let (_, output, error) = read(&whole[..length]);
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
            let message =
                format!("{kind} input breaks off after byte {length} of the compressed data: it is not whole");
            assert_eq!(error.to_string(), message);
            assert!(text().starts_with(&output));
        }
    }
}

#[test]
fn damaged_input_says_so() {
    for (kind, mut bytes) in [("gzip", gzip(&text())), ("zstd", zstd(&text()))] {
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        let (_, _, error) = read(&bytes);
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().starts_with(&format!("{kind} input is damaged near byte ")), "{error}");
    }
}

#[test]
fn zeros_behind_gzip_are_padding() {
    let input_bytes = 64 << 10;
    for zeros in [1, 10, 511, input_bytes - 1, input_bytes, 3 * input_bytes] {
        let (_, output, error) = read(&[gzip(b"a\n"), gzip(b"b\n"), vec![0; zeros]].concat());
        assert!(error.is_none() && output == b"a\nb\n", "{zeros}: {error:?}");
    }
    // Members may begin anywhere within one read.
    let members: Vec<u8> = (0..9000).flat_map(|number| gzip(format!("{number}\n").as_bytes())).collect();
    let (_, output, error) = read(&members);
    let expected: String = (0..9000).map(|number| format!("{number}\n")).collect();
    assert!(error.is_none() && output == expected.as_bytes(), "{error:?}");
}

#[test]
fn bytes_behind_an_archive_are_an_error_of_their_own() {
    for (kind, archive) in [("gzip", gzip(b"a\n")), ("zstd", zstd(b"a\n"))] {
        for rest in [&b"g"[..], b"garbage", b"garbage and more", b"\x1F\x8A", b"\0\0\x1F\x8B"] {
            let padding = rest.iter().take_while(|byte| **byte == 0 && kind == "gzip").count();
            let (_, output, error) = read(&[&archive, rest].concat());
            let error = error.unwrap();
            let message = format!(
                "{kind} input has trailing bytes after the archive, from byte {} of it on, which are no {kind}",
                archive.len() + padding
            );
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Other, message));
            assert_eq!(output, b"a\n");
        }
        let (_, _, error) = read(&[&archive[..], &archive[..2]].concat());
        assert_eq!(error.unwrap().kind(), ErrorKind::UnexpectedEof, "a member that breaks off");
    }
}

#[test]
fn a_window_beyond_the_limit_is_refused() {
    // A frame header alone: no single segment, window descriptor 0x88 is 128 MiB.
    let (_, _, error) = read(&[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x88, 0x01, 0x00, 0x00]);
    let error = error.unwrap().to_string();
    assert!(error.contains("damaged") && error.to_lowercase().contains("window"), "{error}");
}

#[test]
fn an_error_of_the_input_itself_is_passed_on() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(ErrorKind::PermissionDenied.into())
        }
    }
    let whole = gzip(&text());
    let mut input = Decompressed::new((&whole[..1_000]).chain(Failing)).unwrap();
    assert_eq!(input.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::PermissionDenied);
}
