//! The kinds of filter by name, and the abilities that each kind has regardless of its size.
//!
//! Every difference between kinds that does not depend on a definition is a field of [`KindProperties`]. Other crates
//! read these properties instead of comparing kinds, so they usually need no change when a new kind is added. Code that
//! names a kind for a special purpose, such as the choice of the default kind, is listed in
//! `docs/how-to/add-a-kind.md`. Sizes and rates depend on a definition, so they are in [`crate::KindCells`] instead.
//!
//! This module does not depend on cells.

use serde::{Deserialize, Serialize};

use crate::Window;

/// Kind of a filter. The page `docs/reference/kinds.md` has a table of what each kind can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Bits, for unbounded or landmark windows.
    Bloom,
    /// Timers, for sliding windows.
    Timing,
    /// Words of generation bits, for jumping windows.
    Generations,
    /// Fingerprints in the order of their expiry, for sliding windows. With a low target rate the answers are nearly
    /// exact.
    Cuckoo,
    /// Counters, for jumping windows or for windows that slide by the number of events.
    Counting,
    /// Cells that fade at random, without a window.
    Stable,
    /// Counters that decay. Filters of this kind estimate frequencies and give no verdicts.
    Decaying,
}

/// Windows that a kind supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Unbounded windows, and windows that a landmark ends for all events at once.
    Landmark,
    /// Windows that slide by time or by the number of events.
    Sliding,
    /// Windows that jump by time or by the number of events.
    Jumping,
    /// Jumping windows. If no number of sub-windows is given, a window over a number of events slides.
    JumpingOrCounted,
    /// No window: old events fade at random.
    Fading,
    /// No window: frequencies decay from one epoch to the next.
    Epochs,
}

/// Price that a kind pays for judging late events exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// The kind cannot judge late events exactly.
    Refused,
    /// Lateness takes no memory. The default is an eighth of the window.
    Free,
    /// Lateness takes memory. The default is none.
    TakesMemory,
    /// Each jump of lateness takes up one of the jumps of the window. The default is none.
    TakesJumps,
}

/// Properties that all filters of a kind share, whatever their size.
#[derive(Debug)]
pub struct KindProperties {
    /// Name of the kind in flags, definitions and reports.
    pub name: &'static str,
    /// Summary of the kind in one line, for the help of flags.
    pub summary: &'static str,
    /// Windows that the kind supports.
    pub windows: Windows,
    /// Price of judging late events exactly.
    pub lateness: Lateness,
    /// Cell widths that the user can choose from, in bits, the default first. The list is empty if the kind has a fixed
    /// width.
    pub cell_bits: &'static [u32],
    /// Number of cache lines in a block, for target rates of 0.1 % and more. 0 means that the cells of an event never
    /// lie in blocks.
    pub block_lines: u8,
    /// Memory that the kind needs per event, in bits. The value follows from the formulas of the kind for 10 million
    /// events in the window of [`Kind::default_window`] at a rate of 1 %. `None` means that the memory does not follow
    /// from a capacity. The test `tests/all/figures.rs` compares this value with definitions and documentation pages.
    pub bits_per_event: Option<f64>,
    /// Kind to use instead, if this kind cannot do what the user asks for and no flag names a kind.
    pub fallback: Option<Kind>,
    /// Abilities of the kind's filters.
    pub abilities: &'static [Ability],
}

/// Ability that filters of some kinds have and filters of other kinds lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Opening more generations of cells than the filter had at first.
    Grow,
    /// Starting small and growing if the capacity is unknown.
    StartSmall,
    /// Counting the used cells, so that growth can be limited by density.
    CountUsedCells,
    /// Dividing the window into a given number of sub-windows.
    Jumps,
    /// Dividing the window into a given number of ticks.
    Ticks,
    /// Restarting the window of an event at each duplicate ([`crate::Refresh`]).
    Refresh,
    /// Applying the equal-timers heuristic.
    EqualTimers,
    /// Splitting slices into parts and assembling them again. Copies, journals, moves and alterations of slices need
    /// this ability.
    Parts,
    /// Remembering a single event for less than the window ([`crate::FilterDefinition::stamp_for`]).
    Ttl,
    /// Keeping every event for its whole window, so that clients can claim events.
    KeepForWindow,
    /// Dividing the positions of one event over several slices.
    Divide,
}

impl Windows {
    /// Returns the supported window that is closest to `window`, or `None` if there is no such window.
    fn nearest(self, window: &Window) -> Option<Window> {
        match (self, window) {
            (Self::Landmark, Window::Duration(window_ms)) => Some(Window::LandmarkDuration(*window_ms)),
            (Self::Landmark, Window::Events(events)) => Some(Window::LandmarkEvents(*events)),
            (Self::Landmark, _) | (Self::Fading, Window::Unbounded) => Some(window.clone()),
            (Self::Sliding | Self::Jumping | Self::JumpingOrCounted, Window::Duration(_) | Window::Events(_)) => {
                Some(window.clone())
            }
            _ => None,
        }
    }
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Bloom, Self::Timing, Self::Generations, Self::Cuckoo, Self::Counting, Self::Stable, Self::Decaying];

    /// Returns the properties that all filters of this kind share.
    ///
    /// ```
    /// use firstseen_filter::Kind;
    /// assert_eq!(Kind::Timing.properties().name, "timing");
    /// ```
    pub const fn properties(self) -> &'static KindProperties {
        use Ability::*;
        match self {
            Self::Bloom => &KindProperties {
                name: "bloom",
                summary: "Bits; unbounded and landmark windows",
                windows: Windows::Landmark,
                lateness: Lateness::Refused,
                cell_bits: &[],
                block_lines: 1,
                bits_per_event: Some(9.9),
                fallback: None,
                abilities: &[Grow, StartSmall, CountUsedCells, Parts, KeepForWindow, Divide],
            },
            Self::Timing => &KindProperties {
                name: "timing",
                summary: "Timers; sliding windows",
                windows: Windows::Sliding,
                lateness: Lateness::Free,
                cell_bits: &[8, 16],
                block_lines: 2,
                bits_per_event: Some(87.8),
                fallback: None,
                abilities: &[
                    Grow,
                    StartSmall,
                    CountUsedCells,
                    Jumps,
                    Refresh,
                    EqualTimers,
                    Parts,
                    Ttl,
                    KeepForWindow,
                    Divide,
                ],
            },
            Self::Generations => &KindProperties {
                name: "generations",
                summary: "Generation bits; jumping windows in less memory",
                windows: Windows::Jumping,
                lateness: Lateness::TakesJumps,
                cell_bits: &[8, 16],
                block_lines: 2,
                bits_per_event: Some(23.4),
                fallback: None,
                abilities: &[Jumps, Parts, KeepForWindow, Divide],
            },
            Self::Cuckoo => &KindProperties {
                name: "cuckoo",
                summary: "Fingerprints; sliding windows in least memory, nearly exact with `--fpr 1e-8`",
                windows: Windows::Sliding,
                lateness: Lateness::TakesMemory,
                cell_bits: &[],
                block_lines: 0,
                bits_per_event: Some(17.1),
                fallback: Some(Self::Timing),
                abilities: &[Grow, Ticks, Refresh, Parts, Ttl, KeepForWindow],
            },
            Self::Counting => &KindProperties {
                name: "counting",
                summary: "Counters; jumping windows, or sliding by count",
                windows: Windows::JumpingOrCounted,
                lateness: Lateness::Refused,
                cell_bits: &[],
                block_lines: 0,
                bits_per_event: Some(107.9),
                fallback: None,
                abilities: &[Jumps],
            },
            Self::Stable => &KindProperties {
                name: "stable",
                summary: "Cells that fade; no window, bounded memory for ever",
                windows: Windows::Fading,
                lateness: Lateness::Refused,
                cell_bits: &[],
                block_lines: 0,
                bits_per_event: None,
                fallback: None,
                abilities: &[],
            },
            Self::Decaying => &KindProperties {
                name: "decaying",
                summary: "Counters that decay; frequencies instead of verdicts",
                windows: Windows::Epochs,
                lateness: Lateness::Refused,
                cell_bits: &[],
                block_lines: 0,
                bits_per_event: None,
                fallback: None,
                abilities: &[],
            },
        }
    }

    /// Returns whether filters of this kind have `ability`.
    ///
    /// ```
    /// use firstseen_filter::{Ability, Kind};
    /// assert!(Kind::Timing.can(Ability::Ttl) && !Kind::Bloom.can(Ability::Ttl));
    /// ```
    pub fn can(self, ability: Ability) -> bool {
        self.properties().abilities.contains(&ability)
    }

    /// Returns whether filters of this kind answer with frequencies instead of verdicts.
    pub fn estimates_frequencies(self) -> bool {
        self.properties().windows == Windows::Epochs
    }

    /// Returns whether a full filter of this kind forgets events before their time instead of rejecting new events.
    pub fn forgets_early(self) -> bool {
        matches!(self.properties().windows, Windows::Fading | Windows::Epochs)
    }

    /// Returns the window of a filter whose user gives none: one day, or unbounded if the kind has no window of a given
    /// duration.
    pub const fn default_window(self) -> Window {
        match self.properties().windows {
            Windows::Landmark | Windows::Fading => Window::Unbounded,
            Windows::Sliding | Windows::Jumping | Windows::JumpingOrCounted | Windows::Epochs => {
                Window::Duration(86_400_000)
            }
        }
    }

    /// Returns the bits per event of [`KindProperties::bits_per_event`]. The value is infinite if the memory does not
    /// follow from a capacity.
    pub fn bits_per_event(self) -> f64 {
        self.properties().bits_per_event.unwrap_or(f64::INFINITY)
    }

    /// Returns the window of this kind that is closest to `window`, or `None` if there is no such window.
    ///
    /// ```
    /// use firstseen_filter::{Kind, Window};
    /// assert_eq!(Kind::Bloom.nearest_window(&Window::Events(9)), Some(Window::LandmarkEvents(9)));
    /// assert_eq!(Kind::Timing.nearest_window(&Window::Unbounded), None);
    /// ```
    pub fn nearest_window(self, window: &Window) -> Option<Window> {
        self.properties().windows.nearest(window)
    }

    /// Returns the names of the kinds that have `ability`, as a list for use in a sentence.
    ///
    /// ```
    /// use firstseen_filter::{Ability, Kind};
    /// assert_eq!(Kind::names(Ability::Parts), "bloom, timing, generations or cuckoo");
    /// ```
    pub fn names(ability: Ability) -> String {
        let mut names: Vec<&str> =
            Self::ALL.iter().filter(|kind| kind.can(ability)).map(|kind| kind.properties().name).collect();
        let last = names.pop().unwrap_or("none");
        if names.is_empty() { last.to_owned() } else { format!("{} or {last}", names.join(", ")) }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.properties().name)
    }
}
