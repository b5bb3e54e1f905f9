//! The kinds of filter by name, and what each kind can do whatever its size.
//!
//! Promises: every difference between kinds that does not depend on a definition is a field of [`KindProperties`], so
//! that other crates ask for the property and never compare kinds. Sizes and rates belong to the definition
//! ([`crate::KindCells`]). Must not know: cells.

use serde::{Deserialize, Serialize};

use crate::Window;

/// The kinds of filter (the table of what each may do is `docs/reference/kinds.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Bits; unbounded or landmark windows.
    Bloom,
    /// Timers; sliding windows.
    Timing,
    /// Words of generation bits; jumping windows.
    Generations,
    /// Fingerprints in order of expiry; sliding windows, nearly exact where asked for.
    Cuckoo,
    /// Counters; jumping windows, or sliding by count.
    Counting,
    /// Cells that fade at random; no window.
    Stable,
    /// Counters that decay; frequencies instead of verdicts.
    Decaying,
}

/// The windows that a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Unbounded, or ended for all events at once by a landmark.
    Landmark,
    /// Sliding, by time or by count.
    Sliding,
    /// Jumping, by time or by count.
    Jumping,
    /// Jumping; sliding by count if no number of sub-windows is given.
    JumpingOrCounted,
    /// None: old events fade at random.
    Fading,
    /// None: frequencies decay from one epoch to the next.
    Epochs,
}

/// What late events cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// A late event cannot be judged exactly.
    Refused,
    /// Lateness takes no memory; an eighth of the window by default.
    Free,
    /// Lateness takes memory; none by default.
    TakesMemory,
    /// Each jump of lateness takes one of the window's jumps; none by default.
    TakesJumps,
}

/// What every filter of a kind has or lacks, whatever its size.
#[derive(Debug)]
pub struct KindProperties {
    /// Name of the kind in flags, definitions and reports.
    pub name: &'static str,
    /// One line for the help of flags.
    pub summary: &'static str,
    /// Windows of the kind.
    pub windows: Windows,
    /// What late events cost.
    pub lateness: Lateness,
    /// Cell widths to choose from, in bits, the default first; empty if the width is not a choice.
    pub cell_bits: &'static [u32],
    /// Cache lines of a block at rates of 0.1 % and more; 0 if an event's cells never lie in blocks.
    pub block_lines: u8,
    /// Bits an event by the formulas of the kind for 10 million events of [`Kind::default_window`] at a rate of 1 %;
    /// `None` if memory does not follow from a capacity. `tests/all/figures.rs` compares it with definitions and pages.
    pub bits_per_event: Option<f64>,
    /// Kind to take instead if this one cannot do what is asked and no flag names a kind.
    pub fallback: Option<Kind>,
    /// What filters of the kind can do.
    pub abilities: &'static [Ability],
}

/// What filters of some kinds can do, and filters of others cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Open more generations of cells than the filter began with.
    Grow,
    /// Start small and grow where the capacity is unknown.
    StartSmall,
    /// Count the cells in use, so that growth can be limited by density.
    CountUsedCells,
    /// Cut the window into a given number of sub-windows.
    Jumps,
    /// Cut the window into a given number of ticks.
    Ticks,
    /// Start the window of an event again at each duplicate ([`crate::Refresh`]).
    Refresh,
    /// Apply the equal-timers heuristic.
    EqualTimers,
    /// Take slices apart and put them together again: copy, keep in a journal, move, alter.
    Parts,
    /// Remember one event for less than the window ([`crate::FilterDefinition::stamp_for`]).
    Ttl,
    /// Keep every event for its window, so that events can be claimed.
    KeepForWindow,
    /// Divide the positions of one event over several slices.
    Divide,
}

impl Windows {
    /// The window of these that comes nearest to `window`; `None` if there is none.
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

    /// What every filter of this kind has or lacks.
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

    /// Whether filters of this kind can do it.
    ///
    /// ```
    /// use firstseen_filter::{Ability, Kind};
    /// assert!(Kind::Timing.can(Ability::Ttl) && !Kind::Bloom.can(Ability::Ttl));
    /// ```
    pub fn can(self, ability: Ability) -> bool {
        self.properties().abilities.contains(&ability)
    }

    /// Whether the kind answers with frequencies instead of verdicts.
    pub fn estimates_frequencies(self) -> bool {
        self.properties().windows == Windows::Epochs
    }

    /// Whether a filter that is full forgets events early instead of refusing new ones.
    pub fn forgets_early(self) -> bool {
        matches!(self.properties().windows, Windows::Fading | Windows::Epochs)
    }

    /// The window where none is asked for: a day, or unbounded if the kind has no such window.
    pub const fn default_window(self) -> Window {
        match self.properties().windows {
            Windows::Landmark | Windows::Fading => Window::Unbounded,
            Windows::Sliding | Windows::Jumping | Windows::JumpingOrCounted | Windows::Epochs => {
                Window::Duration(86_400_000)
            }
        }
    }

    /// Bits an event as in [`KindProperties::bits_per_event`]; infinite if memory does not follow from a capacity.
    pub fn bits_per_event(self) -> f64 {
        self.properties().bits_per_event.unwrap_or(f64::INFINITY)
    }

    /// The window of this kind that comes nearest to `window`; `None` if there is none.
    ///
    /// ```
    /// use firstseen_filter::{Kind, Window};
    /// assert_eq!(Kind::Bloom.nearest_window(&Window::Events(9)), Some(Window::LandmarkEvents(9)));
    /// assert_eq!(Kind::Timing.nearest_window(&Window::Unbounded), None);
    /// ```
    pub fn nearest_window(self, window: &Window) -> Option<Window> {
        self.properties().windows.nearest(window)
    }

    /// The names of the kinds that can do it, as a list in a sentence.
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
