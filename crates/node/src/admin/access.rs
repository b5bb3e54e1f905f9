//! Who may do what, as it is asked for.
//!
//! Promises: rights are not asked for before callers show who they are. Must not know: what rights are good for.

use firstseen_meta::{AccessChange, Change};
use firstseen_routing::{Quota, TokenId};
use firstseen_wire::access;
use firstseen_wire::proto::admin::change_access_request::Change as Asked;
use firstseen_wire::proto::admin::{ChangeAccessRequest, Limit, Rights};
use firstseen_wire::status::ErrorKind;
use tonic::Status;

use super::{AdminService, invalid};
use crate::guest::Guest;

impl AdminService {
    /// Changes who may do what; this node acts on it when this is answered.
    pub(super) async fn change_rights(&self, guest: &Guest, request: ChangeAccessRequest) -> Result<(), Status> {
        let ChangeAccessRequest { command_id, change } = request;
        let change = change.ok_or_else(|| invalid("`change` is missing"))?;
        let is_enabled = matches!(change, Asked::Enable(true));
        if is_enabled && guest.caller().is_unchecked() {
            let what = "rights cannot be asked for without certificates: anybody who connects to this node is taken for an \
                        operator. Give all nodes `[tls]` first";
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
