//! Authenticates the client of a connection.
//!
//! A token authenticates only the request that carries it, not the whole connection. If a web page makes a browser send
//! a request without a token, the endpoint rejects the request, so the page cannot use the rights of the browser's
//! user.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use firstseen_backend::{ClientSession, Host, Hosts, Refused};

use crate::problem::{Problem, ProblemKind};

/// Client of a connection.
pub(crate) struct ConnectedClient {
    from: SocketAddr,
    /// User of the connection, if no token is needed, because a certificate identifies the client or the cluster does
    /// not require authentication.
    known: Option<Arc<dyn ClientSession>>,
    /// Token of the previous request with its user, so that the token is not looked up again for each request.
    shown: Mutex<Option<Shown>>,
}

struct Shown {
    token: Box<[u8]>,
    client_session: Arc<dyn ClientSession>,
}

impl ConnectedClient {
    pub(crate) fn new(from: SocketAddr, known: Option<Arc<dyn ClientSession>>) -> Self {
        Self { from, known, shown: Mutex::default() }
    }

    /// Authenticates the client that has sent a request with this head. If the request carries no token, its `Host`
    /// header must be one of `hosts`. If `hosts` is `None`, any host is allowed, because clients with TLS verify the
    /// node's name themselves.
    ///
    /// # Errors
    /// Returns a problem if the client must present a token, or a different one. Also returns a problem if the request
    /// is of a form that a web page can make a browser send.
    pub(crate) fn client_session(
        &self,
        host: &dyn Host,
        hosts: Option<&Hosts>,
        head: &Parts,
    ) -> Result<Arc<dyn ClientSession>, Problem> {
        if let Some(token) = bearer(&head.headers)? {
            return self.by_token(host, token);
        }
        let Some(known) = &self.known else { return Err(no_token()) };
        if head.headers.contains_key(header::ORIGIN) {
            return Err(Problem::new(
                ProblemKind::Forbidden,
                "the request comes from a web page (it has the header Origin) and shows no token: a page that may ask shows one in \
                 `Authorization: Bearer fst_...`",
            ));
        }
        let name = head.headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
        let name = name.or(head.uri.authority().map(|authority| authority.as_str()));
        if let Some(name) = name.filter(|name| hosts.is_some_and(|hosts| !hosts.has(name))) {
            let name: String = name.chars().filter(|letter| !letter.is_control()).take(80).collect();
            return Err(Problem::new(
                ProblemKind::OtherName,
                format_args!(
                    "`{name}` is no name of this node: ask by its address, name it in `hosts` of `[http_api]`, or show a token"
                ),
            ));
        }
        Ok(known.clone())
    }

    fn by_token(&self, host: &dyn Host, token: &[u8]) -> Result<Arc<dyn ClientSession>, Problem> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) =
            shown.as_ref().filter(|last| *last.token == *token && !last.client_session.requires_authentication())
        {
            return Ok(last.client_session.clone());
        }
        let client_session = host.enter(None, token, self.from).ok_or_else(|| {
            Problem::new(
                ProblemKind::Unauthorized,
                "the token does not belong to this cluster, was revoked, or has expired: make one with `firstseen access token`",
            )
        })?;
        *shown = Some(Shown { token: token.into(), client_session: client_session.clone() });
        Ok(client_session)
    }
}

/// Returns the token of a request, or `None` if the request carries none.
fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let (scheme, token) = value.as_bytes().split_at_checked(7).unwrap_or((value.as_bytes(), b""));
    if values.next().is_some() || !scheme.eq_ignore_ascii_case(b"bearer ") {
        return Err(no_token());
    }
    Ok(Some(token.trim_ascii()))
}

fn no_token() -> Problem {
    Problem::new(
        ProblemKind::Unauthorized,
        "authenticate with a token in `Authorization: Bearer fst_...` (`firstseen access token` makes one), or with a certificate",
    )
}

/// Converts a denied access to a problem.
pub(crate) fn refused(refused: Refused) -> Problem {
    match refused {
        Refused::Unknown => no_token(),
        Refused::Forbidden(reason) => Problem::new(ProblemKind::Forbidden, reason),
        Refused::Spent(after) => Problem::new(
            ProblemKind::QuotaSpent,
            "the quota of the principal is spent, and nothing was recorded: send the request again after the time in Retry-After",
        )
        .retry_after(after),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn tokens_stand_behind_bearer() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|value| _ = headers.append(header::AUTHORIZATION, HeaderValue::from_static(value)));
            bearer(&headers).map(|token| token.map(<[u8]>::to_vec))
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["Bearer fst_a"]), Ok(Some(b"fst_a".to_vec())));
        assert_eq!(of(&["bearer  fst_a"]), Ok(Some(b"fst_a".to_vec())));
        for wrong in [["Basic YTpi"].as_slice(), &["Bearer"], &[""], &["Bearer a", "Bearer b"]] {
            assert_eq!(of(wrong).unwrap_err().kind(), ProblemKind::Unauthorized, "{wrong:?}");
        }
    }
}
