//! The `date` of answers, by the clock of the node's edges.
//!
//! Promises: no answer carries another clock's time; without this module the HTTP library would read the machine's.
//! Must not know: what answers are.

use std::sync::Arc;

use http::{HeaderValue, Response, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::clock::Clock;

/// Dates a response.
pub(crate) fn date<B>(clock: &Arc<dyn Clock>, mut response: Response<B>) -> Response<B> {
    if let Some(date) = now(clock.wall_ms()) {
        response.headers_mut().insert(header::DATE, date);
    }
    response
}

/// The date as HTTP writes it; none for a time that no calendar has.
fn now(wall_ms: u64) -> Option<HeaderValue> {
    let time = Timestamp::from_millisecond(i64::try_from(wall_ms).ok()?).ok()?;
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&time).ok()?;
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(now(784_111_777_999).expect("a date"), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(now(u64::MAX), None);
    }
}
