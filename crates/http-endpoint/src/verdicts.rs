//! JSON form of verdicts: a word for each decided event, and the reason for each undecided event.
//!
//! This module does not depend on how verdicts are requested.

use firstseen_client::Verdict;
use firstseen_routing::{Hold, Reason};
use serde::Serialize;
use utoipa::ToSchema;

use crate::kind::CallKind;

/// Verdict on one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Verdict)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShownVerdict {
    /// No client has named the event before. In the reply to a claim, the claim is granted.
    FirstSeen,
    /// The event was seen before. In the reply to a confirm, the event is already recorded.
    Duplicate,
    /// The claim is confirmed, and the event is recorded.
    Confirmed,
    /// The claim is released, so other clients may claim the event.
    Released,
    /// No client holds the event with this fence, so there was nothing to confirm or to release.
    NotHeld,
    /// The event is undecided, for this reason.
    Undecided(ShownReason),
}

/// Reason why an event is undecided.
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
    /// Returns the word for a verdict in the reply to a call of this kind.
    pub(crate) fn of(kind: CallKind, verdict: Verdict) -> Self {
        match (verdict, kind) {
            // Another client holds the event, so the lease with the fence of this confirm has ended.
            (Verdict::Undecided(Reason::Claimed), CallKind::Confirm) => Self::NotHeld,
            (Verdict::Undecided(reason), _) => Self::Undecided(reason.into()),
            (Verdict::FirstSeen, CallKind::Confirm) => Self::Confirmed,
            (Verdict::FirstSeen, CallKind::Release) => Self::Released,
            (Verdict::Duplicate, CallKind::Release) => Self::NotHeld,
            (Verdict::FirstSeen, _) => Self::FirstSeen,
            (Verdict::Duplicate, _) => Self::Duplicate,
        }
    }
}

/// Reply to a call about a list of events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verdicts {
    /// One verdict for each event, in the order of the events.
    verdicts: Vec<ShownVerdict>,
}

/// Reply to a claim of a list of events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Claims {
    /// One verdict for each event, in the order of the events. The verdict `first_seen` means that the claim is
    /// granted.
    verdicts: Vec<ShownVerdict>,
    /// Fence of each granted claim, which is needed to confirm or release the event. The entry is null if the claim was
    /// not granted.
    #[schema(value_type = Vec<Option<String>>)]
    fences: Vec<Option<Fence>>,
    /// Time for which another consumer may still hold each event, in milliseconds. The entry is null if no other
    /// consumer holds the event.
    left_ms: Vec<Option<u32>>,
}

/// Reply to a call about one event that the header `Idempotency-Key` names.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OneVerdict {
    /// Verdict on the event.
    pub(crate) verdict: ShownVerdict,
    /// Fence of the granted claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false, required = false)]
    pub(crate) fence: Option<Fence>,
}

/// Fence in its text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence(pub(crate) firstseen_routing::Fence);

impl Serialize for Fence {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Returns the fence of a granted claim.
pub(crate) fn fence_of(hold: Option<&Hold>) -> Option<Fence> {
    match hold {
        Some(Hold::Own(fence)) => Some(Fence(*fence)),
        _ => None,
    }
}

/// Returns for how many milliseconds another consumer may still hold an event.
pub(crate) fn left_ms_of(hold: Option<&Hold>) -> Option<u32> {
    match hold {
        Some(Hold::Other { left_ms }) => Some(*left_ms),
        _ => None,
    }
}

/// Returns the JSON of the reply about a list of events.
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
        assert_eq!(
            text(CallKind::Observe, &verdicts, &[]),
            r#"{"verdicts":["first_seen","duplicate",{"undecided":"full"}]}"#
        );
        assert_eq!(
            text(CallKind::Confirm, &verdicts, &[]),
            r#"{"verdicts":["confirmed","duplicate",{"undecided":"full"}]}"#
        );
        assert_eq!(
            text(CallKind::Release, &verdicts, &[]),
            r#"{"verdicts":["released","not_held",{"undecided":"full"}]}"#
        );
    }

    /// A confirm of an event that another client had claimed meanwhile was undecided, so a client that followed the
    /// page about HTTP sent it again until the other client had confirmed the event.
    #[test]
    fn a_confirm_of_an_event_that_another_client_holds_is_not_held() {
        let verdicts = [Verdict::FirstSeen, Verdict::Undecided(Reason::Claimed), Verdict::Duplicate];
        assert_eq!(text(CallKind::Confirm, &verdicts, &[]), r#"{"verdicts":["confirmed","not_held","duplicate"]}"#);
        assert_eq!(
            text(CallKind::Observe, &verdicts, &[]),
            r#"{"verdicts":["first_seen",{"undecided":"claimed"},"duplicate"]}"#
        );
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

    /// Checks that the reasons have the same names here, in reports and in metrics.
    #[test]
    fn reasons_have_the_names_that_reports_have() {
        for reason in Reason::ALL {
            let name = serde_json::to_value(reason).unwrap();
            assert_eq!(serde_json::to_value(ShownReason::from(reason)).unwrap(), name);
        }
    }
}
