//! Delays `SETNX` and `SET NX` commands that have no expiry, until it is clear whether an `EXPIRE` for the same key
//! follows. Clients often send an `EXPIRE` later in the same pipeline or transaction. The endpoint must know the expiry
//! before it records the key, because the expiry of a recorded key cannot be changed.
//!
//! The delay ends when the `EXPIRE` or a command of another kind arrives, or when the read ends.
//!
//! The delay does not change the order of the replies, which is always the order of the commands.
//!
//! The memory for delayed commands is bounded. At any time, at most [`SETS_MAX`] commands are delayed, and their keys
//! have at most [`BYTES_MAX`] bytes together.

use firstseen_resp::Expiry;

/// Maximum number of delayed commands, and of bytes of their keys.
const SETS_MAX: usize = 1024;
const BYTES_MAX: usize = 64 << 10;

/// Command that sets a key. It determines the form of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetCommand {
    /// `SETNX`, which replies 1 or 0.
    SetNx,
    /// `SET ... NX`, which replies `OK` or nil.
    Set,
}

/// Key that is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldSet<'a> {
    pub(super) key: &'a [u8],
    pub(super) command: SetCommand,
    /// Expiry of the key, if an `EXPIRE` followed the command.
    pub(super) expiry: Option<Expiry>,
    /// Whether the `EXPIRE` was the next command, so that both replies are written together.
    pub(super) expires_next: bool,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    /// End of the key in `bytes`.
    end: usize,
    command: SetCommand,
    expiry: Option<Expiry>,
    expires_next: bool,
}

/// Delayed commands.
#[derive(Debug, Default)]
pub(super) struct DelayedSets {
    bytes: Vec<u8>,
    sets: Vec<Kept>,
    /// Indices in `sets` of the keys whose `EXPIRE` was not the next command.
    expires: Vec<usize>,
    /// Whether this connection has ever sent `EXPIRE` after such a command.
    has_sent_expire: bool,
    /// Key of the last command, if no `EXPIRE` followed it.
    last: Vec<u8>,
}

impl DelayedSets {
    /// Delays a command. Returns `false` without delaying it if the earlier commands must be executed first.
    pub(super) fn hold(&mut self, key: &[u8], command: SetCommand) -> bool {
        let is_full = self.sets.len() >= SETS_MAX || self.bytes.len() + key.len() > BYTES_MAX;
        if !self.is_empty() && (is_full || !self.expires.is_empty()) {
            return false;
        }
        self.bytes.extend_from_slice(key);
        self.sets.push(Kept { end: self.bytes.len(), command, expiry: None, expires_next: false });
        true
    }

    /// Applies an expiry to a delayed key. Returns `false` if there is no such key without an expiry.
    pub(super) fn take_time(&mut self, key: &[u8], expiry: Expiry) -> bool {
        // Two orders are supported: `SETNX a, EXPIRE a` and `SETNX a, SETNX b, EXPIRE a, EXPIRE b`. The key must be the
        // last one, or the one after the key of the previous `EXPIRE`.
        let last = self.sets.len().wrapping_sub(1);
        let next = self.expires.last().map_or(0, |place| place + 1);
        let is_key =
            |place: &usize| self.sets.get(*place).is_some_and(|set| set.expiry.is_none()) && self.key(*place) == key;
        let Some(place) = [last, next].into_iter().chain(0..self.sets.len()).find(is_key) else { return false };
        let expires_next = place == last && self.expires.is_empty();
        if !expires_next {
            self.expires.push(place);
        }
        if let Some(set) = self.sets.get_mut(place) {
            (set.expiry, set.expires_next) = (Some(expiry), expires_next);
        }
        self.has_sent_expire = true;
        true
    }

    /// Returns whether no command is delayed.
    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Returns whether the connection has ever sent `EXPIRE` after a delayed command.
    pub(super) fn has_sent_expire(&self) -> bool {
        self.has_sent_expire
    }

    /// Returns the delayed commands, in order. The `EXPIRE` commands of [`Self::expires`] follow after all of them.
    pub(super) fn sets(&self) -> impl Iterator<Item = HeldSet<'_>> {
        self.sets.iter().enumerate().map(|(place, Kept { command, expiry, expires_next, .. })| HeldSet {
            key: self.key(place),
            command: *command,
            expiry: *expiry,
            expires_next: *expires_next,
        })
    }

    /// Returns, in order, the keys of the `EXPIRE` commands that did not directly follow their command.
    pub(super) fn expires(&self) -> impl Iterator<Item = &[u8]> {
        self.expires.iter().map(|place| self.key(*place))
    }

    /// Returns the key that was set last, if no `EXPIRE` followed.
    pub(super) fn last(&self) -> Option<&[u8]> {
        (!self.last.is_empty()).then_some(&*self.last)
    }

    /// Removes all commands, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.last.clear();
        if let Some(place) =
            self.sets.len().checked_sub(1).filter(|place| self.sets.get(*place).is_some_and(|set| set.expiry.is_none()))
        {
            let begin = place.checked_sub(1).and_then(|before| self.sets.get(before)).map_or(0, |before| before.end);
            self.last.extend_from_slice(self.bytes.get(begin..).unwrap_or_default());
        }
        self.bytes.clear();
        self.sets.clear();
        self.expires.clear();
    }

    fn key(&self, place: usize) -> &[u8] {
        let begin = place.checked_sub(1).and_then(|before| self.sets.get(before)).map_or(0, |before| before.end);
        let end = self.sets.get(place).map_or(begin, |set| set.end);
        self.bytes.get(begin..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Expiry = Expiry::In { ttl_ms: 5 };

    fn held(keys: &[&str]) -> DelayedSets {
        let mut held = DelayedSets::default();
        for key in keys {
            assert!(held.hold(key.as_bytes(), SetCommand::SetNx), "{key}");
        }
        held
    }

    #[test]
    fn an_expire_that_comes_next_shares_the_reply() {
        let mut held = held(&["a", "b"]);
        assert!(held.take_time(b"b", TTL) && !held.take_time(b"b", TTL), "a second EXPIRE finds no key without a time");
        assert!(held.hold(b"c", SetCommand::Set), "the next pair");
        let sets: Vec<HeldSet<'_>> = held.sets().collect();
        let set = |key: &'static str, command, expiry: Option<Expiry>| HeldSet {
            key: key.as_bytes(),
            command,
            expiry,
            expires_next: expiry.is_some(),
        };
        let expected = [
            set("a", SetCommand::SetNx, None),
            set("b", SetCommand::SetNx, Some(TTL)),
            set("c", SetCommand::Set, None),
        ];
        assert_eq!(sets, expected);
        assert_eq!(held.expires().count(), 0);
    }

    #[test]
    fn an_expire_behind_other_keys_keeps_its_place() {
        let mut held = held(&["a", "b", "a"]);
        assert!(held.take_time(b"b", TTL) && held.take_time(b"a", TTL));
        assert!(!held.take_time(b"c", TTL));
        assert_eq!(held.expires().collect::<Vec<_>>(), [b"b", b"a"]);
        assert!(held.sets().all(|set| !set.expires_next));
        assert!(!held.hold(b"d", SetCommand::SetNx), "its reply would stand before those of EXPIRE");
        held.clear();
        assert!(held.is_empty() && held.has_sent_expire() && held.hold(b"d", SetCommand::SetNx));
    }

    #[test]
    fn little_is_held() {
        let mut held = DelayedSets::default();
        let long = vec![b'a'; BYTES_MAX + 1];
        assert!(held.hold(&long, SetCommand::SetNx), "one alone has room, or it would never be set");
        assert!(!held.hold(b"b", SetCommand::SetNx));
        held.clear();
        assert!((0..SETS_MAX).all(|_| held.hold(b"k", SetCommand::SetNx)));
        assert!(!held.hold(b"k", SetCommand::SetNx));
    }
}
