//! Finds the fields of web server log lines and of Common Crawl index lines. Must not know: what the fields are used
//! for.

use crate::field::FieldSpan;
use crate::json::JsonFields;
use crate::names::place_of;
use crate::wanted::Wanted;
use crate::{ConfigError, RejectReason};
use memchr::{memchr, memmem};

/// The nine fields of the combined log format, then the parts of the request.
const LOG_NAMES: [&str; 12] =
    ["host", "ident", "user", "time", "request", "status", "bytes", "referer", "agent", "method", "path", "protocol"];
const LOG_ALIASES: [(&str, &str); 5] =
    [("ip", "host"), ("url", "path"), ("size", "bytes"), ("referrer", "referer"), ("user_agent", "agent")];

/// Lines of the common log format, `host ident user [time] "request" status bytes`, and of the combined one, which adds
/// `"referer" "agent"`. Further fields are ignored.
#[derive(Debug)]
pub(crate) struct ClfFields {
    /// The field of each slot.
    places: Vec<Option<usize>>,
}

impl ClfFields {
    pub(crate) fn new(wanted: &[Wanted]) -> Result<Self, ConfigError> {
        let places = wanted.iter().map(|wanted| match wanted {
            Wanted::Whole => Ok(None),
            Wanted::Named(name) => {
                let alias = LOG_ALIASES.iter().find(|(alias, _)| **alias == **name);
                place_of(alias.map_or(name, |(_, name)| name), &LOG_NAMES).map(Some)
            }
        });
        Ok(Self { places: places.collect::<Result<_, _>>()? })
    }

    pub(crate) fn locate(&self, line: &[u8], base: usize, slots: &mut [FieldSpan]) -> Result<(), RejectReason> {
        let fields = split_log_line(line).ok_or(RejectReason::NotALogLine)?;
        for (slot, place) in slots.iter_mut().zip(&self.places) {
            if let Some((start, end)) = place.and_then(|place| fields[place]) {
                *slot = FieldSpan::raw(base + start, base + end);
            }
        }
        Ok(())
    }
}

/// Start and end in the line.
type Place = (usize, usize);

fn split_log_line(line: &[u8]) -> Option<[Option<Place>; LOG_NAMES.len()]> {
    let mut reader = LineReader { line, at: 0 };
    let host = reader.until(b" ")?;
    let ident = reader.until(b" ")?;
    // A user name may contain blanks. One that begins with `-`, the sign for no name, means that the line has a further
    // field in front (Apache's `vhost_combined`), so that its fields would be mistaken for one another.
    let user = reader.until(b" [")?;
    if line[user.0..user.1].starts_with(b"- ") {
        return None;
    }
    let time = reader.until(b"] \"")?;
    let request = reader.quoted()?;
    let status = reader.until(b" ")?;
    let bytes = reader.word();
    if [host, ident, user, time, status, bytes].iter().any(|(start, end)| start == end) {
        return None;
    }
    let mut extra = || reader.skip(b"\"").and_then(|()| reader.quoted());
    let (referer, agent) = (extra(), extra());
    let [method, path, protocol] = split_request(line, request);
    let common = [host, ident, user, time, request, status, bytes].map(Some);
    let [host, ident, user, time, request, status, bytes] = common;
    Some([host, ident, user, time, request, status, bytes, referer, agent, method, path, protocol])
}

/// `GET /a b HTTP/1.0`: the path is what stands between the first blank and the last; HTTP/0.9 has no protocol.
fn split_request(line: &[u8], (start, end): Place) -> [Option<Place>; 3] {
    let request = &line[start..end];
    let Some(first) = memchr(b' ', request) else { return [None; 3] };
    let method = Some((start, start + first));
    match memchr::memrchr(b' ', request) {
        Some(last) if last > first => [method, Some((start + first + 1, start + last)), Some((start + last + 1, end))],
        _ => [method, Some((start + first + 1, end)), None],
    }
}

struct LineReader<'a> {
    line: &'a [u8],
    at: usize,
}

impl LineReader<'_> {
    /// The text up to the next `mark`, which is skipped.
    fn until(&mut self, mark: &[u8]) -> Option<Place> {
        let start = self.at;
        let rest = &self.line[start..];
        let length = if let [byte] = mark { memchr(*byte, rest) } else { memmem::find(rest, mark) }?;
        self.at = start + length + mark.len();
        Some((start, start + length))
    }

    /// The text up to the next blank or the end.
    fn word(&mut self) -> Place {
        let start = self.at;
        let length = memchr(b' ', &self.line[start..]).unwrap_or(self.line.len() - start);
        self.at = (start + length + 1).min(self.line.len());
        (start, start + length)
    }

    /// The text up to the closing quote: the first quote behind which the field ends and that no backslash escapes.
    fn quoted(&mut self) -> Option<Place> {
        let start = self.at;
        let mut at = start;
        loop {
            let quote = at + memchr(b'"', self.line.get(at..)?)?;
            let backslashes = self.line[start..quote].iter().rev().take_while(|&&byte| byte == b'\\').count();
            at = quote + 1;
            if backslashes % 2 == 0 && matches!(self.line.get(at), None | Some(b' ')) {
                self.at = (at + 1).min(self.line.len());
                return Some((start, quote));
            }
        }
    }

    fn skip(&mut self, mark: &[u8]) -> Option<()> {
        self.line[self.at..].starts_with(mark).then(|| self.at += mark.len())
    }
}

const INDEX_NAMES: [&str; 2] = ["urlkey", "timestamp"];

/// Index lines: `urlkey timestamp {json}`.
#[derive(Debug)]
pub(crate) struct IndexFields {
    /// The field of each slot that is not a member of the object.
    places: Vec<Option<usize>>,
    members: JsonFields,
}

impl IndexFields {
    pub(crate) fn new(wanted: &[Wanted]) -> Result<Self, ConfigError> {
        let place = |wanted: &Wanted| match wanted {
            Wanted::Whole => None,
            Wanted::Named(name) => place_of(name, &INDEX_NAMES).ok(),
        };
        let places: Vec<_> = wanted.iter().map(place).collect();
        let members = JsonFields::with(wanted, |slot| places[slot].is_none())?;
        Ok(Self { places, members })
    }

    /// The object is parsed only where a wanted field is in it.
    pub(crate) fn locate(&self, line: &[u8], base: usize, slots: &mut [FieldSpan]) -> Result<(), RejectReason> {
        let mut reader = LineReader { line, at: 0 };
        let (Some(urlkey), Some(timestamp)) = (reader.until(b" "), reader.until(b" ")) else {
            return Err(RejectReason::NotAnIndexLine);
        };
        let object = &line[reader.at..];
        if !object.starts_with(b"{") || urlkey.1 == 0 {
            return Err(RejectReason::NotAnIndexLine);
        }
        for (slot, place) in slots.iter_mut().zip(&self.places) {
            if let Some(place) = place {
                let (start, end) = [urlkey, timestamp][*place];
                *slot = FieldSpan::raw(base + start, base + end);
            }
        }
        if self.members.is_empty() { Ok(()) } else { self.members.locate(object, base + reader.at, slots) }
    }
}
