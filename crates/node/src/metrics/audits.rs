//! Metrics of the false-positive rates that producers measure. A producer that audits a filter remembers some of its
//! keys exactly, and reports with its batches how many of these keys were wrongly called duplicates. If a producer
//! sends a batch again, the report in this batch is not counted a second time.

use std::collections::BTreeSet;

use firstseen_wire::proto::producer::Batch;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::{Count, FilterLabel, Sorted};

/// The audit metrics of all filters.
pub(super) struct AuditMetrics {
    tests: Count<FilterLabel>,
    false_positives: Count<FilterLabel>,
}

/// The audit metrics of one filter.
#[derive(Clone)]
pub(crate) struct AuditMeter {
    tests: Counter,
    false_positives: Counter,
}

impl AuditMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let audits = Self { tests: Sorted::default(), false_positives: Sorted::default() };
        let help = "First tests of keys that producers audit";
        registry.register("audited_tests", help, audits.tests.clone());
        let help = "Audited first tests that were reported as duplicates";
        registry.register("audited_false_positives", help, audits.false_positives.clone());
        audits
    }

    /// Removes the series of all other filters.
    pub(super) fn keep_filters(&self, names: &BTreeSet<&str>) {
        [&self.tests, &self.false_positives].into_iter().for_each(|count| count.retain(|label| label.is_kept(names)));
    }

    pub(super) fn of(&self, filter: &str) -> AuditMeter {
        let label = FilterLabel::of(filter);
        AuditMeter { tests: self.tests.of(&label), false_positives: self.false_positives.of(&label) }
    }
}

impl AuditMeter {
    /// Counts the results that a producer reports with a batch. They cover the time since its previous batch.
    pub(super) fn came(&self, batch: &Batch) {
        if batch.audited_tests > 0 && !batch.again {
            self.tests.inc_by(batch.audited_tests.into());
            self.false_positives.inc_by(batch.audited_false_positives.min(batch.audited_tests).into());
        }
    }

    /// Returns the number of audited first tests, and how many of them were reported as duplicates.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.tests.get(), self.false_positives.get())
    }
}
