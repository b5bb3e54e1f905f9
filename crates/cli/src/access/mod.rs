//! Implements `firstseen access`, which defines which client may do what in a cluster. Each request to change the
//! rights has an id, so the cluster applies the change only once even if the command has to send the request several
//! times.

mod rights;
mod shown;
mod token;

use std::io::Write;
use std::num::NonZeroU64;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use firstseen_routing::{Access, FiltersQuota, Grant, Quota};
use firstseen_wire::access::{access, quota_message};
use firstseen_wire::proto::admin::change_access_request::Change;
use firstseen_wire::proto::admin::{self, ChangeAccessRequest, ListAccessRequest};

use crate::cluster::connect::{self, Operator, fresh_id};
use crate::exit::FAILED;
use crate::filter::{ClusterAddresses, ListArgs};
use crate::text::size::ByteSize;
use rights::{CheckArgs, GrantArgs, LimitArgs, LimitFiltersArgs, RevokeArgs};
use token::TokenArgs;

/// Text below the flags in the help.
const EXAMPLES: &str = "\
Rights are verbs on filters (observe, lookup, describe, manage) or on the cluster (view, operate,
security). Until `enable` the roles in certificates decide; admin.firstseen may always do
everything. More: docs/how-to/secure-a-cluster.md

# let the certificate of `crawler` be used for filters whose names begin with clicks
firstseen access grant keeper --allow security,operate --cluster HOST:PORT --tls-ca ...
firstseen access grant crawler --filter 'clicks*' --allow observe --cluster HOST:PORT --tls-ca ...
firstseen access enable --cluster HOST:PORT --tls-ca ...";

/// Flags of `firstseen access`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AccessArgs {
    /// The command to run.
    #[command(subcommand)]
    pub command: AccessCommand,
}

/// The commands of `firstseen access`.
#[derive(Debug, Subcommand)]
pub enum AccessCommand {
    /// Give a principal rights, in addition to its present rights
    Grant(GrantArgs),
    /// Take rights from a principal, or all of its rights
    Revoke(RevokeArgs),
    /// Limit how much a principal may send to each node; without flags, remove the limits
    Limit(LimitArgs),
    /// Limit the number of filters with certain names, and their memory; without flags, remove the limits
    LimitFilters(LimitFiltersArgs),
    /// Show all principals with their rights, and all limits
    List(ListArgs),
    /// Check whether a principal may do something; the exit code is 0 if it may, 1 if not
    Check(CheckArgs),
    /// Create, list and revoke tokens, for callers without a certificate
    Token(TokenArgs),
    /// Require rights of all callers from now on
    Enable(SwitchArgs),
    /// Let the roles in certificates decide again; rights are kept
    Disable(SwitchArgs),
}

/// Flags of `firstseen access enable` and `disable`.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// Flags that say how to connect to the cluster.
    #[command(flatten)]
    pub at: ClusterAddresses,
}

/// Runs `firstseen access`.
///
/// # Errors
/// Returns the errors of the node, or an error if no node answers.
pub fn run(args: &AccessArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    connect::runtime()?.block_on(async {
        match &args.command {
            AccessCommand::Grant(GrantArgs { principal, rights, at }) => {
                let rights = rights.grants()?;
                let operator = at.operator()?;
                change(&operator, Change::Grant(message(principal, &rights))).await?;
                writeln!(out, "{principal} may {}", shown::list(&rights))?;
                not_yet(&operator).await?;
            }
            AccessCommand::Revoke(RevokeArgs { principal, rights, at }) => {
                let rights = rights.some()?;
                change(&at.operator()?, Change::Revoke(message(principal, &rights))).await?;
                let what = if rights.is_empty() {
                    "has no rights, no quota and no tokens".to_owned()
                } else {
                    format!("lost {}", shown::list(&rights))
                };
                writeln!(out, "{principal} {what}")?;
            }
            AccessCommand::Limit(LimitArgs { principal, events_per_s, batches, at }) => {
                let quota = Quota { events_per_s: *events_per_s, inflight_batches: *batches };
                let limit = admin::Limit { principal: principal.clone(), quota: Some(quota.into()) };
                let operator = at.operator()?;
                change(&operator, Change::Limit(limit)).await?;
                writeln!(out, "{principal} may send {}", shown::quota(quota))?;
                not_yet(&operator).await?;
            }
            AccessCommand::LimitFilters(LimitFiltersArgs { names, filters, memory, at }) => {
                let cell_bytes = memory.and_then(|ByteSize(bytes)| NonZeroU64::new(bytes));
                let quota = FiltersQuota { filters: *filters, cell_bytes };
                change(&at.operator()?, Change::LimitFilters(quota_message(names, quota))).await?;
                writeln!(out, "filters named {names} may be {}", shown::filters_quota(quota))?;
            }
            AccessCommand::List(ListArgs { at, json }) => {
                let access = listed(&at.operator()?).await?;
                out.write_all(if *json { shown::json(&access)? } else { shown::text(&access) }.as_bytes())?;
            }
            AccessCommand::Check(args) => {
                let access = listed(&args.at.operator()?).await?;
                let (may, why) = args.answer(&access)?;
                writeln!(out, "{}: {why}", if may { "yes" } else { "no" })?;
                return Ok(if may { ExitCode::SUCCESS } else { ExitCode::from(FAILED) });
            }
            AccessCommand::Token(args) => token::run(args, out).await?,
            AccessCommand::Enable(SwitchArgs { at }) => {
                let operator = at.operator()?;
                change(&operator, Change::Enable(true)).await?;
                let principals = listed(&operator).await?.principals.len();
                writeln!(
                    out,
                    "callers need rights now: {principals} principals have some. A certificate that names no principal \
                     has no rights, except admin.firstseen; firstseen access disable ends this"
                )?;
            }
            AccessCommand::Disable(SwitchArgs { at }) => {
                change(&at.operator()?, Change::Enable(false)).await?;
                writeln!(out, "the roles in certificates decide again; rights are kept")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn change(operator: &Operator, change: Change) -> anyhow::Result<()> {
    let request = ChangeAccessRequest { command_id: fresh_id().into(), change: Some(change) };
    operator.call(async |mut client| client.change_access(request.clone()).await).await.map(drop)
}

/// Prints a note if rights were granted but rights are not enabled yet.
async fn not_yet(operator: &Operator) -> anyhow::Result<()> {
    if !listed(operator).await?.is_enabled {
        notice!("firstseen: rights and quotas are not enforced yet: firstseen access enable enforces them");
    }
    Ok(())
}

async fn listed(operator: &Operator) -> anyhow::Result<Access> {
    let listed = operator.call(async |mut client| client.list_access(ListAccessRequest {}).await).await?;
    Ok(access(listed)?)
}

fn message(principal: &str, rights: &[Grant]) -> admin::Rights {
    admin::Rights { principal: principal.to_owned(), grants: rights.iter().map(admin::Grant::from).collect() }
}
