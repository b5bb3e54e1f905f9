//! Certificates that change while the node runs.
//!
//! Promises: files that have changed are taken over within [`LOOK_EVERY`], or at once when the node is told to look; new files
//! that cannot be used leave the former ones in place, and the log says why. After a change, and every hour, connections that a
//! handshake would accept no more are closed. There is a warning a month, a week and a day before the end of a certificate, and
//! when it has ended. Must not know: who connects, what files hold.

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

use crate::accept::Entrance;
use crate::clock::Clock;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// After so many looks without a change, connections are looked at all the same: certificates expire.
const LOOKS_MAX: u32 = 360;
const DAY_S: u64 = 24 * 3600;
/// How long before the end of a certificate there are warnings.
const WARNINGS_S: [u64; 3] = [30 * DAY_S, 7 * DAY_S, DAY_S];

/// What looks at the files.
pub(crate) struct Certificates {
    tls: ServerTls,
    entrance: Arc<Entrance>,
    clock: Arc<dyn Clock>,
    /// The complaints of the last look, so that the log has each once.
    complaints: Vec<String>,
    /// The warnings of the last look, for the same reason.
    warned: Vec<(PathBuf, Validity, u64)>,
    ends: Ends,
}

/// Where it is shown when certificates end: the node's own, and the authority's; seconds since 1970.
pub(crate) type Ends = [Gauge; 2];

impl Certificates {
    /// Looks after the files of `tls`, and the connections at `entrance`.
    pub(crate) fn new(tls: ServerTls, entrance: Arc<Entrance>, clock: Arc<dyn Clock>, ends: Ends) -> Self {
        Self { tls, entrance, clock, complaints: Vec::new(), warned: Vec::new(), ends }
    }

    /// Looks until `stop`, and whenever `told` says so.
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

    /// Takes over what has changed; returns whether anything has.
    fn look(&mut self) -> bool {
        let (has_changed, complaints) = self.tls.look_again(self.now());
        if has_changed {
            tracing::info!("the certificates have changed: new handshakes go by them");
        }
        for complaint in complaints.iter().filter(|complaint| !self.complaints.contains(complaint)) {
            tracing::warn!(complaint, "new certificates cannot be used, the former ones stay");
        }
        self.complaints = complaints;
        has_changed
    }

    /// Files that cannot be read are complained of already, and what they said before stays.
    fn show_ends(&self) {
        for (gauge, is_authority) in self.ends.iter().zip([false, true]) {
            if let Ok(Some(end_s)) = self.tls.files().tls.end_s(is_authority) {
                gauge.set(i64::try_from(end_s).unwrap_or(i64::MAX));
            }
        }
    }

    fn close_refused(&self) {
        let now = self.now();
        let closed = self.entrance.close_where(|certificates| self.tls.still_accepts(certificates, now));
        if closed > 0 {
            tracing::warn!(closed, "connections are closed whose certificates are accepted no more");
        }
    }

    fn warn(&mut self) {
        let now = self.now();
        let [month, ..] = WARNINGS_S;
        // Files that cannot be read are complained of already.
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

/// The shortest time of [`WARNINGS_S`] within which a certificate ends; 0 where it is not valid.
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
