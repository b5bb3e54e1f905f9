//! Windowed Bloom filters for duplicate elimination. A filter answers one question: has this event been seen within the
//! last window (an hour, a day, a million events)?
//!
//! Every filter in this crate is a plain value. The same digests and stamps in the same order give the same answers on
//! every machine, so that results can be reproduced and compared.
//!
//! This crate does not use async code, the network or files. It reads no clock and draws no random numbers: the caller
//! passes the stamps of events and the seeds of random choices as parameters.
#![warn(missing_docs)]

mod ahead;
mod arch;
mod bloom;
mod body;
mod buckets;
mod build_error;
mod cell_kind;
mod counting;
mod cuckoo;
mod decaying;
mod definition;
mod digest;
mod events;
mod exact;
pub mod figures;
mod filter;
mod flags;
mod frequencies;
mod generation;
mod generation_number;
mod generations;
mod geometry;
mod growth;
mod kernel;
mod kind;
mod memory;
mod number;
mod packed;
mod probe;
mod probes;
pub mod rates;
mod slice;
mod slice_body;
mod slice_copy;
mod slice_growth;
mod slice_probes;
pub mod snapshot;
mod spec;
mod stable;
mod sweep;
mod timing;
mod ttl;
mod unit_number;
mod verdict;
mod window;

pub use ahead::PREFETCH_EVENTS;
pub use arch::Instructions;
pub use bloom::Bits;
pub use buckets::{BucketShape, PRINT_BITS_MAX, PRINT_BITS_MIN, REGION_BUCKETS};
pub use build_error::BuildError;
pub use cell_kind::{Density, FILL_SAMPLE_BYTES, RATE_SAMPLE_BYTES};
pub use counting::{CountingError, JumpingCounting, SUB_WINDOWS_MAX, SlidingCounting, WINDOW_EVENTS_MAX};
pub use cuckoo::{Buckets64, Buckets128};
pub use decaying::{CounterStorage, DecayRule, DecayingError, DecayingFilter, DecayingShape, FRACTION_BITS_MAX};
pub use definition::{
    Asked, BloomCells, CellDefinition, CuckooCells, DecayingCells, FilterDefinition, GenerationCells, JumpingCells,
    KindCells, Rates, Shape, SlidingCells, StableCells, TimingCells,
};
pub use digest::{DIGEST_WORDS, Digest, FilterSecret, append_part, reduce};
pub use exact::{ExactWindow, Tally};
pub use filter::FilterSlice;
pub use generation::LiveEvents;
pub use generation_number::GenerationNumber;
pub use generations::{Generations8, Generations16};
pub use geometry::{CELLS_MAX, Geometry, GeometryError, HASHES_MAX, Layout};
pub use growth::{GENERATIONS_MAX, Growth, JumpLimit, Limit};
pub use kind::{Ability, Kind, KindProperties, Lateness, Windows};
pub use number::duration;
pub use probe::{BlockProbe, positions_of};
pub use probes::{AskError, ProbeError, ProbeShape, Probes};
pub use slice::{CellSlice, MergeError};
pub use slice_copy::{CellRun, PartError, SliceOutline};
pub use spec::{FIRST_CAPACITY_EVENTS, FilterSpec, FrequencySpec, GrowthSpec, SpecError};
pub use stable::{StableError, StableFilter, StableShape};
pub use timing::{Refresh, Timers8, Timers16};
pub use ttl::{TtlError, TtlUnits};
pub use unit_number::UnitNumber;
pub use verdict::{TestResult, Verdict};
pub use window::{
    AHEAD_EVENTS_MAX, Calendar, CalendarError, FORESEEN_EVENTS_MAX, Jump, Period, Placed, Spread, Stamp, Unit,
    UnitClock, Window, WindowClock, WindowError, WindowRule,
};
