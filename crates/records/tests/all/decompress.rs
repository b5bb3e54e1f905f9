//! Tests that compressed input is recognised by its content, and that damage is an error.

use bzip2::write::BzEncoder;
use firstseen_records::{ByteKind, Compression, Decompressed, Refused};
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::{ErrorKind, Read, Write};

fn text() -> Vec<u8> {
    (0..20_000u32).flat_map(|n| format!("{},line\n", n.wrapping_mul(2_654_435_761)).into_bytes()).collect()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

pub(crate) fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns the archives of a text, each with the name of its compression.
fn archives(text: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    [("gzip", gzip(text)), ("zstd", zstd(text)), ("bzip2", bzip2(text)), ("xz", xz(text))]
}

/// Returns the bytes that the hexadecimal `digits` encode.
fn hex(digits: &str) -> Vec<u8> {
    let digit = |place: usize| u8::from_str_radix(&digits[place..place + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(digit).collect()
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
        (bzip2(&text), Compression::Bzip2),
        // This is the form that `pbzip2` writes.
        ([bzip2(first), bzip2(b""), bzip2(second)].concat(), Compression::Bzip2),
        (xz(&text), Compression::Xz),
        ([xz(first), xz(b""), xz(second)].concat(), Compression::Xz),
        ([xz(first), vec![0; 8], xz(second), vec![0; 4]].concat(), Compression::Xz),
    ] {
        let (compression, output, error) = read(&bytes);
        assert_eq!(compression, expected);
        assert!(error.is_none() && output == text, "{compression}: {error:?}");
    }
}

#[test]
fn a_beginning_of_a_magic_is_plain() {
    for bytes in [
        &b""[..],
        b"\x1F",
        b"\x28\xB5\x2F",
        b"\x50\x2A\x4D",
        b"P",
        b"B",
        b"BZh",
        b"BZh91AY&S",
        b"BZh0",
        b"\xFD7zXZ",
        b"a\n",
    ] {
        let (compression, output, error) = read(bytes);
        assert!(compression == Compression::Plain && output == bytes && error.is_none(), "{bytes:?}");
    }
}

#[test]
fn the_first_byte_of_a_plain_input_is_not_held_back() {
    struct One(bool);
    impl Read for One {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            assert!(!std::mem::replace(&mut self.0, true), "the input must be read only once");
            buffer[0] = b'\n';
            Ok(1)
        }
    }
    let mut input = Decompressed::new(One(false)).unwrap();
    assert_eq!(input.read(&mut [0; 100]).unwrap(), 1);
}

#[test]
fn truncated_input_says_so_and_where() {
    for (kind, whole) in archives(&text()) {
        for length in [11, whole.len() / 2, whole.len() - 1] {
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
    for (kind, mut bytes) in archives(&text()) {
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        let (_, _, error) = read(&bytes);
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().starts_with(&format!("{kind} input is damaged near byte ")), "{error}");
    }
}

#[test]
fn zeros_behind_gzip_bzip2_and_xz_are_padding() {
    let input_bytes = 64 << 10;
    for zeros in [1, 10, 511, input_bytes - 1, input_bytes, 3 * input_bytes] {
        for pack in [gzip, bzip2, xz] {
            let (_, output, error) = read(&[pack(b"a\n"), pack(b"b\n"), vec![0; zeros]].concat());
            assert!(error.is_none() && output == b"a\nb\n", "{zeros}: {error:?}");
        }
    }
    // Members may begin at any position within one read.
    let members: Vec<u8> = (0..9000).flat_map(|number| gzip(format!("{number}\n").as_bytes())).collect();
    let (_, output, error) = read(&members);
    let expected: String = (0..9000).map(|number| format!("{number}\n")).collect();
    assert!(error.is_none() && output == expected.as_bytes(), "{error:?}");
}

#[test]
fn bytes_behind_an_archive_are_an_error_of_their_own() {
    for (kind, archive) in archives(b"a\n") {
        for rest in [&b"g"[..], b"garbage", b"garbage and more", b"\x1F\x8A", b"\0\0\x1F\x8B"] {
            let padding = rest.iter().take_while(|byte| **byte == 0 && kind != "zstd").count();
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

/// Returns a zstd frame with a window of 2^(10 + `exponent`) bytes that contains the line `a`.
fn zstd_with_window(exponent: u8) -> Vec<u8> {
    [&[0x28, 0xB5, 0x2F, 0xFD, 0x00, exponent << 3, 0x11, 0x00, 0x00], &b"a\n"[..]].concat()
}

/// Archives of `zstd --long` used to be reported as damaged, because their window exceeded a limit that `zstd -d` does
/// not have.
#[test]
fn a_window_of_zstd_may_have_128_mib() {
    for exponent in [0, 13, 15, 16, 17] {
        let (compression, output, error) = read(&zstd_with_window(exponent));
        assert!(error.is_none() && output == b"a\n" && compression == Compression::Zstd, "{exponent}: {error:?}");
    }
    for (exponent, mib) in [(18, 256), (21, 2048), (31, 2 << 20)] {
        let frames = [zstd_with_window(5), zstd_with_window(exponent)].concat();
        let (_, output, error) = read(&frames);
        let refused = Refused::of(&error.unwrap()).unwrap();
        assert_eq!(refused.kind(), ByteKind::ZstdWindow { window_bytes: mib << 20 });
        assert!(refused.to_string().contains(&format!("window of {mib} MiB")), "{refused}");
        assert_eq!(refused.advice("a.zst"), "`zstd -d --long=31 -c a.zst | firstseen dedup ...`");
        assert_eq!(output, b"a\n", "the data before the rejected frame is passed on");
    }
}

#[test]
fn a_dictionary_of_zstd_is_named() {
    let (_, _, error) = read(&[0x28, 0xB5, 0x2F, 0xFD, 0x01, 0x58, 7, 0x11, 0x00, 0x00, b'a', b'\n']);
    let refused = Refused::of(&error.unwrap()).unwrap();
    assert_eq!(refused.kind(), ByteKind::ZstdDictionary { id: 7 });
    assert!(refused.advice("-").contains("zstd -d -D DICTIONARY"), "{}", refused.advice("-"));
}

/// The archives were written by `xz` and `bzip2` themselves, with every kind of check and with several blocks.
#[test]
fn archives_of_the_tools_are_read() {
    let (checked, text) = ("fd377a585a0000", "a,1\nb,2\na,1\n");
    let block = "0200210116000000742fe5a301000b612c310a622c320a612c310a00";
    for (rest, compression) in [
        // The archives have no check, CRC-32, CRC-64, SHA-256, and blocks of five bytes.
        (format!("{checked}00ff12d941{block}00011c0c5da447cf06729e7a010000000000595a"), Compression::Xz),
        (format!("{checked}016922de36{block}e7132f5b0001200ca2ddb4bc9042990d010000000001595a"), Compression::Xz),
        (
            format!("{checked}04e6d6b446{block}4a322767eddd50300001240ca618d8d81fb6f37d010000000004595a"),
            Compression::Xz,
        ),
        (
            format!(
                "{checked}0ae1fb0ca1{block}09b3a616089e64de767630777dea3bac6c749fefeca4717dfa4e87fca49de74c\
                 00013c0cff80c35a189b4b9a01000000000a595a"
            ),
            Compression::Xz,
        ),
        (
            "fd377a585a0000016922de360200210116000000742fe5a3010004612c310a62000000003fde6ef402002101160000\
             00742fe5a30100042c320a612c00000000e1b698db0200210116000000742fe5a3010001310a00000053fc51670003\
             190519051602d217bf613e300d8b020000000001595a"
                .to_owned(),
            Compression::Xz,
        ),
        (
            "425a6839314159265359e78fb56000000559000010000430003000200030c006466922a818f0bb9229c284873c7dab00"
                .to_owned(),
            Compression::Bzip2,
        ),
    ] {
        let (found, output, error) = read(&hex(&rest));
        assert!(error.is_none() && found == compression, "{rest}: {error:?}");
        assert_eq!(String::from_utf8_lossy(&output), text);
    }
    let (found, output, error) = read(&hex("425a683917724538509000000000"));
    assert!(error.is_none() && found == Compression::Bzip2 && output.is_empty(), "an empty file: {error:?}");
}

/// The size of a dictionary is encoded in one byte of the archive. The value 40 stands for 4 GiB.
#[test]
fn a_dictionary_of_xz_above_the_limit_is_refused() {
    let mut archive = xz(b"a\n");
    // A block header consists of its size, flags, filter, size of properties, dictionary size, padding and CRC-32.
    let header = archive[12..24].to_vec();
    assert_eq!(header[2..4], [0x21, 0x01]);
    for (size, is_read) in [(22, true), (30, true), (31, false), (40, false)] {
        archive[16] = size;
        let mut crc = flate2::Crc::new();
        crc.update(&archive[12..20]);
        archive[20..24].copy_from_slice(&crc.sum().to_le_bytes());
        let (_, output, error) = read(&archive);
        assert_eq!((error.is_none(), output == b"a\n"), (is_read, is_read), "{size}: {error:?}");
        if let Some(error) = error {
            let refused = Refused::of(&error).unwrap();
            assert_eq!(refused.kind(), ByteKind::XzDictionary);
            assert_eq!(refused.advice("a.xz"), "`xz -dc a.xz | firstseen dedup ...`");
        }
    }
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
