//! Tokens: what a caller without a certificate shows. Of each, only the digest is agreed on.
//!
//! Promises: nothing here lets anybody make a token; what an id is written as parses to the same id. Must not know: how tokens
//! are written and hashed, what they are good for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Tokens of one principal that are valid at the same time, at most: one that is in use, and the one that takes its place.
pub const TOKENS_MAX: usize = 2;

/// The public part of a token, by which it is found and taken back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(u64);

/// What a cluster keeps of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// SHA-256 of its secret, which is 256 random bits: nobody can guess it, so nothing slower is needed.
    pub digest: [u8; 32],
    /// The second since 1970 from which on it does not count; where this is left out, it counts for ever.
    pub expires_s: Option<u64>,
}

impl TokenRecord {
    /// Whether it is good for something at `now_s`, seconds since 1970.
    pub fn is_valid(&self, now_s: u64) -> bool {
        self.expires_s.is_none_or(|expires_s| now_s < expires_s)
    }
}

impl TokenId {
    /// The id of this number.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not the id of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTokenId;

impl fmt::Display for NotTokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the id of a token has 16 digits of 0 to 9 and a to f: it stands between fst_ and the next _")
    }
}

impl std::error::Error for NotTokenId {}

impl FromStr for TokenId {
    type Err = NotTokenId;

    fn from_str(text: &str) -> Result<Self, NotTokenId> {
        if text.len() != 16 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(NotTokenId);
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| NotTokenId)
    }
}

impl TryFrom<String> for TokenId {
    type Error = NotTokenId;

    fn try_from(text: String) -> Result<Self, NotTokenId> {
        text.parse()
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_sixteen_small_digits() {
        for number in [0, 1, 0xfeed_0000_1234, u64::MAX] {
            assert_eq!(TokenId::new(number).to_string().parse(), Ok(TokenId::new(number)));
        }
        for bad in ["", "1", "+00000000000000f", "000000000000000F", "000000000000000g", "00000000000000000"] {
            assert_eq!(bad.parse::<TokenId>(), Err(NotTokenId), "{bad}");
        }
    }

    #[test]
    fn a_token_is_good_until_its_second_comes() {
        let token = |expires_s| TokenRecord { digest: [0; 32], expires_s };
        assert!(token(None).is_valid(u64::MAX) && token(Some(7)).is_valid(6) && !token(Some(7)).is_valid(7));
    }
}
