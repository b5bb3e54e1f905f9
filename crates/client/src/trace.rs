//! W3C trace context (<https://www.w3.org/TR/trace-context/>), restricted to the part that the client sends to nodes.
//!
//! Invalid input is rejected when a value of type `TraceParent` is created, so every such value is a valid trace
//! context. The values are small, and copying one allocates no memory.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// Number of characters of version 00. Later versions begin with the same fields.
const CHARACTERS: usize = 55;
/// Flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// Function that returns the trace context of the caller.
pub type CurrentTrace = Arc<dyn Fn() -> Option<TraceParent> + Send + Sync>;

/// Trace that a call belongs to, and the current span within the trace. See [`crate::ConnectOptions::traceparent`].
///
/// ```
/// use firstseen_client::TraceParent;
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let trace: TraceParent = text.parse().unwrap();
/// assert_eq!(trace, TraceParent::new(0x4bf92f3577b34da6a3ce929d0e0e4736, 0xf067aa0ba902b7, true).unwrap());
/// assert_eq!(trace.to_string(), text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace_id: u128,
    parent_id: u64,
    flags: u8,
}

/// Reason why a text or a pair of numbers is not a trace context.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceParentError {
    /// The text does not have the form of a trace context.
    #[error("`{0}` is no traceparent: it is 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, in lower case")]
    Form(String),
    /// The trace or the span has number 0, which the standard forbids.
    #[error("a traceparent has a trace id and a parent id other than 0: take both from the same span")]
    Zero,
}

impl TraceParent {
    /// Creates the context of span `parent_id` in trace `trace_id`.
    ///
    /// # Errors
    /// Returns [`TraceParentError::Zero`] if one of the numbers is 0.
    ///
    /// ```
    /// use firstseen_client::{TraceParent, TraceParentError};
    /// let trace = TraceParent::new(1, 2, false).unwrap();
    /// assert_eq!(trace.to_string(), "00-00000000000000000000000000000001-0000000000000002-00");
    /// assert_eq!(TraceParent::new(1, 0, false), Err(TraceParentError::Zero));
    /// ```
    pub fn new(trace_id: u128, parent_id: u64, is_sampled: bool) -> Result<Self, TraceParentError> {
        Self { trace_id, parent_id, flags: if is_sampled { SAMPLED } else { 0 } }.checked()
    }

    fn checked(self) -> Result<Self, TraceParentError> {
        if self.trace_id == 0 || self.parent_id == 0 { Err(TraceParentError::Zero) } else { Ok(self) }
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.parent_id, self.flags)
    }
}

impl FromStr for TraceParent {
    type Err = TraceParentError;

    /// Parses a trace context. Of a later version of the format, only the fields of version 00 are read.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| TraceParentError::Form(text.chars().take(2 * CHARACTERS).collect()))?.checked()
    }
}

fn parse(text: &str) -> Option<TraceParent> {
    let (known, more) = text.split_at_checked(CHARACTERS)?;
    let mut parts = known.split('-');
    let version = hex(parts.next()?, 2)?;
    let trace_id = hex(parts.next()?, 32)?;
    let parent_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
    let flags = u8::try_from(hex(parts.next()?, 2)?).ok()?;
    let may_go_on = match version {
        0 => more.is_empty(),
        0xff => false,
        _ => more.is_empty() || more.starts_with('-'),
    };
    (may_go_on && parts.next().is_none()).then_some(TraceParent { trace_id, parent_id, flags })
}

/// Parses a number of exactly `count` hexadecimal digits in lower case.
fn hex(digits: &str, count: usize) -> Option<u128> {
    let is_number = digits.len() == count && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if is_number { u128::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_standard_allows_is_read() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let later = format!("cc-{}-what-comes-then", &good[3..]);
        assert_eq!(good.parse::<TraceParent>().map(|trace| trace.to_string()).as_deref(), Ok(good));
        assert_eq!(later.parse::<TraceParent>().map(|trace| trace.to_string()).as_deref(), Ok(good));
        let bad = [
            "",
            "00",
            &good[..54],
            &format!("{good}-00"),
            &later.replace("-00-", "-00"),
            &good.replace('a', "A"),
            &good.replace("00-0", "ff-0"),
            &good.replace('-', "_"),
            &good.replacen('f', "g", 1),
            &good.replacen('7', "-", 1),
            &"ü".repeat(40),
        ];
        for text in bad {
            assert_eq!(text.parse::<TraceParent>(), Err(TraceParentError::Form(text.chars().take(110).collect())));
        }
    }

    #[test]
    fn zero_names_no_trace() {
        let zero = Err(TraceParentError::Zero);
        assert_eq!(TraceParent::new(0, 1, true), zero);
        assert_eq!(TraceParent::new(1, 0, true), zero);
        assert_eq!(format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)).parse(), zero);
        assert_eq!(format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16)).parse(), zero);
    }
}
