//! Spans of the batches that producers trace, sent to a collector of OpenTelemetry (OTLP over gRPC) by builds with the feature `otlp`.
//!
//! Promises: a span has the producer's trace, and of others there is none; what the collector does not take in time is dropped, and no
//! batch waits for it. Must not know: what a batch is.

use serde::{Deserialize, Serialize};

/// The section `[traces]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TracesConfig {
    /// Where the collector listens, as `http://127.0.0.1:4317`; none sends nothing.
    pub(super) otlp: Option<String>,
}

impl TracesConfig {
    /// Whether this build can do so, and the address is one.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub(super) fn check(&self) -> Result<(), String> {
        let Some(otlp) = &self.otlp else { return Ok(()) };
        if !cfg!(feature = "otlp") {
            return Err(format!(
                "traces.otlp = \"{otlp}\": this build sends no traces; build with --features otlp, or leave it out"
            ));
        }
        let has_host = otlp.strip_prefix("http://").is_some_and(|rest| !rest.trim_end_matches('/').is_empty());
        if has_host {
            return Ok(());
        }
        Err(format!("traces.otlp = \"{otlp}\": give http://HOST:PORT, of a collector that listens for gRPC"))
    }
}

#[cfg(feature = "otlp")]
mod sent;
#[cfg(feature = "otlp")]
pub(super) use sent::Traces;

#[cfg(not(feature = "otlp"))]
pub(super) use unsent::Traces;

#[cfg(not(feature = "otlp"))]
mod unsent {
    use super::TracesConfig;
    use crate::node::log::Sink;

    /// There are none.
    pub(in crate::node) enum Traces {}

    impl Traces {
        pub(in crate::node) fn start(_: &TracesConfig, _: &str) -> anyhow::Result<Option<Self>> {
            Ok(None)
        }

        pub(in crate::node) fn sink(&self) -> Sink {
            match *self {}
        }
    }
}
