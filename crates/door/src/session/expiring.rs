//! `SETNX` and the `EXPIRE` behind it. Programs send both in one pipeline or transaction, and a key is recorded once, with the time that
//! it is to have: so `SETNX` is held back until the next command of the same read is there.
//!
//! An `EXPIRE` that comes alone finds its key recorded for the window. It changes the time of a key that the door has not confirmed yet;
//! of others only where the operator says that the window will do. This module must not depend on how events are asked about.

use std::sync::Arc;

use firstseen_desk::{Facts, Remembers};
use firstseen_resp::{KeyRequest, Lifetime, Request};
use tokio::time::Instant;

use super::about::Clerk;
use super::{Session, place, wanted};
use crate::form::Form;
use crate::not_asked::NotAsked;
use crate::settings::{ClaimRule, ExpireRule};

/// The last `SETNX` of a connection.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    key: Vec<u8>,
    /// It has not been gathered.
    is_waiting: bool,
    stage: Stage,
}

/// What is known of the time of the last key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// There is no such key.
    #[default]
    NoKey,
    /// It was set without a time.
    Set,
    /// It was set with the time of the `EXPIRE` that is carried out now.
    Timed,
}

/// The key that an `EXPIRE` is about, as far as it is the last one that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastSet<'a> {
    /// It is another one, or there is none.
    Other,
    /// It is this one, and was set without a time.
    WithoutTime(&'a [u8]),
    /// It is this one, and was set with the time of the command.
    WithTime(&'a [u8]),
}

impl HeldBack {
    fn hold(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.is_waiting = true;
        self.stage = Stage::Set;
    }

    /// The key that was set last; that it was given its time is told once.
    pub(super) fn last(&mut self) -> LastSet<'_> {
        match self.stage {
            Stage::NoKey => LastSet::Other,
            Stage::Set => LastSet::WithoutTime(&self.key),
            Stage::Timed => {
                self.stage = Stage::NoKey;
                LastSet::WithTime(&self.key)
            }
        }
    }
}

impl Session {
    /// Holds a `SETNX` back, or gives it the time that its `EXPIRE` names; returns the command that is to be carried out now.
    pub(super) async fn hold_back<'a>(&mut self, request: Request<'a>) -> Option<Request<'a>> {
        if self.held_back.is_waiting {
            match request {
                Request::Keys(KeyRequest::Expire { key, lifetime }) if *key == *self.held_back.key => {
                    self.held_back.is_waiting = false;
                    self.held_back.stage = Stage::Timed;
                    self.gather(wanted::set_nx_for(key, lifetime)).await;
                }
                _ => self.release_held_back().await,
            }
        }
        if let Request::Keys(KeyRequest::SetNx { key }) = request {
            self.held_back.hold(key);
            return None;
        }
        Some(request)
    }

    /// Gathers a `SETNX` that was held back: no time comes with it.
    pub(super) async fn release_held_back(&mut self) {
        if std::mem::take(&mut self.held_back.is_waiting) {
            let key = std::mem::take(&mut self.held_back.key);
            self.gather(wanted::set_nx(&key)).await;
            self.held_back.key = key;
        }
    }
}

impl Clerk<'_> {
    /// `EXPIRE` of a key.
    pub(super) async fn expire(&mut self, key: &[u8], lifetime: Lifetime) {
        match self.takes_time(key, lifetime).await {
            // What is there has that time now.
            Ok(true) => self.known(&[key], Form::HowManyThere).await,
            Ok(false) => self.refuse(
                "ERR the key is recorded for its filter's window: send SET key value NX EX seconds, or EXPIRE behind SETNX in one \
                 pipeline; expire = \"window\" in [redis] has 1 replied",
            ),
            Err(error) => self.refuse(error),
        }
    }

    /// Whether a key that is there has that time from now on, or will do with the window in its place.
    async fn takes_time(&mut self, key: &[u8], lifetime: Lifetime) -> Result<bool, NotAsked> {
        if self.last_set == LastSet::WithTime(key) {
            return Ok(true);
        }
        let left_ms = place::left_ms(Some(lifetime), self.shared.filters.now_ms())?.unwrap_or_default();
        let (filter, facts) = match place::with_claims((self.shared, self.guest), key).await? {
            Ok(with_claims) => with_claims,
            Err(filter) => {
                let facts = self.shared.filters.facts(&filter).await?;
                (filter, facts)
            }
        };
        if facts.remembers < Remembers::ForMs(left_ms) {
            return Err(place::beyond(&filter, facts.remembers));
        }
        if self.is_to_be_confirmed(&filter, facts) && self.set_life(&filter, key, left_ms).await? {
            return Ok(true);
        }
        let is_own = self.last_set == LastSet::WithoutTime(key);
        let is_window = is_own
            && left_ms > 0
            && place::own_time(self.shared, &filter, left_ms).await.is_ok_and(|life| life.is_none());
        Ok(is_window || self.shared.common.settings.expire == ExpireRule::Window)
    }

    fn is_to_be_confirmed(&self, filter: &Arc<str>, facts: Facts) -> bool {
        facts.lease_max.is_some() && self.shared.common.rules.claim(filter) == ClaimRule::OnExpiryConfirm
    }

    /// Whether the door has still to confirm the key, which this connection has set, and does so for that time now.
    async fn set_life(&mut self, filter: &Arc<str>, key: &[u8], left_ms: u64) -> Result<bool, NotAsked> {
        let Some(claim) = self.own.get(filter, key) else { return Ok(false) };
        let life_ms = match left_ms {
            0 => Some(0),
            left_ms => place::own_time(self.shared, filter, left_ms).await?,
        };
        Ok(self.shared.common.confirmer.set_life(filter, key, claim.fence, Instant::now(), life_ms))
    }
}
