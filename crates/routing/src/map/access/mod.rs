//! Who may do what: principals, which are names, and the rights that they were granted.
//!
//! A right is a verb on filters (one of this name, or all whose names begin so) or on the cluster. There are no rules that deny,
//! no roles and no groups: what nobody has granted is refused.
//!
//! Promises: pure functions of what is agreed on, the same on every node; what verbs include is said here and nowhere else. Must
//! not know: how a caller shows who it is, which call needs which verb.

mod grant;
mod token;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

pub use grant::{ClusterVerb, FilterNames, FilterVerb, Grant, NotFilterNames};
pub use token::{NotTokenId, TOKENS_MAX, TokenId, TokenRecord};

/// Most principals of a cluster.
pub const PRINCIPALS_MAX: usize = 1024;

/// Most rights of a principal.
pub const GRANTS_MAX: usize = 64;

/// Most names of filters that have a limit.
pub const FILTERS_QUOTAS_MAX: usize = 256;

/// Bytes of the name of a principal at most: it is one label of a DNS name.
const PRINCIPAL_BYTES_MAX: usize = 63;

/// All principals of a cluster, and whether their rights are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Whether callers need rights; otherwise the role of their certificates is enough.
    pub is_enabled: bool,
    /// By name.
    pub principals: BTreeMap<String, Principal>,
    /// What filters may take together, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filters: BTreeMap<FilterNames, FiltersQuota>,
}

/// Somebody who may do something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// What it may do.
    pub grants: BTreeSet<Grant>,
    /// How much of it.
    #[serde(default, skip_serializing_if = "Quota::is_none")]
    pub quota: Quota,
    /// What it may show in the place of a certificate.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<TokenId, TokenRecord>,
}

/// How much a principal may ask of each node where its events enter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Events a second; as many as come where it is left out.
    pub events_per_s: Option<NonZeroU32>,
    /// Batches that are unanswered, over all of its streams.
    pub inflight_batches: Option<NonZeroU32>,
}

/// How much the filters of some names may take together, whoever makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiltersQuota {
    /// How many there may be; as many as come where it is left out.
    pub filters: Option<NonZeroU32>,
    /// Bytes of the cells of all their slices and copies.
    pub cell_bytes: Option<NonZeroU64>,
}

impl FiltersQuota {
    /// Whether it bounds nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Quota {
    /// Whether it bounds nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Access {
    /// Whether there is nothing to write down.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The token of this id, with the name of its principal.
    pub fn token(&self, id: TokenId) -> Option<(&str, &TokenRecord)> {
        // Principals are few, and a stream asks once.
        self.principals.iter().find_map(|(name, principal)| Some((name.as_str(), principal.tokens.get(&id)?)))
    }

    /// Whether a principal may change who may do what.
    pub fn has_keeper(&self) -> bool {
        self.principals.values().any(|principal| principal.may_on_cluster(ClusterVerb::Security))
    }
}

impl Principal {
    /// Whether it may do this with the filter of this name.
    pub fn may(&self, verb: FilterVerb, filter: &str) -> bool {
        self.gives(verb, |names| names.cover(filter))
    }

    /// Whether there may be a filter with which it may do this.
    pub fn may_with_some(&self, verb: FilterVerb) -> bool {
        self.gives(verb, |_| true)
    }

    /// Whether it may do this with the cluster.
    pub fn may_on_cluster(&self, verb: ClusterVerb) -> bool {
        self.grants.iter().any(|grant| matches!(grant, Grant::Cluster(granted) if granted.includes(verb)))
    }

    /// Whether it may read the secret by which the events of a filter are hashed: who only describes it need not.
    pub fn may_hash_for(&self, filter: &str) -> bool {
        [FilterVerb::Lookup, FilterVerb::Manage].into_iter().any(|verb| self.may(verb, filter))
    }

    fn gives(&self, verb: FilterVerb, covers: impl Fn(&FilterNames) -> bool) -> bool {
        let is_given = self.grants.iter().any(|grant| match grant {
            Grant::Filters { names, verb: granted } => granted.includes(verb) && covers(names),
            Grant::Cluster(_) => false,
        });
        is_given || (verb == FilterVerb::Describe && self.may_on_cluster(ClusterVerb::View))
    }
}

/// Checks the name of a principal: certificates bear it as a part of a name, where capitals and small letters are the same.
///
/// # Errors
/// The rule that it breaks.
///
/// ```
/// use firstseen_routing::check_principal_name;
/// assert!(check_principal_name("crawler-7").is_ok());
/// assert!(check_principal_name("Crawler").is_err() && check_principal_name("a.b").is_err());
/// ```
pub fn check_principal_name(name: &str) -> Result<(), &'static str> {
    let mut letters = name.bytes();
    let is_label = (1..=PRINCIPAL_BYTES_MAX).contains(&name.len())
        && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-');
    if is_label && !name.starts_with('-') && !name.ends_with('-') {
        Ok(())
    } else {
        Err("use up to 63 small letters, digits and -, not - at the ends")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(grants: &[(&str, FilterVerb)], on_cluster: &[ClusterVerb]) -> Principal {
        let on_filters =
            grants.iter().map(|(names, verb)| Grant::Filters { names: names.parse().unwrap(), verb: *verb });
        let grants = on_filters.chain(on_cluster.iter().map(|verb| Grant::Cluster(*verb))).collect();
        Principal { grants, ..Principal::default() }
    }

    /// Every verb that is granted with every one that is asked for.
    #[test]
    fn what_verbs_include_is_this_table() {
        use FilterVerb::{Describe, Lookup, Manage, Observe};
        let included = [
            (Observe, vec![Observe, Lookup, Describe]),
            (Lookup, vec![Lookup, Describe]),
            (Describe, vec![Describe]),
            (Manage, vec![Manage, Describe]),
        ];
        assert_eq!(included.len(), FilterVerb::ALL.len());
        for (granted, included) in included {
            let has = principal(&[("clicks", granted)], &[]);
            for asked in FilterVerb::ALL {
                assert_eq!(has.may(asked, "clicks"), included.contains(&asked), "{granted} and {asked}");
                assert_eq!(has.may_with_some(asked), included.contains(&asked), "{granted} and {asked}");
                assert!(!has.may(asked, "views"), "{asked}");
            }
            assert_eq!(has.may_hash_for("clicks"), granted != Describe, "{granted}");
            let is_on_cluster = ClusterVerb::ALL.iter().any(|verb| has.may_on_cluster(*verb));
            assert!(!is_on_cluster, "no verb on filters is one on the cluster: {granted}");
        }
        for granted in ClusterVerb::ALL {
            let has = principal(&[], &[granted]);
            for asked in ClusterVerb::ALL {
                let is_included = asked == granted || (granted, asked) == (ClusterVerb::Operate, ClusterVerb::View);
                assert_eq!(has.may_on_cluster(asked), is_included, "{granted} and {asked}");
            }
            for asked in FilterVerb::ALL {
                let is_seen = asked == Describe && has.may_on_cluster(ClusterVerb::View);
                assert_eq!(has.may(asked, "clicks"), is_seen, "{granted} and {asked}");
            }
            assert!(!has.may_hash_for("clicks"), "who views a cluster learns no secret");
        }
    }

    #[test]
    fn rights_add_up_and_nothing_is_granted_by_itself() {
        assert!(!Principal::default().may(FilterVerb::Describe, "clicks"));
        let two = principal(&[("clicks*", FilterVerb::Lookup), ("clicks-eu", FilterVerb::Observe)], &[]);
        assert!(two.may(FilterVerb::Observe, "clicks-eu") && !two.may(FilterVerb::Observe, "clicks-us"));
        assert!(two.may(FilterVerb::Lookup, "clicks-us") && !two.may(FilterVerb::Lookup, "click"));
        let mut access = Access::default();
        assert!(access.is_empty() && !access.has_keeper());
        access.principals.insert("op".to_owned(), principal(&[("*", FilterVerb::Manage)], &[ClusterVerb::Operate]));
        assert!(!access.has_keeper());
        access.principals.insert("keeper".to_owned(), principal(&[], &[ClusterVerb::Security]));
        assert!(access.has_keeper() && !access.is_empty());
    }

    #[test]
    fn a_name_is_one_small_label() {
        for good in ["a", "node-1", "7", "x".repeat(63).as_str()] {
            check_principal_name(good).unwrap();
        }
        for bad in ["", "-a", "a-", "a.b", "a b", "A", "ü", "x".repeat(64).as_str()] {
            assert!(check_principal_name(bad).is_err(), "`{bad}`");
        }
    }
}
