//! What a user may choose about records that are read in more than one way. Must not know: formats, records.

/// What becomes of a row whose number of fields is not that of the header, or of the first row where there is no
/// header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ragged {
    /// It is rejected: its fields may not be those that the names stand for.
    #[default]
    Reject,
    /// Fields that it lacks are empty, and further ones are ignored.
    Pad,
}

impl Ragged {
    /// All rules, in the order in which help texts list them.
    pub const ALL: [Self; 2] = [Self::Reject, Self::Pad];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Pad => "pad",
        }
    }
}

/// What becomes of a record whose key, or one of its several key fields, is empty: an empty field, a JSON `null` or `""`,
/// `-` in logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyKey {
    /// It has no key, and is rejected.
    #[default]
    Pass,
    /// The empty value is a value: records that have it are equal.
    Value,
    /// The records end before it, with an error ([`ParsedBlock::refusal`](crate::ParsedBlock::refusal)).
    Fail,
}

impl EmptyKey {
    /// All rules, in the order in which help texts list them.
    pub const ALL: [Self; 3] = [Self::Pass, Self::Value, Self::Fail];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Value => "value",
            Self::Fail => "fail",
        }
    }
}
