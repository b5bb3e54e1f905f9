//! The part of the Admin service that changes access rights. Access control cannot be enabled before clients
//! authenticate with certificates.

use firstseen_meta::{AccessChange, Change};
use firstseen_routing::{Quota, TokenId};
use firstseen_wire::access;
use firstseen_wire::proto::admin::change_access_request::Change as Asked;
use firstseen_wire::proto::admin::{ChangeAccessRequest, Limit, Rights};
use firstseen_wire::status::ErrorKind;
use tonic::Status;

use super::{AdminService, invalid};
use crate::authenticated_caller::AuthenticatedCaller;

impl AdminService {
    /// Changes access rights. When this method returns, this node already enforces the new rights.
    pub(super) async fn change_rights(
        &self,
        guest: &AuthenticatedCaller,
        request: ChangeAccessRequest,
    ) -> Result<(), Status> {
        let ChangeAccessRequest { command_id, change } = request;
        let change = change.ok_or_else(|| invalid("`change` is missing"))?;
        let is_enabled = matches!(change, Asked::Enable(true));
        if is_enabled && guest.caller().is_unchecked() {
            let what = "access control cannot be enabled without certificates, because every client that connects to \
                        this node counts as an operator: configure `[tls]` on all nodes first";
            return Err(ErrorKind::NotNow.status(what));
        }
        self.propose(guest, &command_id, Change::Access(decode(change, guest.asked_by().at_ms / 1_000)?)).await?;
        let agreed = self.meta.map().borrow().version;
        self.applied(|view| view.map.version >= agreed).await
    }
}

fn decode(change: Asked, now_s: u64) -> Result<AccessChange, Status> {
    Ok(match change {
        Asked::Grant(Rights { principal, grants }) => {
            AccessChange::Grant { principal, grants: access::grants(grants).map_err(invalid)? }
        }
        Asked::Revoke(Rights { principal, grants }) => {
            AccessChange::Revoke { principal, grants: access::grants(grants).map_err(invalid)? }
        }
        Asked::Limit(Limit { principal, quota }) => {
            let quota = quota.map(Quota::from).unwrap_or_default();
            AccessChange::Limit { principal, quota }
        }
        Asked::Enable(is_enabled) => AccessChange::Enable { is_enabled },
        Asked::AddToken(asked) => {
            let (principal, id, token) = access::new_token(asked).map_err(invalid)?;
            AccessChange::AddToken { principal, id, token, now_s }
        }
        Asked::LimitFilters(asked) => {
            let (names, quota) = access::filters_quota(asked).map_err(invalid)?;
            AccessChange::LimitFilters { names, quota }
        }
        Asked::RemoveToken(id) => AccessChange::RemoveToken { id: TokenId::new(id) },
    })
}
