//! The exporter that sends trace spans to the collector, and the layer that selects which spans are sent. A span is
//! sent only if it has a field with the trace id of a producer. The layer ignores all other spans, such as those of
//! libraries, so the collector receives only spans of batches that a producer wants to trace.

use std::fmt;

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider};
use opentelemetry::{Context as TraceContext, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::TracesConfig;
use crate::node::log::Sink;

/// Field of a span with the producer's trace, in the form of the HTTP header of the same name (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";

/// The exporter of trace spans. It holds the spans that were not sent to the collector yet. Dropping the exporter sends
/// these spans, but gives up after the timeout of the exporter.
pub(in crate::node) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts the exporter if the configuration asks for it. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub(in crate::node) fn start(config: &TracesConfig, node: &str) -> anyhow::Result<Option<Self>> {
        let Some(otlp) = &config.otlp else { return Ok(None) };
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(otlp).build()?;
        let attributes = [KeyValue::new("service.instance.id", node.to_owned())];
        let resource = Resource::builder().with_service_name("firstseen").with_attributes(attributes).build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        Ok(Some(Self(provider)))
    }

    /// Returns the layer that receives spans.
    pub(in crate::node) fn sink(&self) -> Sink {
        let spans = tracing_opentelemetry::layer().with_context_activation(false).with_location(false);
        let traced = Traced(spans.with_tracer(self.0.tracer("firstseen")));
        let is_traced =
            filter_fn(|metadata: &Metadata<'_>| metadata.is_span() && metadata.fields().field(TRACEPARENT).is_some());
        traced.with_filter(is_traced).boxed()
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last spans did not reach the collector");
        }
    }
}

/// Layer that passes on spans with a trace, as children of the producer's span.
struct Traced<S>(OpenTelemetryLayer<S, SdkTracer>);

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Traced<S> {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut found = Traceparent::default();
        attributes.record(&mut found);
        if let Some(producer) = found.0 {
            let _attached = TraceContext::new().with_remote_span_context(producer).attach();
            self.0.on_new_span(attributes, id, context);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.0.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.0.on_exit(id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.0.on_record(id, values, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.0.on_close(id, context);
    }
}

/// The producer's span, if it was found among the fields.
#[derive(Default)]
struct Traceparent(Option<SpanContext>);

impl Visit for Traceparent {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == TRACEPARENT {
            self.0 = parsed(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// Parses the form `00-<trace>-<span>-<flags>`, which is the only form that nodes accept.
fn parsed(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let span = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn a_traceparent_is_a_span_of_the_producer() {
        let context = parsed("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").expect("a span");
        assert!(context.is_remote() && context.is_sampled());
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        for broken in ["", "00-0af7651916cd43dd8448eb211c80319c", "00-00-b7ad6b7169203331-01", "x-y-z-01"] {
            assert!(parsed(broken).is_none(), "{broken}");
        }
    }
}
