//! Parses the access rights that a user writes on a command line, such as `--allow observe`. A right consists of a verb
//! and an object, which is a filter or the cluster. Not every verb exists for both kinds of objects. A verb that does
//! not exist for its object is reported as an error before any request is sent.

use std::num::NonZeroU32;

use clap::{Args, ValueEnum};
use firstseen_routing::{Access, ClusterVerb, FilterNames, FilterVerb, Grant};

use crate::exit::UsageError;
use crate::filter::ClusterAddresses;
use crate::text::size::ByteSize;

/// What a principal can be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerbArg {
    /// Send events, claim them, and everything that lookup allows
    Observe,
    /// Ask whether events were seen, and everything that describe allows
    Lookup,
    /// See the definition and the state of a filter, but not its secret
    Describe,
    /// Create, alter, drop, back up and restore filters, and everything that describe allows
    Manage,
    /// See nodes and all filters
    View,
    /// Add and remove nodes, move slices, raise the format, and everything that view allows
    Operate,
    /// Define who may do what
    Security,
}

/// A verb together with the kind of object that it applies to.
enum Verb {
    Filter(FilterVerb),
    Cluster(ClusterVerb),
}

impl From<VerbArg> for Verb {
    fn from(verb: VerbArg) -> Self {
        match verb {
            VerbArg::Observe => Self::Filter(FilterVerb::Observe),
            VerbArg::Lookup => Self::Filter(FilterVerb::Lookup),
            VerbArg::Describe => Self::Filter(FilterVerb::Describe),
            VerbArg::Manage => Self::Filter(FilterVerb::Manage),
            VerbArg::View => Self::Cluster(ClusterVerb::View),
            VerbArg::Operate => Self::Cluster(ClusterVerb::Operate),
            VerbArg::Security => Self::Cluster(ClusterVerb::Security),
        }
    }
}

/// Flags that name rights.
#[derive(Debug, Args)]
pub struct RightsArgs {
    /// Name of one filter, or a prefix of names and a *: 'clicks*'. Only verbs on filters need it; grant several times
    /// for several filters
    #[arg(long, value_name = "NAME")]
    pub filter: Option<FilterNames>,
    /// What the principal may do: observe, lookup, describe, manage; or on the cluster view, operate, security
    #[arg(long, value_name = "VERB,...", value_delimiter = ',', hide_possible_values = true)]
    pub allow: Vec<VerbArg>,
}

/// Flags of `firstseen access grant`.
#[derive(Debug, Args)]
pub struct GrantArgs {
    /// Principal: the NAME of NAME.client.firstseen in a certificate, or the owner of tokens
    #[arg(value_name = "WHO")]
    pub principal: String,
    /// The rights to grant.
    #[command(flatten)]
    pub rights: RightsArgs,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Flags of `firstseen access revoke`.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Principal
    #[arg(value_name = "WHO")]
    pub principal: String,
    /// The rights to revoke. Without a named right, all rights are revoked.
    #[command(flatten)]
    pub rights: RightsArgs,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Flags of `firstseen access limit`.
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// Principal
    #[arg(value_name = "WHO")]
    pub principal: String,
    /// Events per second that each node accepts from the principal; further events are rejected with a time to retry
    #[arg(long, value_name = "N")]
    pub events_per_s: Option<NonZeroU32>,
    /// Number of batches that the principal may have unanswered at each node, over all of its streams
    #[arg(long, value_name = "N")]
    pub batches: Option<NonZeroU32>,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Flags of `firstseen access limit-filters`.
#[derive(Debug, Args)]
pub struct LimitFiltersArgs {
    /// Name of one filter, or a prefix of names and a *: 'shop-*'
    #[arg(value_name = "NAMES")]
    pub names: FilterNames,
    /// Maximum number of filters with these names; a tree counts as one
    #[arg(long, value_name = "N")]
    pub filters: Option<NonZeroU32>,
    /// Maximum memory of all their cells together, including copies: 4GiB. While a filter is altered, its predecessor
    /// counts too
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<ByteSize>,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Flags of `firstseen access check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Principal
    #[arg(value_name = "WHO")]
    pub principal: String,
    /// What the principal wants to do
    #[arg(value_name = "VERB")]
    pub verb: VerbArg,
    /// Filter that the verb applies to; verbs on the cluster have no filter
    #[arg(value_name = "FILTER")]
    pub filter: Option<String>,
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

impl RightsArgs {
    /// Returns the rights that the flags name.
    ///
    /// # Errors
    /// Returns an error if the flags name no right.
    pub(super) fn grants(&self) -> anyhow::Result<Vec<Grant>> {
        match self.some()? {
            rights if rights.is_empty() => Err(UsageError("say what: --allow observe --filter NAME".to_owned()).into()),
            rights => Ok(rights),
        }
    }

    /// Returns the rights that the flags name, which may be none.
    pub(super) fn some(&self) -> anyhow::Result<Vec<Grant>> {
        if self.allow.is_empty() && self.filter.is_some() {
            return Err(UsageError("say what with the filter: --allow observe".to_owned()).into());
        }
        Ok(self.allow.iter().map(|verb| self.grant((*verb).into())).collect::<Result<_, _>>()?)
    }

    fn grant(&self, verb: Verb) -> Result<Grant, UsageError> {
        match (verb, &self.filter) {
            (Verb::Filter(verb), Some(names)) => Ok(Grant::Filters { names: names.clone(), verb }),
            (Verb::Filter(verb), None) => {
                Err(UsageError(format!("{verb} applies to filters: add --filter NAME or --filter 'PREFIX*'")))
            }
            (Verb::Cluster(verb), None) => Ok(Grant::Cluster(verb)),
            (Verb::Cluster(verb), Some(_)) => {
                Err(UsageError(format!("{verb} applies to the cluster: grant it without --filter")))
            }
        }
    }
}

impl CheckArgs {
    /// Returns whether the principal has the right, and why.
    pub(super) fn answer(&self, access: &Access) -> Result<(bool, String), UsageError> {
        let Self { principal, verb, filter, .. } = self;
        let rights = access.principals.get(principal);
        let may = match (Verb::from(*verb), filter) {
            (Verb::Filter(verb), Some(filter)) => rights.is_some_and(|rights| rights.may(verb, filter)),
            (Verb::Filter(verb), None) => {
                return Err(UsageError(format!(
                    "{verb} applies to filters: name one, as in firstseen access check {principal} {verb} FILTER"
                )));
            }
            (Verb::Cluster(verb), None) => rights.is_some_and(|rights| rights.has_cluster_right(verb)),
            (Verb::Cluster(verb), Some(_)) => {
                return Err(UsageError(format!("{verb} applies to the cluster: leave the filter out")));
            }
        };
        let why = match (access.is_enabled, rights) {
            (false, _) => format!(
                "once rights are enforced (firstseen access enable), by the rights granted to `{principal}`; until \
                 then the roles in certificates decide"
            ),
            (true, None) => format!("there is no principal `{principal}`"),
            (true, Some(_)) => format!("by what `{principal}` was granted"),
        };
        Ok((may, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(filter: Option<&str>, allow: &[VerbArg]) -> RightsArgs {
        RightsArgs { filter: filter.map(|names| names.parse().unwrap()), allow: allow.to_vec() }
    }

    #[test]
    fn a_verb_is_on_what_it_can_be_on() {
        let text = |rights: &RightsArgs| {
            rights.grants().map_or_else(|error| error.to_string(), |it| super::super::shown::list(&it))
        };
        assert_eq!(text(&rights(Some("a*"), &[VerbArg::Observe, VerbArg::Manage])), "observe a*, manage a*");
        assert_eq!(text(&rights(None, &[VerbArg::Security])), "security");
        assert!(text(&rights(None, &[VerbArg::Observe])).contains("--filter NAME"));
        assert!(text(&rights(Some("a"), &[VerbArg::View])).contains("without --filter"));
        assert!(text(&rights(None, &[])).contains("--allow"));
        assert!(rights(None, &[]).some().unwrap().is_empty() && rights(Some("a"), &[]).some().is_err());
    }
}
