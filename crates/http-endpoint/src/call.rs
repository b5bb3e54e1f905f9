//! Parameters of a call apart from its events: the kind of call, the options in its query, and the headers that name an
//! event.
//!
//! A call with an unknown option in its query is rejected, and the error names the option. A typing error therefore
//! never changes what is recorded.
//!
//! This module does not depend on connections.

use std::borrow::Cow;

use axum::http::header::CONTENT_ENCODING;
use axum::http::{HeaderMap, HeaderName};
use firstseen_routing::SubmissionName;
use url::form_urlencoded;
use xxhash_rust::xxh3::Xxh3;

use crate::kind::CallKind;
use crate::limits::{SPAN_MS_MAX, TIME_MS_MAX};
use crate::problem::{Problem, ProblemKind};

/// Header that names an event, or is the idempotency key for the events in the body.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Header that identifies the source of submissions.
pub(crate) const SOURCE: HeaderName = HeaderName::from_static("x-firstseen-source");
/// Header with the fence of a claim.
pub(crate) const FENCE: HeaderName = HeaderName::from_static("x-firstseen-fence");
/// Maximum length of the values of these headers, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Options in the query of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallOptions {
    /// Time for which the filter remembers the events, in milliseconds. The default is the filter's window.
    pub(crate) ttl_ms: Option<u64>,
    /// Lease of the claims, in milliseconds. The default is the longest lease that the filter allows.
    pub(crate) lease_ms: Option<u64>,
    /// Time at which all events occurred, in milliseconds since 1970. The default is now.
    pub(crate) time_ms: Option<u64>,
}

impl CallOptions {
    /// Parses the options of a call of this kind.
    ///
    /// # Errors
    /// Returns a problem if the call does not have an option, if an option occurs twice, or if its value is not a
    /// number in range.
    pub(crate) fn read(kind: CallKind, query: Option<&str>) -> Result<Self, Problem> {
        let mut options = Self::default();
        for (name, value) in form_urlencoded::parse(own_part(query.unwrap_or_default()).as_bytes()) {
            let known = kind.options();
            if !known.contains(&&*name) {
                let known = known.join("`, `");
                let what = kind.name();
                return Err(Problem::malformed(format_args!(
                    "query: `{name}` is no option of {what}; its options are `{known}`"
                )));
            }
            let (place, max) = match &*name {
                "ttl_ms" => (&mut options.ttl_ms, SPAN_MS_MAX),
                "lease_ms" => (&mut options.lease_ms, SPAN_MS_MAX),
                "time_ms" => (&mut options.time_ms, TIME_MS_MAX),
                _ => continue,
            };
            let min = u64::from(&*name != "time_ms");
            let number = value.parse().ok().filter(|number| (min..=max).contains(number));
            let number = number.ok_or_else(|| number_problem(&name, min, max))?;
            if place.replace(number).is_some() {
                return Err(Problem::malformed(format_args!("query: {name} comes twice; give it once")));
            }
        }
        Ok(options)
    }
}

/// Creates the problem of an option whose value is not a number from `min` to `max`.
fn number_problem(name: &str, min: u64, max: u64) -> Problem {
    let most = most(name, max);
    Problem::malformed(format_args!("query: {name} must be a whole number of milliseconds from {min} to {most}"))
}

/// Describes the greatest value of an option in an error message. The filter limits a lease and a time to live far below
/// `max`, and its limit is not known yet when a request is parsed.
pub(crate) fn most(name: &str, max: u64) -> Cow<'static, str> {
    match name {
        "lease_ms" => Cow::Borrowed("the longest lease of a claim in the filter (--claims)"),
        "ttl_ms" => Cow::Borrowed("the window of the filter"),
        _ => Cow::Owned(max.to_string()),
    }
}

/// Returns the part of a query that comes before the option `for=`. If a gateway asks the endpoint about a request that
/// it has received, it can append the path of that request after `for=`. The path was chosen by the gateway's client,
/// which must not be able to change the options of the call. Everything after `for=` is therefore ignored.
fn own_part(query: &str) -> &str {
    if query.starts_with("for=") {
        return "";
    }
    query.split_once("&for=").map_or(query, |(own, _)| own)
}

/// Headers that name an event and its submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Naming<'a> {
    /// Name of the event, or idempotency key for all events of the body.
    pub(crate) key: Option<&'a str>,
    /// Source of the submission.
    pub(crate) source: Option<&'a str>,
    /// Fence of the event's claim.
    pub(crate) fence: Option<&'a str>,
}

impl<'a> Naming<'a> {
    /// Parses the headers.
    ///
    /// # Errors
    /// Returns a problem if a header occurs twice, or if its value is empty, too long, or not printable ASCII.
    pub(crate) fn read(headers: &'a HeaderMap) -> Result<Self, Problem> {
        Ok(Self { key: one(headers, &IDEMPOTENCY_KEY)?, source: one(headers, &SOURCE)?, fence: one(headers, &FENCE)? })
    }

    /// Returns one idempotency key for each event of a request with `events` events. The keys are derived from the
    /// headers of the request. If a client retries the request with the same headers, the events get the same keys, so
    /// the nodes recognise the retry.
    ///
    /// Returns `None` if the request has no header that names its source. The keys are derived from this name, so such
    /// a request has none.
    ///
    /// # Errors
    /// Returns a problem if there is a source without a key.
    pub(crate) fn submissions(&self, events: usize) -> Result<Option<Vec<SubmissionName>>, Problem> {
        match (self.source, self.key) {
            (None, _) => Ok(None),
            (Some(_), None) => Err(Problem::impossible(format_args!(
                "{SOURCE} says where submissions come from, and Idempotency-Key, which names this one, is missing: send both, or neither"
            ))),
            (Some(source), Some(key)) => {
                let source = submission_source(source, key);
                Ok(Some((0..events as u64).map(|number| SubmissionName { source, number }).collect()))
            }
        }
    }
}

/// Returns the number that represents one submission of a source. Nodes expect that a source numbers its submissions in
/// increasing order. However, the idempotency keys of HTTP clients are arbitrary texts without an order. The endpoint
/// therefore tells the nodes that each submission is a source of its own, and numbers the events of the submission from
/// 0.
pub(crate) fn submission_source(source: &str, key: &str) -> u128 {
    let mut hasher = Xxh3::new();
    // The length is hashed too. Otherwise the source `a` with key `bc` would equal the source `ab` with key `c`.
    hasher.update(&(source.len() as u64).to_le_bytes());
    hasher.update(source.as_bytes());
    hasher.update(key.as_bytes());
    hasher.digest128()
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::malformed(format_args!("header {name} comes twice; send it once")));
    }
    let text = value.to_str().ok().filter(|text| (1..=NAME_BYTES_MAX).contains(&text.len()));
    let text = text.filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    text.map(Some).ok_or_else(|| {
        Problem::malformed(format_args!(
            "header {name} must have 1 to {NAME_BYTES_MAX} printable ASCII characters; send other events in the body"
        ))
    })
}

/// Checks that a body is not compressed. Only `dedup` accepts compressed bodies.
///
/// # Errors
/// Returns a problem if the header `Content-Encoding` names a compression.
pub(crate) fn reject_compressed(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.get_all(CONTENT_ENCODING).iter().all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::UnsupportedMediaType,
        "the header Content-Encoding says that the body is compressed: send it plain, or stream records to dedup, which takes gzip and \
         zstd",
    ))
}

/// Returns the media type of a request in lower case, without its parameters. Returns an error if the text is not
/// encoded in UTF-8.
pub(crate) fn media_type(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, Problem> {
    let Some(value) = headers.get(axum::http::header::CONTENT_TYPE) else { return Ok(None) };
    let text = value.to_str().map_err(|_| Problem::malformed("header content-type is no text"))?;
    let (media, parameters) = text.split_once(';').unwrap_or((text, ""));
    for parameter in parameters.split(';') {
        let Some((name, value)) = parameter.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        if is_charset && !["utf-8", "utf8", "us-ascii"].iter().any(|known| known.eq_ignore_ascii_case(value)) {
            return Err(Problem::new(
                ProblemKind::UnsupportedMediaType,
                format_args!("the body is in charset {value}: send it in UTF-8"),
            ));
        }
    }
    let media = media.trim();
    let is_small = media.bytes().all(|byte| !byte.is_ascii_uppercase());
    Ok(Some(if is_small { Cow::Borrowed(media) } else { Cow::Owned(media.to_ascii_lowercase()) }))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn options_that_a_call_does_not_have_are_refused() {
        let read = |kind, query| CallOptions::read(kind, Some(query));
        let all = read(CallKind::Observe, "ttl_ms=5&time_ms=0").unwrap();
        assert_eq!(all, CallOptions { ttl_ms: Some(5), lease_ms: None, time_ms: Some(0) });
        assert_eq!(CallOptions::read(CallKind::Test, None), Ok(CallOptions::default()));
        for (kind, query, why) in [
            (CallKind::Test, "ttl_ms=5", "`ttl_ms` is no option of test; its options are `time_ms`, `for`"),
            (CallKind::Claim, "lease=5", "`lease` is no option of claim"),
            (CallKind::Claim, "lease_ms=0", "from 1 to the longest lease of a claim"),
            (CallKind::Observe, "ttl_ms=1e3", "must be a whole number of milliseconds"),
            (CallKind::Observe, "ttl_ms=99999999999999999999999", "must be a whole number of milliseconds"),
            (CallKind::Test, "time_ms=x", "must be a whole number of milliseconds from 0 to 253402300799999"),
            (CallKind::Observe, "ttl_ms=1&ttl_ms=1", "comes twice"),
        ] {
            let problem = read(kind, query).unwrap_err();
            assert!(problem.detail().contains(why), "{query}: {problem:?}");
        }
    }

    /// Checks that text after `for=` has no effect on a call. A gateway appends the path and query of its own client's
    /// request after `for=`. That client must not be able to choose the time to live of the event.
    #[test]
    fn what_stands_behind_for_changes_nothing() {
        let read = |query| CallOptions::read(CallKind::Observe, Some(query)).unwrap();
        let expected = CallOptions { ttl_ms: Some(7), ..CallOptions::default() };
        assert_eq!(read("ttl_ms=7&for=/hook?ttl_ms=1&time_ms=x&ttl_ms=9"), expected);
        assert_eq!(read("for=/hook&ttl_ms=9"), CallOptions::default());
    }

    #[test]
    fn names_are_those_of_their_submission() {
        let map = headers(&[(IDEMPOTENCY_KEY, b"k"), (SOURCE, b"s")]);
        let names = Naming::read(&map).unwrap().submissions(3).unwrap().unwrap();
        assert_eq!(names.iter().map(|name| name.number).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(names.iter().all(|name| name.source == submission_source("s", "k")));
        assert_ne!(submission_source("a", "bc"), submission_source("ab", "c"));
        let only_key = headers(&[(IDEMPOTENCY_KEY, b"k")]);
        assert_eq!(Naming::read(&only_key).unwrap().submissions(1), Ok(None));
        let only_source = headers(&[(SOURCE, b"s")]);
        assert!(Naming::read(&only_source).unwrap().submissions(1).is_err());
    }

    #[test]
    fn headers_that_are_no_names_are_refused() {
        let long = [b'a'; NAME_BYTES_MAX + 1];
        for value in [b"".as_slice(), b"\xff", b"\xc3\xa9", b"a\tb", &long] {
            let map = headers(&[(IDEMPOTENCY_KEY, value)]);
            assert!(Naming::read(&map).is_err(), "{value:?}");
        }
        assert!(Naming::read(&headers(&[(IDEMPOTENCY_KEY, b"a"), (IDEMPOTENCY_KEY, b"b")])).is_err());
        assert_eq!(Naming::read(&headers(&[(IDEMPOTENCY_KEY, b"a b")])).unwrap().key, Some("a b"));
    }

    #[test]
    fn media_types_lose_their_parameters() {
        let of = |text: &str| {
            let map = headers(&[(axum::http::header::CONTENT_TYPE, text.as_bytes())]);
            media_type(&map).map(|media| media.unwrap().into_owned())
        };
        assert_eq!(of("Application/JSON; charset=\"UTF-8\"").unwrap(), "application/json");
        assert_eq!(of("text/plain").unwrap(), "text/plain");
        assert!(of("text/plain; charset=utf-16").unwrap_err().detail().contains("send it in UTF-8"));
        assert_eq!(media_type(&HeaderMap::new()), Ok(None));
    }
}
