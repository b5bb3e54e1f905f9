//! Creates and drops filters in sandbox mode.
//!
//! This module does not depend on the definition of a filter.

use std::sync::Arc;

use firstseen_backend::ClientSession;
use firstseen_client::FilterError;
use firstseen_resp::{BloomOptions, BloomRequest, Request, SetRequest};
use firstseen_routing::FilterVerb;

use super::{Requester, Shared};
use crate::command_rejected::CommandRejected;
use crate::sandbox::{Made, Sandbox};

/// Returns the name and the options of the filter that a command is about to use, if the filter does not exist.
///
/// # Errors
/// Returns the error reply. The command must not be executed then.
pub(super) async fn lacking(
    Requester { shared, client_session, .. }: Requester<'_>,
    request: &Request<'_>,
) -> Result<Option<(Arc<str>, BloomOptions)>, String> {
    let none = BloomOptions::default();
    let (name, options) = match request {
        Request::Bloom(BloomRequest::Add { filter, .. } | BloomRequest::AddEach { filter, .. })
        | Request::Sets(SetRequest::Add { filter, .. }) => (filter, none),
        Request::Bloom(BloomRequest::Insert { filter, options, must_exist: false, .. }) => (filter, *options),
        _ => return Ok(None),
    };
    let name = name_of(name)?;
    // The right is checked first. Otherwise a client without the right could find out whether the filter exists.
    client_session.may(FilterVerb::Observe, &name, 0).map_err(|refused| CommandRejected::from(refused).to_string())?;
    match shared.filters.get(&name).await {
        Ok(_) => Ok(None),
        Err(FilterError::NotFound { .. }) => Ok(Some((name, options))),
        Err(error) => Err(format!("UNDECIDED NotReady: {error}")),
    }
}

/// Creates a filter.
///
/// # Errors
/// Returns the error reply.
pub(super) async fn make(
    shared: &Shared,
    sandbox: &Sandbox,
    client_session: &dyn ClientSession,
    name: &Arc<str>,
    options: BloomOptions,
) -> Result<(), String> {
    may_manage(client_session, name)?;
    let (new, made) = sandbox.plan(name, options).ok_or("ERR the sandbox is full: DEL filters that are not used")?;
    let is_made = client_session.make(new).await;
    match (shared.filters.open(name).await, is_made) {
        (Ok(filter), Ok(())) => sandbox.add(name.clone(), Made { filter: filter.info().id, ..made }),
        // Another client has created the filter in the meantime. It is used, but it does not belong to the sandbox.
        (Ok(_), Err(_)) => {}
        (Err(error), is_made) => return Err(format!("ERR {}", is_made.err().unwrap_or(error.to_string()))),
    }
    Ok(())
}

/// Drops a filter of the sandbox. Returns `false` if there is no such filter.
///
/// # Errors
/// Returns the error reply.
pub(super) async fn drop_named(
    shared: &Shared,
    sandbox: &Sandbox,
    client_session: &dyn ClientSession,
    name: &str,
) -> Result<bool, String> {
    if !client_session.sees(name) {
        return Ok(false);
    }
    let is_here = match (sandbox.get(name), shared.filters.get(&Arc::from(name)).await) {
        (Some(made), Ok(filter)) => made.filter == filter.info().id,
        (Some(_), Err(FilterError::NotFound { .. })) => false,
        (Some(_), Err(error)) => return Err(format!("UNDECIDED NotReady: {error}")),
        (None, _) => return Ok(false),
    };
    // Another client may have dropped the filter and created a new one under the same name. That filter does not belong
    // to the sandbox.
    if !is_here {
        sandbox.remove(name);
        return Ok(false);
    }
    may_manage(client_session, name)?;
    client_session.drop_filter(name).await.map_err(|error| format!("ERR {error}"))?;
    shared.filters.forget(name);
    Ok(sandbox.remove(name))
}

/// Parses the name of a filter.
///
/// # Errors
/// Returns the error reply if the bytes cannot be a name.
pub(super) fn name_of(name: &[u8]) -> Result<Arc<str>, String> {
    std::str::from_utf8(name).map(Arc::from).map_err(|_| "ERR not found".to_owned())
}

fn may_manage(client_session: &dyn ClientSession, name: &str) -> Result<(), String> {
    client_session.may(FilterVerb::Manage, name, 0).map_err(|refused| CommandRejected::from(refused).to_string())
}
