//! Checks of the code that parses the bytes of a Redis client. A client may send arbitrary bytes, and none of them may
//! violate a check. The fuzz targets `resp_parser` and `resp_request` search for bytes that do. `cargo test -p
//! firstseen-resp` runs the same checks on the corpus.

use firstseen_resp::{Arguments, BloomRequest, ClaimRequest, ClaimedEvents, FilterRequest, KeyRequest, SetRequest};
use firstseen_resp::{Command, ITEMS_MAX, Limits, Parser, ProtocolError, Refusal, Replies, Request};

/// Runs the checks of a target.
pub(crate) fn run(target: &str, data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    match target {
        "resp_parser" => parser(usize::from(*first), bytes),
        "resp_request" => requests(bytes),
        unknown => panic!("no target {unknown}"),
    }
}

/// Result of parsing a connection: its commands, the number of bytes that they took, and the error that ended the
/// connection.
type Parsed = (Vec<Vec<Vec<u8>>>, usize, Option<ProtocolError>);

/// Checks that bytes which arrive in pieces are parsed like the same bytes at once, and that memory does not exceed
/// what has arrived.
fn parser(first: usize, bytes: &[u8]) {
    let small = Limits { arguments: 4, argument_bytes: 9, command_bytes: 50, line_bytes: 12, ..Limits::default() };
    let limits = [Limits::default(), Limits::before_auth(), small][first % 3];
    let whole = in_pieces(bytes, bytes.len().max(1), limits);
    assert_eq!(in_pieces(bytes, 1 + first / 3, limits), whole);
    for command in &whole.0 {
        assert!((1..=limits.arguments).contains(&command.len()));
        assert!(command.iter().all(|argument| argument.len() <= limits.argument_bytes));
    }
}

fn in_pieces(bytes: &[u8], piece_bytes: usize, limits: Limits) -> Parsed {
    let (mut parser, mut commands, mut consumed_bytes, mut come_bytes) = (Parser::new(limits), Vec::new(), 0, 0);
    while come_bytes < bytes.len() {
        come_bytes = bytes.len().min(come_bytes + piece_bytes);
        let mut rest = &bytes[consumed_bytes..come_bytes];
        loop {
            let found = parser.next(&mut rest);
            let before_bytes = std::mem::replace(&mut consumed_bytes, come_bytes - rest.len());
            match found {
                Ok(Some(command)) => {
                    assert!((1..=consumed_bytes - before_bytes).contains(&command.consumed_bytes()));
                    commands.push(words(&command));
                }
                Ok(None) => break,
                Err(error) => return (commands, consumed_bytes, Some(error)),
            }
        }
        assert!(parser.held_bytes() <= 64 + 10 * come_bytes);
    }
    (commands, consumed_bytes, None)
}

fn words(command: &Command<'_>) -> Vec<Vec<u8>> {
    let kept = command.keep();
    let words = std::iter::once(command.name()).chain(command.arguments()).map(<[u8]>::to_vec).collect();
    let again = kept.command();
    assert_eq!((again.name(), again.arguments()), (command.name(), command.arguments()));
    words
}

/// Checks that a command is the same in upper and lower case, that its number of items is bounded, and that an error is
/// a single short line.
fn requests(bytes: &[u8]) {
    let (mut parser, mut rest) = (Parser::new(Limits::default()), bytes);
    while let Ok(Some(command)) = parser.next(&mut rest) {
        let mut other = Vec::new();
        other.extend_from_slice(format!("*{}\r\n", command.count()).as_bytes());
        let name: Vec<u8> = command.name().iter().map(swapped).collect();
        for word in std::iter::once(&name[..]).chain(command.arguments()) {
            other.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            other.extend_from_slice(word);
            other.extend_from_slice(b"\r\n");
        }
        let mut other_parser = Parser::new(Limits::default());
        let other = other_parser.next(&mut &other[..]).expect("what was parsed can be parsed").expect("it is whole");
        match (Request::read(&command), Request::read(&other)) {
            (Ok(request), Ok(other)) => {
                assert!(request == other, "{request:?} {other:?}");
                assert!(items(&request).is_none_or(|items| items.len() <= ITEMS_MAX));
            }
            (Err(Refusal::UnknownCommand(_)), Err(refusal @ Refusal::UnknownCommand(_))) => check_line(&refusal),
            (Err(refusal), Err(other)) => {
                assert_eq!(refusal.to_string(), other.to_string());
                check_line(&refusal);
            }
            (request, other) => panic!("{request:?} {other:?}"),
        }
    }
}

fn swapped(letter: &u8) -> u8 {
    if letter.is_ascii_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
}

fn items<'a>(request: &Request<'a>) -> Option<Arguments<'a>> {
    match *request {
        Request::Keys(KeyRequest::Exists { keys } | KeyRequest::Delete { keys }) => Some(keys),
        Request::Sets(
            SetRequest::Add { items, .. } | SetRequest::ContainsEach { items, .. } | SetRequest::Remove { items, .. },
        ) => Some(items),
        Request::Bloom(
            BloomRequest::AddEach { items, .. }
            | BloomRequest::Insert { items, .. }
            | BloomRequest::ContainsEach { items, .. },
        ) => Some(items),
        Request::Filters(FilterRequest::Observe { items, .. } | FilterRequest::Test { items, .. }) => Some(items),
        Request::Claims(
            ClaimRequest::Claim { events, .. }
            | ClaimRequest::Confirm { events, .. }
            | ClaimRequest::Release { events, .. },
        ) => match events {
            ClaimedEvents::Items { items, .. } => Some(items),
            ClaimedEvents::Key(_) => None,
        },
        _ => None,
    }
}

fn check_line(refusal: &Refusal<'_>) {
    let mut replies = Replies::default();
    replies.error(refusal);
    let bytes = replies.as_bytes();
    assert!(bytes.starts_with(b"-") && bytes.ends_with(b"\r\n") && bytes.len() < 1000);
    assert!(bytes.iter().filter(|byte| **byte == b'\r' || **byte == b'\n').count() == 2);
}
