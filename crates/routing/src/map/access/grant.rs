//! One right: a verb, and what it is on.
//!
//! Promises: what is written parses to the same right again. Must not know: who has the right.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bytes of the names of filters in a right, as of one name.
const FILTER_NAMES_BYTES_MAX: usize = 255;

/// One right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// To do something with filters.
    Filters {
        /// Which.
        names: FilterNames,
        /// What.
        verb: FilterVerb,
    },
    /// To do something with the cluster.
    Cluster(ClusterVerb),
}

/// What can be done with a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterVerb {
    /// Send events to be recorded, claim them, and all of `Lookup`.
    Observe,
    /// Ask whether events were seen, and all of `Describe`.
    Lookup,
    /// See what the filter is and how it is doing, but not the secret by which its events are hashed.
    Describe,
    /// Make, alter, drop, back up and restore it, and all of `Describe`.
    Manage,
}

/// What can be done with a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterVerb {
    /// See nodes and all filters.
    View,
    /// Take nodes in and out, move slices, raise the format, and all of `View`.
    Operate,
    /// Say who may do what.
    Security,
}

impl FilterVerb {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Observe, Self::Lookup, Self::Describe, Self::Manage];

    /// Whether who may do this may do the other, too.
    pub(super) fn includes(self, other: Self) -> bool {
        match other {
            Self::Describe => true,
            Self::Lookup => matches!(self, Self::Observe | Self::Lookup),
            Self::Observe | Self::Manage => self == other,
        }
    }
}

impl ClusterVerb {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::View, Self::Operate, Self::Security];

    /// Whether who may do this may do the other, too.
    pub(super) fn includes(self, other: Self) -> bool {
        self == other || (self, other) == (Self::Operate, Self::View)
    }
}

impl fmt::Display for FilterVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Observe => "observe",
            Self::Lookup => "lookup",
            Self::Describe => "describe",
            Self::Manage => "manage",
        })
    }
}

impl fmt::Display for ClusterVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::View => "view",
            Self::Operate => "operate",
            Self::Security => "security",
        })
    }
}

/// The filter of one name, or with `*` at the end all whose names begin so.
///
/// ```
/// use firstseen_routing::FilterNames;
/// let tenant: FilterNames = "shop-*".parse().unwrap();
/// assert!(tenant.cover("shop-clicks") && !tenant.cover("shops"));
/// assert!("a*b".parse::<FilterNames>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FilterNames(String);

/// What is no name of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "give the name of a filter, or what names begin with and a * at the end: at most 255 bytes, no control characters"
)]
pub struct NotFilterNames;

impl FilterNames {
    /// Whether the filter of this name is one of these.
    pub fn cover(&self, filter: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => filter.starts_with(beginning),
            None => filter == self.0,
        }
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FilterNames {
    type Err = NotFilterNames;

    fn from_str(text: &str) -> Result<Self, NotFilterNames> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for FilterNames {
    type Error = NotFilterNames;

    fn try_from(text: String) -> Result<Self, NotFilterNames> {
        let has_star_inside = text.strip_suffix('*').unwrap_or(&text).contains('*');
        let has_length = (1..=FILTER_NAMES_BYTES_MAX).contains(&text.len());
        let is_one = has_length && !has_star_inside && !text.chars().any(char::is_control);
        if is_one { Ok(Self(text)) } else { Err(NotFilterNames) }
    }
}

impl From<FilterNames> for String {
    fn from(names: FilterNames) -> Self {
        names.0
    }
}

impl fmt::Display for FilterNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filters { names, verb } => write!(f, "{verb} {names}"),
            Self::Cluster(verb) => verb.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cover_one_filter_or_all_that_begin_so() {
        let covers = |names: &str, filter: &str| names.parse::<FilterNames>().unwrap().cover(filter);
        assert!(covers("clicks", "clicks") && !covers("clicks", "clicks2") && !covers("clicks", ""));
        assert!(covers("clicks*", "clicks") && covers("clicks*", "clicks2") && !covers("clicks*", "click"));
        assert!(covers("*", "anything") && covers("*", ""));
        for bad in ["", "a*b", "**", "a\nb", "x".repeat(256).as_str()] {
            assert_eq!(bad.parse::<FilterNames>(), Err(NotFilterNames), "`{bad}`");
        }
    }

    #[test]
    fn a_right_survives_as_json() {
        let on_filters = Grant::Filters { names: "a*".parse().unwrap(), verb: FilterVerb::Manage };
        for (grant, json) in [
            (on_filters, r#"{"filters":{"names":"a*","verb":"manage"}}"#),
            (Grant::Cluster(ClusterVerb::Security), r#"{"cluster":"security"}"#),
        ] {
            assert_eq!(serde_json::to_string(&grant).unwrap(), json);
            assert_eq!(serde_json::from_str::<Grant>(json).unwrap(), grant);
        }
        assert!(serde_json::from_str::<Grant>(r#"{"filters":{"names":"a*b","verb":"manage"}}"#).is_err());
    }
}
