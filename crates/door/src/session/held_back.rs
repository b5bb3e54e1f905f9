//! The last `SETNX` of a connection: programs send `EXPIRE` behind it in one pipeline or transaction, and a key is recorded once, with the
//! time that it is to have. So `SETNX` is held back until the next command of the same read is there.
//!
//! This module must not depend on how events are asked about.

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
    /// Holds a key back.
    pub(super) fn hold(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.is_waiting = true;
        self.stage = Stage::Set;
    }

    /// Whether a key waits that an `EXPIRE` is about: it waits no longer, and is set with that time.
    pub(super) fn gets_time(&mut self, key: &[u8]) -> bool {
        let gets_time = self.is_waiting && self.key == key;
        if gets_time {
            self.is_waiting = false;
            self.stage = Stage::Timed;
        }
        gets_time
    }

    /// The key that waits: no time comes with it. Its room comes back by [`Self::put_back`].
    pub(super) fn release(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.is_waiting).then(|| std::mem::take(&mut self.key))
    }

    /// A key that was released is the last one still.
    pub(super) fn put_back(&mut self, key: Vec<u8>) {
        self.key = key;
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
