//! The settings of a filter, which are the flags of `firstseen dedup`.

use firstseen_embedded::{KindChoice, Stamps, meant};
use firstseen_filter::{FilterSpec, Kind, Refresh, Window};
use firstseen_routing::{SlicedDefinition, Slicing};

/// Settings of a filter.
pub(crate) struct Settings<'a> {
    pub(crate) window: &'a str,
    pub(crate) capacity: Option<u64>,
    pub(crate) fpr: f64,
    pub(crate) kind: Option<&'a str>,
    pub(crate) memory: Option<u64>,
    pub(crate) lateness: Option<&'a str>,
    pub(crate) future_max: Option<&'a str>,
    pub(crate) rule: &'a str,
    pub(crate) seed: u64,
}

impl Settings<'_> {
    /// Returns the definition of the filter. The error names the setting that is wrong.
    pub(crate) fn definition(&self) -> Result<SlicedDefinition, String> {
        let window: Window = self.window.parse().map_err(|error| format!("window: {error}"))?;
        let refresh = match self.rule {
            "fixed" => Refresh::Fixed,
            "refresh" => Refresh::Refresh,
            other => return Err(format!("rule: `{other}` is neither `fixed` nor `refresh`")),
        };
        let spec = FilterSpec {
            rate: self.fpr,
            capacity_events: self.capacity,
            memory_bytes: self.memory,
            lateness_ms: self.lateness.map(|text| duration_ms("lateness", text)).transpose()?,
            future_max_ms: match self.future_max {
                Some(text) => duration_ms("future_max", text)?,
                None => window.future_default_ms(),
            },
            refresh,
            seed: self.seed,
            ..FilterSpec::new(Kind::Bloom, window)
        };
        let chosen = match self.kind {
            Some(name) => KindChoice::only(FilterSpec { kind: kind(name)?, ..spec }),
            None => meant(&spec, Slicing::NONE, Stamps::OfEvents),
        };
        chosen.definition(Slicing::NONE, None).map_err(|error| error.to_string())
    }
}

fn kind(name: &str) -> Result<Kind, String> {
    let mut kinds = Kind::ALL.into_iter().filter(|kind| !kind.estimates_frequencies());
    if let Some(kind) = kinds.clone().find(|kind| kind.properties().name == name) {
        return Ok(kind);
    }
    let names = kinds.by_ref().map(|kind| kind.properties().name).collect::<Vec<_>>().join(", ");
    Err(format!("kind: `{name}` is not one of {names}"))
}

fn duration_ms(setting: &str, text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(Window::Duration(ms)) => Ok(ms),
        _ if text.trim_end_matches(char::is_alphabetic) == "0" => Ok(0),
        _ => Err(format!("{setting}: `{text}` is no duration: write one such as 90s, 15m, 24h or 7d")),
    }
}
