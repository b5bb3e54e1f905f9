//! Sets the `date` header of HTTP responses from the clock of the node. Without this module, the HTTP library would
//! read the system clock instead. In a simulation, the node's clock is simulated, and a response with the time of the
//! system clock would make the simulation depend on the moment at which it runs.

use std::sync::Arc;

use http::{HeaderValue, Response, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::clock::Clock;

/// Sets the `date` header of a response.
pub(crate) fn date<B>(clock: &Arc<dyn Clock>, mut response: Response<B>) -> Response<B> {
    if let Some(date) = now(clock.wall_ms()) {
        response.headers_mut().insert(header::DATE, date);
    }
    response
}

/// Returns the date in HTTP format. Returns `None` for a time outside of the calendar.
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
