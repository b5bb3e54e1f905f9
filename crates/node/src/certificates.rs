//! Certificates that change while the node runs.
//!
//! Promises: files that have changed are taken over within [`LOOK_EVERY`], or at once when the node is told to look; new files
//! that cannot be used leave the former ones in place, and the log says why. After a change, and every hour, connections that a
//! handshake would accept no more are closed. There is a warning a month, a week and a day before the end of a certificate, and
//! when it has ended. Must not know: who connects, what files hold.

use std::sync::Arc;
use std::time::Duration;

use firstseen_wire::tls::ServerTls;
use firstseen_wire::validity::{Doubt, Validity};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::accept::Door;
use crate::edges::Clock;

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
    door: Arc<Door>,
    clock: Arc<dyn Clock>,
    /// The last complaint about the files, so that the log has each once.
    complaint: Option<String>,
    /// The stage of each warning that the log has.
    warned: Vec<(String, u64)>,
}

impl Certificates {
    /// Looks after the files of `tls`, and the connections at `door`.
    pub(crate) fn new(tls: ServerTls, door: Arc<Door>, clock: Arc<dyn Clock>) -> Self {
        Self { tls, door, clock, complaint: None, warned: Vec::new() }
    }

    /// Looks until `stop`, and whenever `told` says so.
    pub(crate) async fn keep(mut self, told: Arc<Notify>, stop: CancellationToken) {
        let mut looks = 0;
        loop {
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
        match self.tls.look_again(self.now()) {
            Ok(has_changed) => {
                if has_changed {
                    tracing::info!("the certificates have changed: new handshakes go by them");
                }
                self.complaint = None;
                has_changed
            }
            Err(error) => {
                let complaint = error.to_string();
                if self.complaint.as_ref() != Some(&complaint) {
                    tracing::warn!(error = complaint, "the new certificates cannot be used, the former ones stay");
                    self.complaint = Some(complaint);
                }
                false
            }
        }
    }

    fn close_refused(&self) {
        let now = self.now();
        let closed = self.door.close_where(|certificates| self.tls.still_accepts(certificates, now));
        if closed > 0 {
            tracing::warn!(closed, "connections are closed whose certificates are accepted no more");
        }
    }

    fn warn(&mut self) {
        let (now, [month, ..]) = (self.now(), WARNINGS_S);
        // Files that cannot be read are complained of already.
        let doubts = self.tls.files().tls.doubts(now, Duration::from_secs(month)).unwrap_or_default();
        for Doubt { path, validity, .. } in doubts {
            let stage = stage(validity, now.as_secs());
            let warning = (path.display().to_string(), stage);
            if !self.warned.contains(&warning) {
                tracing::warn!(
                    certificate = warning.0,
                    ?validity,
                    "a certificate ends soon, has ended, or is not valid yet"
                );
                self.warned.retain(|(path, _)| *path != warning.0);
                self.warned.push(warning);
            }
        }
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
