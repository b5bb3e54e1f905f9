//! Parses the body of a call into its events.
//!
//! The parser accepts arbitrary bytes without panicking. It uses memory in proportion to the size of the body, and
//! accepts at most [`EVENTS_MAX`] events. To avoid copies, events without escape sequences are borrowed from the body.
//!
//! This module does not depend on connections.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use firstseen_routing::{Fence, SubmissionName};
use serde::de::{self, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use crate::call::{CallOptions, Naming, most};
use crate::kind::CallKind;
use crate::limits::{EVENTS_MAX, SPAN_MS_MAX, TIME_MS_MAX};
use crate::problem::{Problem, ProblemKind};
use crate::unknown_member::parse_problem;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// Events of a call, and the parameters that apply to them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asking<'a> {
    pub(crate) events: Vec<Cow<'a, [u8]>>,
    /// Time at which each event occurred, in milliseconds since 1970. Empty means now.
    pub(crate) times_ms: Vec<u64>,
    /// Time to live of the events, in milliseconds.
    pub(crate) ttl_ms: Option<u64>,
    /// Lease of the claims, in milliseconds.
    pub(crate) lease_ms: Option<u64>,
    /// Fence of each claim that is confirmed or released.
    pub(crate) fences: Vec<Fence>,
    /// Idempotency keys of the events. Empty if the request sets none.
    pub(crate) names: Vec<SubmissionName>,
    /// Whether a header names the only event. The status code of the reply then gives its verdict.
    pub(crate) is_single: bool,
}

/// Event, which is a text that is not empty.
#[derive(ToSchema)]
#[schema(min_length = 1)]
#[allow(dead_code)]
struct EventSchema(String);

/// Fence of a claim: 48 hexadecimal digits.
#[derive(ToSchema)]
#[schema(pattern = "^[0-9a-fA-F]{48}$")]
#[allow(dead_code)]
struct FenceSchema(String);

/// Time at which an event occurred, in milliseconds since 1970.
#[derive(ToSchema)]
#[schema(maximum = 253402300799999_u64)]
#[allow(dead_code)]
struct TimeSchema(u64);

/// Events, with one event on each line.
#[derive(ToSchema)]
#[schema(pattern = "^([^\\n\\r][^\\n]*|\\r[^\\n]+)(\\n([^\\n\\r][^\\n]*|\\r[^\\n]+))*\\n?$")]
#[allow(dead_code)]
pub(crate) struct EventLines(String);

/// Events to record.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ObserveBody<'a> {
    /// The events. Each event is a text that is not empty.
    #[serde(borrow)]
    #[schema(value_type = Vec<EventSchema>, inline, min_items = 1, max_items = 8192)]
    events: Bounded<Event<'a>>,
    /// Time at which each event occurred, in milliseconds since 1970. The default is now. Only for filters whose events
    /// carry their times.
    #[serde(default)]
    #[schema(value_type = Option<Vec<TimeSchema>>, inline, max_items = 8192)]
    times_ms: Option<Bounded<Time>>,
    /// Time for which the filter remembers the events, in milliseconds. The default is the filter's window.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 3155760000000_u64)]
    ttl_ms: Option<Millis>,
}

/// Events to look up without recording them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestBody<'a> {
    /// The events. Each event is a text that is not empty.
    #[serde(borrow)]
    #[schema(value_type = Vec<EventSchema>, inline, min_items = 1, max_items = 8192)]
    events: Bounded<Event<'a>>,
    /// Time at which each event occurred, in milliseconds since 1970. The default is now. Only for filters whose events
    /// carry their times.
    #[serde(default)]
    #[schema(value_type = Option<Vec<TimeSchema>>, inline, max_items = 8192)]
    times_ms: Option<Bounded<Time>>,
}

/// Events to claim. A client that is granted an event delivers it, and then confirms it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody<'a> {
    /// The events. Each event is a text that is not empty.
    #[serde(borrow)]
    #[schema(value_type = Vec<EventSchema>, inline, min_items = 1, max_items = 8192)]
    events: Bounded<Event<'a>>,
    /// Time at which each event occurred, in milliseconds since 1970. The default is now. Only for filters whose events
    /// carry their times.
    #[serde(default)]
    #[schema(value_type = Option<Vec<TimeSchema>>, inline, max_items = 8192)]
    times_ms: Option<Bounded<Time>>,
    /// Lease of the claims, in milliseconds. The default is the longest lease that the filter allows.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 3155760000000_u64)]
    lease_ms: Option<Millis>,
}

/// Events whose claims are confirmed or released.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldBody<'a> {
    /// The events. Each event is a text that is not empty.
    #[serde(borrow)]
    #[schema(value_type = Vec<EventSchema>, inline, min_items = 1, max_items = 8192)]
    events: Bounded<Event<'a>>,
    /// Fence of each claim, as the reply to the claim returned it: 48 hexadecimal digits.
    #[schema(value_type = Vec<FenceSchema>, inline, min_items = 1, max_items = 8192)]
    fences: Bounded<FenceText>,
    /// Time at which each event occurred, in milliseconds since 1970. The default is now. Only for filters whose events
    /// carry their times.
    #[serde(default)]
    #[schema(value_type = Option<Vec<TimeSchema>>, inline, max_items = 8192)]
    times_ms: Option<Bounded<Time>>,
}

/// List with at most [`EVENTS_MAX`] entries.
#[derive(Debug)]
struct Bounded<T>(Vec<T>);

struct BoundedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedVisitor<T> {
    type Value = Bounded<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of 1 to {EVENTS_MAX} members")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(member) = members.next_element()? {
            if list.len() == EVENTS_MAX {
                return Err(A::Error::custom(format_args!(
                    "the list has more than {EVENTS_MAX} members: send it in several calls"
                )));
            }
            list.push(member);
        }
        Ok(Bounded(list))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BoundedVisitor(PhantomData))
    }
}

/// Event that is borrowed from the body, unless it contains escape sequences.
#[derive(Debug)]
struct Event<'a>(Cow<'a, str>);

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event, which is a text that is not empty")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        if text.is_empty() { Err(empty()) } else { Ok(Event(Cow::Borrowed(text))) }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if text.is_empty() { Err(empty()) } else { Ok(Event(Cow::Owned(text.to_owned()))) }
    }
}

fn empty<E: de::Error>() -> E {
    E::custom("an event is empty: all events without an identifier would be duplicates of each other")
}

impl<'de: 'a, 'a> Deserialize<'de> for Event<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(EventVisitor)
    }
}

/// Whole number of milliseconds. The parser accepts `5.0` as well as `5`, because JSON does not distinguish the two,
/// and some languages write whole numbers with a fraction.
#[derive(Debug)]
struct Millis(u64);

struct MillisVisitor;

impl Visitor<'_> for MillisVisitor {
    type Value = Millis;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of milliseconds from 0 on")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Millis, E> {
        Ok(Millis(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Millis, E> {
        u64::try_from(number).map(Millis).map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Millis, E> {
        let is_whole = number.fract() == 0.0 && (0.0..=WHOLE_MAX).contains(&number);
        if is_whole { Ok(Millis(number as u64)) } else { Err(E::invalid_value(de::Unexpected::Float(number), &self)) }
    }
}

/// Greatest whole number that a floating-point number represents exactly.
const WHOLE_MAX: f64 = (1_u64 << 53) as f64;

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MillisVisitor)
    }
}

/// Time of an event.
#[derive(Debug)]
struct Time(u64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Millis(time_ms) = Millis::deserialize(deserializer)?;
        if time_ms > TIME_MS_MAX {
            return Err(D::Error::custom(format_args!("a time is at most {TIME_MS_MAX}, the end of the year 9999")));
        }
        Ok(Self(time_ms))
    }
}

/// Fence of a claim.
#[derive(Debug)]
struct FenceText(Fence);

impl<'de> Deserialize<'de> for FenceText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse()
            .map(Self)
            .map_err(|_| D::Error::custom("a fence must have 48 hexadecimal digits, as in the reply to the claim"))
    }
}

impl<'a> Asking<'a> {
    /// Parses a call from its body, media type, options and headers.
    ///
    /// # Errors
    /// Returns a problem that says what is wrong with the call.
    pub(crate) fn read(
        kind: CallKind,
        media: Option<&str>,
        body: &'a [u8],
        options: CallOptions,
        naming: Naming<'a>,
    ) -> Result<Self, Problem> {
        let mut asking = match (body, media) {
            ([], _) => Self::of_header(kind, naming)?,
            (_, Some(JSON)) => Self::of_json(kind, body)?,
            (_, Some(TEXT)) => Self::of_text(kind, body)?,
            (_, media) => {
                let found = media.map_or("no Content-Type".to_owned(), |media| format!("Content-Type {media}"));
                return Err(Problem::new(
                    ProblemKind::UnsupportedMediaType,
                    format_args!("the body has {found}: send {JSON}, or {TEXT} with an event a line"),
                ));
            }
        };
        asking.take_options(options)?;
        let events = asking.events.len();
        let lengths = [("times", asking.times_ms.len()), ("fences", asking.fences.len())];
        for (what, found) in lengths {
            if found != events && (found > 0 || (what == "fences" && kind.needs_fences())) {
                return Err(Problem::impossible(format_args!(
                    "the request has {events} events with {found} {what}, but it must have one for each event"
                )));
            }
        }
        if !asking.is_single && naming.key.is_some() && naming.source.is_none() {
            return Err(Problem::impossible(
                "Idempotency-Key names the submission of the events in the body, and X-Firstseen-Source, which says whose \
                 submission it is, is missing: send both, or an event in Idempotency-Key without a body",
            ));
        }
        match (naming.submissions(events)?, kind) {
            (None, _) => {}
            (Some(names), CallKind::Observe) => asking.names = names,
            (Some(_), CallKind::Claim) => {
                return Err(Problem::impossible(
                    "X-Firstseen-Source names a submission, and claims have no names: leave it out; after a lost reply, claim the event \
                     again when its lease is over",
                ));
            }
            // Other calls can be repeated without harm, because a lookup or a confirmation gets the same answer again.
            (Some(_), _) => {}
        }
        Ok(asking)
    }

    fn of_header(kind: CallKind, naming: Naming<'a>) -> Result<Self, Problem> {
        let Some(key) = naming.key else {
            return Err(Problem::impossible(format_args!(
                "there is no event in the request: send events in the body ({JSON}, or {TEXT} with an event a line), or one in the header \
                 Idempotency-Key"
            )));
        };
        let fences = match naming.fence {
            None if kind.needs_fences() => {
                return Err(Problem::impossible(format_args!(
                    "the request has no fence, but a {} must have one: send the fence of the claim in the header {}",
                    kind.name(),
                    crate::call::FENCE
                )));
            }
            None => Vec::new(),
            Some(text) => {
                vec![
                    text.parse()
                        .map_err(|_| {
                            Problem::malformed(
                                "header x-firstseen-fence must have 48 hexadecimal digits: send the fence from the reply to the claim",
                            )
                        })?,
                ]
            }
        };
        Ok(Self { events: vec![Cow::Borrowed(key.as_bytes())], fences, is_single: true, ..Self::default() })
    }

    fn of_json(kind: CallKind, body: &'a [u8]) -> Result<Self, Problem> {
        match kind {
            CallKind::Observe => {
                let ObserveBody { events, times_ms, ttl_ms } = json(kind, body)?;
                let ttl_ms = within("ttl_ms", ttl_ms)?;
                Ok(Self { ttl_ms, ..Self::of_lists(events, times_ms)? })
            }
            CallKind::Test => {
                let TestBody { events, times_ms } = json(kind, body)?;
                Self::of_lists(events, times_ms)
            }
            CallKind::Claim => {
                let ClaimBody { events, times_ms, lease_ms } = json(kind, body)?;
                let lease_ms = within("lease_ms", lease_ms)?;
                Ok(Self { lease_ms, ..Self::of_lists(events, times_ms)? })
            }
            CallKind::Confirm | CallKind::Release => {
                let HeldBody { events, fences, times_ms } = json(kind, body)?;
                let fences = fences.0.into_iter().map(|FenceText(fence)| fence).collect();
                Ok(Self { fences, ..Self::of_lists(events, times_ms)? })
            }
        }
    }

    fn of_lists(events: Bounded<Event<'a>>, times_ms: Option<Bounded<Time>>) -> Result<Self, Problem> {
        if events.0.is_empty() {
            return Err(Problem::malformed("body: the list of events is empty; send at least one"));
        }
        let events = events.0.into_iter().map(|Event(text)| match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        });
        let times_ms = times_ms.map_or_else(Vec::new, |times| times.0.into_iter().map(|Time(ms)| ms).collect());
        Ok(Self { events: events.collect(), times_ms, ..Self::default() })
    }

    /// Parses a body with one event on each line. A line ends with LF or CRLF, and the last line need not end with
    /// either.
    fn of_text(kind: CallKind, body: &'a [u8]) -> Result<Self, Problem> {
        if kind.needs_fences() {
            let what = kind.name();
            return Err(Problem::new(
                ProblemKind::UnsupportedMediaType,
                format_args!("a {what} needs a fence for each event, which {TEXT} cannot carry: send {JSON}"),
            ));
        }
        let lines = body.strip_suffix(b"\n").unwrap_or(body);
        let mut events = Vec::new();
        for (number, line) in (1..).zip(lines.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                return Err(Problem::malformed(format_args!(
                    "body: line {number} is empty, and an event is not; leave the line out"
                )));
            }
            if events.len() == EVENTS_MAX {
                return Err(Problem::malformed(format_args!(
                    "body: more than {EVENTS_MAX} events; send them in several calls"
                )));
            }
            events.push(Cow::Borrowed(line));
        }
        Ok(Self { events, ..Self::default() })
    }

    fn take_options(&mut self, options: CallOptions) -> Result<(), Problem> {
        let CallOptions { ttl_ms, lease_ms, time_ms } = options;
        if (ttl_ms.is_some() && self.ttl_ms.is_some()) || (lease_ms.is_some() && self.lease_ms.is_some()) {
            return Err(Problem::impossible("ttl_ms or lease_ms stands in the query and in the body: give it once"));
        }
        self.ttl_ms = self.ttl_ms.or(ttl_ms);
        self.lease_ms = self.lease_ms.or(lease_ms);
        match time_ms {
            Some(_) if !self.times_ms.is_empty() => Err(Problem::impossible(
                "times stand in the query (time_ms) and in the body (times_ms): give one of them",
            )),
            Some(time_ms) => {
                self.times_ms = vec![time_ms; self.events.len()];
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn json<'a, T: Deserialize<'a>>(kind: CallKind, body: &'a [u8]) -> Result<T, Problem> {
    // The parser would also accept a JSON array of the values, so the first character is checked here.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::malformed(
            "body: it is no JSON object: send one with `events`, such as {\"events\": [\"a\"]}",
        ));
    }
    serde_json::from_slice(body).map_err(|error| parse_problem(kind, &error))
}

fn within(field: &str, value: Option<Millis>) -> Result<Option<u64>, Problem> {
    match value {
        Some(Millis(value)) if !(1..=SPAN_MS_MAX).contains(&value) => {
            let most = most(field, SPAN_MS_MAX);
            Err(Problem::malformed(format_args!(
                "body: {field} is {value}, and must be a number of milliseconds from 1 to {most}"
            )))
        }
        value => Ok(value.map(|Millis(value)| value)),
    }
}

/// Checks at compile time that the schema and the parser have the same limits.
const _: () = assert!(EVENTS_MAX == 8192 && SPAN_MS_MAX == 3_155_760_000_000 && TIME_MS_MAX == 253_402_300_799_999);

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(kind: CallKind, media: &str, body: &'a [u8]) -> Result<Asking<'a>, Problem> {
        Asking::read(kind, Some(media), body, CallOptions::default(), Naming::default())
    }

    fn events<'a>(asking: &'a Asking<'_>) -> Vec<&'a [u8]> {
        asking.events.iter().map(|event| &**event).collect()
    }

    #[test]
    fn json_events_are_borrowed_unless_they_have_escapes() {
        let body = br#"{"events": ["a", "\u00e9\n"], "times_ms": [1, 2], "ttl_ms": null}"#;
        let asking = read(CallKind::Observe, JSON, body).unwrap();
        assert_eq!(events(&asking), [b"a".as_slice(), "é\n".as_bytes()]);
        assert!(matches!(asking.events[0], Cow::Borrowed(_)) && matches!(asking.events[1], Cow::Owned(_)));
        assert_eq!((asking.times_ms, asking.ttl_ms, asking.is_single), (vec![1, 2], None, false));
    }

    #[test]
    fn whole_numbers_may_have_a_fraction_of_zero() {
        let asking = read(CallKind::Observe, JSON, br#"{"events": ["a"], "times_ms": [5.0], "ttl_ms": 6e3}"#).unwrap();
        assert_eq!((asking.times_ms, asking.ttl_ms), (vec![5], Some(6_000)));
        for number in ["5.5", "-1", "-1.0", "1e30", "\"5\"", "true"] {
            let body = format!(r#"{{"events": ["a"], "times_ms": [{number}]}}"#);
            assert!(read(CallKind::Observe, JSON, body.as_bytes()).is_err(), "{number}");
        }
    }

    #[test]
    fn lines_are_events_as_they_are() {
        let asking = read(CallKind::Test, TEXT, b"a\r\n\xff b\nc").unwrap();
        assert_eq!(events(&asking), [b"a".as_slice(), b"\xff b", b"c"]);
        assert_eq!(read(CallKind::Test, TEXT, b"a\n").unwrap().events.len(), 1);
        let problem = read(CallKind::Test, TEXT, b"a\n\nb").unwrap_err();
        assert!(problem.detail().contains("line 2 is empty"), "{problem:?}");
    }

    #[test]
    fn bodies_that_cannot_be_meant_are_refused_with_the_remedy() {
        let many = format!(r#"{{"events": [{}"a"]}}"#, r#""a","#.repeat(EVENTS_MAX));
        for (kind, media, body, why) in [
            (CallKind::Observe, JSON, br#"{"events": []}"#.as_slice(), "at least one"),
            (CallKind::Observe, JSON, br#"{"events": [""]}"#, "is empty"),
            (CallKind::Observe, JSON, br#"{"events": ["a"], "ttl": 5}"#, "unknown field `ttl`"),
            (CallKind::Test, JSON, br#"{"events": ["a"], "ttl_ms": 5}"#, "unknown field `ttl_ms`"),
            (CallKind::Observe, JSON, br#"{"events": ["a"], "ttl_ms": 0}"#, "from 1 to the window"),
            (CallKind::Observe, JSON, br#"{"events": ["a"], "ttl_ms": 1e300}"#, "body: "),
            (CallKind::Observe, JSON, br#"{"events": ["a"], "times_ms": [99999999999999999]}"#, "9999"),
            (CallKind::Observe, JSON, br#"{"events": ["a"], "times_ms": [-1]}"#, "body: "),
            (CallKind::Observe, JSON, b"{\"events\": [\"\xff\"]}", "body: "),
            (CallKind::Observe, JSON, br#"{"events": ["a"]} x"#, "trailing"),
            (CallKind::Observe, JSON, br#"{"events": ["a", "b"], "times_ms": [1]}"#, "2 events with 1 times"),
            (CallKind::Confirm, JSON, br#"{"events": ["a"], "fences": []}"#, "1 events with 0 fences"),
            (CallKind::Confirm, JSON, br#"{"events": ["a"], "fences": ["x"]}"#, "must have 48 hexadecimal digits"),
            (CallKind::Observe, JSON, br#"{"events": ["a"], "time_ms": 5}"#, "did you mean `times_ms`"),
            (CallKind::Confirm, JSON, br#"{"events": ["a"], "fence": "x"}"#, "did you mean `fences`"),
            (CallKind::Release, TEXT, b"a", "send application/json"),
            (CallKind::Observe, "application/x-www-form-urlencoded", b"a", "text/plain with an event a line"),
            (CallKind::Observe, JSON, many.as_bytes(), "more than 8192"),
            (CallKind::Observe, JSON, br#"[["a"], [], null]"#, "no JSON object"),
            (CallKind::Observe, JSON, b" ", "no JSON object"),
            (CallKind::Observe, JSON, b"", "there is no event"),
        ] {
            let problem = read(kind, media, body).unwrap_err();
            assert!(problem.detail().contains(why), "{:?}: {problem:?}", String::from_utf8_lossy(body));
        }
        let lines = "a\n".repeat(EVENTS_MAX + 1);
        assert!(read(CallKind::Observe, TEXT, lines.as_bytes()).is_err());
        assert_eq!(read(CallKind::Observe, TEXT, &lines.as_bytes()[2..]).unwrap().events.len(), EVENTS_MAX);
    }

    /// Checks that deeply nested JSON is rejected and does not overflow the stack.
    #[test]
    fn nested_json_is_refused() {
        let deep = "[".repeat(200_000);
        assert!(read(CallKind::Observe, JSON, deep.as_bytes()).is_err());
    }

    #[test]
    fn a_header_names_an_event() {
        let fence = "0".repeat(48);
        let naming = Naming { key: Some("abc"), source: None, fence: Some(&fence) };
        let options = CallOptions { time_ms: Some(7), ..CallOptions::default() };
        let asking = Asking::read(CallKind::Confirm, None, b"", options, naming).unwrap();
        assert_eq!(events(&asking), [b"abc"]);
        assert!(asking.is_single && asking.fences.len() == 1 && asking.times_ms == [7] && asking.names.is_empty());
        let without = Naming { fence: None, ..naming };
        assert!(Asking::read(CallKind::Confirm, None, b"", options, without).is_err());
        let named = Naming { source: Some("shop"), ..without };
        let asking = Asking::read(CallKind::Observe, None, b"", options, named).unwrap();
        assert_eq!(asking.names.len(), 1);
    }

    #[test]
    fn the_key_of_a_list_needs_a_source() {
        let read = |naming| {
            Asking::read(CallKind::Observe, Some(TEXT), b"a\nb", CallOptions::default(), naming)
                .map(|asking| asking.names.len())
        };
        let naming = Naming { key: Some("k"), source: Some("s"), fence: None };
        assert_eq!(read(naming), Ok(2));
        assert!(read(Naming { source: None, ..naming }).is_err());
        assert!(read(Naming { key: None, ..naming }).is_err());
        assert_eq!(read(Naming::default()), Ok(0));
    }
}
