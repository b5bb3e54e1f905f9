//! Callers who show a token in the place of a certificate.
//!
//! Promises: a token counts as long as the map has it and its time has not come; who shows one that does not count is told why,
//! and nobody learns from that how another would have to look. Must not know: what principals may do, connections.

use firstseen_routing::{Access, TokenId, TokenRecord};
use firstseen_wire::status::ErrorKind;
use firstseen_wire::token::Token;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tonic::Status;

/// A principal, and the token that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedByToken {
    pub(crate) principal: String,
    pub(crate) token: ShownToken,
}

/// A token that counted when a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownToken {
    id: TokenId,
    expires_s: Option<u64>,
}

/// The principal that the headers of a call name by a token, at `now_s`; none where they have no token.
///
/// # Errors
/// [`ErrorKind::Forbidden`] where the token does not count.
pub(crate) fn shown(headers: &HeaderMap, access: &Access, now_s: u64) -> Result<Option<NamedByToken>, Status> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let token = Token::from_header(value.as_bytes())
        .map_err(|error| ErrorKind::Forbidden.status(format!("the header `authorization` has no token: {error}")))?;
    of(&token, access, now_s).map(Some)
}

/// The principal whose token this is, at `now_s`.
///
/// # Errors
/// [`ErrorKind::Forbidden`] where the token does not count.
pub(crate) fn of(token: &Token, access: &Access, now_s: u64) -> Result<NamedByToken, Status> {
    let known = access.token(token.id()).filter(|(_, kept)| kept.digest == token.digest());
    let (principal, kept) = known.ok_or_else(|| gone(token.id()))?;
    must_be_valid(token.id(), kept, now_s)?;
    let shown = ShownToken { id: token.id(), expires_s: kept.expires_s };
    Ok(NamedByToken { principal: principal.to_owned(), token: shown })
}

impl ShownToken {
    /// Its public part.
    pub(crate) fn id(&self) -> TokenId {
        self.id
    }

    /// Whether its time has come, at `now_s`.
    pub(crate) fn has_expired(&self, now_s: u64) -> bool {
        self.expires_s.is_some_and(|expires_s| now_s >= expires_s)
    }

    /// Only where it is still a token of `principal`.
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
        "token {id} has expired: who has the right `security` makes another by firstseen access token new NAME"
    );
    Err(ErrorKind::Forbidden.status(what))
}

fn gone(id: TokenId) -> Status {
    let what = format!(
        "token {id} is none of this cluster, or was taken back: who has the right `security` makes another by firstseen access \
         token new NAME"
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
