//! Executes `EXPIRE` for a key that was set before.
//!
//! The expiry of a key can be changed only while the key is claimed and not yet confirmed. During this time, the
//! endpoint stores the new expiry, and applies it when it confirms the key.
//!
//! The confirmation records the key in cells that the key shares with other events. From then on the expiry is fixed,
//! because a change of these cells would affect the other events too. If an `EXPIRE` arrives after the confirmation,
//! the setting `expire` determines the reply.
//!
//! This module does not depend on how a `SETNX` in the same pipeline gets its expiry.

use std::sync::Arc;
use std::time::Duration;

use firstseen_backend::Retention;
use firstseen_client::Verdict;
use firstseen_resp::Expiry;
use tokio::time::Instant;

use super::handler::CommandHandler;
use super::place::{self, MappedFilter};
use crate::command_rejected::CommandRejected;
use crate::reply_shape::ReplyShape;
use crate::settings::{ClaimRule, ExpireRule};

impl CommandHandler<'_> {
    /// Executes `EXPIRE` for a key.
    pub(super) async fn expire(&mut self, key: &[u8], expiry: Expiry) {
        let refused = match self.takes_time(key, expiry).await {
            // If the key exists, it now has this expiry, so the reply is 1.
            Ok(true) => return self.known(&[key], ReplyShape::HowManyThere).await,
            Ok(false) => CommandRejected::wrong(
                "the key is recorded for its filter's window: send SET key value NX EX seconds, or EXPIRE after SETNX in \
                 one pipeline; with expire = \"window\" in [redis] the reply is 1",
            ),
            Err(error) => error,
        };
        let is_mapped = !self.requester.shared.common.names.filters_of(key).is_empty();
        match self.found(&[key]).await {
            Ok((verdicts, _)) if is_mapped && verdicts == [Verdict::FirstSeen] => self.outbox.replies().integer(0),
            _ => self.refuse(refused),
        }
    }

    /// Returns whether a recorded key now has this expiry, or whether the setting `expire` accepts the window in its
    /// place.
    async fn takes_time(&mut self, key: &[u8], expiry: Expiry) -> Result<bool, CommandRejected> {
        let shared = self.requester.shared;
        let ttl_ms = place::ttl_ms(Some(expiry), shared.filters.now_ms())?.unwrap_or_default();
        let MappedFilter { name, facts } = match place::with_claims(self.requester, key).await? {
            Ok(with_claims) => with_claims,
            Err(name) => {
                let facts = shared.filters.facts(&name).await?;
                MappedFilter { name, facts }
            }
        };
        if facts.remembers < Retention::ForMs(ttl_ms) {
            return Err(place::beyond(&name, facts.remembers));
        }
        if let Some(lease_max) = facts.lease_max
            && self.own.get(&name, key).is_some()
        {
            return self.takes_lease(&name, key, ttl_ms, lease_max).await;
        }
        let is_own = self.last_set == Some(key);
        let is_window =
            is_own && ttl_ms > 0 && place::kept_ttl(shared, &name, ttl_ms).await.is_ok_and(|ttl| ttl.is_none());
        Ok(is_window || shared.common.settings.expire == ExpireRule::Window)
    }

    /// Returns whether a key that this connection has claimed gets the expiry that the client requests. The result
    /// depends on which side confirms the claims of this filter:
    ///
    /// - If the endpoint confirms them, it stores the requested expiry and applies it when it confirms the claim.
    /// - If the client confirms them, the endpoint cannot change the claim. The function then accepts the expiry only
    ///   if it is equal to the lease of the claim, so that nothing needs to be changed.
    async fn takes_lease(
        &mut self,
        filter: &Arc<str>,
        key: &[u8],
        ttl_ms: u64,
        lease_max: Duration,
    ) -> Result<bool, CommandRejected> {
        let common = &self.requester.shared.common;
        if common.rules.claim(filter) == ClaimRule::OnExpiryConfirm {
            return Ok(self.set_ttl(filter, key, ttl_ms).await? || common.settings.expire == ExpireRule::Window);
        }
        if self.last_set == Some(key) && Duration::from_millis(ttl_ms) == lease_max {
            return Ok(true);
        }
        Err(CommandRejected::wrong(format_args!(
            "the key is claimed for {} s: send SET key value NX EX seconds to claim it for a shorter time, and FS.CONFIRM to record it",
            lease_max.as_secs_f64()
        )))
    }

    /// Sets the time to live that a claimed key gets when the endpoint confirms it. Returns `false` if there is no
    /// pending confirmation of this key. That is the case if this connection has no claim on the key, or if the
    /// endpoint has already confirmed the claim.
    async fn set_ttl(&self, filter: &Arc<str>, key: &[u8], ttl_ms: u64) -> Result<bool, CommandRejected> {
        let Some(claim) = self.own.get(filter, key) else { return Ok(false) };
        let shared = self.requester.shared;
        let kept_ms = match ttl_ms {
            0 => Some(0),
            ttl_ms => place::kept_ttl(shared, filter, ttl_ms).await?,
        };
        Ok(shared.common.confirmer.set_ttl(filter, key, claim.fence, Instant::now(), kept_ms))
    }
}
