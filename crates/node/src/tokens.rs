//! Identifies callers that present a token in place of a certificate.
//!
//! # Guarantees
//! - A token is valid as long as the cluster map contains it and it has not expired.
//! - A caller with an invalid token learns why the token is invalid. The error message does not help to guess a valid
//!   token.
//!
//! This module does not depend on the rights of principals or on connections.

use firstseen_routing::{Access, TokenId, TokenRecord};
use firstseen_wire::status::ErrorKind;
use firstseen_wire::token::Token;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tonic::Status;

/// A principal, and the token that identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedByToken {
    pub(crate) principal: String,
    pub(crate) token: ShownToken,
}

/// A token that was valid when a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownToken {
    id: TokenId,
    expires_s: Option<u64>,
}

/// Returns the principal that is identified by the token in the headers of a call. `now_s` is the current time in
/// seconds, which is compared with the expiry of the token. Returns `None` if the headers contain no token.
///
/// # Errors
/// [`ErrorKind::Forbidden`] if the token is not valid.
pub(crate) fn shown(headers: &HeaderMap, access: &Access, now_s: u64) -> Result<Option<NamedByToken>, Status> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let token = Token::from_header(value.as_bytes())
        .map_err(|error| ErrorKind::Forbidden.status(format!("the header `authorization` has no token: {error}")))?;
    of(&token, access, now_s).map(Some)
}

/// Returns the principal that a token belongs to. `now_s` is the current time.
///
/// # Errors
/// [`ErrorKind::Forbidden`] if the token is not valid.
pub(crate) fn of(token: &Token, access: &Access, now_s: u64) -> Result<NamedByToken, Status> {
    let known = access.token(token.id()).filter(|(_, kept)| kept.digest == token.digest());
    let (principal, kept) = known.ok_or_else(|| gone(token.id()))?;
    must_be_valid(token.id(), kept, now_s)?;
    let shown = ShownToken { id: token.id(), expires_s: kept.expires_s };
    Ok(NamedByToken { principal: principal.to_owned(), token: shown })
}

impl ShownToken {
    /// Returns the public part of the token.
    pub(crate) fn id(&self) -> TokenId {
        self.id
    }

    /// Returns whether the token has expired at `now_s`.
    pub(crate) fn has_expired(&self, now_s: u64) -> bool {
        self.expires_s.is_some_and(|expires_s| now_s >= expires_s)
    }

    /// Checks that the token is still a valid token of `principal`.
    pub(crate) fn must_count(&self, access: &Access, principal: &str, now_s: u64) -> Result<(), Status> {
        let of_principal = access.principals.get(principal).and_then(|principal| principal.tokens.get(&self.id));
        must_be_valid(self.id, of_principal.ok_or_else(|| gone(self.id))?, now_s)
    }
}

fn must_be_valid(id: TokenId, kept: &TokenRecord, now_s: u64) -> Result<(), Status> {
    if kept.is_valid(now_s) {
        return Ok(());
    }
    let what = format!(
        "token {id} has expired: a principal with the right `security` can create a new one with firstseen access \
         token new NAME"
    );
    Err(ErrorKind::Forbidden.status(what))
}

fn gone(id: TokenId) -> Status {
    let what = format!(
        "token {id} does not belong to this cluster, or was taken back: a principal with the right `security` can \
         create a new one with firstseen access token new NAME"
    );
    ErrorKind::Forbidden.status(what)
}

#[cfg(test)]
mod tests {
    use firstseen_routing::Principal;
    use firstseen_wire::token::TOKEN_RANDOM_BYTES;
    use tonic::Code;

    use super::*;

    fn access(tokens: &[(&Token, Option<u64>)]) -> Access {
        let kept = |token: &Token, expires_s| (token.id(), TokenRecord { digest: token.digest(), expires_s });
        let tokens = tokens.iter().map(|(token, expires_s)| kept(token, *expires_s)).collect();
        let principals = [("crawler".to_owned(), Principal { tokens, ..Principal::default() })].into();
        Access { principals, ..Access::default() }
    }

    fn headers(value: &str) -> HeaderMap {
        [(AUTHORIZATION, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn a_token_counts_while_the_map_has_it_and_its_time_has_not_come() {
        let (one, other) = (Token::new([1; TOKEN_RANDOM_BYTES]), Token::new([2; TOKEN_RANDOM_BYTES]));
        let access_of_one = access(&[(&one, Some(100))]);
        let bearer = |token: &Token| headers(&format!("Bearer {}", token.reveal()));
        let NamedByToken { principal, token } = shown(&bearer(&one), &access_of_one, 99).unwrap().unwrap();
        assert_eq!((principal.as_str(), token.id()), ("crawler", one.id()));
        token.must_count(&access_of_one, "crawler", 99).unwrap();
        assert!(!token.has_expired(99) && token.has_expired(100));
        let expired = token.must_count(&access_of_one, "crawler", 100).unwrap_err();
        assert!(expired.message().contains("expired"), "{expired}");
        assert!(shown(&bearer(&one), &access_of_one, 100).unwrap_err().message().contains("expired"));
        let back = token.must_count(&access(&[(&other, None)]), "crawler", 0).unwrap_err();
        assert!(back.message().contains("taken back"), "{back}");
        token.must_count(&access_of_one, "other", 0).unwrap_err();
        assert_eq!(shown(&bearer(&other), &access_of_one, 0).unwrap_err().code(), Code::PermissionDenied);
        assert_eq!(shown(&HeaderMap::new(), &access_of_one, 0).unwrap(), None);
    }

    #[test]
    fn the_right_id_with_another_secret_is_none() {
        let one = Token::new([1; TOKEN_RANDOM_BYTES]);
        let access = access(&[(&one, None)]);
        let guessed = one.reveal();
        let guessed = format!("{}2{}", &guessed[..30], &guessed[31..]);
        assert_ne!(guessed, one.reveal());
        for value in [format!("Bearer {guessed}"), "Basic YTpi".to_owned(), String::new()] {
            shown(&headers(&value), &access, 0).unwrap_err();
        }
    }
}
