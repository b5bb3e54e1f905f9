//! Adds the events of commands to those that are gathered.
//!
//! This module must not depend on how events are sent, and to which filter a key belongs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstseen_backend::Act;
use firstseen_client::{SubmissionName, Verdict};
use firstseen_resp::{EventTime, Submission};
use firstseen_routing::Reason;
use tokio::time::Instant;

use super::place::Found;
use super::wanted::{Place, Wanted, Wish};
use super::{Next, Session, claims};
use crate::batch::Question;
use crate::form::{self, Form};
use crate::not_asked::NotAsked;

impl Session {
    /// Adds a command to the gathered ones. Carries these out before, if the command cannot join them.
    pub(super) async fn gather(&mut self, wanted: Wanted<'_>) -> Next {
        let Wanted { place, act, form, items, time, submission } = wanted;
        // Who holds what is known only when the claims before have been asked for.
        if self.gathered.has_claims() && matches!(act, Wish::Confirm(_) | Wish::Release(_)) {
            self.ask().await;
        }
        // Who gets so far is somebody.
        let Some(guest) = self.guest.as_deref() else { return Next::Go };
        let found = match self.placed.find((&self.shared, guest), place, act, time).await {
            Ok(_) if submission.is_some() && matches!(time, EventTime::NowFor { .. }) => Err(NotAsked::wrong(
                "ID and TTL do not go together: a retry is told its first verdict for the retry horizon",
            )),
            found => found,
        };
        let held = match &found {
            Ok(found) => claims::held(&self.shared.filters, &mut self.claims, found, act, items.iter()).await,
            Err(_) => Ok(claims::Shown::default()),
        };
        let (Found { filter, others, act, ttl_ms, .. }, shown) = match found.and_then(|found| Ok((found, held?))) {
            Ok(found) => found,
            Err(error) => {
                self.ask().await;
                return self.not_asked(place, form, items.count(), &error);
            }
        };
        let at_ms = match time {
            EventTime::At { unix_ms } => Some(unix_ms),
            EventTime::Now | EventTime::NowFor { .. } => shown.at_ms,
        };
        // What it could not keep in mind, the connection could neither confirm nor release.
        if matches!(act, Act::Claim { .. })
            && !self.claims.make_room(items.count() + self.gathered.events(), Instant::now())
        {
            self.ask().await;
            return self.not_asked(place, form, items.count(), &NotAsked::Undecided(Reason::Overloaded));
        }
        let question = Question { filter, others, act, at_ms, ttl_ms };
        // Names are of all events of a call, or of none.
        if submission.is_some() || !self.gathered.add(&question, form, items.iter()) {
            self.ask().await;
            self.gathered.add(&question, form, items.iter());
        }
        self.gathered.show(&shown.fences);
        if let Some(Submission { source, first_number }) = submission {
            let source = source_number(source);
            let names = (first_number..).take(items.count()).map(|number| SubmissionName { source, number });
            self.gathered.name(names);
            self.ask().await;
        }
        Next::Go
    }

    /// Replies to a command that cannot be carried out.
    fn not_asked(&mut self, place: Place<'_>, form: Form, events: usize, error: &NotAsked) -> Next {
        let NotAsked::Undecided(reason) = error else {
            self.refuse(error);
            return Next::Go;
        };
        let filter = match place {
            Place::Filter(name) => std::str::from_utf8(name).ok().map(Arc::<str>::from),
            Place::Key { key, .. } | Place::OnlyOf { key } => self.shared.common.names.filters_of(key).first().cloned(),
        };
        let rule = self.shared.common.rules.undecided(filter.as_deref().unwrap_or_default());
        let undecided = form::reply(self.outbox.replies(), form, rule, &vec![Verdict::Undecided(*reason); events], &[]);
        self.shared.common.counts.undecided.fetch_add(undecided as u64, Ordering::Relaxed);
        Next::Go
    }
}

/// Returns the number of a source: the value of its name if that is a decimal number without leading zeros, otherwise a hash of the
/// name. `7`, `07` and `+7` are three sources.
fn source_number(name: &[u8]) -> u128 {
    let number = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u128>().ok());
    number.filter(|number| number.to_string().as_bytes() == name).unwrap_or_else(|| xxhash_rust::xxh3::xxh3_128(name))
}

#[cfg(test)]
mod tests {
    use super::source_number;

    #[test]
    fn sources_that_are_written_otherwise_are_others() {
        let numbers = ["7", "07", "+7", "7 ", "worker"].map(|name| source_number(name.as_bytes()));
        assert_eq!((numbers[0], source_number(u128::MAX.to_string().as_bytes())), (7, u128::MAX));
        assert!((0..5).all(|one| (one + 1..5).all(|other| numbers[one] != numbers[other])), "{numbers:?}");
    }
}
