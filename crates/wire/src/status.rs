//! Kinds of errors, and the gRPC codes that stand for them on the wire: one table.
//!
//! Promises: a kind says what the caller does next, and survives the way there and back. Must not know: whose errors
//! they are.

use tonic::{Code, Status};

/// What the caller of a failed request does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Mends the request: it can never succeed as it is.
    Invalid,
    /// Asks for something that exists.
    NotFound,
    /// Takes another name, or uses the one that exists.
    AlreadyExists,
    /// Does something else first: the message says what.
    NotNow,
    /// Brings a certificate of the cluster's authority.
    Unauthenticated,
    /// Brings a certificate with another role.
    Forbidden,
    /// Tries again later, more slowly: nothing was done.
    Overloaded,
    /// Tries again, here or on another node: nothing was done.
    Unavailable,
    /// Does not know whether it was done: asks again under the same id.
    OutcomeUnknown,
    /// Uses a version that both ends speak.
    Unsupported,
    /// Reports a bug or mends the machine.
    Internal,
}

/// Every kind with its code.
const CODES: [(ErrorKind, Code); 11] = [
    (ErrorKind::Invalid, Code::InvalidArgument),
    (ErrorKind::NotFound, Code::NotFound),
    (ErrorKind::AlreadyExists, Code::AlreadyExists),
    (ErrorKind::NotNow, Code::FailedPrecondition),
    (ErrorKind::Unauthenticated, Code::Unauthenticated),
    (ErrorKind::Forbidden, Code::PermissionDenied),
    (ErrorKind::Overloaded, Code::ResourceExhausted),
    (ErrorKind::Unavailable, Code::Unavailable),
    (ErrorKind::OutcomeUnknown, Code::DeadlineExceeded),
    (ErrorKind::Unsupported, Code::Unimplemented),
    (ErrorKind::Internal, Code::Internal),
];

impl ErrorKind {
    /// The code that it travels as.
    pub fn code(self) -> Code {
        CODES.iter().find(|(kind, _)| *kind == self).map_or(Code::Internal, |(_, code)| *code)
    }

    /// The kind that a code stands for. Codes that no node sends come from connections that broke: whether the request
    /// was carried out is not known then.
    ///
    /// ```
    /// use firstseen_wire::status::ErrorKind;
    /// use tonic::Code;
    /// assert_eq!(ErrorKind::of(Code::ResourceExhausted), ErrorKind::Overloaded);
    /// assert_eq!(ErrorKind::of(Code::Cancelled), ErrorKind::OutcomeUnknown);
    /// ```
    pub fn of(code: Code) -> Self {
        CODES.iter().find(|(_, of_kind)| *of_kind == code).map_or(Self::OutcomeUnknown, |(kind, _)| *kind)
    }

    /// The status for a caller of an error of this kind.
    pub fn status(self, message: impl std::fmt::Display) -> Status {
        Status::new(self.code(), message.to_string())
    }

    /// Whether the same request may succeed when it is sent again.
    pub fn is_worth_retrying(self) -> bool {
        matches!(self, Self::Overloaded | Self::Unavailable | Self::OutcomeUnknown)
    }
}

impl From<&Status> for ErrorKind {
    fn from(status: &Status) -> Self {
        Self::of(status.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_codes_are_pairs() {
        for (kind, code) in CODES {
            assert_eq!((kind.code(), ErrorKind::of(code)), (code, kind));
            assert_eq!(ErrorKind::from(&kind.status("why")), kind);
        }
    }
}
