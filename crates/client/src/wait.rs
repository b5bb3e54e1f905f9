//! For how long a call waits for answers.
//!
//! Must not know: what is asked, whom.

use std::time::Duration;

use tokio::time::Instant;

/// By default until the client's deadline; less where the caller says so.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait(Option<Duration>);

impl Wait {
    pub(crate) fn at_most(wait_max: Duration) -> Self {
        Self(Some(wait_max))
    }

    /// When the caller gives up, no later than at the client's `deadline`; none where that is all there is.
    pub(crate) fn until(self, deadline: Instant) -> Option<Instant> {
        self.0.map(|wait_max| deadline.min(Instant::now() + wait_max))
    }

    /// When the caller gives up, or the client's `deadline`.
    pub(crate) fn earlier(self, deadline: Instant) -> Instant {
        self.until(deadline).unwrap_or(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_waits_no_longer_than_the_client_does() {
        let now = Instant::now();
        let soon = now + Duration::from_secs(60);
        assert_eq!((Wait::default().until(soon), Wait::default().earlier(soon)), (None, soon));
        assert_eq!(Wait::at_most(Duration::from_secs(3_600)).earlier(soon), soon);
        let less = Wait::at_most(Duration::from_secs(1)).earlier(soon);
        assert!(less >= now + Duration::from_secs(1) && less < soon);
    }
}
