//! Sends trace spans to an OpenTelemetry collector (OTLP over gRPC), in builds with the feature `otlp`. If a producer
//! sends a trace id with a batch, the node creates spans for the batch in that trace. A batch without a trace id has no
//! spans. Batches never wait for the collector: spans that the collector does not accept in time are dropped.

use serde::{Deserialize, Serialize};

/// The section `[traces]` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TracesConfig {
    /// Address of the collector, such as `http://127.0.0.1:4317`. `None` means that no traces are sent.
    pub(super) otlp: Option<String>,
}

impl TracesConfig {
    /// Checks that this build can send traces, and that the address is valid.
    ///
    /// # Errors
    /// Returns what is wrong and what to do.
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

    /// Placeholder without values for builds that cannot send traces.
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
