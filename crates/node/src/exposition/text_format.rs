//! The two text formats of metrics: OpenMetrics, and the older Prometheus format. The `Accept` header of a scrape
//! decides which format is returned. A scraper that does not ask for OpenMetrics receives the Prometheus format,
//! because every scraper can read it. Both formats contain the same samples in the same order.

/// Text format of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    /// The Prometheus text format, version 0.0.4.
    Prometheus,
    /// The OpenMetrics text format, version 1.0.
    OpenMetrics,
}

impl TextFormat {
    /// Returns the format that the values of an `Accept` header prefer.
    pub(crate) fn asked_for(accept: &str) -> Self {
        let mut older = 0.0;
        let mut newer = 0.0;
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            let weight: f32 = weight.map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0));
            match kind.as_str() {
                "application/openmetrics-text" => newer = weight.max(newer),
                "text/plain" | "text/*" | "*/*" => older = weight.max(older),
                _ => {}
            }
        }
        if newer > 0.0 && newer >= older { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Returns the value of the `Content-Type` header for this format.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Converts metrics from the OpenMetrics text format to the older Prometheus format. Only the lines that describe the
/// metrics are changed, and the samples stay as they are. The Prometheus format differs in three points: the
/// description of a counter has the same suffix `_total` as its samples, no line states the unit of a metric, and no
/// line marks the end of the text.
pub(crate) fn older(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            help = Some(said);
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap_or((typed, "unknown"));
            let ending = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take().and_then(|help| help.split_once(' ')) {
                text.extend(["# HELP ", name, ending, " ", words, "\n"]);
            }
            let kind = if kind == "unknown" { "untyped" } else { kind };
            text.extend(["# TYPE ", name, ending, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_openmetrics_gets_it_and_all_others_what_everybody_reads() {
        use TextFormat::{OpenMetrics, Prometheus};
        for (accept, format) in [
            ("", Prometheus),
            ("*/*", Prometheus),
            ("text/html, */*;q=0.1", Prometheus),
            ("text/plain; version=0.0.4", Prometheus),
            ("application/openmetrics-text; version=1.0.0", OpenMetrics),
            ("Application/OpenMetrics-Text;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1", OpenMetrics),
            ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OpenMetrics),
            ("application/openmetrics-text;q=0.3, text/plain;q=0.7", Prometheus),
            ("application/openmetrics-text;q=0, */*", Prometheus),
            ("application/openmetrics-text;q=much", Prometheus),
            ("application/json", Prometheus),
        ] {
            assert_eq!(TextFormat::asked_for(accept), format, "{accept}");
        }
    }

    #[test]
    fn the_older_text_has_the_same_samples() {
        let newer = "# HELP a Bytes.\n# TYPE a counter\n# UNIT a bytes\na_total{x=\"# TYPE \"} 1\n# HELP b Now.\n# TYPE b gauge\nb 2\n\
                     # HELP c What.\n# TYPE c unknown\nc 3\n# EOF\n";
        let expected = "# HELP a_total Bytes.\n# TYPE a_total counter\na_total{x=\"# TYPE \"} 1\n# HELP b Now.\n# TYPE b gauge\nb 2\n\
                        # HELP c What.\n# TYPE c untyped\nc 3\n";
        assert_eq!(older(newer), expected);
    }
}
