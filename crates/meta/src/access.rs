//! Applies changes of access rights to the cluster map. The size of all principals and rights together is limited, so
//! that a list of them always fits into one message.
//!
//! Access control can be enabled only if at least one principal has the right to change access rights. Without such a
//! principal, nobody could change the rights or disable access control afterwards.
//!
//! The guarantees of [`crate::apply`] hold.

use std::sync::Arc;

use firstseen_routing::{
    Access, ClusterMap, FILTERS_QUOTAS_MAX, GRANTS_MAX, Grant, PRINCIPALS_MAX, Principal, TOKENS_MAX, TokenId,
    TokenRecord, check_principal_name,
};

use crate::access_change::AccessChange;
use crate::command::Outcome;
use crate::refusal::Refusal;

/// Maximum size of all principals and their rights together, in bytes, as counted by [`bytes_of`]. The size is limited
/// because the complete list is sent in a single message.
const ACCESS_BYTES_MAX: usize = 1 << 20;
/// Size that is counted for a principal or a right in addition to its text, in bytes.
const RECORD_BYTES: usize = 64;

/// Applies the change.
pub(crate) fn change(map: &mut Arc<ClusterMap>, change: AccessChange) -> Result<Outcome, Refusal> {
    let before = &map.access;
    let mut access = Access::clone(before);
    match change {
        AccessChange::Grant { principal, grants } => grant(&mut access, principal, grants)?,
        AccessChange::Revoke { principal, grants } => revoke(&mut access, &principal, &grants)?,
        AccessChange::Limit { principal, quota } => {
            principal_mut(&mut access, &principal)?.quota = quota;
        }
        AccessChange::Enable { is_enabled } => {
            if is_enabled && !access.has_keeper() {
                return Err(Refusal::NoKeeper);
            }
            access.is_enabled = is_enabled;
        }
        AccessChange::LimitFilters { names, quota } => {
            if quota.is_none() {
                access.filters.remove(&names);
            } else {
                access.filters.insert(names, quota);
            }
            if access.filters.len() > FILTERS_QUOTAS_MAX {
                return Err(full("limits of names of filters", FILTERS_QUOTAS_MAX));
            }
        }
        AccessChange::AddToken { principal, id, token, now_s } => {
            add_token(&mut access, principal, id, token, now_s)?;
        }
        AccessChange::RemoveToken { id } => {
            let mut principals = access.principals.values_mut();
            if !principals.any(|principal| principal.tokens.remove(&id).is_some()) {
                return Err(Refusal::TokenUnknown { id });
            }
        }
    }
    if **before != access {
        Arc::make_mut(map).access = Arc::new(access);
    }
    Ok(Outcome::Done)
}

fn grant(access: &mut Access, principal: String, grants: Vec<Grant>) -> Result<(), Refusal> {
    if let Err(rule) = check_principal_name(&principal) {
        let what = "the name of a principal".to_owned();
        return Err(Refusal::Text { what, value: principal, rule: rule.to_owned() });
    }
    if !access.principals.contains_key(&principal) && access.principals.len() >= PRINCIPALS_MAX {
        return Err(full("principals", PRINCIPALS_MAX));
    }
    let held = &mut access.principals.entry(principal).or_default().grants;
    held.extend(grants);
    if held.len() > GRANTS_MAX {
        return Err(full("rights of one principal", GRANTS_MAX));
    }
    if bytes_of(access) > ACCESS_BYTES_MAX {
        return Err(full("bytes of principals and rights", ACCESS_BYTES_MAX));
    }
    Ok(())
}

fn add_token(access: &mut Access, name: String, id: TokenId, token: TokenRecord, now_s: u64) -> Result<(), Refusal> {
    if access.token(id).is_some() {
        return Err(Refusal::TokenTaken { id });
    }
    let principal = principal_mut(access, &name)?;
    principal.tokens.retain(|_, token| token.is_valid(now_s));
    if principal.tokens.len() >= TOKENS_MAX {
        return Err(Refusal::TokensFull { name });
    }
    principal.tokens.insert(id, token);
    Ok(())
}

fn revoke(access: &mut Access, principal: &str, grants: &[Grant]) -> Result<(), Refusal> {
    let record = principal_mut(access, principal)?;
    // A principal with a quota or tokens remains, so that it keeps them if it receives other rights next.
    let keeps = !record.quota.is_none() || !record.tokens.is_empty();
    let held = &mut record.grants;
    if let Some(missing) = grants.iter().find(|grant| !held.contains(grant)) {
        return Err(Refusal::NotGranted { name: principal.to_owned(), right: missing.to_string() });
    }
    held.retain(|grant| !grants.contains(grant));
    if grants.is_empty() || (held.is_empty() && !keeps) {
        access.principals.remove(principal);
    }
    Ok(())
}

fn principal_mut<'access>(access: &'access mut Access, name: &str) -> Result<&'access mut Principal, Refusal> {
    access.principals.get_mut(name).ok_or_else(|| Refusal::PrincipalUnknown { name: name.to_owned() })
}

fn full(what: &str, most: usize) -> Refusal {
    Refusal::Full { what: what.to_owned(), most: most as u64 }
}

fn bytes_of(access: &Access) -> usize {
    let mut bytes = 0;
    for (name, principal) in &access.principals {
        bytes += RECORD_BYTES + name.len();
        for grant in &principal.grants {
            bytes += RECORD_BYTES;
            if let Grant::Filters { names, .. } = grant {
                bytes += names.as_str().len();
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
