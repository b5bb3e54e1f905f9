//! Checks the replies to bytes that are not a request. Whether such bytes arrive at once or in pieces, the client must
//! receive the error text of Redis, and the connection must end.

use crate::common::{array, parse_byte_by_byte, parse_in_pieces};
use firstseen_resp::{Limits, Parser};

/// Returns invalid bytes, and the error text that Redis has for them.
fn samples() -> Vec<(Vec<u8>, Limits, &'static str)> {
    let usual = Limits::default();
    let strict = Limits::before_auth();
    let line = |mark: &str, bytes: usize| [mark.as_bytes(), &vec![b'1'; bytes]].concat();
    let bytes = |text: &str| text.as_bytes().to_vec();
    let (count, length) =
        ("invalid multibulk length", "invalid bulk length (items and values have at most 65536 bytes)");
    vec![
        (bytes("*\r\n"), usual, count),
        (bytes("*a\r\n"), usual, count),
        (bytes("*+1\r\n"), usual, count),
        (bytes("* 1\r\n"), usual, count),
        (bytes("*01\r\n"), usual, count),
        (bytes("*-0\r\n"), usual, count),
        (bytes("*1\r\r"), usual, count),
        (bytes("*2147483648\r\n"), usual, count),
        (bytes("*2147483647\r\n"), usual, count),
        (bytes("*8209\r\n"), usual, count),
        (bytes("*99999999999999999999\r\n"), usual, count),
        (bytes("*9223372036854775808\r\n"), strict, count),
        (bytes("*11\r\n"), strict, "unauthenticated multibulk length"),
        (bytes("*2147483647\r\n"), strict, "unauthenticated multibulk length"),
        (bytes("*1\r\n$\r\n"), usual, length),
        (bytes("*1\r\n$-1\r\n"), usual, length),
        (bytes("*1\r\n$1x\r\n"), usual, length),
        (bytes("*1\r\n$1\rx"), usual, length),
        (bytes("*1\r\n$65537\r\n"), usual, length),
        (bytes("*1\r\n$1\r\nabc"), usual, length),
        (bytes("*1\r\n$1\r\na\rc"), usual, length),
        (bytes("*1\r\n$16385\r\n"), strict, "unauthenticated bulk length"),
        (bytes("*2\r\n$4\r\nAUTH\r\n$9223372036854775807\r\n"), strict, "unauthenticated bulk length"),
        (bytes("*2\r\n$1\r\na\r\n$8\r\n"), Limits { command_bytes: 20, ..usual }, length),
        (bytes("*1\r\nx\r\n"), usual, "expected '$', got 'x'"),
        (bytes("*1\r\n*1\r\n"), usual, "expected '$', got '*'"),
        (bytes("*1\r\n\r\n"), usual, "expected '$', got ' '"),
        (bytes("*1\r\n\u{1}\r\n"), usual, "expected '$', got '\\x01'"),
        (line("*", 65_536), usual, "too big mbulk count string"),
        (line("*1\r\n$", 65_536), usual, "too big bulk count string"),
        (line("", 65_537), usual, "too big inline request"),
        (line("1 2 3", 7), Limits { line_bytes: 11, ..usual }, "too big inline request"),
        (bytes("1 2 3 4\n"), Limits { arguments: 3, ..usual }, "too big inline request"),
        (bytes("1 2 3456\n"), Limits { argument_bytes: 3, ..usual }, "too big inline request"),
        (bytes("1 2 3 4 5 6 7 8 9 10 11\n"), strict, "too big inline request"),
        (bytes("SET \"a\r\n"), usual, "unbalanced quotes in request"),
    ]
}

#[test]
fn texts_are_those_of_redis() {
    for (bytes, limits, text) in samples() {
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        let whole = parse_in_pieces(&bytes, &[], limits);
        let said = whole.error.map(|error| error.to_string());
        assert_eq!(said.as_deref(), Some(&*format!("ERR Protocol error: {text}")), "{head:?}");
        assert_eq!(parse_byte_by_byte(&bytes, limits), whole, "{head:?}");
    }
}

#[test]
fn what_is_just_within_the_limits_is_no_error() {
    let usual = Limits::default();
    let strict = Limits::before_auth();
    let long_item = "x".repeat(65_536);
    let long_secret = "x".repeat(16_384);
    let long_line = "x".repeat(65_536) + "\n";
    let lines = [
        (array(&vec!["x"; 8_208]), usual),
        (array(&[long_item.as_str()]), usual),
        (array(&["x"; 10]), strict),
        (array(&["AUTH", &long_secret]), strict),
        (array(&["a", "1234567"]), Limits { command_bytes: 24, ..usual }),
        (long_line.into_bytes(), usual),
        (b"1 2 3456\n".to_vec(), Limits { argument_bytes: 4, arguments: 3, ..usual }),
    ];
    for (bytes, limits) in lines {
        let parsed = parse_in_pieces(&bytes, &[], limits);
        assert_eq!((parsed.commands.len(), parsed.error), (1, None), "{} bytes", bytes.len());
    }
    let over = parse_in_pieces(&array(&["a", "1234567"]), &[], Limits { command_bytes: 23, ..usual });
    assert_eq!(over.commands.len(), 0, "the command exceeds the limit by one byte");
}

#[test]
fn commands_before_an_error_are_given_and_none_after_it() {
    let bytes = b"PING\r\n*1\r\n$4\r\nQUIT\r\n*1\r\n!\r\nPING\r\n";
    let (mut parser, mut rest) = (Parser::new(Limits::default()), &bytes[..]);
    assert_eq!(parser.next(&mut rest).unwrap().unwrap().name(), b"PING");
    assert_eq!(parser.next(&mut rest).unwrap().unwrap().name(), b"QUIT");
    let error = parser.next(&mut rest).unwrap_err();
    assert_eq!(error.to_string(), "ERR Protocol error: expected '$', got '!'");
    assert_eq!(parser.next(&mut &b"PING\r\n"[..]).unwrap_err(), error, "the parser must return the same error again");
}
