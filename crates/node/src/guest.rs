//! The caller of one call, and what it may do with it: by the role of its certificate, or by the rights of its principal once the
//! cluster asks for these.
//!
//! Promises: the call's rule, which the gate gives, is the only place that says what a call needs; who is refused anything is
//! written to the audit file. Whoever has the certificate of an operator may do everything: nobody can lock the holders out.
//! Must not know: what calls do, which call needs what.

use std::net::SocketAddr;
use std::sync::Arc;

use firstseen_meta::AskedBy;
use firstseen_routing::{ClusterMap, ClusterVerb, FilterRecord, FilterVerb, Principal, Quota};
use firstseen_wire::status::ErrorKind;
use tonic::{Request, Status};

use crate::audit::Audit;
use crate::roles::{Caller, Role};

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The role, where rights are not asked for, and of nodes.
    pub(crate) role: Role,
    /// The right; none where only the role counts.
    pub(crate) right: Option<Right>,
}

/// The right that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// On the cluster.
    Cluster(ClusterVerb),
    /// On the filter that the call names.
    Filter(FilterVerb),
    /// On any filter: the answer shows those alone on which the caller has it.
    SomeFilter(FilterVerb),
}

/// A call, as it is written down, and what it needs.
pub(crate) struct Call<'a> {
    /// `/SERVICE/METHOD`, or the name of a door.
    pub(crate) path: &'a str,
    pub(crate) needs: Needs,
}

/// The caller of one call.
pub(crate) struct Guest {
    caller: Caller,
    from: Option<SocketAddr>,
    /// The call: `/SERVICE/METHOD`.
    call: String,
    needs: Needs,
    audit: Arc<Audit>,
}

/// By what a caller may do something.
enum Standing<'map> {
    /// It may do everything: an operator, or there are no certificates.
    Everything,
    /// Its role says: a node of the cluster, or rights are not asked for.
    Role,
    /// What it was granted.
    Granted(&'map str, &'map Principal),
}

impl Guest {
    /// The guest that the gate has let in.
    ///
    /// # Errors
    /// No gate has: that is a bug.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Arc<Self>, Status> {
        let guest = request.extensions().get::<Arc<Self>>().cloned();
        guest.ok_or_else(|| ErrorKind::Internal.status("the call has not passed the gate"))
    }

    /// Lets a caller in, if there may be something for which it may make the call.
    ///
    /// # Errors
    /// It may not make this call whatever it asks for.
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

    /// The caller.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Who asks for a change.
    pub(crate) fn asked_by(&self) -> AskedBy {
        self.audit.who(&self.caller, self.from)
    }

    /// Refuses the caller unless it may do what the call does with the filter of this name.
    ///
    /// # Errors
    /// [`ErrorKind::Forbidden`] says which right is missing.
    pub(crate) fn must_for(&self, map: &ClusterMap, filter: &str) -> Result<(), Status> {
        self.check(map, Some(filter)).map_err(|status| self.refused(status))
    }

    /// Refuses the caller unless it may still make the call for something: a call that lasts may outlive its rights.
    ///
    /// # Errors
    /// As of [`Self::enter`].
    pub(crate) fn must_still(&self, map: &ClusterMap) -> Result<(), Status> {
        self.check(map, None).map_err(|status| self.refused(status))
    }

    /// Writes down that it was refused something; an open stream says so once, though it asks often.
    pub(crate) fn note_refused(&self, reason: &str) {
        if self.caller.must_be_somebody().is_err() {
            return self.audit.denied_stranger(self.from, &self.call, reason);
        }
        self.audit.denied(&self.asked_by(), &self.call, reason);
    }

    /// Whether it may do this with a filter. A refusal is not written to the audit file.
    ///
    /// # Errors
    /// Which right is missing.
    pub(crate) fn may(&self, map: &ClusterMap, verb: FilterVerb, filter: &FilterRecord) -> Result<(), String> {
        self.may_named(map, verb, map.name_for_rights(filter))
    }

    /// The same by the name of a filter, be there one or not.
    ///
    /// # Errors
    /// Which right is missing.
    pub(crate) fn may_named(&self, map: &ClusterMap, verb: FilterVerb, name: &str) -> Result<(), String> {
        may_named(self.standing(map), verb, name)
    }

    /// Like [`Self::may_named`], whether the caller's token counts still or not: what it has begun is ended by the rights of its
    /// principal.
    pub(crate) fn principal_may_named(&self, map: &ClusterMap, verb: FilterVerb, name: &str) -> Result<(), String> {
        may_named(self.standing_of_principal(map), verb, name)
    }

    /// The name and the quota of its principal; none where that does not count.
    pub(crate) fn quota<'map>(&self, map: &'map ClusterMap) -> Option<(&'map str, Quota)> {
        match self.standing(map) {
            Ok(Standing::Granted(name, rights)) if !rights.quota.is_none() => Some((name, rights.quota)),
            _ => None,
        }
    }

    /// Counts a batch for which its quota had no room.
    pub(crate) fn note_over_quota(&self) {
        self.audit.refusals().batch(&self.caller.name());
    }

    /// Whether it may read the secret of the filter of this name.
    pub(crate) fn may_hash_for(&self, map: &ClusterMap, filter: &str) -> bool {
        match self.standing(map) {
            Ok(Standing::Everything | Standing::Role) => true,
            Ok(Standing::Granted(_, rights)) => rights.may_hash_for(filter),
            Err(_) => false,
        }
    }

    /// The map as it may see it: with the filters on which it has a right, and all nodes.
    pub(crate) fn visible(&self, map: &Arc<ClusterMap>) -> Arc<ClusterMap> {
        let sees_all = match self.standing(map) {
            Ok(Standing::Everything | Standing::Role) => true,
            Ok(Standing::Granted(_, rights)) => rights.may_on_cluster(ClusterVerb::View),
            Err(_) => false,
        };
        if sees_all {
            return map.clone();
        }
        let mut visible = ClusterMap::clone(map);
        visible.filters.retain(|_, filter| self.may(map, FilterVerb::Describe, filter).is_ok());
        Arc::new(visible)
    }

    /// Whether the token by which it is known has expired since its call began.
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
            (Right::Cluster(verb), _) => rights.may_on_cluster(verb),
            (Right::Filter(verb), Some(filter)) => rights.may(verb, filter),
            (Right::Filter(verb), None) | (Right::SomeFilter(verb), _) => rights.may_with_some(verb),
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

    /// Its standing, without a look at its token.
    fn standing_of_principal<'map>(&self, map: &'map ClusterMap) -> Result<Standing<'map>, Status> {
        let roles = self.caller.roles();
        if self.caller.is_unchecked() || roles.admin {
            return Ok(Standing::Everything);
        }
        if roles.node {
            // A node that joins asks and is asked who it is, before it is a member.
            let is_greeting = self.needs.role == Role::OperatorOrNode;
            if is_greeting || self.caller.is_member(map) {
                return Ok(Standing::Role);
            }
            let what = "the node that calls is no member of the cluster, as far as this node knows: let it join, or \
                        stop it and remove its data if it has left";
            return Err(ErrorKind::Unavailable.status(what));
        }
        if !map.access.is_enabled {
            return Ok(Standing::Role);
        }
        let Some(name) = self.caller.principal() else {
            let what = "the cluster asks for rights, and the certificate names no principal: it has to bear one name like \
                        NAME.client.firstseen (firstseen certs --clients NAME makes such)";
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

/// Whether somebody of this standing may do something with the filter of this name.
fn may_named(standing: Result<Standing<'_>, Status>, verb: FilterVerb, name: &str) -> Result<(), String> {
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

/// Returns the flag that grants a right on a filter. A client that opens a filter needs `describe` first, but most clients go on to
/// record events, so the flag for `describe` recommends `observe`.
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
