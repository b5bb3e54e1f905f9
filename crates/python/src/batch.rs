//! The events of a call: their keys, and the verdicts on events that are not judged by the filter.

use crate::code;
use crate::times::Times;

/// Events of a call. `K` is the form of their keys.
pub(crate) struct Batch<K> {
    /// Keys of the events that the filter judges, in order.
    keys: Vec<K>,
    /// Times of these events in milliseconds since 1970. The list is empty if the window needs no times.
    times_ms: Vec<u64>,
    /// Verdict on each event of the call, which is [`code::PENDING`] for the events that the filter judges.
    codes: Vec<u8>,
}

impl<K> Batch<K> {
    /// Joins keys and times. `keys` has an entry for each event, which is `None` if the event has no key. Returns `None`
    /// if the numbers of keys and times differ.
    ///
    /// `now_ms` is the time of events that have no time of their own because the caller named no times.
    pub(crate) fn new(keys: Vec<Option<K>>, times: &Times, now_ms: u64, needs_time: bool) -> Option<Self> {
        if times.events().is_some_and(|events| events != keys.len()) {
            return None;
        }
        let mut batch = Self {
            keys: Vec::with_capacity(keys.len()),
            times_ms: Vec::with_capacity(if needs_time { keys.len() } else { 0 }),
            codes: Vec::with_capacity(keys.len()),
        };
        for (event, key) in keys.into_iter().enumerate() {
            let code = match (key, times.of(event, now_ms)) {
                (None, _) => code::NO_KEY,
                (Some(_), None) if needs_time => code::NO_TIME,
                (Some(key), time_ms) => {
                    batch.keys.push(key);
                    batch.times_ms.extend(time_ms.filter(|_| needs_time));
                    code::PENDING
                }
            };
            batch.codes.push(code);
        }
        Some(batch)
    }

    /// Returns the keys of the events that the filter judges.
    pub(crate) fn keys(&self) -> &[K] {
        &self.keys
    }

    /// Returns the times of these events. The list is empty if the window needs no times.
    pub(crate) fn times_ms(&self) -> &[u64] {
        &self.times_ms
    }

    /// Returns the number of events of the call.
    pub(crate) fn events(&self) -> usize {
        self.codes.len()
    }

    /// Returns the indices of these events among all events of the call.
    pub(crate) fn judged_events(&self) -> Vec<usize> {
        let codes = self.codes.iter().enumerate();
        codes.filter(|(_, code)| **code == code::PENDING).map(|(event, _)| event).collect()
    }

    /// Returns the verdicts on all events, if `judged` has the verdicts on those that the filter judges.
    pub(crate) fn with(self, judged: impl IntoIterator<Item = u8>) -> Vec<u8> {
        let mut codes = self.codes;
        let pending = codes.iter_mut().filter(|code| **code == code::PENDING);
        pending.zip(judged).for_each(|(code, judged)| *code = judged);
        codes
    }
}
