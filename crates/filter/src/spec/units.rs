//! How each kind divides its window into units.

use super::{FilterSpec, SpecError, no};
use crate::kind::{Lateness, Windows};
use crate::timing::{Timers8, Timers16};
use crate::{Unit, Window, WindowRule, duration};

/// Default number of ticks of a window for cells of 8 bits. More ticks make the end of a window more exact, because
/// events are kept for at most two ticks too long. With 128 ticks, this is 1.6 % of the window.
const TICKS_8: u64 = 128;
/// Default number of ticks of a window for cells of 16 bits.
const TICKS_16: u64 = 16_384;
/// Minimum number of ticks. With fewer ticks, events would be kept for more than 3 % of the window too long.
const TICKS_MIN: u64 = 64;

/// Divisor for the default lateness, which is this part of a sliding window. Lateness costs no memory in these windows.
const LATENESS_DEFAULT_PART: u64 = 8;

/// Default number of sub-windows of a counting filter. Metwally et al. 2005 use four.
const COUNTING_JUMPS: u64 = 4;
const COUNTING_JUMPS_MAX: u64 = 250;

/// Units of a window, and the number of units that the window has.
pub(super) struct Units {
    pub(super) unit: Unit,
    pub(super) rule: WindowRule,
    /// Number of units that one window covers.
    pub(super) window_units: u64,
}

/// Requirements for which the cells of a kind are sized.
pub(super) struct Sizing<'a> {
    pub(super) spec: &'a FilterSpec,
    pub(super) units: &'a Units,
    pub(super) cell_bits: u32,
    /// Number of events per window. `None` if nothing determines it.
    pub(super) capacity: Option<u64>,
}

/// Returns the units into which the kind divides its window.
pub(super) fn units(spec: &FilterSpec, cell_bits: u32) -> Result<Units, SpecError> {
    let word_jumps_max = u64::from(cell_bits.saturating_sub(2));
    let (window, is_time) = match spec.window {
        Window::Duration(window_ms) => (window_ms, true),
        Window::Events(events) => (events, false),
        _ => return without_span(spec),
    };
    match spec.kind.properties().windows {
        Windows::Sliding => ticks(spec, window, cell_bits, is_time),
        Windows::Jumping => jumps(spec, window, word_jumps_max, word_jumps_max, is_time),
        Windows::JumpingOrCounted if is_time || spec.jumps.is_some() => {
            jumps(spec, window, COUNTING_JUMPS, COUNTING_JUMPS_MAX, is_time)
        }
        Windows::JumpingOrCounted => {
            let rule = WindowRule { span_units: window, lateness_units: 0 };
            Ok(Units { unit: Unit::Events(1), rule, window_units: window })
        }
        Windows::Landmark | Windows::Fading | Windows::Epochs => without_span(spec),
    }
}

/// Returns the units of a window that ends for all events at once, or that never ends.
fn without_span(spec: &FilterSpec) -> Result<Units, SpecError> {
    match (spec.kind.properties().windows, &spec.window) {
        (Windows::Landmark, window) => landmark(spec, window),
        (Windows::Fading, Window::Unbounded) => Ok(single(Unit::Endless)),
        (Windows::Fading, _) => Err(refused(spec, "it forgets at random, without a window; ask for `unbounded`")),
        _ => Err(refused(spec, "ask for a duration (24h) or a number of events, or use kind bloom")),
    }
}

pub(super) fn refused(spec: &FilterSpec, instead: &'static str) -> SpecError {
    SpecError::Window { kind: spec.kind, window: spec.window.clone(), instead }
}

fn single(unit: Unit) -> Units {
    Units { unit, rule: WindowRule { span_units: 1, lateness_units: 0 }, window_units: 1 }
}

fn landmark(spec: &FilterSpec, window: &Window) -> Result<Units, SpecError> {
    if spec.lateness_ms.is_some_and(|lateness_ms| lateness_ms > 0) {
        let instead = "events from before a landmark are always late after it; use kind timing for a sliding window";
        return no(spec, "lateness", instead);
    }
    Ok(single(match window {
        Window::Unbounded => Unit::Endless,
        Window::LandmarkDuration(unit_ms) => Unit::Milliseconds(*unit_ms),
        Window::LandmarkEvents(events) => Unit::Events(*events),
        Window::LandmarkCalendar(calendar) => Unit::Calendar(calendar.clone()),
        Window::Duration(_) | Window::Events(_) => {
            return Err(refused(spec, "use kind timing (sliding) or generations (jumping), or a landmark"));
        }
    }))
}

pub(super) fn unit_of(length: u64, is_time: bool) -> Unit {
    if is_time { Unit::Milliseconds(length) } else { Unit::Events(length) }
}

/// Returns the lateness in the measure of the window. The result is in milliseconds, or 0 if the window counts events.
pub(super) fn lateness_of(spec: &FilterSpec, is_time: bool, default: u64) -> Result<u64, SpecError> {
    match (spec.lateness_ms, is_time) {
        (lateness_ms, true) => Ok(lateness_ms.unwrap_or(default)),
        (None | Some(0), false) => Ok(0),
        (Some(_), false) => no(
            spec,
            "lateness in a window counted in events",
            "events are counted as they come, so none is late; leave it out",
        ),
    }
}

/// Divides a sliding window into ticks. The expiry is `tick + ceil(W / tick length) + 1`, so that rounding never
/// shortens the window.
fn ticks(spec: &FilterSpec, window: u64, cell_bits: u32, is_time: bool) -> Result<Units, SpecError> {
    if spec.jumps.is_some() {
        let instead = "its window slides; use kind generations or counting for a jumping one";
        return no(spec, "sub-windows", instead);
    }
    let lateness = lateness_of(spec, is_time, window / LATENESS_DEFAULT_PART)?;
    let (wanted, reach_max) =
        if cell_bits == 16 { (TICKS_16, Timers16::REACH_UNITS_MAX) } else { (TICKS_8, Timers8::REACH_UNITS_MAX) };
    for ticks in (TICKS_MIN..=wanted).rev() {
        let length = window.div_ceil(ticks);
        let window_units = window.div_ceil(length);
        let rule = WindowRule { span_units: window_units + 1, lateness_units: lateness.div_ceil(length) };
        if rule.span_units.saturating_add(rule.lateness_units) <= reach_max {
            return Ok(Units { unit: unit_of(length, is_time), rule, window_units });
        }
    }
    Err(SpecError::Reach {
        window: spec.window.clone(),
        what: format!("a lateness of {}", duration(lateness)),
        instead: "choose a lateness of at most twice the window, or 16-bit cells",
    })
}

/// Divides a jumping window into sub-windows. The span is `Q + 1` units: the current sub-window and Q full ones.
fn jumps(spec: &FilterSpec, window: u64, default: u64, most: u64, is_time: bool) -> Result<Units, SpecError> {
    let lateness = lateness_of(spec, is_time, 0)?;
    let wanted = spec.jumps.map_or(default, u64::from);
    if wanted == 0 {
        let instead = "choose at least 1";
        return no(spec, "window of 0 sub-windows", instead);
    }
    let properties = spec.kind.properties();
    if properties.lateness == Lateness::Refused && lateness > 0 {
        let instead = "a sub-window is subtracted as soon as it leaves the window; use kind timing or generations";
        return no(spec, "lateness", instead);
    }
    let least = if spec.jumps.is_some() { wanted } else { 1 };
    for jumps in (least..=wanted).rev() {
        let length = window.div_ceil(jumps);
        let window_units = window.div_ceil(length);
        let lateness_units = lateness.div_ceil(length);
        if window_units.saturating_add(lateness_units) <= most {
            let rule = WindowRule { span_units: window_units + 1, lateness_units };
            return Ok(Units { unit: unit_of(length, is_time), rule, window_units });
        }
    }
    Err(SpecError::Reach {
        window: spec.window.clone(),
        what: match lateness {
            0 => format!("{wanted} sub-windows"),
            _ => format!("{wanted} sub-windows and a lateness of {}", duration(lateness)),
        },
        instead: match properties.windows {
            Windows::JumpingOrCounted => "a counting filter has at most 250 sub-windows; choose fewer, or kind timing",
            _ => {
                "words of 8 bits hold 6 sub-windows and lateness together, words of 16 bits hold 14; \
                 choose fewer sub-windows, less lateness, 16-bit cells, or kind timing"
            }
        },
    })
}
