//! The events of a call: their digests, and the verdicts on events that are not judged by the filter.

use firstseen_filter::Digest;

use crate::code;
use crate::times::Times;

/// Events of a call.
pub(crate) struct Batch {
    /// Digests of the events that have a key, in order.
    digests: Vec<Digest>,
    /// Times of these events in milliseconds since 1970. The list is empty if the window needs no times.
    times_ms: Vec<u64>,
    /// Verdict on each event of the call, which is [`code::PENDING`] for the events that have a digest.
    codes: Vec<u8>,
}

impl Batch {
    /// Joins keys and times. `digests` has an entry for each event, which is `None` if the event has no key. Returns
    /// `None` if the numbers of keys and times differ.
    ///
    /// `now_ms` is the time of events that have no time of their own because the caller named no times.
    pub(crate) fn new(digests: Vec<Option<Digest>>, times: &Times, now_ms: u64, needs_time: bool) -> Option<Self> {
        if times.events().is_some_and(|events| events != digests.len()) {
            return None;
        }
        let mut batch = Self {
            digests: Vec::with_capacity(digests.len()),
            times_ms: Vec::with_capacity(if needs_time { digests.len() } else { 0 }),
            codes: Vec::with_capacity(digests.len()),
        };
        for (event, digest) in digests.into_iter().enumerate() {
            let code = match (digest, times.of(event, now_ms)) {
                (None, _) => code::NO_KEY,
                (Some(_), None) if needs_time => code::NO_TIME,
                (Some(digest), time_ms) => {
                    batch.digests.push(digest);
                    batch.times_ms.extend(time_ms.filter(|_| needs_time));
                    code::PENDING
                }
            };
            batch.codes.push(code);
        }
        Some(batch)
    }

    pub(crate) fn digests(&self) -> &[Digest] {
        &self.digests
    }

    pub(crate) fn times_ms(&self) -> &[u64] {
        &self.times_ms
    }

    /// Returns the verdicts on all events, if `judged` has the verdicts on those that have a digest.
    pub(crate) fn with(self, judged: impl IntoIterator<Item = u8>) -> Vec<u8> {
        let mut codes = self.codes;
        let pending = codes.iter_mut().filter(|code| **code == code::PENDING);
        pending.zip(judged).for_each(|(code, judged)| *code = judged);
        codes
    }
}
