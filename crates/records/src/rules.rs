//! Rules that a user can choose for records that can be read in more than one way. This module does not depend on
//! formats or records.

/// What happens to a row whose number of fields differs from that of the header, or of the first row if there is no
/// header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ragged {
    /// The row is rejected, because its fields may not match their names.
    #[default]
    Reject,
    /// Missing fields are empty, and additional fields are ignored.
    Pad,
}

impl Ragged {
    /// All rules, in the order in which help texts list them.
    pub const ALL: [Self; 2] = [Self::Reject, Self::Pad];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Pad => "pad",
        }
    }
}

/// What happens to a record whose key, or one of its several key fields, is empty: an empty field, `null` or `""` in
/// JSON, or `-` in logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyKey {
    /// The record has no key, and is rejected.
    #[default]
    Pass,
    /// The empty value counts as a value, so records with an empty value are equal.
    Value,
    /// The input ends before this record with an error ([`ParsedBlock::refusal`](crate::ParsedBlock::refusal)).
    Fail,
}

impl EmptyKey {
    /// All rules, in the order in which help texts list them.
    pub const ALL: [Self; 3] = [Self::Pass, Self::Value, Self::Fail];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Value => "value",
            Self::Fail => "fail",
        }
    }
}
