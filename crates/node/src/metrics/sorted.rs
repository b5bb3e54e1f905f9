//! Metric families whose series always appear in the same order. The order makes it easy for people to find a series
//! and for programs to compare two scrapes. Series are sorted by the name of the metric and then by their labels.
//! Labels that contain numbers are sorted by their numeric value.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// A family of metrics that is ordered by its labels.
#[derive(Debug)]
pub(crate) struct Sorted<L, M> {
    metrics: Arc<RwLock<BTreeMap<L, M>>>,
    make: fn() -> M,
}

impl<L, M> Sorted<L, M> {
    /// Creates an empty family. `make` creates each metric.
    pub(crate) fn new(make: fn() -> M) -> Self {
        Self { metrics: Arc::default(), make }
    }
}

impl<L: Ord + Clone, M: Clone> Sorted<L, M> {
    /// Returns the metric with these labels, and creates it if it does not exist.
    pub(crate) fn of(&self, labels: &L) -> M {
        let known = self.metrics.read().unwrap_or_else(PoisonError::into_inner).get(labels).cloned();
        known.unwrap_or_else(|| {
            let mut metrics = self.metrics.write().unwrap_or_else(PoisonError::into_inner);
            metrics.entry(labels.clone()).or_insert_with(self.make).clone()
        })
    }

    /// Removes the metrics whose labels are not kept. If a caller still uses a removed metric, its updates have no
    /// effect.
    pub(crate) fn retain(&self, is_kept: impl Fn(&L) -> bool) {
        self.metrics.write().unwrap_or_else(PoisonError::into_inner).retain(|labels, _| is_kept(labels));
    }
}

impl<L, M> Clone for Sorted<L, M> {
    fn clone(&self) -> Self {
        Self { metrics: self.metrics.clone(), make: self.make }
    }
}

impl<L, M: Default> Default for Sorted<L, M> {
    fn default() -> Self {
        Self::new(M::default)
    }
}

impl<L: EncodeLabelSet, M: EncodeMetric + TypedMetric> EncodeMetric for Sorted<L, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, metric) in &*self.metrics.read().unwrap_or_else(PoisonError::into_inner) {
            metric.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.metrics.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Text that begins the block of each metric family.
const FAMILY: &str = "# HELP ";

/// Returns the exposition text with its metric families sorted by name.
pub(crate) fn by_name(text: &str) -> String {
    let mut families: Vec<&str> = text.split(FAMILY).filter(|family| !family.is_empty()).collect();
    families.sort_unstable_by_key(|family| family.split(' ').next());
    families.iter().flat_map(|family| [FAMILY, family]).collect()
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode_registry;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::registry::Registry;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
    struct Labels {
        filter: &'static str,
        slice: u32,
    }

    #[test]
    fn names_and_labels_are_sorted() {
        let (mut registry, many) = (Registry::default(), Sorted::<Labels, Counter>::default());
        registry.register("b", "Many", many.clone());
        registry.register("ab", "One", Counter::<u64>::default());
        registry.register("a", "None", Sorted::<Labels, Counter>::default());
        for (filter, slice) in [("y", 2), ("x", 10), ("y", 1), ("x", 9), ("y", 2)] {
            many.of(&Labels { filter, slice }).inc();
        }
        let mut text = String::new();
        encode_registry(&mut text, &registry).expect("a string has room");
        let expected = "# HELP ab One.\n# TYPE ab counter\nab_total 0\n\
            # HELP b Many.\n# TYPE b counter\nb_total{filter=\"x\",slice=\"9\"} 1\nb_total{filter=\"x\",slice=\"10\"} 1\n\
            b_total{filter=\"y\",slice=\"1\"} 1\nb_total{filter=\"y\",slice=\"2\"} 2\n";
        assert_eq!(by_name(&text), expected);
    }
}
