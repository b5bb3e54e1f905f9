//! Finds the fields in two kinds of lines: the lines of web server logs in the common or combined log format, and the
//! lines of the Common Crawl index.

use crate::field::{Encoding, FieldSpan};
use crate::json::JsonFields;
use crate::names::{place_of, place_of_index};
use crate::wanted::Wanted;
use crate::{ConfigError, RejectReason};
use core::net::IpAddr;
use memchr::{memchr, memmem};
use std::ops::Range;

/// Names of the nine fields of the combined log format, of the parts of the request, and of the virtual host in front
/// of the host.
const LOG_NAMES: [&str; 13] = [
    "host", "ident", "user", "time", "request", "status", "bytes", "referer", "agent", "method", "path", "protocol",
    "vhost",
];
const LOG_ALIASES: [(&str, &str); 5] =
    [("ip", "host"), ("url", "path"), ("size", "bytes"), ("referrer", "referer"), ("user_agent", "agent")];
/// Indexes of the parts of the request in [`LOG_NAMES`]. In these fields, `-` is an ordinary text and not a missing
/// value.
const REQUEST_PARTS: Range<usize> = 9..12;
/// Text that nginx writes as the address of a client that uses a Unix domain socket.
const UNIX_SOCKET: &[u8] = b"unix:";
/// Index of the first field that is read only if it is wanted by its number.
const FIRST_EXTRA_FIELD: usize = 7;

/// How the user named a log field.
#[derive(Clone, Copy, Debug)]
enum LogField {
    /// Index of the name in [`LOG_NAMES`].
    Named(usize),
    /// Index of the field in the line, starting at 0.
    Numbered(usize),
}

impl LogField {
    fn of(name: &str) -> Result<Self, ConfigError> {
        if let Ok(place) = place_of_index(name) {
            return Ok(Self::Numbered(place));
        }
        let alias = LOG_ALIASES.iter().find(|(alias, _)| *alias == name);
        place_of(alias.map_or(name, |(_, name)| name), &LOG_NAMES).map(Self::Named)
    }
}

/// Fields of a line in the log formats of web servers. The common log format is `host ident user [time] "request"
/// status bytes`, and the combined format adds `"referer" "agent"`. Some servers write the name of a virtual host in
/// front of the host, or further fields at the end.
#[derive(Debug)]
pub(crate) struct ClfFields {
    /// The field that belongs to each slot.
    fields: Vec<Option<LogField>>,
}

impl ClfFields {
    pub(crate) fn new(wanted: &[Wanted]) -> Result<Self, ConfigError> {
        let fields = wanted.iter().map(|wanted| match wanted {
            Wanted::Whole | Wanted::Column(_) => Ok(None),
            Wanted::Named(name) => LogField::of(name).map(Some),
        });
        Ok(Self { fields: fields.collect::<Result<_, _>>()? })
    }

    pub(crate) fn locate(&self, line: &[u8], base: usize, slots: &mut [FieldSpan]) -> Result<(), RejectReason> {
        let found = LogLine::split(line).ok_or(RejectReason::NotALogLine)?;
        for (slot, field) in slots.iter_mut().zip(&self.fields) {
            let (place, is_part) = match field {
                None => continue,
                Some(LogField::Named(name)) => (found.named(line, *name), REQUEST_PARTS.contains(name)),
                Some(LogField::Numbered(place)) => (found.numbered(line, *place), false),
            };
            if let Some((start, end)) = place {
                *slot = FieldSpan::raw(base + start, base + end);
                if !is_part && is_dash(line, (start, end)) {
                    slot.encoding = Encoding::NoValue;
                }
            }
        }
        Ok(())
    }
}

/// Returns whether `line` has the form of a log line, including its time.
pub(crate) fn is_log_line(line: &[u8]) -> bool {
    let Some(found) = LogLine::split(line) else { return false };
    let time = &line[found.time.0..found.time.1];
    time.contains(&b'/') && time.contains(&b':') && time[0].is_ascii_digit()
}

/// Start and end of a field in the line.
type Place = (usize, usize);

/// Positions of the fields that every line has. The other fields are searched only if they are wanted.
struct LogLine {
    head: Head,
    time: Place,
    request: Place,
    status: Place,
    bytes: Place,
    /// Position at which the fields after the number of bytes begin.
    further: usize,
}

impl LogLine {
    /// Splits a line into its fields. Returns `None` if the line has another form.
    #[inline]
    fn split(line: &[u8]) -> Option<Self> {
        let mut reader = LineReader { line, at: 0 };
        let host = reader.until(b" ")?;
        let ident = reader.until(b" ")?;
        // The user name may contain blanks, so the search continues to the bracket in front of the time.
        let user = reader.until(b" [")?;
        let time = reader.until(b"] \"")?;
        let request = reader.quoted()?;
        let status = reader.until(b" ")?;
        let bytes = reader.word();
        let has_empty = [host, ident, user, time, bytes].iter().any(|(start, end)| start == end);
        if has_empty || !is_status(&line[status.0..status.1]) || !is_count(&line[bytes.0..bytes.1]) {
            return None;
        }
        if memchr(b'[', &line[time.0..]).is_some_and(|bracket| has_log_time(&line[time.0 + bracket..])) {
            return None;
        }
        let head = Head::of(line, host, ident, user)?;
        Some(Self { head, time, request, status, bytes, further: reader.at })
    }

    /// Returns the field with the index `name` in [`LOG_NAMES`].
    fn named(&self, line: &[u8], name: usize) -> Option<Place> {
        match name {
            0 => Some(self.head.host),
            1 => Some(self.head.ident),
            2 => Some(self.head.user),
            3 => Some(self.time),
            4 => Some(self.request),
            5 => Some(self.status),
            6 => Some(self.bytes),
            7 => LineReader { line, at: self.further }.quoted_field(),
            8 => {
                let mut reader = LineReader { line, at: self.further };
                reader.quoted_field()?;
                reader.quoted_field()
            }
            12 => self.head.vhost,
            part => split_request(line, self.request).get(part - REQUEST_PARTS.start).copied()?,
        }
    }

    /// Returns the field at index `place` in the line, starting at 0.
    fn numbered(&self, line: &[u8], place: usize) -> Option<Place> {
        let place = match (self.head.vhost, place) {
            (Some(vhost), 0) => return Some(vhost),
            (Some(_), place) => place - 1,
            (None, place) => place,
        };
        if place < FIRST_EXTRA_FIELD {
            return self.named(line, place);
        }
        let mut reader = LineReader { line, at: self.further };
        for _ in FIRST_EXTRA_FIELD..place {
            reader.field()?;
        }
        reader.field()
    }
}

/// Returns whether a text is a status: three digits, or `-`.
fn is_status(text: &[u8]) -> bool {
    match text {
        [a, b, c] => a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit(),
        text => text == b"-",
    }
}

/// Returns whether a text is a number of bytes, or `-`.
fn is_count(text: &[u8]) -> bool {
    text == b"-" || text.iter().all(u8::is_ascii_digit)
}

/// Returns whether `text` contains a time in the form that web servers write in logs. The caller passes the part of a
/// log line that follows the time of this line.
///
/// A second time in this part shows that two lines were joined, for example because the program that wrote the first
/// line was killed in the middle of it. The caller must reject such a line.
#[cold]
fn has_log_time(text: &[u8]) -> bool {
    const SHAPE: &[u8] = b"[00/Aaa/0000:";
    memchr::memchr_iter(b'[', text).any(|at| {
        text[at..].get(..SHAPE.len()).is_some_and(|time| {
            time.iter().zip(SHAPE).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                b'A' | b'a' => byte.is_ascii_alphabetic(),
                other => byte == other,
            })
        })
    })
}

/// The fields in front of the time of a line.
struct Head {
    vhost: Option<Place>,
    host: Place,
    ident: Place,
    user: Place,
}

impl Head {
    /// Assigns the words in front of the time of a log line to the fields `host`, `ident` and `user`. The words may be
    /// preceded by the name of a virtual host, which becomes the field `vhost`. Returns `None` if the words do not have
    /// this form, for example because a syslog prefix precedes the line.
    #[inline]
    fn of(line: &[u8], host: Place, ident: Place, user: Place) -> Option<Self> {
        if is_dash(line, ident) && is_dash(line, user) && begins_like_host(line, host) {
            return Some(Self { vhost: None, host, ident, user });
        }
        Self::of_unusual(line, host, ident, user)
    }

    #[cold]
    fn of_unusual(line: &[u8], host: Place, ident: Place, user: Place) -> Option<Self> {
        if let Some(blank) = memchr(b' ', &line[user.0..user.1])
            && is_virtual_host(&line[host.0..host.1], &line[ident.0..ident.1])
        {
            let blank = user.0 + blank;
            let head = Self { vhost: Some(host), host: ident, ident: (user.0, blank), user: (blank + 1, user.1) };
            return head.is_sound(line).then_some(head);
        }
        let head = Self { vhost: None, host, ident, user };
        head.is_sound(line).then_some(head)
    }

    /// Returns whether the values of `host`, `ident` and `user` have the form of these fields. For example, a user must
    /// not look like an address. This check detects lines of other formats, in which other words are at these
    /// positions. A user name may consist of several words, so each of its words is checked.
    fn is_sound(&self, line: &[u8]) -> bool {
        let [host, ident, user] = [self.host, self.ident, self.user].map(|(start, end)| &line[start..end]);
        let has_words = user.contains(&b' ');
        let mut words = user.split(|&byte| byte == b' ');
        is_host(host)
            && !is_address(ident)
            && !ident.ends_with(b":")
            && !is_address(user)
            && (!has_words || (ident == b"-" && words.all(|word| is_user_word(word) && !is_address(word))))
    }
}

/// Returns whether a word can be part of a user name of several words.
fn is_user_word(word: &[u8]) -> bool {
    !word.is_empty() && word != b"-" && !word.ends_with(b":")
}

/// Returns whether the field is `-`, which stands for a missing value.
#[inline(always)]
fn is_dash(line: &[u8], (start, end): Place) -> bool {
    end - start == 1 && line[start] == b'-'
}

/// Returns whether a word of at least one byte can name a client, provided that `-` for ident and user follows it.
#[inline(always)]
fn begins_like_host(line: &[u8], (start, end): Place) -> bool {
    line[start].is_ascii_alphanumeric() && line[end - 1] != b':'
}

/// Returns whether a word can name a client. The prefix that a log collector adds in front of a line has another form.
fn is_host(word: &[u8]) -> bool {
    let is_odd = word.iter().any(|byte| b"<[{(\"|=".contains(byte));
    let is_plain = !word.is_empty() && word.last() != Some(&b':') && !is_odd;
    is_plain || is_address(word) || is_bracketed_address(word) || word == UNIX_SOCKET
}

/// Returns whether a word is an address in brackets: `[::1]` or `[::1]:443`.
fn is_bracketed_address(word: &[u8]) -> bool {
    let inside = word.strip_prefix(b"[").and_then(|rest| Some(&rest[..memchr(b']', rest)?]));
    inside.is_some_and(is_address)
}

/// Returns whether a log line begins with the name of the virtual host that served the request, followed by the client.
/// `word` is the first word of the line, and `next` is the second.
///
/// The function recognises a virtual host in two cases: `word` ends with a port (`name:443`), or `word` is a name and
/// `next` is an IP address.
fn is_virtual_host(word: &[u8], next: &[u8]) -> bool {
    if is_address(next) && matches!(word, b"_" | b"-" | b"*") {
        return true;
    }
    if !is_host(word) || next == b"-" || is_address(word) {
        return false;
    }
    let port = memchr::memrchr(b':', word);
    let has_port = port.is_some_and(|port| {
        let name = &word[..port];
        let digits = &word[port + 1..];
        let is_name = is_bracketed_address(name)
            || matches!(name, b"_" | b"*")
            || (!name.contains(&b':') && name.iter().any(u8::is_ascii_alphabetic));
        let is_number = !digits.is_empty() && digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit);
        (is_name || is_address(name)) && is_number
    });
    has_port || (is_address(next) && !word.contains(&b':') && word.iter().any(u8::is_ascii_alphabetic))
}

fn is_address(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| word.parse::<IpAddr>().is_ok())
}

/// Splits the request of a log line, such as `GET /a b HTTP/1.0`, into method, path and protocol. A path may contain
/// blanks, so it is the text between the first and the last blank. A request of HTTP/0.9 has no protocol, so the third
/// result is `None`.
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
    /// Returns the text up to the next `mark`, and skips the mark.
    fn until(&mut self, mark: &[u8]) -> Option<Place> {
        let start = self.at;
        let rest = &self.line[start..];
        let length = if let [byte] = mark { memchr(*byte, rest) } else { memmem::find(rest, mark) }?;
        self.at = start + length + mark.len();
        Some((start, start + length))
    }

    /// Returns the text up to the next blank or the end of the line.
    fn word(&mut self) -> Place {
        let start = self.at;
        let length = memchr(b' ', &self.line[start..]).unwrap_or(self.line.len() - start);
        self.at = (start + length + 1).min(self.line.len());
        (start, start + length)
    }

    /// Returns the text up to the closing quote. This is the first quote that ends a field and is not escaped with a
    /// backslash.
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

    /// Returns the next field if it is in quotes.
    fn quoted_field(&mut self) -> Option<Place> {
        self.skip(b"\"")?;
        self.quoted()
    }

    /// Returns the next field of the line. A field is either enclosed in quotes or ends at the next blank. Returns
    /// `None` at the end of the line, or if a quote opens and is not closed.
    fn field(&mut self) -> Option<Place> {
        if self.at >= self.line.len() {
            return None;
        }
        if self.skip(b"\"").is_some() { self.quoted() } else { Some(self.word()) }
    }

    fn skip(&mut self, mark: &[u8]) -> Option<()> {
        self.line[self.at..].starts_with(mark).then(|| self.at += mark.len())
    }
}

/// Returns whether `line` has the form of an index line.
pub(crate) fn is_index_line(line: &[u8]) -> bool {
    let mut reader = LineReader { line, at: 0 };
    let (Some(urlkey), Some((start, end))) = (reader.until(b" "), reader.until(b" ")) else { return false };
    let is_time = (4..=17).contains(&(end - start)) && line[start..end].iter().all(u8::is_ascii_digit);
    let object = &line[reader.at..];
    urlkey.1 > 0
        && is_time
        && object.starts_with(b"{")
        && serde_json::from_slice::<serde::de::IgnoredAny>(object).is_ok()
}

const INDEX_NAMES: [&str; 2] = ["urlkey", "timestamp"];

/// Fields of index lines, which have the form `urlkey timestamp {json}`.
#[derive(Debug)]
pub(crate) struct IndexFields {
    /// For each slot, the index of its field, or `None` if its field is a member of the JSON object.
    places: Vec<Option<usize>>,
    members: JsonFields,
}

impl IndexFields {
    pub(crate) fn new(wanted: &[Wanted]) -> Result<Self, ConfigError> {
        let places = wanted.iter().map(|wanted| match wanted {
            Wanted::Whole | Wanted::Column(_) => None,
            Wanted::Named(name) => place_of(name, &INDEX_NAMES).ok(),
        });
        let places: Vec<_> = places.collect();
        let members = JsonFields::with(wanted, |slot| places[slot].is_none())?;
        Ok(Self { places, members })
    }

    /// Finds the wanted fields of an index line. The JSON object is parsed only if a wanted field is in it.
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
