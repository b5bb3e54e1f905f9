//! Rights of principals. A right consists of a verb and its object. The textual form of a right can be parsed again.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum length of the filter name or name prefix in a right, in bytes. It is the same as for the name of a filter.
const FILTER_NAMES_BYTES_MAX: usize = 255;

/// A single right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Right to do something with filters.
    Filters {
        /// Filters that the right applies to.
        names: FilterNames,
        /// Allowed operations.
        verb: FilterVerb,
    },
    /// Right to do something with the cluster.
    Cluster(ClusterVerb),
}

/// Operations on a filter that a right can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterVerb {
    /// Record events and claim them, and all operations of `Lookup`.
    Observe,
    /// Ask whether events were seen, and all operations of `Describe`.
    Lookup,
    /// Read the definition and the state of the filter, but not the secret by which its events are hashed.
    Describe,
    /// Create, alter, drop, back up and restore the filter, and all operations of `Describe`.
    Manage,
}

/// Operations on a cluster that a right can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterVerb {
    /// Read the state of nodes and of all filters.
    View,
    /// Add and remove nodes, move slices and raise the format, and all operations of `View`.
    Operate,
    /// Change the rights of principals.
    Security,
}

impl FilterVerb {
    /// All verbs on filters.
    pub const ALL: [Self; 4] = [Self::Observe, Self::Lookup, Self::Describe, Self::Manage];

    /// Returns whether this verb includes the other one.
    pub(super) fn includes(self, other: Self) -> bool {
        match other {
            Self::Describe => true,
            Self::Lookup => matches!(self, Self::Observe | Self::Lookup),
            Self::Observe | Self::Manage => self == other,
        }
    }
}

impl ClusterVerb {
    /// All verbs on the cluster.
    pub const ALL: [Self; 3] = [Self::View, Self::Operate, Self::Security];

    /// Returns whether this verb includes the other one.
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

/// Name of a filter, or a prefix followed by `*`, which covers all filters whose names begin with the prefix.
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

/// Error returned when a text is neither a filter name nor a prefix followed by `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give the name of a filter, or a prefix followed by *: at most 255 bytes, without control characters")]
pub struct NotFilterNames;

impl FilterNames {
    /// Returns whether the filter with this name is covered.
    pub fn cover(&self, filter: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => filter.starts_with(beginning),
            None => filter == self.0,
        }
    }

    /// Returns the textual form.
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
