//! Further ways to ask a [`FilterSlice`]: by positions instead of digests, and for frequencies instead of verdicts.
//!
//! - A call that is rejected changes nothing. All checks happen before the first cell is touched.
//! - Positions get the same answers as the digests from which they were derived.
//!
//! This module does not depend on how positions travel between nodes.

use std::ops::Range;

use super::{Cells, FilterSlice};
use crate::decaying::DecayingFilter;
use crate::probes::AskError;
use crate::probes::Probed;
use crate::{Digest, ProbeShape, Probes, Stamp, Verdict};

impl FilterSlice {
    /// Returns the shape of the positions that the slice accepts.
    pub fn probe_shape(&self) -> ProbeShape {
        ProbeShape::of(self.geometry())
    }

    /// Returns whether the slice can be queried by positions. This requires that all generations that the slice has or
    /// may open have the same geometry. The result equals that of [`crate::FilterDefinition::one_shape`].
    pub fn takes_probes(&self) -> bool {
        on_kind!(&self.0, slice => slice.takes_probes(), _flags => true)
    }

    /// Returns how many new events the slice can still record. The number includes the room in generations that the
    /// slice may still open. The number is unlimited if the kind forgets events or is never full.
    pub fn room_events(&mut self) -> u64 {
        on_kind!(&mut self.0, slice => slice.room_ahead(), _flags => u64::MAX)
    }

    /// Observes the events of `probes` in `range` by their positions. Apart from that, the call works like
    /// [`Self::observe_batch`].
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
    /// Returns [`AskError`] if the slice cannot be asked in this way. The slice is unchanged in that case.
    ///
    /// # Panics
    /// Panics unless there is one stamp and one verdict per event.
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

    /// Looks up the events of `probes` in `range` by their positions. Apart from that, the call works like
    /// [`Self::lookup_batch`].
    ///
    /// # Errors
    /// Returns [`AskError`] if the slice cannot be asked in this way. The slice is unchanged in that case.
    ///
    /// # Panics
    /// Panics unless there is one stamp and one verdict per event.
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

    /// Counts every event and then estimates its frequency. See [`DecayingFilter::observe_batch`].
    ///
    /// # Errors
    /// Returns [`AskError::NoFrequencies`] for every kind but decaying.
    ///
    /// # Panics
    /// Panics if the three slices differ in length.
    pub fn count_batch(&mut self, digests: &[Digest], stamps: &[Stamp], estimates: &mut [f64]) -> Result<(), AskError> {
        self.decaying_mut()?.count(digests, stamps, estimates);
        Ok(())
    }

    /// Estimates the frequency of every event. The slice does not change.
    ///
    /// # Errors
    /// Returns [`AskError::NoFrequencies`] for every kind but decaying.
    ///
    /// # Panics
    /// Panics if the three slices differ in length.
    pub fn estimate_batch(&self, digests: &[Digest], stamps: &[Stamp], estimates: &mut [f64]) -> Result<(), AskError> {
        self.decaying()?.estimate_all(digests, stamps, estimates);
        Ok(())
    }

    /// Counts the events of `probes` in `range` by their positions. Apart from that, the call works like
    /// [`Self::count_batch`].
    ///
    /// # Errors
    /// Returns [`AskError`] if the slice cannot be asked in this way. The slice is unchanged in that case.
    ///
    /// # Panics
    /// Panics unless there is one stamp and one estimate per event.
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

    /// Estimates the frequencies of the events of `probes` in `range`, which are given as positions. Otherwise the call
    /// works like [`Self::estimate_batch`], which takes digests.
    ///
    /// # Errors
    /// Returns [`AskError`] if the slice cannot be asked in this way.
    ///
    /// # Panics
    /// Panics unless there is one stamp and one estimate per event.
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
