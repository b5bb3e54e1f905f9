//! Collects the metric series of one scrape. A metric family is created by the call that adds its first series, so the
//! family's name and help text appear next to its values in the code. The collected series are ordered by their labels.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelValue, EncodeMetric, LabelValueEncoder};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::Sorted;

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Text(String),
    Number(u32),
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for Label {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

impl EncodeLabelValue for Label {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.encode(encoder),
            Self::Number(number) => number.encode(encoder),
        }
    }
}

/// A gauge with fractional values.
type Fraction = Gauge<f64, AtomicU64>;
type Labels = Vec<(&'static str, Label)>;
type Families<M> = BTreeMap<&'static str, Sorted<Labels, M>>;

/// The series of one scrape.
pub(super) struct Gathering {
    pub(super) registry: Registry,
    counts: Families<Counter>,
    gauges: Families<Gauge>,
    ratios: Families<Fraction>,
}

impl Gathering {
    /// Creates an empty collection. The names of all families begin with `prefix`.
    pub(super) fn with_prefix(prefix: &str) -> Self {
        Self {
            registry: Registry::with_prefix(prefix),
            counts: BTreeMap::new(),
            gauges: BTreeMap::new(),
            ratios: BTreeMap::new(),
        }
    }

    /// Returns a builder for series with this label.
    pub(super) fn of(&mut self, key: &'static str, value: impl Into<Label>) -> Series<'_> {
        Series { gathering: self, labels: vec![(key, value.into())] }
    }
}

/// A builder for series with the same labels, one for each metric family. If a series already exists, it is returned
/// again.
pub(super) struct Series<'now> {
    gathering: &'now mut Gathering,
    labels: Labels,
}

impl Series<'_> {
    /// Returns a builder for series with an additional label.
    pub(super) fn and(&mut self, key: &'static str, value: impl Into<Label>) -> Series<'_> {
        let labels = self.labels.iter().cloned().chain([(key, value.into())]).collect();
        Series { gathering: self.gathering, labels }
    }

    pub(super) fn count(&mut self, name: &'static str, help: &str) -> Counter {
        let Gathering { registry, counts, .. } = self.gathering;
        counts.entry(name).or_insert_with(|| family(registry, name, help, None)).of(&self.labels)
    }

    pub(super) fn count_bytes(&mut self, name: &'static str, help: &str) -> Counter {
        let Gathering { registry, counts, .. } = self.gathering;
        counts.entry(name).or_insert_with(|| family(registry, name, help, Some(Unit::Bytes))).of(&self.labels)
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Gauge {
        let Gathering { registry, gauges, .. } = self.gathering;
        gauges.entry(name).or_insert_with(|| family(registry, name, help, None)).of(&self.labels)
    }

    pub(super) fn bytes(&mut self, name: &'static str, help: &str) -> Gauge {
        let Gathering { registry, gauges, .. } = self.gathering;
        gauges.entry(name).or_insert_with(|| family(registry, name, help, Some(Unit::Bytes))).of(&self.labels)
    }

    pub(super) fn ratio(&mut self, name: &'static str, help: &str) -> Fraction {
        let Gathering { registry, ratios, .. } = self.gathering;
        ratios.entry(name).or_insert_with(|| family(registry, name, help, None)).of(&self.labels)
    }

    pub(super) fn seconds(&mut self, name: &'static str, help: &str) -> Fraction {
        let Gathering { registry, ratios, .. } = self.gathering;
        ratios.entry(name).or_insert_with(|| family(registry, name, help, Some(Unit::Seconds))).of(&self.labels)
    }
}

/// Registers a metric family.
fn family<M>(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> Sorted<Labels, M>
where
    M: EncodeMetric + TypedMetric + Clone + Default + fmt::Debug + Send + Sync + 'static,
{
    let family = Sorted::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode_registry;

    use super::*;

    #[test]
    fn a_family_begins_with_its_first_series_and_numbers_stand_by_size() {
        let mut now = Gathering::with_prefix("here");
        let mut filter = now.of("filter", "x");
        for (slice, bytes) in [(10, 1), (9, 2), (10, 4)] {
            filter.and("slice", slice).bytes("cells", "Memory").inc_by(bytes);
        }
        filter.seconds("window", "The window").set(0.5);
        filter.count("events", "Events").inc_by(0);
        let mut text = String::new();
        encode_registry(&mut text, &now.registry).expect("a string has room");
        let expected = "# HELP here_cells_bytes Memory.\n# TYPE here_cells_bytes gauge\n# UNIT here_cells_bytes bytes\n\
            here_cells_bytes{filter=\"x\",slice=\"9\"} 2\nhere_cells_bytes{filter=\"x\",slice=\"10\"} 5\n\
            # HELP here_window_seconds The window.\n# TYPE here_window_seconds gauge\n# UNIT here_window_seconds seconds\n\
            here_window_seconds{filter=\"x\"} 0.5\n\
            # HELP here_events Events.\n# TYPE here_events counter\nhere_events_total{filter=\"x\"} 0\n";
        assert_eq!(text, expected);
    }
}
