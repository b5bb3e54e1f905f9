//! A production slice that is asked by positions, which are altered on their way from the digest.
//!
//! Promises: positions that are left as they are get the answers of the filter. Must not know: why they are altered.

use firstseen_filter::{
    AskError, Digest, FilterDefinition, FilterSlice, Placed, Probes, Stamp, Verdict, WindowClock, positions_of,
};
use firstseen_routing::Answer;

use crate::experiment::EvalError;

/// One slice of a layout whose positions are anywhere, and its clock.
pub(super) struct Altered {
    slice: FilterSlice,
    clock: WindowClock,
    alter: fn(&mut [u64]),
}

impl Altered {
    pub(super) fn new(definition: &FilterDefinition, alter: fn(&mut [u64])) -> Result<Self, EvalError> {
        let clock = WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms);
        Ok(Self { slice: FilterSlice::build(definition)?, clock, alter })
    }

    /// Asks for every event; one that has no place in the window is told so, as in the filter.
    pub(super) fn ask(
        &mut self,
        digests: &[Digest],
        times_ms: &[u64],
        answers: &mut [Answer],
        record: bool,
    ) -> Result<(), EvalError> {
        let (mut probes, mut positions) = (Probes::new(self.slice.probe_shape()), Vec::new());
        for ((digest, time_ms), answer) in digests.iter().zip(times_ms).zip(answers) {
            let time_ms = Some(*time_ms);
            let placed = if record { self.clock.place(time_ms) } else { self.clock.place_lookup(time_ms) };
            *answer = match placed {
                Placed::Late => Answer::Late,
                Placed::Refused => Answer::Refused,
                Placed::At(stamp) => {
                    positions_of(*digest, self.slice.geometry(), &mut positions);
                    (self.alter)(&mut positions);
                    probes.reset(self.slice.probe_shape());
                    probes.push_positions(&positions)?;
                    self.verdict(&probes, stamp, record)?.into()
                }
            };
        }
        Ok(())
    }

    fn verdict(&mut self, probes: &Probes, stamp: Stamp, record: bool) -> Result<Verdict, AskError> {
        let mut verdict = [Verdict::Undecided];
        match record {
            true => self.slice.observe_probes(probes, 0..1, &[stamp], &mut verdict)?,
            false => self.slice.lookup_probes(probes, 0..1, &[stamp], &mut verdict)?,
        }
        Ok(verdict[0])
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind, Layout, Window};

    use super::*;
    use crate::measure::{Subject, reuse_first, shaped};
    use crate::stream::{Keys, StreamSpec};

    const EVENTS: u64 = 2000;

    fn told(mut subject: Subject) -> Vec<bool> {
        let keys = Keys::Repeats { distinct_share: 0.7, recent_keys: EVENTS / 4 };
        let mut told = Vec::new();
        let stream = StreamSpec::new(3 * EVENTS, keys).events(1).unwrap();
        subject.observe_each(stream, |_, is_duplicate| told.push(is_duplicate)).unwrap();
        told
    }

    #[test]
    fn positions_that_are_left_as_they_are_get_the_answers_of_the_filter() {
        for layout in [Layout::Classic, Layout::Partitioned] {
            let spec = shaped(Kind::Bloom, Window::LandmarkEvents(EVENTS), 5 * EVENTS, 5);
            let spec = FilterSpec { layout: Some(layout), ..spec };
            let sound = || Subject::new("none", &spec, "none", 1).unwrap();
            let altered = |alter| Some(Altered::new(&spec.resolve().unwrap(), alter).unwrap());
            assert_eq!(told(Subject { altered: altered(|_| ()), ..sound() }), told(sound()));
            assert_ne!(told(Subject { altered: altered(reuse_first), ..sound() }), told(sound()));
        }
    }
}
