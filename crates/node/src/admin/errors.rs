//! Errors of the agreement, as an operator is answered.
//!
//! Promises: each kind says what the caller does next. Must not know: what was asked for.

use firstseen_meta::{MetaError, Refusal};
use firstseen_wire::status::ErrorKind;
use tonic::Status;

/// The answer to a caller for an error of the cluster's agreement.
pub(super) fn status(error: &MetaError) -> Status {
    let kind = match error {
        MetaError::Refused(refusal) => refusal_kind(refusal),
        MetaError::NoCluster
        | MetaError::HasCluster { .. }
        | MetaError::NoRoom { .. }
        | MetaError::FormatStays { .. } => ErrorKind::NotNow,
        MetaError::Busy => ErrorKind::Unavailable,
        MetaError::Unknown { .. } => ErrorKind::OutcomeUnknown,
        MetaError::Store(_) | MetaError::Stopped { .. } => ErrorKind::Internal,
    };
    kind.status(error)
}

fn refusal_kind(refusal: &Refusal) -> ErrorKind {
    match refusal {
        Refusal::Text { .. } | Refusal::Definition { .. } | Refusal::Tree { .. } | Refusal::TooLarge { .. } => {
            ErrorKind::Invalid
        }
        Refusal::NodeUnknown { .. }
        | Refusal::FilterUnknown { .. }
        | Refusal::NotRestoring { .. }
        | Refusal::PrincipalUnknown { .. }
        | Refusal::NotGranted { .. }
        | Refusal::TokenUnknown { .. } => ErrorKind::NotFound,
        Refusal::AskedTwice => ErrorKind::Internal,
        Refusal::NameTaken { .. }
        | Refusal::AddressTaken { .. }
        | Refusal::FilterExists { .. }
        | Refusal::FilterDiffers { .. }
        | Refusal::TokenTaken { .. } => ErrorKind::AlreadyExists,
        Refusal::Founded
        | Refusal::NotFounded
        | Refusal::LastNode { .. }
        | Refusal::NodeOwnsSlices { .. }
        | Refusal::Level { .. }
        | Refusal::Memory { .. }
        | Refusal::Copies { .. }
        | Refusal::Full { .. }
        | Refusal::MapFull { .. }
        | Refusal::Move { .. }
        | Refusal::MayRecord { .. }
        | Refusal::Alter { .. }
        | Refusal::Generation { .. }
        | Refusal::Candidate { .. }
        | Refusal::NoKeeper
        | Refusal::TokensFull { .. }
        | Refusal::FiltersQuota { .. } => ErrorKind::NotNow,
    }
}
