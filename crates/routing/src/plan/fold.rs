//! Positions of a level of a tree, from those of its root.
//!
//! Promises: a cell of the root belongs to one cell of the level. Must not know: trees.

/// Most bits of a position that a level leaves out.
pub(crate) const FOLD_MAX: u8 = 32;

/// How many cells of the root share one of a level: `2^shift`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fold {
    shift: u8,
}

impl Fold {
    /// The fold of a level; at most 32.
    pub fn new(shift: u8) -> Self {
        Self { shift: shift.min(FOLD_MAX) }
    }

    /// Whether the level has the root's cells.
    pub fn is_whole(self) -> bool {
        self.shift == 0
    }

    /// The level's position of the root's.
    ///
    /// ```
    /// use firstseen_routing::Fold;
    /// assert_eq!(Fold::new(3).of(800), 100);
    /// assert_eq!(Fold::default().of(800), 800);
    /// ```
    #[inline]
    pub fn of(self, position: u64) -> u64 {
        position >> self.shift
    }
}
