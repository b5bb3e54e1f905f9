//! The caller of a request, and the rights that this caller has. Before access control is enabled in the cluster, the
//! role in the caller's certificate determines its rights. When access control is enabled, the rights are those of the
//! caller's principal.
//!
//! # Guarantees
//! - The requirements of a call come only from its entry in the table of access rules.
//! - Every rejection is written to the audit log.
//! - A caller with an operator's certificate may do everything, so access control can never lock out the operators.
//!
//! This module does not depend on what the calls do, or on which call requires which right.

use std::net::SocketAddr;
use std::sync::Arc;

use firstseen_meta::AskedBy;
use firstseen_routing::{ClusterMap, ClusterVerb, FilterRecord, FilterVerb, Principal, Quota};
use firstseen_wire::status::ErrorKind;
use tonic::{Request, Status};

use crate::audit::Audit;
use crate::roles::{Caller, Role};

/// Requirements of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Role that is required from nodes, and from all callers while access control is disabled.
    pub(crate) role: Role,
    /// Required right. `None` means that only the role matters.
    pub(crate) right: Option<Right>,
}

/// Right that a call requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// A right on the cluster.
    Cluster(ClusterVerb),
    /// A right on the filter that the call names.
    Filter(FilterVerb),
    /// A right on at least one filter. The reply contains only the filters on which the caller has this right.
    SomeFilter(FilterVerb),
}

/// A call, with its name in the audit log and its requirements.
pub(crate) struct Call<'a> {
    /// Path `/SERVICE/METHOD` of the call, or the name of the Redis or HTTP endpoint.
    pub(crate) path: &'a str,
    pub(crate) needs: Needs,
}

/// The caller of one call.
pub(crate) struct AuthenticatedCaller {
    caller: Caller,
    from: Option<SocketAddr>,
    /// Path `/SERVICE/METHOD` of the call.
    call: String,
    needs: Needs,
    audit: Arc<Audit>,
}

/// Basis on which a caller may do something.
enum Standing<'map> {
    /// The caller may do everything, because it is an operator or because the node uses no certificates.
    Everything,
    /// The role of the caller decides. The caller is a node of the cluster, or access control is disabled.
    Role,
    /// The rights that the principal was granted decide.
    Granted(&'map str, &'map Principal),
}

impl AuthenticatedCaller {
    /// Returns the caller of a request that has passed the access checks.
    ///
    /// # Errors
    /// Returns an error if the request has not passed the access checks, which is a programming error.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Arc<Self>, Status> {
        let guest = request.extensions().get::<Arc<Self>>().cloned();
        guest.ok_or_else(|| ErrorKind::Internal.status("the call has not passed the access checks"))
    }

    /// Admits a caller, if there is at least one filter or object for which it may make the call.
    ///
    /// # Errors
    /// Returns an error if the caller may not make this call for any object.
    pub(crate) fn enter(
        caller: Caller,
        from: Option<SocketAddr>,
        Call { path, needs }: Call<'_>,
        map: &ClusterMap,
        audit: &Arc<Audit>,
    ) -> Result<Self, Status> {
        let guest = Self { caller, from, call: path.to_owned(), needs, audit: audit.clone() };
        guest.must_still(map)?;
        Ok(guest)
    }

    /// Returns the caller.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the identity under which a change is recorded in the audit log.
    pub(crate) fn asked_by(&self) -> AskedBy {
        self.audit.who(&self.caller, self.from)
    }

    /// Checks that the caller has the right that this call requires on the filter with this name.
    ///
    /// # Errors
    /// [`ErrorKind::Forbidden`] names the missing right.
    pub(crate) fn must_for(&self, map: &ClusterMap, filter: &str) -> Result<(), Status> {
        self.check(map, Some(filter)).map_err(|status| self.refused(status))
    }

    /// Checks that the caller may still make this call for at least one object. A long-running call may outlast its
    /// rights.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::enter`].
    pub(crate) fn must_still(&self, map: &ClusterMap) -> Result<(), Status> {
        self.check(map, None).map_err(|status| self.refused(status))
    }

    /// Records a rejection in the audit log. An open stream calls this method once, although it checks its rights
    /// often.
    pub(crate) fn note_refused(&self, reason: &str) {
        if self.caller.must_be_somebody().is_err() {
            return self.audit.denied_stranger(self.from, &self.call, reason);
        }
        self.audit.denied(&self.asked_by(), &self.call, reason);
    }

    /// Checks whether the caller has a right on a filter. A rejection is not written to the audit log.
    ///
    /// # Errors
    /// Returns a message that names the missing right.
    pub(crate) fn may(&self, map: &ClusterMap, verb: FilterVerb, filter: &FilterRecord) -> Result<(), String> {
        self.check_filter_right(map, verb, map.name_for_rights(filter))
    }

    /// Checks whether the caller has a right on the filter with this name. The filter need not exist.
    ///
    /// # Errors
    /// Returns a message that names the missing right.
    pub(crate) fn check_filter_right(&self, map: &ClusterMap, verb: FilterVerb, name: &str) -> Result<(), String> {
        check_filter_right(self.standing(map), verb, name)
    }

    /// Checks whether the caller has a right on a filter, like [`Self::check_filter_right`], but does not check whether
    /// the caller's token is still valid. This method is used for an operation that the caller began with a valid
    /// token. Such an operation may be completed after the token has expired, as long as the caller's principal still
    /// has the right.
    pub(crate) fn check_principal_filter_right(
        &self,
        map: &ClusterMap,
        verb: FilterVerb,
        name: &str,
    ) -> Result<(), String> {
        check_filter_right(self.standing_of_principal(map), verb, name)
    }

    /// Returns the name and the quota of the caller's principal. Returns `None` if no quota applies.
    pub(crate) fn quota<'map>(&self, map: &'map ClusterMap) -> Option<(&'map str, Quota)> {
        match self.standing(map) {
            Ok(Standing::Granted(name, rights)) if !rights.quota.is_none() => Some((name, rights.quota)),
            _ => None,
        }
    }

    /// Counts a batch that was rejected because the quota was used up.
    pub(crate) fn note_over_quota(&self) {
        self.audit.refusals().batch(&self.caller.name());
    }

    /// Returns whether the caller may read the secret of the filter with this name.
    pub(crate) fn may_hash_for(&self, map: &ClusterMap, filter: &str) -> bool {
        match self.standing(map) {
            Ok(Standing::Everything | Standing::Role) => true,
            Ok(Standing::Granted(_, rights)) => rights.may_hash_for(filter),
            Err(_) => false,
        }
    }

    /// Returns the cluster map as the caller may see it. It contains all nodes, and the filters on which the caller has
    /// a right.
    pub(crate) fn visible(&self, map: &Arc<ClusterMap>) -> Arc<ClusterMap> {
        let sees_all = match self.standing(map) {
            Ok(Standing::Everything | Standing::Role) => true,
            Ok(Standing::Granted(_, rights)) => rights.has_cluster_right(ClusterVerb::View),
            Err(_) => false,
        };
        if sees_all {
            return map.clone();
        }
        let mut visible = ClusterMap::clone(map);
        visible.filters.retain(|_, filter| self.may(map, FilterVerb::Describe, filter).is_ok());
        Arc::new(visible)
    }

    /// Returns whether the caller's token has expired since the call began.
    pub(crate) fn has_expired(&self) -> bool {
        self.caller.token().is_some_and(|token| token.has_expired(self.audit.now_s()))
    }

    fn check(&self, map: &ClusterMap, filter: Option<&str>) -> Result<(), Status> {
        self.caller.must_be_somebody()?;
        let Needs { role, right } = self.needs;
        let Some(right) = right else { return self.caller.must(role) };
        let (principal, rights) = match self.standing(map)? {
            Standing::Everything => return Ok(()),
            Standing::Role => return self.caller.must(role),
            Standing::Granted(principal, rights) => (principal, rights),
        };
        let may = match (right, filter) {
            (Right::Cluster(verb), _) => rights.has_cluster_right(verb),
            (Right::Filter(verb), Some(filter)) => rights.may(verb, filter),
            (Right::Filter(verb), None) | (Right::SomeFilter(verb), _) => rights.has_right_on_some_filter(verb),
        };
        if may { Ok(()) } else { Err(ErrorKind::Forbidden.status(missing(principal, right, filter))) }
    }

    fn standing<'map>(&self, map: &'map ClusterMap) -> Result<Standing<'map>, Status> {
        let roles = self.caller.roles();
        if !self.caller.is_unchecked()
            && !roles.admin
            && !roles.node
            && let Some(token) = self.caller.token()
            && let Some(name) = self.caller.principal()
        {
            token.must_count(&map.access, name, self.audit.now_s())?;
        }
        self.standing_of_principal(map)
    }

    /// Returns on which basis the caller may act, without checking the validity of its token.
    fn standing_of_principal<'map>(&self, map: &'map ClusterMap) -> Result<Standing<'map>, Status> {
        let roles = self.caller.roles();
        if self.caller.is_unchecked() || roles.admin {
            return Ok(Standing::Everything);
        }
        if roles.node {
            // A node that joins makes and receives calls to identify itself before it is a member of the cluster.
            let is_greeting = self.needs.role == Role::OperatorOrNode;
            if is_greeting || self.caller.is_member(map) {
                return Ok(Standing::Role);
            }
            let what = "the calling node is not a member of the cluster, as far as this node knows: let it join, or \
                        stop it and remove its data if it has left";
            return Err(ErrorKind::Unavailable.status(what));
        }
        if !map.access.is_enabled {
            return Ok(Standing::Role);
        }
        let Some(name) = self.caller.principal() else {
            let what = "the cluster uses access control, but the certificate names no principal: it must have exactly \
                        one name of the form NAME.client.firstseen (create one with firstseen certs --clients NAME)";
            return Err(ErrorKind::Forbidden.status(what));
        };
        match map.access.principals.get_key_value(name) {
            Some((name, rights)) => Ok(Standing::Granted(name, rights)),
            None => {
                let what =
                    "has no rights in this cluster: who has the right `security` grants some by firstseen access grant";
                Err(ErrorKind::Forbidden.status(format!("`{name}` {what} {name} ...")))
            }
        }
    }

    fn refused(&self, status: Status) -> Status {
        self.note_refused(status.message());
        status
    }
}

/// Checks whether a caller with this standing has a right on the filter with this name.
fn check_filter_right(standing: Result<Standing<'_>, Status>, verb: FilterVerb, name: &str) -> Result<(), String> {
    match standing.map_err(|status| status.message().to_owned())? {
        Standing::Granted(principal, rights) if !rights.may(verb, name) => {
            Err(missing(principal, Right::Filter(verb), Some(name)))
        }
        Standing::Everything | Standing::Role | Standing::Granted(..) => Ok(()),
    }
}

/// Returns which right is missing, and the command that grants it.
fn missing(principal: &str, right: Right, filter: Option<&str>) -> String {
    let (what, flags) = match (right, filter) {
        (Right::Cluster(verb), _) => {
            (format!("has no right to {} this cluster", on_cluster(verb)), format!("--allow {verb}"))
        }
        (Right::Filter(verb), Some(filter)) => {
            (format!("may not {verb} filter `{filter}`"), format!("--filter {filter} {}", allow(verb)))
        }
        (Right::Filter(verb), None) | (Right::SomeFilter(verb), _) => {
            (format!("may not {verb} any filter"), format!("--filter NAME {}", allow(verb)))
        }
    };
    format!(
        "`{principal}` {what}: who has the right `security` grants it by firstseen access grant {principal} {flags}"
    )
}

/// Returns the command-line flag that grants a right on a filter, for use in an error message. For the right
/// `describe`, the function recommends the flag for the right `observe` instead, because most clients describe a filter
/// only in order to record events in it. If such a client received only `describe`, its next call would fail because
/// the right `observe` is missing.
fn allow(verb: FilterVerb) -> String {
    match verb {
        FilterVerb::Describe => {
            "--allow observe (records events; lookup only tests them, describe only shows the filter)".to_owned()
        }
        verb => format!("--allow {verb}"),
    }
}

fn on_cluster(verb: ClusterVerb) -> &'static str {
    match verb {
        ClusterVerb::View => "view",
        ClusterVerb::Operate => "operate",
        ClusterVerb::Security => "say who may do what in",
    }
}
