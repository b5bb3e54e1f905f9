//! Tokens, which authenticate a caller in place of a certificate: their text form and their form in a header.
//!
//! A token has the form `fst_ID_SECRET`. `ID` is the public id, with 16 hexadecimal digits, and `SECRET` is the secret,
//! with 64 hexadecimal digits. Each call carries the token in the header `authorization`, as `Bearer fst_...`.
//!
//! The secret of a token appears only in the text of the token, which no log and no error contains. Nodes store a
//! digest of the secret instead of the secret. The random bytes of a new token come from the caller.

use std::fmt;
use std::str::FromStr;

use firstseen_routing::{NotTokenId, TokenId};
use ring::digest::{SHA256, digest};
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};

/// Prefix of all tokens. People and secret scanners can recognise a leaked token by it.
const PREFIX: &str = "fst_";
/// Size of a secret, in bytes.
const SECRET_BYTES: usize = 32;
/// Scheme that precedes a token in the header.
const SCHEME: &str = "Bearer ";

/// Number of random bytes that make a token.
pub const TOKEN_RANDOM_BYTES: usize = 8 + SECRET_BYTES;

/// A token. Its `Debug` output does not show the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: TokenId,
    secret: [u8; SECRET_BYTES],
}

/// Error returned when a text is not a token. The error does not contain the text, which could be secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotToken {
    /// The text does not have the form of a token.
    #[error("a token is written fst_ID_SECRET, with 16 and 64 digits of 0 to 9 and a to f")]
    Form,
    /// The id of the token is malformed.
    #[error(transparent)]
    Id(#[from] NotTokenId),
}

impl Token {
    /// Creates a token from random bytes.
    pub fn new(random: [u8; TOKEN_RANDOM_BYTES]) -> Self {
        let mut id = [0; 8];
        let mut secret = [0; SECRET_BYTES];
        id.copy_from_slice(&random[..8]);
        secret.copy_from_slice(&random[8..]);
        Self { id: TokenId::new(u64::from_le_bytes(id)), secret }
    }

    /// Returns the public id of the token.
    pub fn id(&self) -> TokenId {
        self.id
    }

    /// Returns the SHA-256 digest of the secret. The cluster stores only this digest.
    pub fn digest(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, &self.secret).as_ref());
        bytes
    }

    /// Returns the text of the token with its secret. Programs show this text once, when the token is created.
    ///
    /// ```
    /// use firstseen_wire::token::{TOKEN_RANDOM_BYTES, Token};
    /// let token = Token::new([7; TOKEN_RANDOM_BYTES]);
    /// assert_eq!(token.reveal().parse(), Ok(token.clone()));
    /// assert!(!format!("{token:?}").contains("07070707070707070707"));
    /// ```
    pub fn reveal(&self) -> String {
        let secret: String = self.secret.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{}_{secret}", self.id)
    }

    /// Parses the token in the value of a header.
    ///
    /// # Errors
    /// Returns an error if the value is not a token.
    pub fn from_header(value: &[u8]) -> Result<Self, NotToken> {
        let value = std::str::from_utf8(value).map_err(|_| NotToken::Form)?;
        let (scheme, token) = value.split_at_checked(SCHEME.len()).ok_or(NotToken::Form)?;
        if scheme.eq_ignore_ascii_case(SCHEME) { token.parse() } else { Err(NotToken::Form) }
    }

    /// Returns the value of the header. It is marked as sensitive, so that libraries that log headers omit it.
    pub(crate) fn to_header(&self) -> Option<MetadataValue<Ascii>> {
        let mut value = MetadataValue::try_from(format!("{SCHEME}{}", self.reveal())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_...", self.id)
    }
}

impl FromStr for Token {
    type Err = NotToken;

    fn from_str(text: &str) -> Result<Self, NotToken> {
        let (id, secret) = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).ok_or(NotToken::Form)?;
        let id = id.parse()?;
        let digits = secret.as_bytes();
        if digits.len() != 2 * SECRET_BYTES {
            return Err(NotToken::Form);
        }
        let mut bytes = [0; SECRET_BYTES];
        for (byte, digits) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (digit(digits[0])? << 4) | digit(digits[1])?;
        }
        Ok(Self { id, secret: bytes })
    }
}

fn digit(letter: u8) -> Result<u8, NotToken> {
    match letter {
        b'0'..=b'9' => Ok(letter - b'0'),
        b'a'..=b'f' => Ok(letter - b'a' + 10),
        _ => Err(NotToken::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token::new(std::array::from_fn(|at| u8::try_from(at * 5).unwrap()))
    }

    #[test]
    fn what_is_shown_is_read_again_and_nothing_else_is() {
        let (token, text) = (token(), token().reveal());
        assert_eq!(text.parse(), Ok(token.clone()));
        let header = token.to_header().unwrap();
        assert!(header.is_sensitive() && Token::from_header(header.as_bytes()) == Ok(token));
        let bad = [
            "",
            "fst_",
            "fst__",
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text}0"),
            &text.to_uppercase(),
            &text.replace('f', "g"),
            &format!(" {text}"),
        ];
        for bad in bad {
            assert!(bad.parse::<Token>().is_err(), "{bad}");
        }
        for bad in [text.as_str(), "Basic YTpi", "Bearer", "Bearer ", "Bearer fst_\u{1}"] {
            assert!(Token::from_header(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Token::from_header(format!("bearer {text}").as_bytes()).is_ok());
        assert!(Token::from_header(b"Bearer fst_\xff").is_err());
    }

    #[test]
    fn no_error_and_no_debug_text_has_the_secret() {
        let text = token().reveal();
        let secret = &text[text.len() - 64..];
        assert!(!format!("{:?}", token()).contains(&secret[..8]));
        let error = format!("{text}0").parse::<Token>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains(&secret[..8]));
    }

    /// Compares the digest of 32 zero bytes with the SHA-256 value (FIPS 180-4).
    #[test]
    fn the_digest_is_sha_256() {
        let digest: String =
            Token::new([0; TOKEN_RANDOM_BYTES]).digest().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925");
    }
}
