//! Converts different spellings of the same URL to one normal form, so that they count as the same key. The page
//! `docs/reference/normalize.md` lists the rules with examples.

use std::borrow::Cow;
use url::Url;

/// Normal form in which key fields are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyNormalization {
    /// The bytes are used as they are.
    #[default]
    None,
    /// URLs are normalised with [`normalize_url`].
    Url,
}

/// Returns the normal form of a URL, or the bytes unchanged if they are not an absolute URL.
///
/// Some rules come from the WHATWG URL standard. The scheme and the host are written in lower case. The default port,
/// dot segments in the path and blanks around the URL are removed. Bytes that are not allowed in a URL are
/// percent-encoded. An empty path becomes `/`.
///
/// Other rules follow the practice of web crawlers. The fragment is removed, unless it selects a page of an application
/// in the browser (`#/...`, `#!...`). The parameters of the query are sorted, and an empty query is removed. Percent
/// codes in the path and the query are unified (RFC 3986, section 6.2.2): the codes of unreserved characters are
/// decoded, and the remaining codes are written with capital digits.
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

/// Returns the fragment of a URL if it selects a page of an application that runs in the browser. The server does not
/// receive the fragment, but the browser shows a different page for each fragment, so such URLs must stay different.
fn route(url: &Url) -> Option<String> {
    let fragment = url.fragment().filter(|fragment| fragment.starts_with(['/', '!']))?;
    Some(unreserved_plain(fragment).into_owned())
}

/// Decodes the percent codes of unreserved characters, so `%7e` becomes `~`. Other percent codes are written with
/// capital digits, so `%2f` becomes `%2F`. A percent sign that does not begin a valid code is left unchanged.
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

/// Returns whether the text ends with an incomplete percent code, `%` or `%7`.
fn ends_in_code(text: &str) -> bool {
    match text.as_bytes() {
        [.., b'%'] => true,
        [.., b'%', digit] => digit.is_ascii_hexdigit(),
        _ => false,
    }
}
