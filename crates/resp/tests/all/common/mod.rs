//! Helpers for the tests of requests: encoding, parsing at once and in pieces, and random numbers.

use firstseen_resp::{Limits, Parser, ProtocolError, Request};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Returns a configuration with a fixed seed, so that a failure can be repeated with the same command.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(23), failure_persistence: None, ..ProptestConfig::default() }
}

/// Encodes a request as clients send it.
pub(crate) fn array<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Result of parsing the bytes of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) commands: Vec<Vec<Vec<u8>>>,
    pub(crate) error: Option<ProtocolError>,
    /// Number of bytes that were not consumed.
    pub(crate) left_bytes: usize,
}

/// Parses bytes that arrive in pieces. Each piece ends at a position in `ends` or at the end of the bytes.
pub(crate) fn parse_in_pieces(bytes: &[u8], ends: &[usize], limits: Limits) -> Parsed {
    let (mut parser, mut parsed, mut consumed_bytes) = (Parser::new(limits), Parsed::default(), 0);
    for &end in ends.iter().chain([&bytes.len()]) {
        let mut rest = &bytes[consumed_bytes..end];
        loop {
            match parser.next(&mut rest) {
                Ok(Some(command)) => {
                    let mut arguments = vec![command.name().to_vec()];
                    arguments.extend(command.arguments().iter().map(<[u8]>::to_vec));
                    parsed.commands.push(arguments);
                }
                Ok(None) => break,
                Err(error) => {
                    parsed.error = Some(error);
                    return parsed;
                }
            }
        }
        consumed_bytes = end - rest.len();
    }
    parsed.left_bytes = bytes.len() - consumed_bytes;
    parsed
}

pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    parse_in_pieces(bytes, &[], Limits::default())
}

pub(crate) fn parse_byte_by_byte(bytes: &[u8], limits: Limits) -> Parsed {
    parse_in_pieces(bytes, &(1..=bytes.len()).collect::<Vec<_>>(), limits)
}

/// Parses a line that is sent as an inline command.
pub(crate) fn read<R>(line: &str, look: impl FnOnce(Result<Request<'_>, firstseen_resp::Refusal<'_>>) -> R) -> R {
    read_bytes(format!("{line}\r\n").as_bytes(), look)
}

/// Parses the single command in these bytes.
pub(crate) fn read_bytes<R>(
    bytes: &[u8],
    look: impl FnOnce(Result<Request<'_>, firstseen_resp::Refusal<'_>>) -> R,
) -> R {
    let mut parser = Parser::new(Limits::default());
    let command = parser.next(&mut &bytes[..]).expect("a request").expect("the command is complete");
    look(Request::read(&command))
}

/// Returns the error text for a line that is rejected.
pub(crate) fn refused(line: &str) -> String {
    read(line, |request| request.map(|request| panic!("{line} is {request:?}")).unwrap_err().to_string())
}

/// Random number generator (SplitMix64).
pub(crate) struct TestRng(pub(crate) u64);

impl TestRng {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, range: usize) -> usize {
        ((u128::from(self.roll()) * range as u128) >> 64) as usize
    }
}
