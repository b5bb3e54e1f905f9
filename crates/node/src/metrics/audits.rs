//! Metrics of what producers that audit a filter have found of its rate.
//!
//! Promises: a batch that comes again counts once. Must not know: which events were watched.

use std::collections::BTreeSet;

use firstseen_wire::proto::producer::Batch;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::{Count, FilterLabel, Sorted};

/// The audits of all filters.
pub(super) struct AuditMetrics {
    tests: Count<FilterLabel>,
    false_positives: Count<FilterLabel>,
}

/// The audits of one filter.
#[derive(Clone)]
pub(crate) struct AuditMeter {
    tests: Counter,
    false_positives: Counter,
}

impl AuditMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let audits = Self { tests: Sorted::default(), false_positives: Sorted::default() };
        let help = "First tests of keys that producers watch";
        registry.register("audited_tests", help, audits.tests.clone());
        let help = "Those of them that were called duplicates";
        registry.register("audited_false_positives", help, audits.false_positives.clone());
        audits
    }

    /// Removes the series of other filters.
    pub(super) fn keep_filters(&self, names: &BTreeSet<&str>) {
        [&self.tests, &self.false_positives].into_iter().for_each(|count| count.retain(|label| label.is_kept(names)));
    }

    pub(super) fn of(&self, filter: &str) -> AuditMeter {
        let label = FilterLabel::of(filter);
        AuditMeter { tests: self.tests.of(&label), false_positives: self.false_positives.of(&label) }
    }
}

impl AuditMeter {
    /// A batch came, with what its producer has found since the one before.
    pub(super) fn came(&self, batch: &Batch) {
        if batch.audited_tests > 0 && !batch.again {
            self.tests.inc_by(batch.audited_tests.into());
            self.false_positives.inc_by(batch.audited_false_positives.min(batch.audited_tests).into());
        }
    }

    /// First tests, and those of them that were called duplicates.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.tests.get(), self.false_positives.get())
    }
}
