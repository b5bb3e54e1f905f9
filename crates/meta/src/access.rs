//! Who may do what is changed.
//!
//! Promises: what [`crate::state`] promises; there are never more principals and rights than fit into a message; rights are not
//! asked for before somebody may change them. Must not know: who asks, what rights are good for.

use std::sync::Arc;

use firstseen_routing::{
    Access, ClusterMap, FILTERS_QUOTAS_MAX, GRANTS_MAX, Grant, PRINCIPALS_MAX, Principal, TOKENS_MAX, TokenId,
    TokenRecord, check_principal_name,
};

use crate::access_change::AccessChange;
use crate::command::Outcome;
use crate::refusal::Refusal;

/// Bytes of all principals and their rights at most, as [`bytes_of`] counts them: all are told to whoever lists them.
const ACCESS_BYTES_MAX: usize = 1 << 20;
/// Bytes of a principal or of a right, beside its text.
const RECORD_BYTES: usize = 64;

/// Makes the change.
pub(crate) fn change(map: &mut Arc<ClusterMap>, change: AccessChange) -> Result<Outcome, Refusal> {
    let before = &map.access;
    let mut access = Access::clone(before);
    match change {
        AccessChange::Grant { principal, grants } => grant(&mut access, principal, grants)?,
        AccessChange::Revoke { principal, grants } => revoke(&mut access, &principal, &grants)?,
        AccessChange::Limit { principal, quota } => {
            let unknown = || Refusal::PrincipalUnknown { name: principal.clone() };
            access.principals.get_mut(&principal).ok_or_else(unknown)?.quota = quota;
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
                let what = "limits of names of filters".to_owned();
                return Err(Refusal::Full { what, most: FILTERS_QUOTAS_MAX as u64 });
            }
        }
        AccessChange::AddToken { principal, id, token, now_s } => {
            add_token(&mut access, principal, (id, token), now_s)?;
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
    let full = |what: &str, most: usize| Err(Refusal::Full { what: what.to_owned(), most: most as u64 });
    if !access.principals.contains_key(&principal) && access.principals.len() >= PRINCIPALS_MAX {
        return full("principals", PRINCIPALS_MAX);
    }
    let held = &mut access.principals.entry(principal).or_default().grants;
    held.extend(grants);
    if held.len() > GRANTS_MAX {
        return full("rights of one principal", GRANTS_MAX);
    }
    if bytes_of(access) > ACCESS_BYTES_MAX {
        return full("bytes of principals and rights", ACCESS_BYTES_MAX);
    }
    Ok(())
}

fn add_token(
    access: &mut Access,
    name: String,
    (id, token): (TokenId, TokenRecord),
    now_s: u64,
) -> Result<(), Refusal> {
    if access.token(id).is_some() {
        return Err(Refusal::TokenTaken { id });
    }
    let Some(principal) = access.principals.get_mut(&name) else { return Err(Refusal::PrincipalUnknown { name }) };
    principal.tokens.retain(|_, token| token.is_valid(now_s));
    if principal.tokens.len() >= TOKENS_MAX {
        return Err(Refusal::TokensFull { name });
    }
    principal.tokens.insert(id, token);
    Ok(())
}

fn revoke(access: &mut Access, principal: &str, grants: &[Grant]) -> Result<(), Refusal> {
    let unknown = || Refusal::PrincipalUnknown { name: principal.to_owned() };
    let held = &mut access.principals.get_mut(principal).ok_or_else(unknown)?.grants;
    if let Some(missing) = grants.iter().find(|grant| !held.contains(grant)) {
        return Err(Refusal::NotGranted { name: principal.to_owned(), right: missing.to_string() });
    }
    held.retain(|grant| !grants.contains(grant));
    let has_none = held.is_empty();
    // Who gets other rights next keeps its quota and its tokens.
    let keeps = |principal: &Principal| !principal.quota.is_none() || !principal.tokens.is_empty();
    if grants.is_empty() || (has_none && !access.principals.get(principal).is_some_and(keeps)) {
        access.principals.remove(principal);
    }
    Ok(())
}

fn bytes_of(access: &Access) -> usize {
    let of_grant = |grant: &Grant| match grant {
        Grant::Filters { names, .. } => RECORD_BYTES + names.as_str().len(),
        Grant::Cluster(_) => RECORD_BYTES,
    };
    let principals = access.principals.iter();
    principals.map(|(name, one)| RECORD_BYTES + name.len() + one.grants.iter().map(of_grant).sum::<usize>()).sum()
}

#[cfg(test)]
mod tests;
