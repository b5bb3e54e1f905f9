//! A command that comes in pieces is parsed once. What the parser has looked at is overwritten before the next piece
//! comes: if it looked there again, it would find other bytes, and fail. So nothing is timed.

use crate::common::array;
use firstseen_resp::{Limits, Parser};

/// What stands in the place of bytes that are parsed: an end of line wherever one is looked for.
const OVERWRITTEN: [u8; 2] = *b"\r\n";

/// Lets `bytes`, one command, come byte by byte, and overwrites all but the last `kept_bytes` of what has come before
/// each call; gives the lengths of the command's arguments. Only the first byte stays: it tells a command's kind.
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
            assert_eq!((number + 1, rest.len()), (bytes.len(), 0), "the command ends where its bytes end");
            return command.arguments().iter().map(<[u8]>::len).collect();
        }
    }
    panic!("the command has come, and is not complete");
}

#[test]
fn the_beginning_of_a_large_command_is_not_parsed_again() {
    let items: Vec<String> = (0..8_192).map(|number| format!("item-{number}")).collect();
    let mut words = vec!["BF.MADD".to_owned(), "f".to_owned()];
    words.extend(items.iter().cloned());
    // The longest thing that is looked at as a whole is a length, `$` and two digits with its end, which came in full.
    let lengths = parse_overwritten(&array(&words), 8);
    assert_eq!(lengths[0], 1);
    assert!(lengths[1..].iter().copied().eq(items.iter().map(String::len)));
}

#[test]
fn the_bytes_of_an_argument_are_not_looked_at() {
    assert_eq!(parse_overwritten(&array(&["SET", &"x".repeat(60_000)]), 9), [60_000]);
}

/// Here every second byte that is searched becomes the end of a line, so that whoever searched again would find words; all
/// are put back before the line is complete.
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
    assert_eq!(parser.next(&mut &line[..]).expect("a line").expect("a whole one").name().len(), 60_000);
}

#[test]
fn a_parser_that_looked_again_would_be_found() {
    let caught = std::panic::catch_unwind(|| parse_overwritten(&array(&["SET", "key", "value"]), 1));
    assert!(caught.is_err(), "overwriting what is still to be parsed must be seen");
}
