//! Rights as they are written on a command line.
//!
//! Promises: a verb that cannot be on what it is on is an error that says so. Must not know: clusters.

use std::num::NonZeroU32;

use clap::{Args, ValueEnum};
use firstseen_routing::{Access, ClusterVerb, FilterNames, FilterVerb, Grant};

use crate::exit::UsageError;
use crate::filter::ClusterAddresses;
use crate::text::size::ByteSize;

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerbArg {
    /// Send events, claim them, and all of lookup
    Observe,
    /// Ask whether events were seen, and all of describe
    Lookup,
    /// See what a filter is and how it is doing, but not its secret
    Describe,
    /// Make, alter, drop, back up and restore filters, and all of describe
    Manage,
    /// See nodes and all filters
    View,
    /// Take nodes in and out, move slices, raise the format, and all of view
    Operate,
    /// Say who may do what
    Security,
}

/// A verb, and what it is on.
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

/// Rights.
#[derive(Debug, Args)]
pub struct RightsArgs {
    /// Name of one filter, or what names begin with and a *: 'clicks*'. Only verbs on filters take it; grant
    /// again for more
    #[arg(long, value_name = "NAME")]
    pub filter: Option<FilterNames>,
    /// What it may do: observe, lookup, describe, manage; or on the cluster view, operate, security
    #[arg(long, value_name = "VERB,...", value_delimiter = ',', hide_possible_values = true)]
    pub allow: Vec<VerbArg>,
}

/// Flags of `firstseen access grant`.
#[derive(Debug, Args)]
pub struct GrantArgs {
    /// Who: the NAME of NAME.client.firstseen in a certificate, or whose tokens shall be
    #[arg(value_name = "WHO")]
    pub principal: String,
    /// The rights.
    #[command(flatten)]
    pub rights: RightsArgs,
    /// The cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Flags of `firstseen access revoke`.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Who
    #[arg(value_name = "WHO")]
    pub principal: String,
    /// The rights; all that it has where none is named.
    #[command(flatten)]
    pub rights: RightsArgs,
    /// The cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Flags of `firstseen access limit`.
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// Who
    #[arg(value_name = "WHO")]
    pub principal: String,
    /// Events a second that each node takes from it; more are told when to come again
    #[arg(long, value_name = "N")]
    pub events_per_s: Option<NonZeroU32>,
    /// Batches that it may have unanswered at each node, over all of its streams
    #[arg(long, value_name = "N")]
    pub batches: Option<NonZeroU32>,
    /// The cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Flags of `firstseen access limit-filters`.
#[derive(Debug, Args)]
pub struct LimitFiltersArgs {
    /// Name of one filter, or what names begin with and a *: 'shop-*'
    #[arg(value_name = "NAMES")]
    pub names: FilterNames,
    /// How many there may be; a tree counts as one
    #[arg(long, value_name = "N")]
    pub filters: Option<NonZeroU32>,
    /// Memory of all their cells together, with every copy: 4GiB. While one is altered, its former counts, too
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<ByteSize>,
    /// The cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Flags of `firstseen access check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Who
    #[arg(value_name = "WHO")]
    pub principal: String,
    /// What
    #[arg(value_name = "VERB")]
    pub verb: VerbArg,
    /// With which filter; verbs on the cluster take none
    #[arg(value_name = "FILTER")]
    pub filter: Option<String>,
    /// The cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

impl RightsArgs {
    /// The rights; at least one.
    pub(super) fn grants(&self) -> anyhow::Result<Vec<Grant>> {
        match self.some()? {
            rights if rights.is_empty() => Err(UsageError("say what: --allow observe --filter NAME".to_owned()).into()),
            rights => Ok(rights),
        }
    }

    /// The rights; perhaps none.
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
                Err(UsageError(format!("{verb} is on filters: say which, as --filter NAME or --filter 'BEGINNING*'")))
            }
            (Verb::Cluster(verb), None) => Ok(Grant::Cluster(verb)),
            (Verb::Cluster(verb), Some(_)) => {
                Err(UsageError(format!("{verb} is on the cluster: grant it alone, without --filter")))
            }
        }
    }
}

impl CheckArgs {
    /// Whether it may, and why.
    pub(super) fn answer(&self, access: &Access) -> Result<(bool, String), UsageError> {
        let Self { principal, verb, filter, .. } = self;
        let rights = access.principals.get(principal);
        let may = match (Verb::from(*verb), filter) {
            (Verb::Filter(verb), Some(filter)) => rights.is_some_and(|rights| rights.may(verb, filter)),
            (Verb::Filter(verb), None) => {
                return Err(UsageError(format!(
                    "{verb} is on filters: say which, as firstseen access check {principal} {verb} FILTER"
                )));
            }
            (Verb::Cluster(verb), None) => rights.is_some_and(|rights| rights.may_on_cluster(verb)),
            (Verb::Cluster(verb), Some(_)) => {
                return Err(UsageError(format!("{verb} is on the cluster: leave the filter out")));
            }
        };
        let why = match (access.is_enabled, rights) {
            (false, _) => format!(
                "once rights are asked for (firstseen access enable), by what `{principal}` was granted; until then the roles of \
                 certificates count"
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
