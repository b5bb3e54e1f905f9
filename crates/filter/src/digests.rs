//! Where a walk takes its digests from: a slice of them, or events that are hashed as the walk goes.
//!
//! Promises: the same digest whenever it is asked for. Must not know: cells.

use std::ops::Range;

use crate::{Digest, FilterSecret};

/// A batch of digests, asked for one by one, once for each generation of cells.
pub(crate) trait Digests: Copy {
    fn count(self) -> usize;

    fn at(self, index: usize) -> Digest;

    fn part(self, range: Range<usize>) -> Self;
}

impl Digests for &[Digest] {
    #[inline(always)]
    fn count(self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn at(self, index: usize) -> Digest {
        self[index]
    }

    #[inline(always)]
    fn part(self, range: Range<usize>) -> Self {
        &self[range]
    }
}

/// Events under a secret. Hashing them between two touches of memory, and not before the walk, gives memory the time
/// that it needs anyway.
pub(crate) struct Hashed<'a, E> {
    pub(crate) secret: &'a FilterSecret,
    pub(crate) events: &'a [E],
}

impl<E> Clone for Hashed<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Hashed<'_, E> {}

impl<E: AsRef<[u8]>> Digests for Hashed<'_, E> {
    #[inline(always)]
    fn count(self) -> usize {
        self.events.len()
    }

    #[inline(always)]
    fn at(self, index: usize) -> Digest {
        self.secret.digest(self.events[index].as_ref())
    }

    #[inline(always)]
    fn part(self, range: Range<usize>) -> Self {
        Self { events: &self.events[range], ..self }
    }
}
