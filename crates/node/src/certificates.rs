//! Reloads certificates while the node runs.
//!
//! # Guarantees
//! - Changed files are loaded within [`LOOK_EVERY`], or at once when the operator asks for it.
//! - If new files cannot be used, the node keeps the previous certificates, and the log contains the reason.
//! - After a change and once an hour, the node closes connections whose certificates a new handshake would reject.
//! - The log warns a month, a week and a day before a certificate expires, and when it has expired.
//!
//! This module does not depend on who connects or on the content of the files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firstseen_wire::tls::ServerTls;
use firstseen_wire::validity::{Doubt, Validity};
use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::accept::ConnectionRegistry;
use crate::clock::Clock;

/// Interval between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Number of checks without a change after which open connections are checked anyway, because certificates expire.
const LOOKS_MAX: u32 = 360;
const DAY_S: u64 = 24 * 3600;
/// Times before the expiry of a certificate at which the log contains a warning.
const WARNINGS_S: [u64; 3] = [30 * DAY_S, 7 * DAY_S, DAY_S];

/// The task that checks the certificate files.
pub(crate) struct Certificates {
    tls: ServerTls,
    registry: Arc<ConnectionRegistry>,
    clock: Arc<dyn Clock>,
    /// Problems that the last check found. They are kept so that the log reports each problem only once.
    complaints: Vec<String>,
    /// Warnings of the last check. They are kept so that the log contains each warning only once.
    warned: Vec<(PathBuf, Validity, u64)>,
    ends: Ends,
}

/// Metrics with the expiry times of the node's certificate and of the authority's certificate, in seconds since 1970.
pub(crate) type Ends = [Gauge; 2];

impl Certificates {
    /// Creates the task that checks the files of `tls` and the connections of `registry`.
    pub(crate) fn new(tls: ServerTls, registry: Arc<ConnectionRegistry>, clock: Arc<dyn Clock>, ends: Ends) -> Self {
        Self { tls, registry, clock, complaints: Vec::new(), warned: Vec::new(), ends }
    }

    /// Checks the files periodically and whenever `told` is notified, until `stop` is cancelled.
    pub(crate) async fn keep(mut self, told: Arc<Notify>, stop: CancellationToken) {
        let mut looks = 0;
        loop {
            self.show_ends();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = told.notified() => {}
                () = sleep(LOOK_EVERY) => {}
            }
            looks += 1;
            if self.look() || looks >= LOOKS_MAX {
                looks = 0;
                self.close_refused();
            }
            self.warn();
        }
    }

    /// Loads changed files. Returns whether any file has changed.
    fn look(&mut self) -> bool {
        let (has_changed, complaints) = self.tls.look_again(self.now());
        if has_changed {
            tracing::info!("the certificates have changed: new handshakes use them");
        }
        for complaint in complaints.iter().filter(|complaint| !self.complaints.contains(complaint)) {
            tracing::warn!(complaint, "new certificates cannot be used, the former ones stay");
        }
        self.complaints = complaints;
        has_changed
    }

    /// Updates the metrics. If a file cannot be read, the last check has already reported that, and the metric keeps
    /// its value.
    fn show_ends(&self) {
        for (gauge, is_authority) in self.ends.iter().zip([false, true]) {
            if let Ok(Some(end_s)) = self.tls.files().tls.end_s(is_authority) {
                gauge.set(i64::try_from(end_s).unwrap_or(i64::MAX));
            }
        }
    }

    fn close_refused(&self) {
        let now = self.now();
        let closed = self.registry.close_where(|certificates| self.tls.still_accepts(certificates, now));
        if closed > 0 {
            tracing::warn!(closed, "connections are closed because their certificates are no longer accepted");
        }
    }

    fn warn(&mut self) {
        let now = self.now();
        let [month, ..] = WARNINGS_S;
        // If a file cannot be read, the last check has already reported that.
        let doubts = self.tls.files().tls.doubts(now, Duration::from_secs(month)).unwrap_or_default();
        let now_s = now.as_secs();
        let warnings: Vec<_> =
            doubts.into_iter().map(|Doubt { path, validity, .. }| (path, validity, stage(validity, now_s))).collect();
        for warning in warnings.iter().filter(|warning| !self.warned.contains(warning)) {
            let (path, validity, _) = warning;
            let (what, at_s) = match validity {
                Validity::NotYet(at_s) => ("is not valid before", at_s),
                Validity::Over(at_s) => ("has expired, at", at_s),
                Validity::EndsSoon(at_s) => ("expires at", at_s),
            };
            let at = i64::try_from(*at_s).ok().and_then(|at_s| Timestamp::from_second(at_s).ok());
            let at = at.map_or_else(|| format!("second {at_s} since 1970"), |at| at.to_string());
            tracing::warn!(
                "certificate {} {what} {at}: put a new one there, and the node takes it over",
                path.display()
            );
        }
        self.warned = warnings;
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.clock.wall_ms())
    }
}

/// Returns the shortest time of [`WARNINGS_S`] within which a certificate expires, or 0 if the certificate is not valid
/// now.
fn stage(validity: Validity, now_s: u64) -> u64 {
    let Validity::EndsSoon(end_s) = validity else { return 0 };
    let left_s = end_s.saturating_sub(now_s);
    WARNINGS_S.into_iter().filter(|within_s| left_s <= *within_s).min().unwrap_or(WARNINGS_S[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_warning_a_month_a_week_and_a_day_before_the_end() {
        let at = |left_s| stage(Validity::EndsSoon(1_000_000_000 + left_s), 1_000_000_000);
        assert_eq!([at(29 * DAY_S), at(8 * DAY_S)], [30 * DAY_S; 2]);
        assert_eq!([at(7 * DAY_S), at(2 * DAY_S)], [7 * DAY_S; 2]);
        assert_eq!([at(DAY_S), at(0)], [DAY_S; 2]);
        assert_eq!([stage(Validity::Over(1), 2), stage(Validity::NotYet(3), 2)], [0; 2]);
    }
}
