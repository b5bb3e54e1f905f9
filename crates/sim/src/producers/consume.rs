//! Consumers that claim events, deliver them and confirm them. Some release their events, some end without a word, and
//! some stop for too long.
//!
//! The history records for which periods a consumer relies on a claimed event, because during such a period no other
//! client may get the event. A period begins when the consumer receives the grant. It ends when the consumer confirms
//! or releases the event, or when the lease of the claim ends.

use std::time::Duration;

use firstseen_checker::claims::{ClaimRecord, Grant};
use firstseen_checker::history::Call;
use firstseen_client::{Batch, Claim, Claiming, Confirming, Delivery, Event, Lost, SubmissionName};
use firstseen_routing::rules::Rule;
use firstseen_routing::{CLOCK_RATE_PARTS, Decision, Fence, Reason};

use super::Lane;
use crate::clock::now_us;
use crate::seeded_rng::SeededRng;
use crate::shared_history::lock;

/// Maximum number of tries of a confirmation that ends undecided.
const CONFIRMS_MAX: u32 = 3;

impl Lane {
    /// Claims an event, and continues with it at random.
    pub(super) async fn consume(
        &self,
        (event, time_ms): (u64, u64),
        lease_max_ms: u32,
        rng: &mut SeededRng,
    ) -> Result<(), String> {
        let lease_ms = u64::from(lease_max_ms) / (1 + rng.below(4));
        let id = lock(&self.history).begin(Call { is_lookup: true, is_claim: true, ..self.new_call(event, time_ms) });
        let asked_us = now_us();
        let lease_us = lease_ms * 1_000;
        let key = event.to_le_bytes();
        let claiming = self.filter.claim(Event::from(&key).at(time_ms), Duration::from_millis(lease_ms)).await;
        let claiming = claiming.map_err(|error| error.to_string())?;
        let replied_us = now_us();
        let verdict = match &claiming {
            Claiming::Claimed(_) => Decision::FirstSeen,
            Claiming::Duplicate => Decision::Duplicate,
            Claiming::InProgress(_) => Decision::Undecided(Reason::Claimed),
            Claiming::Undecided(reason) => Decision::Undecided(*reason),
        };
        let counts_from_asking = self.scenario.owner_limits.rules.keep(Rule::CountsLeasesFromRequest);
        let over_us = if counts_from_asking { asked_us } else { replied_us } + lease_us - lease_us / CLOCK_RATE_PARTS;
        let grant = match &claiming {
            Claiming::Claimed(claim) => Some(Grant { fence: claim.fence, until_us: over_us, over_us, lost_us: None }),
            _ => None,
        };
        let number = {
            let mut history = lock(&self.history);
            history.end(id, replied_us, verdict, false);
            let is_in_progress = verdict == Decision::Undecided(Reason::Claimed);
            history.claims.push(ClaimRecord {
                event,
                asked_us,
                replied_us: Some(replied_us),
                lease_us,
                is_in_progress,
                grant,
            });
            history.claims.len() - 1
        };
        match claiming {
            Claiming::Claimed(claim) => self.go_on(claim, number, (event, time_ms), lease_ms, rng).await,
            _ => Ok(()),
        }
    }

    /// Notes that the consumer no longer relies on its event.
    fn note_released(&self, number: usize) {
        if let Some(grant) = &mut lock(&self.history).claims[number].grant {
            grant.until_us = grant.until_us.min(now_us());
        }
    }

    async fn go_on(
        &self,
        claim: Claim,
        number: usize,
        event: (u64, u64),
        lease_ms: u64,
        rng: &mut SeededRng,
    ) -> Result<(), String> {
        let fate = rng.below(10);
        if fate == 0 {
            self.note_released(number);
            drop(claim);
            return Ok(());
        }
        if fate == 1 {
            self.note_released(number);
            return claim.release().await.map(drop).map_err(|error| error.to_string());
        }
        let delivery = claim.deliver();
        // Most consumers deliver at once. Some take about as long as their leases.
        let ms = if rng.below(3) == 0 { rng.below(lease_ms * 3 / 2) } else { rng.below(30) };
        tokio::time::sleep(Duration::from_millis(ms)).await;
        // A consumer that ends after its delivery sends nothing.
        if fate > 2 { self.confirm(delivery, number, event).await } else { Ok(()) }
    }

    async fn confirm(&self, delivery: Delivery, number: usize, (event, time_ms): (u64, u64)) -> Result<(), String> {
        self.note_released(number);
        let fence = delivery.fence;
        for again in 0..CONFIRMS_MAX {
            let call = Call { is_confirm: true, name: Some(name_of(event, fence)), ..self.new_call(event, time_ms) };
            let id = lock(&self.history).begin(call);
            let confirming = self.confirm_once(fence, event, time_ms).await?;
            let verdict = match confirming {
                Confirming::Confirmed => Decision::FirstSeen,
                Confirming::LeaseLost(Lost::Recorded) => Decision::Duplicate,
                Confirming::LeaseLost(Lost::NotHeld) => Decision::Undecided(Reason::Claimed),
                Confirming::Undecided(reason) => Decision::Undecided(reason),
            };
            let mut history = lock(&self.history);
            history.end(id, now_us(), verdict, false);
            if confirming == Confirming::LeaseLost(Lost::NotHeld)
                && let Some(grant) = &mut history.claims[number].grant
            {
                grant.lost_us = Some(now_us());
            }
            drop(history);
            if !matches!(confirming, Confirming::Undecided(_)) || again + 1 == CONFIRMS_MAX {
                break;
            }
        }
        Ok(())
    }

    async fn confirm_once(&self, fence: Fence, event: u64, time_ms: u64) -> Result<Confirming, String> {
        let key = [event.to_le_bytes()];
        let batch = Batch::from(&key).times_ms(std::slice::from_ref(&time_ms));
        let confirmed = self.filter.confirm_batch(batch, &[fence]).await.map_err(|error| error.to_string())?;
        Ok(confirmed.first().copied().unwrap_or(Confirming::Undecided(Reason::Unknown)))
    }
}

/// Returns the idempotency key under which the history records a confirmation. All attempts to confirm the same grant
/// have the same key, so the history treats each further attempt as a retry. A retry may be told that the event is
/// already recorded, because the first attempt has recorded it, or it may be confirmed again.
fn name_of(event: u64, fence: Fence) -> SubmissionName {
    let source = u128::from(event) << 64 | u128::from(fence.filter().0) << 48 | u128::from(fence.epoch().0);
    SubmissionName { source, number: fence.number() }
}
