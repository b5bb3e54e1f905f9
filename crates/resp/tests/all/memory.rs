//! Checks that memory grows with the bytes that have arrived, and not with an announced length, and that memory is
//! reused.

use crate::common::{array, config};
use firstseen_resp::{Limits, Parser};
use proptest::prelude::*;

#[test]
fn an_announcement_takes_no_memory() {
    for limits in [Limits::default(), Limits { arguments: usize::MAX, argument_bytes: usize::MAX, ..Limits::default() }]
    {
        for announcement in
            ["*2147483647\r\n", "*1000000000\r\n$3\r\nSET\r\n", "*2\r\n$1000000000\r\n", "*8208\r\n$65536\r\n"]
        {
            let mut parser = Parser::new(limits);
            let _ = parser.next(&mut announcement.as_bytes());
            assert!(parser.held_bytes() <= 64, "{announcement}: {}", parser.held_bytes());
        }
    }
}

#[test]
fn the_same_memory_serves_every_command() {
    let mut parser = Parser::new(Limits::default());
    let bytes = [array(&["BF.MADD", "f", "a", "b", "c"]), b"PING hello\r\n".to_vec()].concat();
    let pass = |parser: &mut Parser| {
        let mut rest = &bytes[..];
        while parser.next(&mut rest).expect("a request").is_some() {}
        parser.held_bytes()
    };
    let held_bytes = pass(&mut parser);
    assert!(held_bytes > 0);
    for _ in 0..1000 {
        assert_eq!(pass(&mut parser), held_bytes);
    }
    parser.release_memory();
    assert_eq!(parser.held_bytes(), 0);
    assert_eq!(pass(&mut parser), held_bytes, "the parser uses the same memory for the next command");
}

#[test]
fn memory_is_not_given_back_amid_a_command() {
    let bytes = array(&["SET", "k", "v"]);
    let mut parser = Parser::new(Limits::default());
    assert!(parser.next(&mut &bytes[..bytes.len() - 4]).expect("a request").is_none());
    parser.release_memory();
    let command = parser.next(&mut &bytes[..]).expect("a request").expect("the command is complete").keep();
    assert_eq!(command.command().arguments().iter().collect::<Vec<_>>(), [b"k", b"v"]);
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn any_bytes_take_little_memory(
        bytes in proptest::collection::vec(
            prop_oneof![3 => proptest::sample::select(&b"*$0123456789\r\n\"' a"[..]), 1 => any::<u8>()], 0..300),
    ) {
        let mut parser = Parser::new(Limits::default());
        let mut rest = &bytes[..];
        while let Ok(Some(_)) = parser.next(&mut rest) {}
        // A word of a line has at least two bytes including the space after it, and uses 8 bytes. Both vectors may be
        // half empty.
        prop_assert!(parser.held_bytes() <= 64 + 10 * bytes.len(), "{} of {}", parser.held_bytes(), bytes.len());
    }
}
