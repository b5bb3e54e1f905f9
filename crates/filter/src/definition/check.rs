//! Checks whether a definition from an untrusted source can be built.
//!
//! - Building a definition that passes the check can only fail if the system has too little memory.
//! - No sum over the fields of a checked definition overflows.
//! - The check allocates no memory.
//!
//! This module does not depend on the sender of the definition or on the amount of memory.

use std::ops::RangeInclusive;

use super::FilterDefinition;
use crate::build_error::BuildError;
use crate::growth::{GENERATIONS_MAX, Growth, JumpLimit};
use crate::{Geometry, Layout, Unit};

/// Valid ratios between the sizes of two generations. Ratios in user requests have the same range.
const RATIO_RANGE: RangeInclusive<f64> = 1.0..=16.0;

impl FilterDefinition {
    /// Checks that a slice of this definition can be built, provided that the system has enough memory. All definitions
    /// that come from [`crate::FilterSpec`] pass the check. Only a definition from a file or a message may be invalid.
    ///
    /// ```
    /// use firstseen_filter::{FilterDefinition, FilterSpec, Kind, WindowRule};
    /// let spec = FilterSpec {
    ///     capacity_events: Some(1000),
    ///     ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
    /// };
    /// let definition = spec.resolve().unwrap();
    /// assert!(definition.check().is_ok());
    /// let longer = WindowRule { span_units: 1_000_000, lateness_units: 0 };
    /// assert!(FilterDefinition { rule: longer, ..definition }.check().is_err());
    /// ```
    ///
    /// # Errors
    /// Returns [`BuildError`], which names the invalid field or says which fields do not fit together.
    pub fn check(&self) -> Result<(), BuildError> {
        share("rate", self.rate)?;
        if let Unit::Milliseconds(0) | Unit::Events(0) = self.unit {
            return Err(refused("unit", 0, "choose at least 1"));
        }
        if self.rule.span_units == 0 || self.rule.span_units.checked_add(self.rule.lateness_units).is_none() {
            return Err(BuildError::Window);
        }
        self.cells.check(self.rule)
    }
}

/// Checks that the cells have one of the `allowed` widths and do not lie in buckets.
pub(super) fn cell_bits(geometry: &Geometry, allowed: &[u32]) -> Result<(), BuildError> {
    if let Layout::Buckets { .. } = geometry.layout() {
        Err(refused("layout", "buckets", "only kind cuckoo has buckets"))
    } else if allowed.contains(&geometry.cell_bits()) {
        Ok(())
    } else {
        Err(refused("cell_bits", geometry.cell_bits(), "choose 1 for kind bloom, 8 or 16 for timing and generations"))
    }
}

/// Checks that the limits of growth are valid.
pub(super) fn grows(growth: Option<&Growth>) -> Result<(), BuildError> {
    let Some(growth) = growth else { return Ok(()) };
    let Growth { limit: _, generations_max, ratio, capacity_events, generation_rate, jumps } = *growth;
    if !(1..=GENERATIONS_MAX).contains(&generations_max) {
        return Err(refused("generations_max", generations_max, "choose 1 to 16"));
    }
    if !RATIO_RANGE.contains(&ratio) {
        return Err(refused("ratio", ratio, "choose 1 to 16"));
    }
    if capacity_events == 0 {
        return Err(refused("capacity_events", 0, "choose at least 1"));
    }
    share("generation_rate", generation_rate)?;
    if let Some(JumpLimit { events, jumps, exponent }) = jumps {
        for (field, value) in [("jumps.events", events), ("jumps.jumps", jumps), ("jumps.exponent", exponent)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(refused(field, value, "choose a number above 0"));
            }
        }
    }
    Ok(())
}

/// Checks that a rate lies between 0 and 1.
fn share(field: &'static str, value: f64) -> Result<(), BuildError> {
    if value > 0.0 && value < 1.0 { Ok(()) } else { Err(refused(field, value, "choose more than 0 and less than 1")) }
}

pub(super) fn refused(field: &'static str, value: impl ToString, rule: &'static str) -> BuildError {
    BuildError::Field { field, value: value.to_string(), rule }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FilterSlice, FilterSpec, FrequencySpec, Kind};

    fn spec(kind: Kind, window: &str) -> FilterDefinition {
        let capacity_events = Some(1000);
        FilterSpec { capacity_events, ..FilterSpec::new(kind, window.parse().unwrap()) }.resolve().unwrap()
    }

    /// Returns one definition for each kind of cells, as users ask for them.
    fn all() -> Vec<FilterDefinition> {
        vec![
            spec(Kind::Bloom, "unbounded"),
            spec(Kind::Bloom, "landmark:1h"),
            FilterSpec::new(Kind::Timing, "1h".parse().unwrap()).resolve().unwrap(),
            spec(Kind::Timing, "5000events"),
            spec(Kind::Generations, "1h"),
            spec(Kind::Cuckoo, "1h"),
            FilterSpec { ticks: Some(50), ..FilterSpec::new(Kind::Cuckoo, "1000events".parse().unwrap()) }
                .resolve()
                .unwrap(),
            spec(Kind::Counting, "1h"),
            FilterSpec::new(Kind::Counting, "1000events".parse().unwrap()).resolve().unwrap(),
            spec(Kind::Stable, "unbounded"),
            FrequencySpec::new("1h".parse().unwrap(), 0.5).resolve().unwrap(),
        ]
    }

    /// Collects the paths of all numbers in a definition.
    fn numbers(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Number(_) => found.push(path.to_owned()),
            serde_json::Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| numbers(value, &format!("{path}/{name}"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn what_users_ask_for_can_be_built() {
        all()
            .iter()
            .for_each(|definition| definition.check().unwrap_or_else(|error| panic!("{error}: {definition:?}")));
    }

    #[test]
    fn whatever_number_a_definition_holds_it_is_refused_or_fails_for_memory_alone() {
        let mut refusals = 0;
        for definition in all() {
            let json = serde_json::to_value(&definition).unwrap();
            let mut paths = Vec::new();
            numbers(&json, "", &mut paths);
            assert!(paths.len() > 5, "{paths:?}");
            for path in paths {
                for number in ["0", "1", "-1", "255", "65536", "4294967295", "18446744073709551615", "0.5", "1e300"] {
                    let mut changed = json.clone();
                    *changed.pointer_mut(&path).unwrap() = serde_json::from_str(number).unwrap();
                    let Ok(changed) = serde_json::from_value::<FilterDefinition>(changed) else { continue };
                    match (changed.check(), FilterSlice::build(&changed)) {
                        (Ok(()), Ok(_) | Err(BuildError::Memory { .. })) => {}
                        (Ok(()), Err(error)) if error.to_string().starts_with("no memory") => {}
                        (Ok(()), Err(error)) => panic!("{path} = {number}: {error}"),
                        (Err(_), _) => refusals += 1,
                    }
                }
            }
        }
        assert!(refusals > 50, "{refusals} refusals");
    }
}
