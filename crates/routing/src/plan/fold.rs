//! Converts positions at the root of a filter tree to positions at a lower level of the tree. A lower level can have
//! fewer cells than the root. In that case, a fixed number of neighboring cells of the root share one cell of the
//! level.

/// Maximum number of low bits of a position that a level drops.
pub(crate) const FOLD_MAX: u8 = 32;

/// Fold of a level: `2^shift` cells of the root share one cell of the level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fold {
    shift: u8,
}

impl Fold {
    /// Creates a fold that drops `shift` bits, but at most 32.
    pub fn new(shift: u8) -> Self {
        Self { shift: shift.min(FOLD_MAX) }
    }

    /// Returns whether the level has the same cells as the root.
    pub fn is_whole(self) -> bool {
        self.shift == 0
    }

    /// Returns the level's position for a position at the root.
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
