//! Converts verdicts to the reply of a command.
//!
//! If the reply to a command is an array, it has exactly as many elements as its header announces, and none of these
//! elements is an error.
//!
//! A setting of the filter, the [`UndecidedRule`], determines how undecided events appear in the reply. With the
//! setting [`UndecidedRule::Error`], a single undecided event turns the reply to the whole command into an error. The
//! error says how many of the command's events are undecided.
//!
//! This module does not depend on commands and connections.

use firstseen_backend::meaning;
use firstseen_client::Verdict;
use firstseen_resp::Replies;
use firstseen_routing::{Hold, Reason};

use crate::settings::UndecidedRule;

/// Question that a reply answers about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polarity {
    /// Whether the event was new.
    New,
    /// Whether the event was seen before.
    Seen,
}

impl Polarity {
    fn holds(self, verdict: Verdict, rule: UndecidedRule) -> bool {
        is_new(verdict, rule) == (self == Self::New)
    }
}

/// Form of the reply to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyShape {
    /// `OK` if the event is new, nil if it was seen.
    OkOrNothing,
    /// Reply to `SET NX` (`OK` or nil), followed by 1 for its `EXPIRE`.
    OkOrNothingThenOne,
    /// The integer 1 or 0.
    Integer(Polarity),
    /// Reply to `SETNX` (1 or 0), followed by 1 for its `EXPIRE`.
    NewThenOne,
    /// Number of events that are new.
    HowManyNew,
    /// Number of events that were seen or are held by a consumer.
    HowManyThere,
    /// The integer 1 or 0 for each event.
    Integers(Polarity),
    /// A boolean.
    Boolean(Polarity),
    /// A boolean for each event.
    Booleans(Polarity),
    /// `1` if the event was seen, nil if it is new.
    OneOrNothing,
    /// 1 if the event is new, 0 if it was seen, or a negative number that identifies the reason why it is undecided.
    Code,
    /// The code of each event.
    Codes,
    /// The code, followed by the fence of the claim. If another consumer holds the event, the remaining time in
    /// milliseconds follows instead.
    CodeAndFence,
    /// The code and the fence of each event.
    CodesAndFences,
}

impl ReplyShape {
    /// Returns the number of replies: two if the form includes the reply to an `EXPIRE`, and otherwise one.
    pub(crate) fn replies(self) -> usize {
        if matches!(self, Self::OkOrNothingThenOne | Self::NewThenOne) { 2 } else { 1 }
    }

    /// Returns whether the command is specific to firstseen (`FS.*`). Replies to these commands can express that an
    /// event is undecided.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Self::Code | Self::Codes | Self::CodeAndFence | Self::CodesAndFences)
    }

    /// Returns whether the command is one of RedisBloom (`BF.*`).
    pub(crate) fn is_of_bloom(self) -> bool {
        matches!(self, Self::Boolean(_) | Self::Booleans(_))
    }

    /// Returns whether the reply tells which keys exist. A key that a consumer holds counts as existing.
    pub(crate) fn is_of_keys(self) -> bool {
        matches!(self, Self::HowManyThere | Self::OneOrNothing)
    }

    /// Returns whether the command only looks up events and records nothing.
    fn is_of_question(self) -> bool {
        let says = match self {
            Self::Integer(says) | Self::Integers(says) | Self::Boolean(says) | Self::Booleans(says) => says,
            Self::HowManyThere | Self::OneOrNothing => Polarity::Seen,
            Self::OkOrNothing | Self::HowManyNew | Self::OkOrNothingThenOne | Self::NewThenOne => Polarity::New,
            Self::Code | Self::Codes | Self::CodeAndFence | Self::CodesAndFences => Polarity::New,
        };
        says == Polarity::Seen
    }
}

/// Writes the reply of a command with these verdicts and holds. Returns the number of undecided events.
pub(crate) fn reply(
    replies: &mut Replies,
    form: ReplyShape,
    rule: UndecidedRule,
    verdicts: &[Verdict],
    holds: &[Hold],
) -> usize {
    let mut reasons = verdicts.iter().filter_map(|verdict| reason_of(*verdict));
    let first_reason = reasons.next();
    let undecided = usize::from(first_reason.is_some()) + reasons.count();
    if let Some(reason) = first_reason
        && rule == UndecidedRule::Error
        && !form.is_own()
    {
        let (explanation, others) = if form.is_of_question() {
            (lookup_reason_text(reason), "the verdicts on the others are not reported: ask again")
        } else {
            (reason_text(reason), "the others are recorded, but the reply does not say which were new: deliver all")
        };
        match verdicts.len() {
            events if events > 1 && events == undecided => {
                replies.error(format_args!("UNDECIDED all {events} items ({explanation})"));
            }
            1 => {
                (0..form.replies()).for_each(|_| replies.error(format_args!("UNDECIDED {explanation}")));
            }
            events => replies.error(format_args!("UNDECIDED {undecided} of {events} items ({explanation}); {others}")),
        }
        return undecided;
    }
    let first = verdicts.first().copied().unwrap_or(Verdict::FirstSeen);
    match form {
        ReplyShape::OkOrNothing if is_new(first, rule) => replies.simple("OK"),
        ReplyShape::OkOrNothing => replies.null(),
        ReplyShape::OkOrNothingThenOne => {
            if is_new(first, rule) {
                replies.simple("OK")
            } else {
                replies.null()
            }
            replies.integer(1);
        }
        ReplyShape::NewThenOne => {
            replies.integer(i64::from(is_new(first, rule)));
            replies.integer(1);
        }
        ReplyShape::Integer(says) => replies.integer(i64::from(says.holds(first, rule))),
        ReplyShape::Boolean(says) => replies.boolean(says.holds(first, rule)),
        ReplyShape::HowManyNew | ReplyShape::HowManyThere => {
            let says = if form == ReplyShape::HowManyNew { Polarity::New } else { Polarity::Seen };
            let count = verdicts.iter().filter(|verdict| says.holds(**verdict, rule)).count();
            replies.integer(i64::try_from(count).unwrap_or(i64::MAX));
        }
        ReplyShape::Integers(says) => {
            replies.array(verdicts.len());
            verdicts.iter().for_each(|verdict| replies.integer(i64::from(says.holds(*verdict, rule))));
        }
        ReplyShape::Booleans(says) => {
            replies.array(verdicts.len());
            verdicts.iter().for_each(|verdict| replies.boolean(says.holds(*verdict, rule)));
        }
        ReplyShape::OneOrNothing if Polarity::Seen.holds(first, rule) => replies.bulk(b"1"),
        ReplyShape::OneOrNothing => replies.null(),
        ReplyShape::Code => replies.integer(code(first)),
        ReplyShape::Codes => {
            replies.array(verdicts.len());
            verdicts.iter().for_each(|verdict| replies.integer(code(*verdict)));
        }
        ReplyShape::CodeAndFence => code_and_fence(replies, first, holds.first()),
        ReplyShape::CodesAndFences => {
            replies.array(verdicts.len());
            verdicts.iter().enumerate().for_each(|(at, verdict)| code_and_fence(replies, *verdict, holds.get(at)));
        }
    }
    undecided
}

fn code_and_fence(replies: &mut Replies, verdict: Verdict, hold: Option<&Hold>) {
    replies.array(2);
    replies.integer(code(verdict));
    match hold {
        Some(Hold::Own(fence)) => replies.bulk(fence.to_string().as_bytes()),
        Some(Hold::Other { left_ms }) => replies.integer((*left_ms).into()),
        _ => replies.null(),
    }
}

fn is_new(verdict: Verdict, rule: UndecidedRule) -> bool {
    match verdict {
        Verdict::FirstSeen => true,
        Verdict::Duplicate => false,
        Verdict::Undecided(_) => rule == UndecidedRule::New,
    }
}

fn reason_of(verdict: Verdict) -> Option<Reason> {
    match verdict {
        Verdict::Undecided(reason) => Some(reason),
        Verdict::FirstSeen | Verdict::Duplicate => None,
    }
}

fn code(verdict: Verdict) -> i64 {
    match verdict {
        Verdict::FirstSeen => 1,
        Verdict::Duplicate => 0,
        Verdict::Undecided(reason) => -number(reason),
    }
}

/// Returns the number of a reason. These numbers never change, because clients compare them.
fn number(reason: Reason) -> i64 {
    match reason {
        Reason::Full => 1,
        Reason::Late => 2,
        Reason::Future => 3,
        Reason::Overloaded => 4,
        Reason::StaleMap => 5,
        Reason::TooOld => 6,
        Reason::Unknown => 7,
        Reason::NotReady => 8,
        Reason::Invalid => 9,
        Reason::UnknownFilter => 10,
        Reason::SlicesDown => 11,
        Reason::Altered => 12,
        Reason::NameReused => 13,
        Reason::CutOff => 14,
        Reason::ClockSkew => 15,
        Reason::Claimed => 16,
        Reason::Forbidden => 17,
        Reason::ClaimsUnknown => 18,
    }
}

/// Returns the name of a reason, and what the reason means for an event that was to be recorded.
pub(crate) fn reason_text(reason: Reason) -> String {
    format!("{reason:?}: {}", meaning(reason))
}

/// Returns the name of a reason, and what the reason means for an event that was only looked up.
fn lookup_reason_text(reason: Reason) -> String {
    match reason {
        Reason::Overloaded | Reason::NotReady => format!("{reason:?}: try again later"),
        Reason::Unknown => format!("{reason:?}: no answer arrived in time: ask again"),
        reason => reason_text(reason),
    }
}

#[cfg(test)]
mod tests {
    use firstseen_resp::Protocol;

    use super::*;

    const NEW: Verdict = Verdict::FirstSeen;
    const SEEN: Verdict = Verdict::Duplicate;
    const FULL: Verdict = Verdict::Undecided(Reason::Full);

    fn text(form: ReplyShape, rule: UndecidedRule, verdicts: &[Verdict]) -> String {
        let mut replies = Replies::new(Protocol::Resp3);
        reply(&mut replies, form, rule, verdicts, &[]);
        String::from_utf8(replies.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn each_form_says_what_redis_says() {
        let rule = UndecidedRule::Error;
        let rows: [(ReplyShape, &[Verdict], &str); 12] = [
            (ReplyShape::OkOrNothing, &[NEW], "+OK\r\n"),
            (ReplyShape::OkOrNothing, &[SEEN], "_\r\n"),
            (ReplyShape::Integer(Polarity::New), &[NEW], ":1\r\n"),
            (ReplyShape::Integer(Polarity::Seen), &[NEW], ":0\r\n"),
            (ReplyShape::Boolean(Polarity::New), &[SEEN], "#f\r\n"),
            (ReplyShape::Boolean(Polarity::Seen), &[SEEN], "#t\r\n"),
            (ReplyShape::HowManyNew, &[NEW, SEEN, NEW], ":2\r\n"),
            (ReplyShape::HowManyThere, &[NEW, SEEN, NEW], ":1\r\n"),
            (ReplyShape::Integers(Polarity::Seen), &[NEW, SEEN], "*2\r\n:0\r\n:1\r\n"),
            (ReplyShape::Booleans(Polarity::New), &[NEW, SEEN], "*2\r\n#t\r\n#f\r\n"),
            (ReplyShape::Codes, &[NEW, SEEN], "*2\r\n:1\r\n:0\r\n"),
            (ReplyShape::Codes, &[FULL, Verdict::Undecided(Reason::Late)], "*2\r\n:-1\r\n:-2\r\n"),
        ];
        for (form, verdicts, expected) in rows {
            assert_eq!(text(form, rule, verdicts), expected, "{form:?}");
        }
    }

    #[test]
    fn what_is_undecided_is_an_error_for_all_or_what_the_rule_says() {
        let one = text(ReplyShape::OkOrNothing, UndecidedRule::Error, &[FULL]);
        assert!(one.starts_with("-UNDECIDED Full: ") && one.lines().count() == 1, "{one}");
        let some = text(ReplyShape::Booleans(Polarity::New), UndecidedRule::Error, &[NEW, FULL, SEEN]);
        assert!(some.starts_with("-UNDECIDED 1 of 3 items (Full: ") && some.contains("deliver all"), "{some}");
        let asked = text(
            ReplyShape::Booleans(Polarity::Seen),
            UndecidedRule::Error,
            &[NEW, Verdict::Undecided(Reason::Unknown)],
        );
        assert!(asked.contains("no answer arrived") && asked.ends_with("ask again\r\n"), "{asked}");
        let all = text(ReplyShape::Booleans(Polarity::New), UndecidedRule::Error, &[FULL, FULL]);
        assert!(all.starts_with("-UNDECIDED all 2 items (Full: "), "{all}");
        assert_eq!(text(ReplyShape::OkOrNothing, UndecidedRule::New, &[FULL]), "+OK\r\n");
        assert_eq!(text(ReplyShape::OkOrNothing, UndecidedRule::Seen, &[FULL]), "_\r\n");
        assert_eq!(text(ReplyShape::HowManyNew, UndecidedRule::New, &[FULL, SEEN]), ":1\r\n");
        assert_eq!(text(ReplyShape::Integers(Polarity::Seen), UndecidedRule::Seen, &[FULL, NEW]), "*2\r\n:1\r\n:0\r\n");
    }
}
