//! Kinds of errors, and the gRPC status codes that represent them.
//!
//! The kind of an error tells the caller how to react, for example to retry or to change the request. Each kind has a
//! gRPC status code of its own, so decoding an encoded kind returns the same kind.

use tonic::{Code, Status};

/// Kind of an error, which says what the caller of a failed request does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is invalid. It can never succeed unless the caller changes it.
    Invalid,
    /// The requested object does not exist.
    NotFound,
    /// The name is taken. The caller uses another name, or the existing object.
    AlreadyExists,
    /// Something else must happen first, which the message describes.
    NotNow,
    /// The caller has no certificate of the cluster's authority.
    Unauthenticated,
    /// The caller's certificate does not have the required role.
    Forbidden,
    /// The server is overloaded, and nothing was done. The caller retries later, and more slowly.
    Overloaded,
    /// The server is unavailable, and nothing was done. The caller retries, with this node or another.
    Unavailable,
    /// It is unknown whether the request was executed. The caller repeats the request with the same id.
    OutcomeUnknown,
    /// The peers have no protocol version in common. The caller uses a version that both support.
    Unsupported,
    /// Internal error, caused by a bug or by a fault of the machine.
    Internal,
}

/// All kinds with their status codes.
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
    /// Returns the status code that represents this kind.
    pub fn code(self) -> Code {
        CODES.iter().find(|(kind, _)| *kind == self).map_or(Code::Internal, |(_, code)| *code)
    }

    /// Returns the kind of error that a status code represents.
    ///
    /// Nodes send only the status codes of [`Self::code`]. Any other code is an error of the connection, which may have
    /// failed before or after the node executed the request. The method therefore returns [`Self::OutcomeUnknown`] for
    /// all other codes.
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

    /// Creates the status for an error of this kind.
    pub fn status(self, message: impl std::fmt::Display) -> Status {
        Status::new(self.code(), message.to_string())
    }

    /// Returns whether the same request may succeed if it is sent again.
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
