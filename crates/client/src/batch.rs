//! What a call asks about: an event or a batch of events, each with the options of the call.
//!
//! An option that is left out costs nothing. This module must not depend on how events are sent.

use std::time::Duration;

use firstseen_filter::{Digest, FilterSecret};
use firstseen_routing::SubmissionName;

/// An event: its key, and when it occurred. A reference to anything that is bytes is an event without options.
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
    /// Sets the time at which the event occurred, in milliseconds since 1970. Filters with a window of time need it, unless
    /// their nodes stamp events (`--clock wall`).
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

    /// Names the submission, for example by partition and offset. The same name gets the same verdict within the filter's
    /// retry horizon, also from a producer that has been restarted. Another event under the same name is undecided
    /// ([`Reason::NameReused`](crate::Reason::NameReused)).
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

/// Time to live of events that occur now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// The present time, in milliseconds since 1970.
    pub now_ms: u64,
    /// How long the events are remembered from then on, in milliseconds.
    pub ttl_ms: u64,
}

/// Events of one call, answered in order. A reference to a list of keys is a batch without options.
///
/// The client sends a call of any size in batches, several of which are in flight at once.
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

/// Hashes all events of a batch under a secret.
pub(crate) type Hash<'a> = &'a (dyn Fn(&FilterSecret) -> Vec<Digest> + Sync);

/// What a batch knows of its keys.
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

    /// Creates a batch of events that `hash` hashes: keys of several parts, or digests that are known already
    /// ([`FilterInfo::secret`](crate::FilterInfo::secret)). `hash` returns one digest for each event, and is called again
    /// with another secret where the filter was altered. Events for which it returns none are undecided then
    /// ([`Reason::Altered`](crate::Reason::Altered)).
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

    /// Sets the time at which each event occurred, in milliseconds since 1970. The list may go on with the times of later
    /// events: a time far ahead of the others is accepted if the times behind it, or the time of day, confirm it.
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

    /// Names the submission of each event, as [`Event::named`] does.
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

    /// Sets a time to live for all events of the batch instead of the filter's window. An event is remembered for at least
    /// that time, and for two units of the filter longer at most. The expiry of an event that is recorded already does not
    /// change. The times of the events follow from [`Ttl::now_ms`].
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

    /// Waits at most this long for answers, where that is less than [`ConnectOptions::deadline_ms`]. Events without an
    /// answer are undecided then.
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

    /// The digests of all events under a secret.
    pub(crate) fn hash(&self, secret: &FilterSecret) -> Vec<Digest> {
        match &self.keys {
            Keys::Bytes(keys) => keys.iter().map(|key| secret.digest(key)).collect(),
            Keys::Hashed(hash) => hash(secret),
        }
    }

    /// The key of an event, where the batch has keys.
    pub(crate) fn key(&self, event: usize) -> Option<&'a [u8]> {
        match &self.keys {
            Keys::Bytes(keys) => keys.get(event).copied(),
            Keys::Hashed(_) => None,
        }
    }
}
