//! Compares the parser of this crate with another decoder of the protocol.

use crate::common::{TestRng, array, config, parse};
use proptest::prelude::*;
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;

/// Returns the first command in these bytes as the other decoder reads it, and the number of bytes that it took.
fn peer(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let Ok(Some((OwnedFrame::Array(members), consumed_bytes))) = decode(bytes) else { return None };
    let argument = |member| match member {
        OwnedFrame::BulkString(argument) => Some(argument),
        _ => None,
    };
    Some((members.into_iter().map(argument).collect::<Option<_>>()?, consumed_bytes))
}

/// Returns the first command as this crate reads it. Returns `None` also if empty requests precede it.
fn ours(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut parser = firstseen_resp::Parser::new(firstseen_resp::Limits::default());
    let mut rest = bytes;
    let command = parser.next(&mut rest).ok()??;
    if command.consumed_bytes() + rest.len() < bytes.len() {
        return None;
    }
    let arguments = std::iter::once(command.name()).chain(command.arguments()).map(<[u8]>::to_vec);
    Some((arguments.collect(), command.consumed_bytes()))
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn streams_of_commands_are_read_alike(
        commands in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..20), 1..10),
    ) {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| array(command)).collect();
        let (mut rest, mut read) = (&bytes[..], Vec::new());
        while let Some((command, consumed_bytes)) = peer(rest) {
            read.push(command);
            rest = &rest[consumed_bytes..];
        }
        prop_assert!(rest.is_empty());
        prop_assert_eq!(parse(&bytes).commands, read);
    }
}

/// Compares how this crate and another decoder of the protocol read damaged requests. In a damaged request, one byte
/// was changed, removed or doubled.
///
/// If this crate accepts the damaged bytes, the other decoder must read the same command. If this crate rejects bytes
/// that the other decoder accepts, the rejection must be justified: the bytes must differ from those that a client
/// would write for the same command.
#[test]
fn damaged_requests_are_read_alike() {
    let rng = &mut TestRng(5);
    let (mut alike, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let arguments: Vec<Vec<u8>> = (0..=rng.below(4)).map(|_| vec![b'$'; rng.below(13)]).collect();
        let mut bytes = array(&arguments);
        let place = 1 + rng.below(bytes.len() - 1);
        match rng.below(3) {
            0 => bytes[place] = b"0123456789-$*\r\nx"[rng.below(16)],
            1 => drop(bytes.remove(place)),
            _ => bytes.insert(place, bytes[place]),
        }
        let (ours, peer) = (ours(&bytes), peer(&bytes));
        if let Some(ours) = ours {
            assert_eq!(Some(ours), peer, "{}", bytes.escape_ascii());
            alike += 1;
        } else {
            let is_proper = |(arguments, consumed_bytes): &(Vec<Vec<u8>>, usize)| {
                !arguments.is_empty() && array(arguments) == bytes[..*consumed_bytes]
            };
            assert!(!peer.as_ref().is_some_and(is_proper), "{}", bytes.escape_ascii());
            refused += 1;
        }
    }
    assert!(alike > 2_000 && refused > 2_000, "{alike} alike, {refused} refused");
}

/// Checks the known cases in which this crate rejects bytes that the other decoder accepts. There are two sorts of such
/// bytes: numbers in a form that Redis rejects as well, such as `01` or `+1`, and arguments that are not followed by a
/// line end.
#[test]
fn what_only_the_peer_accepts_is_known() {
    for bytes in [&b"*01\r\n$1\r\na\r\n"[..], b"*1\r\n$01\r\na\r\n", b"*+1\r\n$1\r\na\r\n", b"*1\r\n$1\r\nabc"] {
        assert!(peer(bytes).is_some() && ours(bytes).is_none(), "{}", bytes.escape_ascii());
    }
}
