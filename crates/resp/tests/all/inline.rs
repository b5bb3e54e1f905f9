//! Checks that inline commands are divided into the same words as in Redis.

use crate::common::{array, config, parse};
use proptest::prelude::*;

fn words(line: &str) -> Vec<Vec<u8>> {
    let mut parsed = parse(format!("{line}\r\n").as_bytes());
    assert_eq!((parsed.error, parsed.commands.len()), (None, 1), "{line}");
    parsed.commands.remove(0)
}

#[test]
fn quotes_and_escapes_are_as_in_redis() {
    let samples: [(&str, &[&[u8]]); 18] = [
        ("SET k v", &[b"SET", b"k", b"v"]),
        ("  SET \t k\u{b}\u{c} ", &[b"SET", b"k\x0b\x0c"]),
        ("\u{b}\u{c}SET", &[b"SET"]),
        (r#"a "b c" d"#, &[b"a", b"b c", b"d"]),
        (r#"a "" ''"#, &[b"a", b"", b""]),
        (r#""\n\r\t\b\a""#, &[b"\n\r\t\x08\x07"]),
        (r#""\x00\xfF\x7g""#, &[b"\x00\xffx7g"]),
        (r#""\\\"\q""#, &[b"\\\"q"]),
        (r#""\x4""#, &[b"x4"]),
        (r"'a\'b'", &[b"a'b"]),
        (r"'a\nb\\c'", &[b"a\\nb\\\\c"]),
        (r#"'"'"#, &[b"\""]),
        (r#""'""#, &[b"'"]),
        (r#"pre"fix ed""#, &[b"prefix ed"]),
        (r"pre'fix ed' x", &[b"prefix ed", b"x"]),
        (r"a\nb", &[b"a\\nb"]),
        ("a\0b", &[b"a\0b"]),
        ("é", &["é".as_bytes()]),
    ];
    for (line, expected) in samples {
        assert_eq!(words(line), expected, "{line}");
    }
}

#[test]
fn unbalanced_quotes_are_an_error() {
    for line in [r#"""#, "'", r#"a "b"#, "a 'b", r#""a\""#, r"'a\'", r#""a"b"#, "'a'b", r#""a"'b'"#, r#""\x4"#, r#""\"#]
    {
        let error = parse(format!("{line}\r\n").as_bytes()).error.map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("ERR Protocol error: unbalanced quotes in request"), "{line}");
    }
}

#[test]
fn a_line_ends_with_or_without_a_return() {
    let parsed = parse(b"a\nb\r\nc\r\r\n");
    assert_eq!(parsed.commands, [[b"a"], [b"b"], [b"c"]]);
}

/// Writes an argument in double quotes, with an escape sequence at every position that allows one.
fn quoted(argument: &[u8]) -> String {
    argument.iter().fold("\"".to_owned(), |text, byte| text + &format!("\\x{byte:02x}")) + "\""
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn what_is_quoted_is_what_is_sent(
        arguments in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..6),
    ) {
        let line = arguments.iter().map(|argument| quoted(argument)).collect::<Vec<_>>().join(" ") + "\n";
        prop_assert_eq!(parse(line.as_bytes()), parse(&array(&arguments)));
    }
}
