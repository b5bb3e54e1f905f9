//! Brings equivalent spellings of a URL to one; `docs/reference/normalize.md` has the rules and examples.
//! Must not know: records, digests.

use std::borrow::Cow;
use url::Url;

/// The normal form of key fields, in which they are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyNormalization {
    /// The bytes as they are.
    #[default]
    None,
    /// [`normalize_url`].
    Url,
}

/// The normal form of a URL, or the bytes as they are if they are no absolute URL.
///
/// By the WHATWG URL standard: scheme and host in lower case, default port and dot segments removed, blanks around it
/// dropped, unsafe bytes percent-encoded, an empty path is `/`. Beyond it, as crawlers do: the fragment is dropped unless
/// it is a route of the page itself (`#/...`, `#!...`), the parameters of the query are sorted by their bytes (equal ones keep their order), an empty query is dropped, and in
/// path and query a percent-encoded unreserved character is written plainly, others with capital hex digits (RFC 3986,
/// 6.2.2).
///
/// ```
/// use firstseen_records::normalize_url;
/// let normal = normalize_url(b"HTTP://Example.COM:80/a/../%7euser?b=2&a=1#top");
/// assert_eq!(&normal[..], b"http://example.com/~user?a=1&b=2");
/// assert_eq!(&normalize_url(b"no url")[..], b"no url");
/// ```
pub fn normalize_url(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(mut url) = std::str::from_utf8(text).ok().and_then(|text| Url::parse(text).ok()) else {
        return Cow::Borrowed(text);
    };
    let route = if url.cannot_be_a_base() { None } else { route(&url) };
    url.set_fragment(route.as_deref());
    if url.cannot_be_a_base() {
        return Cow::Owned(String::from(url).into_bytes());
    }
    if let Cow::Owned(path) = unreserved_plain(url.path()) {
        url.set_path(&path);
    }
    if let Some(query) = url.query() {
        let query = unreserved_plain(query);
        let mut parameters: Vec<&str> = query.split('&').filter(|parameter| !parameter.is_empty()).collect();
        parameters.sort_by_key(|parameter| parameter.as_bytes());
        let query = parameters.join("&");
        url.set_query((!query.is_empty()).then_some(&query));
    }
    Cow::Owned(String::from(url).into_bytes())
}

/// The fragment where it names a page of an application that runs in the browser: the server does not see it, but what
/// is shown differs.
fn route(url: &Url) -> Option<String> {
    let fragment = url.fragment().filter(|fragment| fragment.starts_with(['/', '!']))?;
    Some(unreserved_plain(fragment).into_owned())
}

/// `%7e` becomes `~`, `%2f` becomes `%2F`; a percent sign that begins no code stays.
fn unreserved_plain(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split('%');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let code = part.get(..2).filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if is_unreserved(byte) && !ends_in_code(&plain) => {
                plain.push(char::from(byte));
                plain.push_str(&part[2..]);
            }
            Some(byte) => {
                plain.push_str(&format!("%{byte:02X}"));
                plain.push_str(&part[2..]);
            }
            None => {
                plain.push('%');
                plain.push_str(part);
            }
        }
    }
    Cow::Owned(plain)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Whether one more character could complete a percent code: `%` or `%7` at the end.
fn ends_in_code(text: &str) -> bool {
    match text.as_bytes() {
        [.., b'%'] => true,
        [.., b'%', digit] => digit.is_ascii_hexdigit(),
        _ => false,
    }
}
