//! Tests input files that are not ordinary text: compressed archives, texts in other encodings, several files in one
//! stream, runs of NUL bytes, and records that end with NUL bytes instead of newlines.

use std::fs;
use std::io::Write;

use crate::run::{Folder, number};
use flate2::Compression;
use flate2::write::GzEncoder;

/// The lines `a,1`, `b,2`, `a,1`, as `xz` and `bzip2` compress them.
const XZ: &str = "fd377a585a000004e6d6b4460200210116000000742fe5a301000b612c310a622c320a612c310a004a322767eddd50300001240ca618\
                  d8d81fb6f37d010000000004595a";
const BZIP2: &str = "425a6839314159265359e78fb56000000559000010000430003000200030c006466922a818f0bb9229c284873c7dab00";

fn hex(digits: &str) -> Vec<u8> {
    let digit = |place: usize| u8::from_str_radix(&digits[place..place + 2], 16).expect("digits");
    (0..digits.len()).step_by(2).map(digit).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Returns the beginning of a tar archive of logs.
fn tar() -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..10].copy_from_slice(b"access.log");
    header[257..263].copy_from_slice(b"ustar\0");
    [header, b"a\nb\na\n".to_vec(), vec![0; 506]].concat()
}

#[test]
fn archives_are_read_by_their_content() {
    for (kind, archive) in [("xz", hex(XZ)), ("bzip2", hex(BZIP2)), ("gzip", gzip(b"a,1\nb,2\na,1\n"))] {
        let ran = Folder::with(&archive).dedup("--window unbounded input").ok();
        assert_eq!(ran.out, "a,1\nb,2\n", "{kind}");
        let twice = [&archive[..], &archive].concat();
        let ran = Folder::new().dedup_from("--window unbounded", &twice).ok();
        assert_eq!(ran.out, "a,1\nb,2\n", "{kind} of two parts");
    }
}

#[test]
fn a_damaged_archive_answers_what_came_before_and_keeps_the_state() {
    for (kind, archive) in [("xz", hex(XZ)), ("bzip2", hex(BZIP2))] {
        let folder = Folder::with(&archive[..archive.len() - 5]);
        let ran = folder.dedup("--window unbounded --state state input");
        let ran = ran.fails(1, &[&format!("{kind} input breaks off after byte"), "the state state is as it was"]);
        assert_eq!((ran.out.as_str(), folder.has("state")), ("a,1\nb,2\n", false), "{kind}");
        let mut damaged = archive.clone();
        let check = damaged.len() - if kind == "xz" { 30 } else { 6 };
        damaged[check] ^= 0x40;
        let folder = Folder::with(&damaged);
        folder
            .dedup("--window unbounded --state state input")
            .fails(1, &[&format!("{kind} input is damaged near byte")]);
        assert!(!folder.has("state"));
        let folder = Folder::with([&archive[..], b"more"].concat());
        let ran = folder.dedup("--window unbounded --state state input");
        ran.fails(1, &["trailing bytes after the archive", &format!("which are no {kind}")]);
        assert!(folder.has("state"), "the checksum before them was right");
    }
}

/// Returns inputs that must be refused, each with its kind and with words of the expected message.
fn refused_inputs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let utf16: Vec<u8> = "\u{feff}k,t\r\na,1\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf16_be: Vec<u8> = "k,t\na,1\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let utf32: Vec<u8> = "\u{feff}k\na\n".chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
    vec![
        ("a zip archive", b"PK\x03\x04\x14\0\0\0\x08\0\n".to_vec(), "unzip -p"),
        ("lz4 data", b"\x04\x22\x4D\x18\x64\x40\xA7a\n".to_vec(), "lz4 -dc"),
        ("a 7z archive", b"7z\xBC\xAF\x27\x1C\0\x04\n".to_vec(), "7z x -so"),
        ("a tar archive", tar(), "tar -xOf"),
        ("a tar archive within gzip data", gzip(&tar()), "tar -xOf"),
        ("gzip data within gzip data", gzip(&gzip(b"a\nb\n")), "gzip -dc"),
        ("an SQLite database", b"SQLite format 3\0\x10\0\n".to_vec(), "sqlite3 -csv -header"),
        ("an image", b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR".to_vec(), "name a file of text"),
        ("text in UTF-16", utf16, "iconv -f UTF-16 -t UTF-8"),
        ("text in UTF-16", utf16_be, "iconv -f UTF-16BE -t UTF-8"),
        ("text in UTF-32", utf32, "iconv -f UTF-32 -t UTF-8"),
        ("a carriage return alone", b"k,t\ra,1\rb,2\ra,1\r".to_vec(), "tr '\\r' '\\n'"),
        ("end with a NUL byte", b"one\0two\0one\0".to_vec(), "add `-z`"),
        ("a window of 256 MiB", b"\x28\xB5\x2F\xFD\0\x90\x11\0\0a\n".to_vec(), "zstd -d --long=31"),
        ("the dictionary 7", b"\x28\xB5\x2F\xFD\x01\x58\x07\x11\0\0a\n".to_vec(), "zstd -d -D"),
    ]
}

/// Each of these inputs used to be read as lines of bytes, and the run ended with exit code 0.
#[test]
fn what_is_no_text_is_refused_before_anything_is_written() {
    for (kind, bytes, advice) in refused_inputs() {
        for flags in ["", "--state state ", "--format jsonl --key id "] {
            let folder = Folder::with(&bytes);
            folder.write("out", "earlier\n");
            let ran = folder.dedup(&format!("--window unbounded {flags}--out out input"));
            let ran = ran.fails(2, &["input: cannot read records: it is", kind, advice]);
            assert!(
                advice.starts_with("add") || advice.starts_with("name") || ran.err.contains("input"),
                "{}",
                ran.err
            );
            assert_eq!((folder.read("out").as_str(), folder.names().len()), ("earlier\n", 2), "{kind}");
        }
        let folder = Folder::new();
        let ran = folder.dedup_from("--window unbounded --out out", &bytes);
        ran.fails(2, &["standard input: cannot read records: it is", kind, advice]);
        assert!(!folder.has("out") || folder.read("out").is_empty(), "{kind}");
    }
}

#[test]
fn each_file_is_looked_at_before_anything_is_written() {
    for (kind, bytes, _) in refused_inputs() {
        let folder = Folder::with("a\nb\n");
        folder.write("second", &bytes);
        let ran = folder.dedup("--window unbounded input input second").fails(2, &["second: cannot read", kind]);
        assert_eq!(ran.out, "");
        folder.run("estimate --lambda 0.5 --epoch 1h --clock wall second").fails(2, &["second: cannot read", kind]);
    }
    // A pipe is checked only when the files before it are finished.
    let folder = Folder::with("a\nb\n");
    let ran = folder.dedup_from("--window unbounded --state state input -", &tar());
    let ran = ran
        .fails(2, &["standard input: cannot read records: it is a tar archive", "`tar -xOf - | firstseen dedup ...`"]);
    assert_eq!(ran.out, "a\nb\n", "nothing of the pipe");
}

/// If no flag names the format, it is detected from the first bytes. They have been decompressed and checked to be text
/// before.
#[test]
fn a_look_at_the_first_bytes_sees_text_only() {
    let objects = "{\"k\":1,\"t\":2}\n{\"t\":2,\"k\":1}\n";
    let plain = [&[0; 9000][..], "\u{feff}".as_bytes(), objects.as_bytes()].concat();
    for bytes in [gzip(objects.as_bytes()), plain] {
        for ran in [
            Folder::with(&bytes).dedup("--window unbounded --key k input"),
            Folder::new().dedup_from("--window unbounded --key k", &bytes),
        ] {
            let ran = ran.ok();
            assert_eq!(ran.out.trim_start_matches('\u{feff}'), "{\"k\":1,\"t\":2}\n");
            assert!(ran.err.contains("read as jsonl"), "{}", ran.err);
        }
    }
    for (kind, bytes, advice) in refused_inputs() {
        let ran = Folder::new().dedup_from("--window unbounded --key id --report none", &bytes);
        let ran = ran.fails(2, &["standard input: cannot read records: it is", kind, advice]);
        assert!(!ran.err.contains("read as"), "{}", ran.err);
    }
    // Records that end with NUL bytes are not lines of a table.
    let ran = Folder::with("k,t\na,1\na,1\n\0k\0").dedup("-z --window unbounded input").ok();
    assert_eq!(ran.out, "k,t\na,1\na,1\n\0k\0");
}

#[test]
fn joined_files_have_one_header_and_no_marks_in_keys() {
    for (format, text, expected) in [
        ("csv", "k,t\na,1\n\u{feff}k,t\na,1\nb,2\nk,t\n", "k,t\na,1\nb,2\n"),
        ("csv", "\u{feff}k,t\r\na,1\r\n\u{feff}k,t\r\na,1\r\n\u{feff}c,1\r\n", "\u{feff}k,t\r\na,1\r\n\u{feff}c,1\r\n"),
        ("tsv", "k\tt\na\t1\nk\tt\nb\t1\n", "k\tt\na\t1\nb\t1\n"),
    ] {
        for flags in ["", " --key k", " --key k,t"] {
            let folder = Folder::with(text);
            let ran =
                folder.dedup(&format!("--window unbounded --format {format}{flags} --report json --strict input")).ok();
            assert_eq!(ran.out, expected, "{format}{flags}");
            assert!(number(&ran.report(), "repeated_headers") > 0 && number(&ran.report(), "rejected") == 0);
            assert_eq!(ran.err.matches("the header again").count(), 1, "{}", ran.err);
        }
    }
    let ran = Folder::with("a\n\u{feff}a\nb\n").dedup("--window unbounded input").ok();
    assert_eq!(ran.out, "a\nb\n");
}

#[test]
fn a_hole_is_left_out_and_named_once() {
    let text = [&b"a\n"[..], &[0; 5000], b"a\nb\n\0\0b\nc\0d\ncd\n", &[0; 70_000]].concat();
    let ran = Folder::with(&text).dedup("--window unbounded --report json input").ok();
    assert_eq!(ran.out, "a\nb\nc\0d\ncd\n");
    assert_eq!(number(&ran.report(), "hole_bytes"), 75_002);
    assert_eq!(ran.err.matches("copytruncate").count(), 1, "{}", ran.err);
    let ran = Folder::with([&vec![0; 100_000][..], b"k,t\na,1\na,1\n"].concat())
        .dedup("--window unbounded --format csv --key k input")
        .ok();
    assert_eq!(ran.out, "k,t\na,1\n");
}

/// A log was truncated while its program continued to write at its old position. The file then consisted of 1 GiB of
/// NUL bytes, which take no disk space, and two lines. The NUL bytes and the first line used to be read as one record
/// that is too long, so the first line did not pass.
#[test]
fn a_hole_of_a_gigabyte_costs_no_record_and_no_memory() {
    let folder = Folder::new();
    let mut file = fs::File::create(folder.path("input")).expect("a file");
    file.set_len(1 << 30).expect("a sparse file");
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).expect("a file");
    file.write_all(b"a\nb\n").expect("a file");
    let script = "ulimit -v 700000; firstseen dedup --window unbounded --capacity 1000 --report json input";
    let ran = folder.shell(script).ok();
    assert_eq!(ran.out, "a\nb\n");
    let counts = ["rejected", "hole_bytes"].map(|name| number(&ran.report(), name));
    assert_eq!(counts, [0, 1 << 30]);
}

#[test]
fn records_may_end_with_nul_bytes() {
    // An empty record has no key, as in all formats, so it is passed on.
    for flag in ["-z", "--null-data", "--zero-terminated"] {
        let ran = Folder::with("a\nb\0c\0a\nb\0\0c").dedup(&format!("{flag} --window unbounded input")).ok();
        assert_eq!(ran.out, "a\nb\0c\0\0", "{flag}");
    }
    let ran = Folder::with("a\0\0b\0\0").dedup("-z --empty-key value --window unbounded input").ok();
    assert_eq!(ran.out, "a\0\0b\0");
    let ran = Folder::with("{\n\"id\": 1}\0{\"id\": 2}\0{\"id\":\n1}\0")
        .dedup("-z --format jsonl --key id --window unbounded input")
        .ok();
    assert_eq!(ran.out, "{\n\"id\": 1}\0{\"id\": 2}\0");
    for format in ["csv", "tsv", "clf", "cdxj"] {
        let ran = Folder::with("a\0").dedup(&format!("-z --format {format} --key 1 --window unbounded input"));
        ran.fails(2, &["-z (--null-data)", "lines and jsonl"]);
    }
    // The last record of a file may lack its end. The first record of the next file must not be joined to it.
    let folder = Folder::with("a\0b");
    folder.write("second", "c\0b\0");
    assert_eq!(folder.dedup("-z --window unbounded input second").ok().out, "a\0b\0c\0");
    for _ in 0..2 {
        folder.dedup("-z --window unbounded --state state --out out input").ok();
    }
    folder.dedup("-z --window unbounded --state state --out out second").ok();
    assert_eq!(folder.read("out"), "a\0b\0c\0");
    assert_eq!(folder.dedup_from("-z --window unbounded", b"").ok().out, "");
    let ran = folder.run("estimate -z --lambda 0.5 --epoch 1h --clock wall --per-event - input").ok();
    assert_eq!(ran.out, "1\ta\n1\tb\n");
}
