//! Explains what to do about a JSON member that a call does not have.
//!
//! A client may write a member in another form (`fence` for `fences`), take the name of an option of the query
//! (`time_ms`), or send a member that only another call has. In each of these cases the error names the remedy.
//!
//! This module does not depend on the values of members.

use std::fmt::Display;

use crate::kind::CallKind;
use crate::problem::Problem;

/// Beginning of the error text of `serde` for a member that the target type does not have.
const UNKNOWN_FIELD: &str = "unknown field `";

/// Creates the problem of a JSON body that cannot be parsed. If the body has an unknown member, the problem also says
/// which member the client probably meant.
pub(crate) fn parse_problem(kind: CallKind, error: &impl Display) -> Problem {
    let text = error.to_string();
    let member = text.strip_prefix(UNKNOWN_FIELD).and_then(|rest| rest.split_once('`'));
    match member.and_then(|(member, _)| advice(kind, member)) {
        Some(advice) => Problem::malformed(format_args!("body: {text}; {advice}")),
        None => Problem::malformed(format_args!("body: {text}")),
    }
}

/// Returns the advice about an unknown member of a call, if its name resembles that of a known one.
fn advice(kind: CallKind, member: &str) -> Option<&'static str> {
    match member.to_ascii_lowercase().as_str() {
        "event" | "items" | "item" | "keys" | "key" => Some("did you mean `events`, the list of the events?"),
        "time_ms" | "time" | "times" | "timestamps" | "timestamp" => {
            Some("did you mean `times_ms`, a list with one time for each event?")
        }
        "fence" | "fences" if kind.needs_fences() => {
            Some("did you mean `fences`, a list with one fence for each event?")
        }
        "fence" | "fences" => Some("only confirm and release have fences: leave it out"),
        "ttl" | "ttl_s" if kind == CallKind::Observe => Some("did you mean `ttl_ms`, a number of milliseconds?"),
        "ttl" | "ttl_s" | "ttl_ms" => Some("only observe has a time to live: leave it out"),
        "lease" | "lease_s" if kind == CallKind::Claim => Some("did you mean `lease_ms`, a number of milliseconds?"),
        "lease" | "lease_s" | "lease_ms" => Some("only claim has a lease: leave it out"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `time_ms` is an option of the query, and a body with this member was refused without a word about `times_ms`.
    #[test]
    fn an_unknown_member_leads_to_the_one_that_is_meant() {
        for (kind, member, advised) in [
            (CallKind::Observe, "time_ms", "did you mean `times_ms`"),
            (CallKind::Test, "event", "did you mean `events`"),
            (CallKind::Observe, "ttl", "did you mean `ttl_ms`"),
            (CallKind::Test, "ttl_ms", "only observe"),
            (CallKind::Claim, "lease", "did you mean `lease_ms`"),
            (CallKind::Observe, "lease_ms", "only claim"),
            (CallKind::Confirm, "fence", "did you mean `fences`"),
            (CallKind::Claim, "fences", "only confirm and release"),
        ] {
            let error = format!("unknown field `{member}`, expected `events` at line 1 column 9");
            let problem = parse_problem(kind, &error);
            assert!(problem.detail().contains(advised), "{member}: {problem:?}");
        }
        let other = parse_problem(CallKind::Test, &"unknown field `colour`, expected `events`");
        assert_eq!(other.detail(), "body: unknown field `colour`, expected `events`");
    }
}
