//! Conversions between access rights and their protobuf messages.
//!
//! Decoding returns only rights that an administrator can grant. For any other right, decoding returns an error that
//! names the field.

use std::num::{NonZeroU32, NonZeroU64};

use firstseen_routing::{
    Access, ClusterVerb, FILTERS_QUOTAS_MAX, FilterNames, FilterVerb, FiltersQuota, GRANTS_MAX, Grant, PRINCIPALS_MAX,
    Principal, Quota, TOKENS_MAX, TokenId, TokenRecord,
};

use crate::map_error::{MapError, check_length};
use crate::proto::admin as proto;

impl From<&Access> for proto::ListAccessReply {
    fn from(access: &Access) -> Self {
        let principals = access.principals.iter().map(|(name, principal)| proto::Principal {
            name: name.clone(),
            grants: principal.grants.iter().map(proto::Grant::from).collect(),
            quota: (!principal.quota.is_none()).then(|| principal.quota.into()),
            tokens: principal.tokens.iter().map(|(id, token)| listed_token(*id, token)).collect(),
        });
        let filters = access.filters.iter().map(|(names, quota)| quota_message(names, *quota));
        Self { enabled: access.is_enabled, principals: principals.collect(), filters: filters.collect() }
    }
}

/// Encodes the quota that all filters with certain names share.
pub fn quota_message(names: &FilterNames, FiltersQuota { filters, cell_bytes }: FiltersQuota) -> proto::FiltersQuota {
    let filters = filters.map_or(0, NonZeroU32::get);
    let cell_bytes = cell_bytes.map_or(0, NonZeroU64::get);
    proto::FiltersQuota { names: names.to_string(), filters, cell_bytes }
}

/// Decodes the quota that all filters with certain names share.
///
/// # Errors
/// Returns a [`MapError`] that names the field.
pub fn filters_quota(message: proto::FiltersQuota) -> Result<(FilterNames, FiltersQuota), MapError> {
    let proto::FiltersQuota { names, filters, cell_bytes } = message;
    let names = FilterNames::try_from(names).map_err(|_| MapError::Names { field: "filters_quota.names" })?;
    Ok((names, FiltersQuota { filters: NonZeroU32::new(filters), cell_bytes: NonZeroU64::new(cell_bytes) }))
}

fn listed_token(id: TokenId, token: &TokenRecord) -> proto::ListedToken {
    proto::ListedToken { id: id.number(), expires_s: token.expires_s.unwrap_or(0) }
}

/// Decodes a new token: the name of its principal, its id, and the record that the cluster stores.
///
/// # Errors
/// Returns a [`MapError`] that names the field.
pub fn new_token(message: proto::NewToken) -> Result<(String, TokenId, TokenRecord), MapError> {
    let proto::NewToken { principal, id, digest, expires_s } = message;
    let digest = digest[..].try_into().map_err(|_| MapError::Digest { field: "new_token.digest" })?;
    Ok((principal, TokenId::new(id), TokenRecord { digest, expires_s: (expires_s > 0).then_some(expires_s) }))
}

/// Decodes the list of principals with their rights and tokens. The message does not contain the digests of the tokens,
/// so all token digests in the result are zero.
///
/// # Errors
/// Returns a [`MapError`] that names the field.
pub fn access(message: proto::ListAccessReply) -> Result<Access, MapError> {
    check_length("principals", message.principals.len(), PRINCIPALS_MAX)?;
    let principals = message.principals.into_iter().map(|proto::Principal { name, grants: granted, quota, tokens }| {
        check_length("tokens", tokens.len(), TOKENS_MAX)?;
        let tokens = tokens.into_iter().map(|proto::ListedToken { id, expires_s }| {
            (TokenId::new(id), TokenRecord { digest: [0; 32], expires_s: (expires_s > 0).then_some(expires_s) })
        });
        let grants = grants(granted)?.into_iter().collect();
        let quota = quota.map(Quota::from).unwrap_or_default();
        Ok::<_, MapError>((name, Principal { grants, quota, tokens: tokens.collect() }))
    });
    check_length("filters", message.filters.len(), FILTERS_QUOTAS_MAX)?;
    let filters = message.filters.into_iter().map(filters_quota).collect::<Result<_, _>>()?;
    Ok(Access { is_enabled: message.enabled, principals: principals.collect::<Result<_, _>>()?, filters })
}

impl From<Quota> for proto::Quota {
    fn from(quota: Quota) -> Self {
        Self {
            events_per_s: quota.events_per_s.map_or(0, NonZeroU32::get),
            inflight_batches: quota.inflight_batches.map_or(0, NonZeroU32::get),
        }
    }
}

impl From<proto::Quota> for Quota {
    fn from(proto::Quota { events_per_s, inflight_batches }: proto::Quota) -> Self {
        Self { events_per_s: NonZeroU32::new(events_per_s), inflight_batches: NonZeroU32::new(inflight_batches) }
    }
}

impl From<&Grant> for proto::Grant {
    fn from(grant: &Grant) -> Self {
        let (verb, filters) = match grant {
            Grant::Filters { names, verb } => (of_filters(*verb), names.as_str().to_owned()),
            Grant::Cluster(verb) => (of_cluster(*verb), String::new()),
        };
        Self { verb: verb.into(), filters }
    }
}

/// Decodes the grants in a message.
///
/// # Errors
/// Returns a [`MapError`] that names the field.
pub fn grants(messages: Vec<proto::Grant>) -> Result<Vec<Grant>, MapError> {
    check_length("grants", messages.len(), GRANTS_MAX)?;
    messages.into_iter().map(grant).collect()
}

fn grant(proto::Grant { verb, filters }: proto::Grant) -> Result<Grant, MapError> {
    let value = verb;
    let verb = proto::Verb::try_from(verb).unwrap_or_default();
    let on_filters = FilterVerb::ALL.into_iter().find(|known| of_filters(*known) == verb);
    let on_cluster = ClusterVerb::ALL.into_iter().find(|known| of_cluster(*known) == verb);
    match (on_filters, on_cluster) {
        (Some(verb), _) => {
            let names = FilterNames::try_from(filters).map_err(|_| MapError::Names { field: "grant.filters" })?;
            Ok(Grant::Filters { names, verb })
        }
        (None, Some(verb)) if filters.is_empty() => Ok(Grant::Cluster(verb)),
        (None, Some(_)) => Err(MapError::Names { field: "grant.filters" }),
        (None, None) => Err(MapError::Unknown { field: "grant.verb", value: value.into() }),
    }
}

fn of_filters(verb: FilterVerb) -> proto::Verb {
    match verb {
        FilterVerb::Observe => proto::Verb::Observe,
        FilterVerb::Lookup => proto::Verb::Lookup,
        FilterVerb::Describe => proto::Verb::Describe,
        FilterVerb::Manage => proto::Verb::Manage,
    }
}

fn of_cluster(verb: ClusterVerb) -> proto::Verb {
    match verb {
        ClusterVerb::View => proto::Verb::View,
        ClusterVerb::Operate => proto::Verb::Operate,
        ClusterVerb::Security => proto::Verb::Security,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_survive_as_messages_and_no_others_come_in() {
        let on_filters = FilterVerb::ALL.map(|verb| Grant::Filters { names: "clicks*".parse().unwrap(), verb });
        let all: Vec<Grant> = on_filters.into_iter().chain(ClusterVerb::ALL.map(Grant::Cluster)).collect();
        let known = all.len() as i32;
        let quota = Quota { events_per_s: NonZeroU32::new(7), inflight_batches: None };
        let token = |expires_s| TokenRecord { digest: [0; 32], expires_s };
        let tokens = [(TokenId::new(3), token(None)), (TokenId::new(u64::MAX), token(Some(9)))].into();
        let principals = [("op".to_owned(), Principal { grants: all.iter().cloned().collect(), quota, tokens })].into();
        let quota = FiltersQuota { filters: NonZeroU32::new(3), cell_bytes: None };
        let filters = [("shop-*".parse().unwrap(), quota)].into();
        let before = Access { is_enabled: true, principals, filters };
        assert_eq!(access(proto::ListAccessReply::from(&before)), Ok(before));
        assert!(grants(vec![proto::Grant { verb: 0, filters: "a".to_owned() }]).is_err());
        assert!(grants(vec![proto::Grant { verb: known + 1, filters: String::new() }]).is_err());
        for (verb, filters) in [(proto::Verb::Observe, ""), (proto::Verb::Observe, "a*b"), (proto::Verb::View, "a")] {
            let message = proto::Grant { verb: verb.into(), filters: filters.to_owned() };
            assert!(grants(vec![message]).unwrap_err().to_string().contains("grant.filters"), "{verb:?} {filters}");
        }
        let many = vec![proto::Grant::from(&Grant::Cluster(ClusterVerb::View)); GRANTS_MAX + 1];
        assert!(grants(many).is_err());
    }
}
