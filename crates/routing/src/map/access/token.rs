//! Tokens, which authenticate callers without a certificate. A token consists of a public id and a secret. The cluster
//! stores only a hash of the secret, so somebody who reads the stored data cannot reconstruct any token.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum number of valid tokens of one principal: one that is in use, and one that is about to replace it.
pub const TOKENS_MAX: usize = 2;

/// Public part of a token, by which the token is found and revoked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(u64);

/// Data that a cluster stores about a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// SHA-256 digest of the token's secret. The secret consists of 256 random bits and cannot be guessed, so a slow
    /// password hash is not necessary.
    pub digest: [u8; 32],
    /// Time at which the token expires, in seconds since 1970. `None` means that the token does not expire.
    pub expires_s: Option<u64>,
}

impl TokenRecord {
    /// Returns whether the token is valid at `now_s`, in seconds since 1970.
    pub fn is_valid(&self, now_s: u64) -> bool {
        self.expires_s.is_none_or(|expires_s| now_s < expires_s)
    }
}

impl TokenId {
    /// Creates the id with this number.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number of the id.
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

/// Error returned when a text is not the id of a token.
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
