//! Other ways to ask a [`FilterSlice`]: by positions instead of digests, and for frequencies instead of verdicts.
//!
//! Promises: a call is refused before anything is touched, or not at all; positions get the same answers as the digests
//! that they were derived from. Must not know: how positions travel.

use std::ops::Range;

use super::{Cells, FilterSlice};
use crate::decaying::DecayingFilter;
use crate::probes::AskError;
use crate::probes::Probed;
use crate::{Digest, ProbeShape, Probes, Stamp, Verdict};

impl FilterSlice {
    /// The shape of the positions that the slice takes.
    pub fn probe_shape(&self) -> ProbeShape {
        ProbeShape::of(self.geometry())
    }

    /// Whether the slice can be asked by positions: all generations that it has or opens must have one shape. The same
    /// as [`crate::FilterDefinition::one_shape`].
    pub fn takes_probes(&self) -> bool {
        on_kind!(&self.0, slice => slice.takes_probes(), _flags => true)
    }

    /// New events for which there is room, also in generations that may still open. Kinds that forget, or that are never full,
    /// have room for any number.
    pub fn room_events(&mut self) -> u64 {
        on_kind!(&mut self.0, slice => slice.room_ahead(), _flags => u64::MAX)
    }

    /// As [`Self::observe_batch`], for the events of `probes` in `range`.
    ///
    /// ```
    /// use firstseen_filter::{FilterSecret, FilterSlice, FilterSpec, Kind, Probes, Stamp, UnitNumber, Verdict};
    /// let spec = FilterSpec {
    ///     capacity_events: Some(1000),
    ///     ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
    /// };
    /// let mut slice = FilterSlice::build(&spec.resolve().unwrap()).unwrap();
    /// let mut probes = Probes::new(slice.probe_shape());
    /// for click in [b"click-1", b"click-2", b"click-1"] {
    ///     probes.push_digest(FilterSecret::from_seed(1).digest(click), slice.geometry());
    /// }
    /// let mut verdicts = [Verdict::Undecided; 3];
    /// slice.observe_probes(&probes, 0..3, &[Stamp::on_time(UnitNumber(7)); 3], &mut verdicts).unwrap();
    /// assert_eq!(verdicts, [Verdict::FirstSeen, Verdict::FirstSeen, Verdict::Duplicate]);
    /// ```
    ///
    /// # Errors
    /// [`AskError`]; nothing is touched then.
    ///
    /// # Panics
    /// If there is not one stamp and one verdict an event.
    pub fn observe_probes(
        &mut self,
        probes: &Probes,
        range: Range<usize>,
        stamps: &[Stamp],
        verdicts: &mut [Verdict],
    ) -> Result<(), AskError> {
        let shape = self.probe_shape();
        on_kind!(
            &mut self.0,
            slice => slice.observe_probes(probes, range, stamps, verdicts),
            flags => {
                let events = probes.in_shape(range, shape)?;
                flags.keep_positions()?;
                flags.observe_batch(events, stamps, verdicts);
                Ok(())
            }
        )
    }

    /// As [`Self::lookup_batch`], for the events of `probes` in `range`.
    ///
    /// # Errors
    /// [`AskError`]; nothing is touched then.
    ///
    /// # Panics
    /// If there is not one stamp and one verdict an event.
    pub fn lookup_probes(
        &mut self,
        probes: &Probes,
        range: Range<usize>,
        stamps: &[Stamp],
        verdicts: &mut [Verdict],
    ) -> Result<(), AskError> {
        let shape = self.probe_shape();
        on_kind!(
            &mut self.0,
            slice => slice.lookup_probes(probes, range, stamps, verdicts),
            flags => {
                flags.lookup_batch(probes.in_shape(range, shape)?, stamps, verdicts);
                Ok(())
            }
        )
    }

    /// Counts every event, then estimates its frequency, as [`DecayingFilter::observe_batch`] says.
    ///
    /// # Errors
    /// [`AskError::NoFrequencies`] of every kind but decaying.
    ///
    /// # Panics
    /// If the three lengths differ.
    pub fn count_batch(&mut self, digests: &[Digest], stamps: &[Stamp], estimates: &mut [f64]) -> Result<(), AskError> {
        self.decaying_mut()?.count(digests, stamps, estimates);
        Ok(())
    }

    /// Estimates the frequency of every event; nothing changes.
    ///
    /// # Errors
    /// [`AskError::NoFrequencies`] of every kind but decaying.
    ///
    /// # Panics
    /// If the three lengths differ.
    pub fn estimate_batch(&self, digests: &[Digest], stamps: &[Stamp], estimates: &mut [f64]) -> Result<(), AskError> {
        self.decaying()?.estimate_all(digests, stamps, estimates);
        Ok(())
    }

    /// As [`Self::count_batch`], for the events of `probes` in `range`.
    ///
    /// # Errors
    /// [`AskError`]; nothing is touched then.
    ///
    /// # Panics
    /// If there is not one stamp and one estimate an event.
    pub fn count_probes(
        &mut self,
        probes: &Probes,
        range: Range<usize>,
        stamps: &[Stamp],
        estimates: &mut [f64],
    ) -> Result<(), AskError> {
        let events = self.probed(probes, range)?;
        self.decaying_mut()?.count(events, stamps, estimates);
        Ok(())
    }

    /// As [`Self::estimate_batch`], for the events of `probes` in `range`.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Panics
    /// If there is not one stamp and one estimate an event.
    pub fn estimate_probes(
        &self,
        probes: &Probes,
        range: Range<usize>,
        stamps: &[Stamp],
        estimates: &mut [f64],
    ) -> Result<(), AskError> {
        self.decaying()?.estimate_all(self.probed(probes, range)?, stamps, estimates);
        Ok(())
    }

    fn probed<'a>(&self, probes: &'a Probes, range: Range<usize>) -> Result<Probed<'a>, AskError> {
        probes.in_shape(range, self.probe_shape())
    }

    fn decaying(&self) -> Result<&DecayingFilter, AskError> {
        match &self.0 {
            Cells::Decaying(frequencies) => Ok(&frequencies.kind),
            _ => Err(AskError::NoFrequencies(self.kind())),
        }
    }

    fn decaying_mut(&mut self) -> Result<&mut DecayingFilter, AskError> {
        let kind = self.kind();
        match &mut self.0 {
            Cells::Decaying(frequencies) => Ok(&mut frequencies.kind),
            _ => Err(AskError::NoFrequencies(kind)),
        }
    }
}
