//! Input of a call: one event or a batch of events, with the options of the call.
//!
//! An option that is not set costs nothing.

use std::time::Duration;

use firstseen_filter::{Digest, FilterSecret};
use firstseen_routing::SubmissionName;

/// Event that a producer submits to a filter. An event has a key and, optionally, the time when it occurred and an
/// idempotency key. A reference to a string or to bytes converts to an event that has only a key.
///
/// ```
/// use firstseen_client::{Client, Event, SubmissionName, Verdict};
/// # firstseen_fake::run(async |seed| {
/// let client = Client::connect([seed]).await?;
/// let clicks = client.filter("clicks").await?;
/// let offset = SubmissionName { source: 7, number: 1_000 };
/// assert_eq!(clicks.observe("click").await?, Verdict::FirstSeen);
/// assert_eq!(clicks.observe(Event::from(b"click").named(offset)).await?, Verdict::Duplicate);
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) time_ms: Option<u64>,
    pub(crate) name: Option<SubmissionName>,
}

impl<'a, K: AsRef<[u8]> + ?Sized> From<&'a K> for Event<'a> {
    fn from(key: &'a K) -> Self {
        Self { key: key.as_ref(), time_ms: None, name: None }
    }
}

impl Event<'_> {
    /// Sets the time at which the event occurred, in milliseconds since 1970. Filters with a time-based window need
    /// this time, unless their nodes stamp events on arrival (`--clock wall`).
    ///
    /// ```
    /// # use firstseen_client::{Client, Event, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// let visits = client.filter("visits").await?;
    /// let visit = Event::from("alice").at(1_790_000_000_000);
    /// assert_eq!(visits.observe(visit).await?, Verdict::FirstSeen);
    /// # Ok(())
    /// # });
    /// ```
    #[must_use]
    pub fn at(self, time_ms: u64) -> Self {
        Self { time_ms: Some(time_ms), ..self }
    }

    /// Sets the idempotency key of the event, so that the producer can safely submit the event again. The key can be
    /// derived, for example, from the partition and offset of a log.
    ///
    /// If a batch with this key is sent again within the filter's retry horizon, the producer gets the same verdict
    /// again, even if it was restarted in between. Two different events must not have the same key. If that happens,
    /// the second event is undecided ([`Reason::NameReused`](crate::Reason::NameReused)).
    ///
    /// ```
    /// # use firstseen_client::{Client, Event, SubmissionName, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// let record = Event::from("click").named(SubmissionName { source: 7, number: 1_000 });
    /// assert_eq!(clicks.observe(record).await?, Verdict::FirstSeen);
    /// assert_eq!(clicks.observe(record).await?, Verdict::FirstSeen); // The same submission.
    /// # Ok(())
    /// # });
    /// ```
    #[must_use]
    pub fn named(self, name: SubmissionName) -> Self {
        Self { name: Some(name), ..self }
    }
}

/// Time to live for events that occur now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// Current time, in milliseconds since 1970.
    pub now_ms: u64,
    /// Time for which the filter remembers the events, in milliseconds from `now_ms`.
    pub ttl_ms: u64,
}

/// Events of one call. The answers are in the order of the events. A reference to a list of keys converts to a batch
/// without options.
///
/// A call may have any number of events. The client splits a large call into several batches, and does not wait for the
/// reply to one batch before it sends the next.
///
/// ```
/// use firstseen_client::{Batch, Client, Verdict};
/// # firstseen_fake::run(async |seed| {
/// let client = Client::connect([seed]).await?;
/// let visits = client.filter("visits").await?;
/// let users = ["alice", "bob", "alice"];
/// let times_ms = [1_790_000_000_000; 3];
/// let verdicts = visits.observe_batch(Batch::from(&users).times_ms(&times_ms)).await?;
/// assert_eq!(verdicts, [Verdict::FirstSeen, Verdict::FirstSeen, Verdict::Duplicate]);
/// # Ok(())
/// # });
/// ```
#[derive(Clone)]
pub struct Batch<'a> {
    pub(crate) keys: Keys<'a>,
    pub(crate) times_ms: &'a [u64],
    pub(crate) names: &'a [SubmissionName],
    pub(crate) ttl: Option<Ttl>,
    pub(crate) wait_max: Option<Duration>,
}

/// Function that hashes all events of a batch under a secret.
pub(crate) type Hash<'a> = &'a (dyn Fn(&FilterSecret) -> Vec<Digest> + Sync);

/// Keys of a batch, either as bytes or as a function that hashes them.
#[derive(Clone)]
pub(crate) enum Keys<'a> {
    Bytes(Vec<&'a [u8]>),
    Hashed(Hash<'a>),
}

impl<'a, K: AsRef<[u8]>> From<&'a [K]> for Batch<'a> {
    fn from(keys: &'a [K]) -> Self {
        Self::of(Keys::Bytes(keys.iter().map(AsRef::as_ref).collect()))
    }
}

impl<'a, K: AsRef<[u8]>> From<&'a Vec<K>> for Batch<'a> {
    fn from(keys: &'a Vec<K>) -> Self {
        keys.as_slice().into()
    }
}

impl<'a, K: AsRef<[u8]>, const N: usize> From<&'a [K; N]> for Batch<'a> {
    fn from(keys: &'a [K; N]) -> Self {
        keys.as_slice().into()
    }
}

impl<'a> Batch<'a> {
    fn of(keys: Keys<'a>) -> Self {
        Self { keys, times_ms: &[], names: &[], ttl: None, wait_max: None }
    }

    /// Creates a batch whose keys are hashed by the function `hash`. This is useful for keys that consist of several
    /// parts, and for programs that already know the digests ([`FilterInfo::secret`](crate::FilterInfo::secret)). The
    /// function receives the filter's secret and must return one digest for each event. If the filter is altered during
    /// the call, the client calls the function again with the secret of the altered filter. Events for which the second
    /// call returns no digest are undecided ([`Reason::Altered`](crate::Reason::Altered)).
    ///
    /// ```
    /// # use firstseen_client::{Batch, Client, FilterSecret, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// let rows = [("alice", "page-1"), ("alice", "page-2")];
    /// let hash = |secret: &FilterSecret| {
    ///     let mut scratch = Vec::new();
    ///     rows.map(|(user, page)| secret.digest_parts([user.as_bytes(), page.as_bytes()], &mut scratch)).to_vec()
    /// };
    /// assert_eq!(clicks.observe_batch(Batch::hashed(&hash)).await?, [Verdict::FirstSeen; 2]);
    /// # Ok(())
    /// # });
    /// ```
    pub fn hashed(hash: &'a (dyn Fn(&FilterSecret) -> Vec<Digest> + Sync)) -> Self {
        Self::of(Keys::Hashed(hash))
    }

    /// Sets the time at which each event occurred, in milliseconds since 1970.
    ///
    /// The list of times may be longer than the list of keys. The additional entries are the times of events that
    /// follow this batch in the input. With these times, the filter can recognise wrong times: if a single event is far
    /// ahead of all earlier events, its time may be wrong. The filter accepts such a time only if later events, or the
    /// time of day, confirm it.
    ///
    /// ```
    /// # use firstseen_client::{Batch, Client, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let visits = client.filter("visits").await?;
    /// let visit = Batch::from(&["alice"]).times_ms(&[1_790_000_000_000]);
    /// assert_eq!(visits.observe_batch(visit).await?, [Verdict::FirstSeen]);
    /// # Ok(())
    /// # });
    /// ```
    #[must_use]
    pub fn times_ms(self, times_ms: &'a [u64]) -> Self {
        Self { times_ms, ..self }
    }

    /// Sets the idempotency key of each event's submission, as [`Event::named`] does for one event.
    ///
    /// ```
    /// # use firstseen_client::{Batch, Client, SubmissionName, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// let names = [1_000, 1_001].map(|offset| SubmissionName { source: 7, number: offset });
    /// let records = ["click-1", "click-2"];
    /// let verdicts = clicks.observe_batch(Batch::from(&records).names(&names)).await?;
    /// assert_eq!(verdicts, [Verdict::FirstSeen; 2]);
    /// # Ok(())
    /// # });
    /// ```
    #[must_use]
    pub fn names(self, names: &'a [SubmissionName]) -> Self {
        Self { names, ..self }
    }

    /// Sets a time to live for all events of the batch, which replaces the filter's window. The filter remembers each
    /// event for at least the time to live. It may remember an event for up to two units longer, where a unit is the
    /// smallest time step of the filter's window.
    ///
    /// The batch needs no list of event times, even if the filter requires that events carry their own times. If the
    /// list is missing, the client uses [`Ttl::now_ms`] to compute the times of the events.
    ///
    /// The time to live applies only to events that are new. If the filter has already recorded an event, the expiry of
    /// that event does not change.
    ///
    /// ```
    /// # use firstseen_client::{Batch, Client, Ttl, Verdict};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// let ttl = Ttl { now_ms: 1_790_000_000_000, ttl_ms: 600_000 };
    /// let verdicts = clicks.observe_batch(Batch::from(&["click"]).ttl(ttl)).await?;
    /// assert_eq!(verdicts, [Verdict::FirstSeen]);
    /// # Ok(())
    /// # });
    /// ```
    #[must_use]
    pub fn ttl(self, ttl: Ttl) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Limits how long the call waits for verdicts. Events without a verdict at the end of this time are undecided. If
    /// [`ConnectOptions::deadline_ms`] is shorter than this limit, that deadline applies instead.
    ///
    /// [`ConnectOptions::deadline_ms`]: crate::ConnectOptions::deadline_ms
    ///
    /// ```
    /// # use firstseen_client::{Batch, Client, Verdict};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let clicks = client.filter("clicks").await?;
    /// let batch = Batch::from(&["click"]).within(Duration::from_secs(2));
    /// assert_eq!(clicks.observe_batch(batch).await?, [Verdict::FirstSeen]);
    /// # Ok(())
    /// # });
    /// ```
    #[must_use]
    pub fn within(self, wait_max: Duration) -> Self {
        Self { wait_max: Some(wait_max), ..self }
    }

    /// Returns the digests of all events under a secret.
    pub(crate) fn hash(&self, secret: &FilterSecret) -> Vec<Digest> {
        match &self.keys {
            Keys::Bytes(keys) => keys.iter().map(|key| secret.digest(key)).collect(),
            Keys::Hashed(hash) => hash(secret),
        }
    }

    /// Returns the key of an event, or `None` if the batch has only digests.
    pub(crate) fn key(&self, event: usize) -> Option<&'a [u8]> {
        match &self.keys {
            Keys::Bytes(keys) => keys.get(event).copied(),
            Keys::Hashed(_) => None,
        }
    }
}
