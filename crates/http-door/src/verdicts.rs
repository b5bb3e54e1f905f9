//! Verdicts as they are sent: words for what was decided, and the reason where nothing was.
//!
//! This module must not depend on how verdicts are asked for.

use firstseen_client::Verdict;
use firstseen_routing::{Hold, Reason};
use serde::Serialize;
use utoipa::ToSchema;

use crate::kind::CallKind;

/// What is said of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Verdict)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShownVerdict {
    /// Nobody has named the event before; a claim of it is granted.
    FirstSeen,
    /// The event was seen before.
    Duplicate,
    /// The claim is confirmed: the event is recorded.
    Confirmed,
    /// The claim is released: others may claim the event.
    Released,
    /// Nobody holds the event by this fence, so there was nothing to release.
    NotHeld,
    /// Nothing is decided, for this reason.
    Undecided(ShownReason),
}

/// Why nothing is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Reason)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShownReason {
    Full,
    Late,
    Future,
    Overloaded,
    StaleMap,
    TooOld,
    Unknown,
    NotReady,
    Invalid,
    UnknownFilter,
    SlicesDown,
    Altered,
    NameReused,
    CutOff,
    ClockSkew,
    Claimed,
    Forbidden,
    ClaimsUnknown,
}

impl From<Reason> for ShownReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Full => Self::Full,
            Reason::Late => Self::Late,
            Reason::Future => Self::Future,
            Reason::Overloaded => Self::Overloaded,
            Reason::StaleMap => Self::StaleMap,
            Reason::TooOld => Self::TooOld,
            Reason::Unknown => Self::Unknown,
            Reason::NotReady => Self::NotReady,
            Reason::Invalid => Self::Invalid,
            Reason::UnknownFilter => Self::UnknownFilter,
            Reason::SlicesDown => Self::SlicesDown,
            Reason::Altered => Self::Altered,
            Reason::NameReused => Self::NameReused,
            Reason::CutOff => Self::CutOff,
            Reason::ClockSkew => Self::ClockSkew,
            Reason::Claimed => Self::Claimed,
            Reason::Forbidden => Self::Forbidden,
            Reason::ClaimsUnknown => Self::ClaimsUnknown,
        }
    }
}

impl ShownVerdict {
    /// The word for a verdict that a call of this kind got.
    pub(crate) fn of(kind: CallKind, verdict: Verdict) -> Self {
        match (verdict, kind) {
            (Verdict::Undecided(reason), _) => Self::Undecided(reason.into()),
            (Verdict::FirstSeen, CallKind::Confirm) => Self::Confirmed,
            (Verdict::FirstSeen, CallKind::Release) => Self::Released,
            (Verdict::Duplicate, CallKind::Release) => Self::NotHeld,
            (Verdict::FirstSeen, _) => Self::FirstSeen,
            (Verdict::Duplicate, _) => Self::Duplicate,
        }
    }
}

/// The reply to a call about a list of events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verdicts {
    /// One verdict an event, in the order of the events.
    verdicts: Vec<ShownVerdict>,
}

/// The reply to a claim of a list of events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Claims {
    /// One verdict an event, in the order of the events. `first_seen`: the claim is granted.
    verdicts: Vec<ShownVerdict>,
    /// The fence of each grant, by which the event is confirmed or released; null where there is none.
    #[schema(value_type = Vec<Option<String>>)]
    fences: Vec<Option<Fence>>,
    /// For how many milliseconds another consumer may still hold each event; null where nobody else holds it.
    left_ms: Vec<Option<u32>>,
}

/// The reply to a call about one event that the header `Idempotency-Key` names.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OneVerdict {
    /// The verdict.
    pub(crate) verdict: ShownVerdict,
    /// The fence of the grant of a claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false, required = false)]
    pub(crate) fence: Option<Fence>,
}

/// A fence as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence(pub(crate) firstseen_routing::Fence);

impl Serialize for Fence {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// The fence of a grant.
pub(crate) fn fence_of(hold: Option<&Hold>) -> Option<Fence> {
    match hold {
        Some(Hold::Own(fence)) => Some(Fence(*fence)),
        _ => None,
    }
}

/// For how many milliseconds another consumer may still hold an event.
pub(crate) fn left_ms_of(hold: Option<&Hold>) -> Option<u32> {
    match hold {
        Some(Hold::Other { left_ms }) => Some(*left_ms),
        _ => None,
    }
}

/// The JSON of the reply about a list of events.
pub(crate) fn list(kind: CallKind, verdicts: &[Verdict], holds: &[Hold]) -> serde_json::Result<Vec<u8>> {
    let shown: Vec<ShownVerdict> = verdicts.iter().map(|verdict| ShownVerdict::of(kind, *verdict)).collect();
    if kind != CallKind::Claim {
        return serde_json::to_vec(&Verdicts { verdicts: shown });
    }
    let places = 0..shown.len();
    let fences = places.clone().map(|event| fence_of(holds.get(event))).collect();
    let left_ms = places.map(|event| left_ms_of(holds.get(event))).collect();
    serde_json::to_vec(&Claims { verdicts: shown, fences, left_ms })
}

#[cfg(test)]
mod tests {
    use firstseen_routing::{Epoch, FilterId, Incarnation};

    use super::*;

    fn text(kind: CallKind, verdicts: &[Verdict], holds: &[Hold]) -> String {
        String::from_utf8(list(kind, verdicts, holds).unwrap()).unwrap()
    }

    #[test]
    fn verdicts_are_words_and_reasons() {
        let verdicts = [Verdict::FirstSeen, Verdict::Duplicate, Verdict::Undecided(Reason::Full)];
        let said = |kind| text(kind, &verdicts, &[]);
        assert_eq!(said(CallKind::Observe), r#"{"verdicts":["first_seen","duplicate",{"undecided":"full"}]}"#);
        assert_eq!(said(CallKind::Confirm), r#"{"verdicts":["confirmed","duplicate",{"undecided":"full"}]}"#);
        assert_eq!(said(CallKind::Release), r#"{"verdicts":["released","not_held",{"undecided":"full"}]}"#);
    }

    #[test]
    fn a_claim_shows_who_holds_the_event() {
        let fence = firstseen_routing::Fence::new(FilterId(1), Epoch(2), Incarnation(0), 3).unwrap();
        let verdicts = [Verdict::FirstSeen, Verdict::Undecided(Reason::Claimed), Verdict::Duplicate];
        let holds = [Hold::Own(fence), Hold::Other { left_ms: 1500 }, Hold::None];
        let expected = format!(
            r#"{{"verdicts":["first_seen",{{"undecided":"claimed"}},"duplicate"],"fences":["{fence}",null,null],"left_ms":[null,1500,null]}}"#
        );
        assert_eq!(text(CallKind::Claim, &verdicts, &holds), expected);
    }

    /// The names of reasons are the same here, in reports and in metrics.
    #[test]
    fn reasons_have_the_names_that_reports_have() {
        for reason in Reason::ALL {
            let name = serde_json::to_value(reason).unwrap();
            assert_eq!(serde_json::to_value(ShownReason::from(reason)).unwrap(), name);
        }
    }
}
