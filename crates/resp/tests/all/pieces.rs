//! Checks that the bytes of a connection result in the same commands, however they are divided into reads.

use crate::common::{array, config, parse, parse_byte_by_byte, parse_in_pieces};
use firstseen_resp::{Limits, Parser};
use proptest::prelude::*;

/// Bytes of a request, and the command that they represent, if they do.
type Sample = (Vec<u8>, Option<Vec<Vec<u8>>>);

fn requests() -> impl Strategy<Value = Sample> {
    let argument = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[ -~]{0,20}".prop_map(String::into_bytes),
        Just(b"\r\n$3\r\n*1\r\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 900..1100),
    ];
    let arrays = proptest::collection::vec(argument, 1..9).prop_map(|it| (array(&it), Some(it)));
    let words = proptest::collection::vec("[a-z0-9.]{1,9}", 1..6);
    let typed = (words, prop_oneof![Just("\n"), Just("\r\n")]).prop_map(|(words, end)| {
        let command = words.iter().map(|word| word.clone().into_bytes()).collect();
        ((words.join("  ") + end).into_bytes(), Some(command))
    });
    let nothing =
        prop_oneof![Just("\r\n"), Just("\n"), Just("  \t\r\n"), Just("*0\r\n"), Just("*-1\r\n"), Just("*-9\r\n")];
    prop_oneof![4 => arrays, 2 => typed, 1 => nothing.prop_map(|it| (it.as_bytes().to_vec(), None))]
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn cuts_do_not_show(
        samples in proptest::collection::vec(requests(), 1..8), cuts in proptest::collection::vec(any::<u16>(), 0..20),
        lost_bytes in 0_usize..20,
    ) {
        let bytes = samples.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect::<Vec<_>>();
        let expected = samples.iter().filter_map(|(_, command)| command.clone()).collect::<Vec<_>>();
        let whole = parse(&bytes);
        prop_assert_eq!(&whole.commands, &expected);
        prop_assert_eq!((whole.error, whole.left_bytes), (None, 0));
        let mut ends: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut) % (bytes.len() + 1)).collect();
        ends.sort_unstable();
        prop_assert_eq!(&parse_in_pieces(&bytes, &ends, Limits::default()), &whole);
        prop_assert_eq!(&parse_byte_by_byte(&bytes, Limits::default()), &whole);
        // An incomplete command is not removed from the input, and is not an error.
        let shorter = &bytes[..bytes.len().saturating_sub(lost_bytes)];
        let part = parse(shorter);
        prop_assert_eq!(part.error, None);
        prop_assert!(expected.starts_with(&part.commands));
        prop_assert_eq!(part, parse_byte_by_byte(shorter, Limits::default()));
    }

    #[test]
    fn any_bytes_are_the_same_however_they_are_cut(
        bytes in proptest::collection::vec(
            prop_oneof![3 => proptest::sample::select(&b"*$0123456789-\r\n\"'\\x a"[..]), 1 => any::<u8>()], 0..200),
        cuts in proptest::collection::vec(any::<u8>(), 0..9),
        small in any::<bool>(),
    ) {
        let limits = if small {
            Limits { arguments: 3, argument_bytes: 5, command_bytes: 30, line_bytes: 9, ..Limits::default() }
        } else {
            Limits::before_auth()
        };
        let mut ends: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut) % (bytes.len() + 1)).collect();
        ends.sort_unstable();
        let whole = parse_in_pieces(&bytes, &[], limits);
        prop_assert_eq!(&parse_in_pieces(&bytes, &ends, limits), &whole);
        prop_assert_eq!(&parse_byte_by_byte(&bytes, limits), &whole);
        for command in &whole.commands {
            prop_assert!(command.len() <= limits.arguments);
            prop_assert!(command.iter().all(|argument| argument.len() <= limits.argument_bytes));
        }
    }
}

#[test]
fn each_command_tells_what_it_took_and_can_be_kept() {
    let (set, ping) = (array(&["SET", "k", "v\r\n"]), b"PING \"a b\"\r\n");
    let bytes = [b"\r\n*0\r\n", &set[..], b"\n", ping, b"*1\r\n$4\r\nQU"].concat();
    let (mut parser, mut rest) = (Parser::new(Limits::default()), &bytes[..]);
    let command = parser.next(&mut rest).unwrap().unwrap();
    assert_eq!((command.consumed_bytes(), command.count(), command.name()), (set.len(), 3, &b"SET"[..]));
    assert_eq!(command.arguments().iter().collect::<Vec<_>>(), [&b"k"[..], b"v\r\n"]);
    assert_eq!((command.arguments().get(1), command.arguments().get(2)), (Some(&b"v\r\n"[..]), None));
    let kept = command.keep();
    let command = parser.next(&mut rest).unwrap().unwrap();
    assert_eq!((command.consumed_bytes(), command.name()), (ping.len(), &b"PING"[..]));
    assert_eq!(command.arguments().get(0), Some(&b"a b"[..]));
    assert!(parser.next(&mut rest).unwrap().is_none());
    assert_eq!(rest, b"*1\r\n$4\r\nQU", "the beginning of the next command remains");
    let again = kept.command();
    assert_eq!((again.name(), again.consumed_bytes()), (&b"SET"[..], set.len()));
    assert_eq!(again.arguments().iter().collect::<Vec<_>>(), [&b"k"[..], b"v\r\n"]);
    assert!((5..200).contains(&kept.held_bytes()), "{}", kept.held_bytes());
    assert_eq!(format!("{kept:?}"), "Command(SET and 2 arguments)", "values are not printed");
}

#[test]
fn limits_change_between_commands() {
    let long = vec!["x"; 11];
    let bytes = [array(&["AUTH", "p"]), array(&long)].concat();
    let (mut parser, mut rest) = (Parser::new(Limits::before_auth()), &bytes[..]);
    assert_eq!(parser.next(&mut rest).unwrap().unwrap().name(), b"AUTH");
    parser.set_limits(Limits::default());
    assert_eq!(parser.next(&mut rest).unwrap().unwrap().count(), 11);
    let mut strict = Parser::new(Limits::before_auth());
    let mut rest = &bytes[..];
    strict.next(&mut rest).unwrap();
    assert!(strict.next(&mut rest).is_err(), "the command exceeds the strict limits");
}
