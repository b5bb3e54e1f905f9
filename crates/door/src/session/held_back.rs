//! Delays `SETNX` and `SET NX` without an expiry. Clients often send `EXPIRE` for the same key next, in one pipeline or transaction, but
//! the expiry of a recorded key cannot be changed. So the door waits for that `EXPIRE` until a command of another kind comes or the read
//! ends, and then records the key once, with its expiry.
//!
//! Promises: replies keep the order of the commands; at most [`SETS_MAX`] commands and [`BYTES_MAX`] bytes of keys are held. This
//! module must not depend on how events are asked about.

use firstseen_resp::Expiry;

/// Greatest number of commands that are held back, and of bytes of their keys.
const SETS_MAX: usize = 1024;
const BYTES_MAX: usize = 64 << 10;

/// The command that sets a key. It determines the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetCommand {
    /// `SETNX`: 1 or 0.
    SetNx,
    /// `SET ... NX`: `OK` or nil.
    Set,
}

/// A key that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldSet<'a> {
    pub(super) key: &'a [u8],
    pub(super) command: SetCommand,
    /// The expiry, if an `EXPIRE` came behind the command.
    pub(super) expiry: Option<Expiry>,
    /// Whether that `EXPIRE` was the next command, so that both replies are written together.
    pub(super) expires_next: bool,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    /// Where its key ends.
    end: usize,
    command: SetCommand,
    expiry: Option<Expiry>,
    expires_next: bool,
}

/// Commands that are held back.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    bytes: Vec<u8>,
    sets: Vec<Kept>,
    /// The indices in `sets` of the keys whose `EXPIRE` was not the next command.
    expires: Vec<usize>,
    /// Whether this connection has ever sent `EXPIRE` behind such a command.
    was_ever_timed: bool,
    /// The key of the last command, if it had no `EXPIRE`.
    last: Vec<u8>,
}

impl HeldBack {
    /// Holds a command back. Returns false, and holds nothing, if the commands before have to be carried out first.
    pub(super) fn hold(&mut self, key: &[u8], command: SetCommand) -> bool {
        let is_full = self.sets.len() >= SETS_MAX || self.bytes.len() + key.len() > BYTES_MAX;
        if !self.is_empty() && (is_full || !self.expires.is_empty()) {
            return false;
        }
        self.bytes.extend_from_slice(key);
        self.sets.push(Kept { end: self.bytes.len(), command, expiry: None, expires_next: false });
        true
    }

    /// Gives a key that is held back its expiry. Returns false if no such key is held back without one.
    pub(super) fn take_time(&mut self, key: &[u8], expiry: Expiry) -> bool {
        // `SETNX a, EXPIRE a` or `SETNX a, SETNX b, EXPIRE a, EXPIRE b`: the last one, or the one behind the one before.
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
        self.was_ever_timed = true;
        true
    }

    /// Whether nothing is held back.
    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Whether the connection has ever sent `EXPIRE` behind a command that was held back.
    pub(super) fn was_ever_timed(&self) -> bool {
        self.was_ever_timed
    }

    /// Returns the commands that are held back, in order. The `EXPIRE` commands of [`Self::expires`] follow them.
    pub(super) fn sets(&self) -> impl Iterator<Item = HeldSet<'_>> {
        self.sets.iter().enumerate().map(|(place, Kept { command, expiry, expires_next, .. })| HeldSet {
            key: self.key(place),
            command: *command,
            expiry: *expiry,
            expires_next: *expires_next,
        })
    }

    /// Returns the keys of the `EXPIRE` commands that did not follow their command directly, in order.
    pub(super) fn expires(&self) -> impl Iterator<Item = &[u8]> {
        self.expires.iter().map(|place| self.key(*place))
    }

    /// Returns the key that was set last, if it had no `EXPIRE`.
    pub(super) fn last(&self) -> Option<&[u8]> {
        (!self.last.is_empty()).then_some(&*self.last)
    }

    /// Forgets all commands, and keeps the memory.
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

    fn held(keys: &[&str]) -> HeldBack {
        let mut held = HeldBack::default();
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
        assert!(held.is_empty() && held.was_ever_timed() && held.hold(b"d", SetCommand::SetNx));
    }

    #[test]
    fn little_is_held() {
        let mut held = HeldBack::default();
        let long = vec![b'a'; BYTES_MAX + 1];
        assert!(held.hold(&long, SetCommand::SetNx), "one alone has room, or it would never be set");
        assert!(!held.hold(b"b", SetCommand::SetNx));
        held.clear();
        assert!((0..SETS_MAX).all(|_| held.hold(b"k", SetCommand::SetNx)));
        assert!(!held.hold(b"k", SetCommand::SetNx));
    }
}
