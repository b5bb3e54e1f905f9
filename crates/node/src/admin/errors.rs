//! Converts errors of the consensus group into the gRPC statuses that operators receive. The code of a status tells an
//! operator or a tool what to do next. For example, a code can say that the request may be repeated, or that it must be
//! corrected first.

use firstseen_meta::{MetaError, Refusal};
use firstseen_wire::status::ErrorKind;
use tonic::Status;

/// Returns the status that a caller receives for an error of the consensus.
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
