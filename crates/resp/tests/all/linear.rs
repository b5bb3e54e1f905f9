//! Checks that the parser examines each byte of a command only once, even if the command arrives in pieces. Before the
//! next piece arrives, the test overwrites all bytes that the parser has already examined. If the parser examined these
//! bytes again, it would find different bytes and fail. The test therefore needs no time measurements.

use crate::common::array;
use firstseen_resp::{Limits, Parser};

/// Bytes that replace parsed bytes. They are a line end, so a second search for a line end would find one.
const OVERWRITTEN: [u8; 2] = *b"\r\n";

/// Passes the bytes of one command to the parser, and returns the lengths of the command's arguments. The bytes arrive
/// one at a time. Before each call, the function overwrites the earlier bytes, so the parser fails if it examines them
/// again.
///
/// Two sorts of bytes are not overwritten: the last `kept_bytes` bytes, which the parser may examine again, and the
/// first byte, which determines the kind of the command.
fn parse_overwritten(bytes: &[u8], kept_bytes: usize) -> Vec<usize> {
    let mut parser = Parser::new(Limits::default());
    let mut come = Vec::with_capacity(bytes.len());
    for (number, &byte) in bytes.iter().enumerate() {
        come.push(byte);
        if let Some(overwritten) = (number + 1).checked_sub(kept_bytes).filter(|it| *it > 1) {
            come[overwritten - 1] = OVERWRITTEN[overwritten % 2];
        }
        let mut rest = &come[..];
        if let Some(command) = parser.next(&mut rest).unwrap_or_else(|error| panic!("at byte {number}: {error}")) {
            assert_eq!(
                (number + 1, rest.len()),
                (bytes.len(), 0),
                "the parser must return the command with its last byte"
            );
            return command.arguments().iter().map(<[u8]>::len).collect();
        }
    }
    panic!("all bytes have arrived, but the parser has not returned the command");
}

#[test]
fn the_beginning_of_a_large_command_is_not_parsed_again() {
    let items: Vec<String> = (0..8_192).map(|number| format!("item-{number}")).collect();
    let mut words = vec!["BF.MADD".to_owned(), "f".to_owned()];
    words.extend(items.iter().cloned());
    // The longest unit that the parser examines as a whole is the length of an argument: `$`, two digits and the line
    // end.
    let lengths = parse_overwritten(&array(&words), 8);
    assert_eq!(lengths[0], 1);
    assert!(lengths[1..].iter().copied().eq(items.iter().map(String::len)));
}

#[test]
fn the_bytes_of_an_argument_are_not_looked_at() {
    assert_eq!(parse_overwritten(&array(&["SET", &"x".repeat(60_000)]), 9), [60_000]);
}

/// Checks that the parser searches each byte for a line end only once. The bytes of a long line arrive one at a time.
/// The test replaces every second byte with a line end as soon as the parser has searched that byte. A parser that
/// searched the earlier bytes again would find one of these line ends, and would return a command too early.
///
/// Before the real end of the line arrives, the test restores all bytes. The parser must then return the whole line.
#[test]
fn the_end_of_a_line_is_looked_for_once() {
    let mut parser = Parser::new(Limits::default());
    let mut line = vec![b'x'; 60_000];
    for come in 1..=line.len() {
        assert!(parser.next(&mut &line[..come]).expect("a line").is_none(), "at byte {come}");
        if come % 2 == 0 {
            line[come - 1] = b'\n';
        }
    }
    line.fill(b'x');
    line.push(b'\n');
    assert_eq!(parser.next(&mut &line[..]).expect("a line").expect("the line is complete").name().len(), 60_000);
}

#[test]
fn a_parser_that_looked_again_would_be_found() {
    let caught = std::panic::catch_unwind(|| parse_overwritten(&array(&["SET", "key", "value"]), 1));
    assert!(caught.is_err(), "the test must fail if unparsed bytes are overwritten");
}
