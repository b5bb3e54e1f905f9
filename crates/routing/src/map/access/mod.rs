//! Access control: principals, which are identified by names, and the rights that they were granted.
//!
//! A right allows a principal to perform one verb, such as reading or writing, on a single filter, on all filters whose
//! names begin with a prefix, or on the cluster. A call is rejected unless the principal has a right that allows it.
//! There are no rules that deny access, and no roles or groups of principals.
//!
//! All functions in this module depend only on data that the consensus group has committed, so all nodes decide equally
//! about the same call. Only this module defines which verbs include other verbs.

mod grant;
mod token;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

pub use grant::{ClusterVerb, FilterNames, FilterVerb, Grant, NotFilterNames};
pub use token::{NotTokenId, TOKENS_MAX, TokenId, TokenRecord};

/// Maximum number of principals in a cluster.
pub const PRINCIPALS_MAX: usize = 1024;

/// Maximum number of rights of a principal.
pub const GRANTS_MAX: usize = 64;

/// Maximum number of filter names and prefixes that have a quota.
pub const FILTERS_QUOTAS_MAX: usize = 256;

/// Maximum length of the name of a principal, in bytes. The name is used as one label of a DNS name.
const PRINCIPAL_BYTES_MAX: usize = 63;

/// All principals of a cluster, and whether rights are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Whether callers need rights. Otherwise a caller needs only a certificate with the matching role.
    pub is_enabled: bool,
    /// Principals, by name.
    pub principals: BTreeMap<String, Principal>,
    /// Quotas of filters, by their names or name prefixes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filters: BTreeMap<FilterNames, FiltersQuota>,
}

/// Identity that can be granted rights, such as a user or a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Rights of the principal.
    pub grants: BTreeSet<Grant>,
    /// Limits on the principal's requests.
    #[serde(default, skip_serializing_if = "Quota::is_none")]
    pub quota: Quota,
    /// Tokens that the principal may present instead of a certificate.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<TokenId, TokenRecord>,
}

/// Limits on the requests of a principal. Each node applies them to the events that it receives from clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Maximum number of events per second. `None` means unlimited.
    pub events_per_s: Option<NonZeroU32>,
    /// Maximum number of unanswered batches over all connections of the principal. `None` means unlimited.
    pub inflight_batches: Option<NonZeroU32>,
}

/// Limits on all filters that a name or a prefix covers, no matter which principal creates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiltersQuota {
    /// Maximum number of filters. `None` means unlimited.
    pub filters: Option<NonZeroU32>,
    /// Maximum memory of the cells of all slices and copies, in bytes. `None` means unlimited.
    pub cell_bytes: Option<NonZeroU64>,
}

impl FiltersQuota {
    /// Returns whether there are no limits.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Quota {
    /// Returns whether there are no limits.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Access {
    /// Returns whether access control has its default state, which need not be encoded.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the token with this id, and the name of its principal.
    pub fn token(&self, id: TokenId) -> Option<(&str, &TokenRecord)> {
        // A linear search is fast enough: there are few principals, and each connection searches once.
        self.principals.iter().find_map(|(name, principal)| Some((name.as_str(), principal.tokens.get(&id)?)))
    }

    /// Returns whether any principal may change the rights of principals.
    pub fn has_keeper(&self) -> bool {
        self.principals.values().any(|principal| principal.has_cluster_right(ClusterVerb::Security))
    }
}

impl Principal {
    /// Returns whether the principal has this right on the filter with this name.
    pub fn may(&self, verb: FilterVerb, filter: &str) -> bool {
        self.gives(verb, |names| names.cover(filter))
    }

    /// Returns whether the principal may have this right on some filter.
    pub fn has_right_on_some_filter(&self, verb: FilterVerb) -> bool {
        self.gives(verb, |_| true)
    }

    /// Returns whether the principal has this right on the cluster.
    pub fn has_cluster_right(&self, verb: ClusterVerb) -> bool {
        self.grants.iter().any(|grant| matches!(grant, Grant::Cluster(granted) if granted.includes(verb)))
    }

    /// Returns whether the principal may read the secret of a filter. Clients that hash events themselves need this
    /// secret, because every event of the filter is hashed with it. A client that knows the secret could also construct
    /// false positives. The right to describe a filter is therefore not sufficient.
    pub fn may_hash_for(&self, filter: &str) -> bool {
        [FilterVerb::Lookup, FilterVerb::Manage].into_iter().any(|verb| self.may(verb, filter))
    }

    fn gives(&self, verb: FilterVerb, covers: impl Fn(&FilterNames) -> bool) -> bool {
        let is_given = self.grants.iter().any(|grant| match grant {
            Grant::Filters { names, verb: granted } => granted.includes(verb) && covers(names),
            Grant::Cluster(_) => false,
        });
        is_given || (verb == FilterVerb::Describe && self.has_cluster_right(ClusterVerb::View))
    }
}

/// Checks whether a text is a valid name of a principal. Certificates contain the name as part of a DNS name. DNS does
/// not distinguish upper and lower case, so a valid name contains only lower-case letters.
///
/// # Errors
/// Returns the rule that the name violates.
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

    /// Checks every granted verb against every requested verb.
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
                assert_eq!(has.has_right_on_some_filter(asked), included.contains(&asked), "{granted} and {asked}");
                assert!(!has.may(asked, "views"), "{asked}");
            }
            assert_eq!(has.may_hash_for("clicks"), granted != Describe, "{granted}");
            let is_on_cluster = ClusterVerb::ALL.iter().any(|verb| has.has_cluster_right(*verb));
            assert!(!is_on_cluster, "no verb on filters is one on the cluster: {granted}");
        }
        for granted in ClusterVerb::ALL {
            let has = principal(&[], &[granted]);
            for asked in ClusterVerb::ALL {
                let is_included = asked == granted || (granted, asked) == (ClusterVerb::Operate, ClusterVerb::View);
                assert_eq!(has.has_cluster_right(asked), is_included, "{granted} and {asked}");
            }
            for asked in FilterVerb::ALL {
                let is_seen = asked == Describe && has.has_cluster_right(ClusterVerb::View);
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
