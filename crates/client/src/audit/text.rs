//! Writes audit reports in the text format of Prometheus.
//!
//! The output lists the metrics one after the other. Each metric is declared once, and the declaration is followed by
//! one value for each filter. A filter that promises no error rate has no value for the metrics of promised rates.

use std::fmt::Write as _;

use super::{AuditReport, ErrorRate};

/// Label values for the two kinds of error.
const FALSE_POSITIVE: &str = "false_positive";
const FALSE_NEGATIVE: &str = "false_negative";

impl AuditReport {
    /// Writes the audit reports of several filters in the text format of Prometheus (version 0.0.4). Each report is
    /// labelled with the name of its filter. A program can append this text to its own metrics.
    ///
    /// Three metrics together show whether a filter keeps its promised error rate. `firstseen_audit_rate` is the
    /// measured rate. `firstseen_audit_rate_at_most` is an upper bound: the true rate exceeds it with a probability of
    /// at most 5 %. `firstseen_audit_rate_promised` is the rate that the filter was created for. If the promised rate
    /// is greater than the upper bound, the filter keeps its promise.
    ///
    /// ```
    /// use firstseen_client::{AuditReport, ErrorRate};
    /// # let report = AuditReport {
    /// #     sample_rate: 0.5, keys: 500, promised_false_positives: Some(0.01), promised_false_negatives: Some(0.0),
    /// #     false_positives: ErrorRate { errors: 3, cases: 500 }, false_negatives: ErrorRate { errors: 0, cases: 400 },
    /// #     unknown_keys: 0, has_ended: false, is_impossible: false,
    /// # };
    /// // `report` is what `Filter::audit` returns.
    /// let text = AuditReport::prometheus(&[("clicks", report)]);
    /// assert!(text.contains("firstseen_audit_rate{filter=\"clicks\",error=\"false_positive\"} 0.006\n"));
    /// assert!(text.contains("firstseen_audit_rate_promised{filter=\"clicks\",error=\"false_positive\"} 0.01\n"));
    /// ```
    pub fn prometheus(reports: &[(&str, Self)]) -> String {
        let mut text = Text { reports, text: String::new() };
        text.gauge("sample_rate", "Share of keys that are watched", |report| report.sample_rate);
        text.gauge("keys", "Keys that are remembered at present", |report| report.keys as f64);
        text.gauge("unknown_keys", "Keys left out since an answer was lost", |report| report.unknown_keys as f64);
        let help = "1 while the audit measures; 0 where it needed too many keys, or the window counts events";
        text.gauge("active", help, |report| f64::from(!(report.has_ended || report.is_impossible)));
        let help = "Verdicts on watched keys that an error was possible in";
        text.measured("cases_total", "counter", help, |rate| rate.cases as f64);
        text.measured("errors_total", "counter", "Those that were wrong", |rate| rate.errors as f64);
        text.measured("rate", "gauge", "Rate that was measured", ErrorRate::rate);
        let help = "Bound that the true rate exceeds with a chance of 5 % at most";
        text.measured("rate_at_most", "gauge", help, ErrorRate::at_most);
        text.rates("rate_promised", "gauge", "Rate that the definition of the filter promises", |report| {
            [report.promised_false_positives, report.promised_false_negatives]
        });
        text.text
    }
}

struct Text<'a> {
    reports: &'a [(&'a str, AuditReport)],
    text: String,
}

impl Text<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP firstseen_audit_{name} {help}\n# TYPE firstseen_audit_{name} {kind}");
    }

    fn gauge(&mut self, name: &str, help: &str, value_of: impl Fn(&AuditReport) -> f64) {
        self.head(name, "gauge", help);
        for (filter, report) in self.reports {
            let _ =
                writeln!(self.text, "firstseen_audit_{name}{{filter=\"{}\"}} {}", escaped(filter), value_of(report));
        }
    }

    /// Writes a metric of the measured values, for both kinds of error.
    fn measured(&mut self, name: &str, kind: &str, help: &str, value_of: impl Fn(&ErrorRate) -> f64) {
        self.rates(name, kind, help, |report| {
            [&report.false_positives, &report.false_negatives].map(|rate| Some(value_of(rate)))
        });
    }

    /// Writes a metric with a value for each of the two kinds of error.
    fn rates(&mut self, name: &str, kind: &str, help: &str, values_of: impl Fn(&AuditReport) -> [Option<f64>; 2]) {
        self.head(name, kind, help);
        for (filter, report) in self.reports {
            let filter = escaped(filter);
            for (error, value) in [FALSE_POSITIVE, FALSE_NEGATIVE].into_iter().zip(values_of(report)) {
                let Some(value) = value else { continue };
                let _ = writeln!(self.text, "firstseen_audit_{name}{{filter=\"{filter}\",error=\"{error}\"}} {value}");
            }
        }
    }
}

/// Escapes a filter name for use as a label value.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: AuditReport = AuditReport {
        sample_rate: 0.25,
        keys: 7,
        false_positives: ErrorRate { errors: 1, cases: 4 },
        promised_false_positives: None,
        false_negatives: ErrorRate { errors: 0, cases: 0 },
        promised_false_negatives: Some(0.0),
        unknown_keys: 2,
        has_ended: false,
        is_impossible: false,
    };

    #[test]
    fn each_metric_is_described_once_and_has_a_line_for_each_filter() {
        let ended = AuditReport { has_ended: true, ..REPORT };
        let text = AuditReport::prometheus(&[("a", REPORT), ("b\"\\", ended)]);
        for (name, lines) in [("sample_rate", 2), ("active", 2), ("cases_total", 4), ("rate", 4), ("rate_promised", 2)]
        {
            let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
            assert_eq!(count(&format!("# TYPE firstseen_audit_{name} ")), 1, "{text}");
            assert_eq!(count(&format!("firstseen_audit_{name}{{")), lines, "{name} in {text}");
        }
        for line in [
            "firstseen_audit_active{filter=\"a\"} 1",
            "firstseen_audit_active{filter=\"b\\\"\\\\\"} 0",
            "firstseen_audit_unknown_keys{filter=\"a\"} 2",
            "firstseen_audit_errors_total{filter=\"a\",error=\"false_positive\"} 1",
            "firstseen_audit_rate{filter=\"a\",error=\"false_positive\"} 0.25",
            "firstseen_audit_rate_at_most{filter=\"a\",error=\"false_negative\"} 1",
            "firstseen_audit_rate_promised{filter=\"a\",error=\"false_negative\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
    }
}
