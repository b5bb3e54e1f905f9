//! Commands of RedisBloom, the Redis module for Bloom filters. Invalid commands get the same error texts as in
//! RedisBloom, some of which have no error code.
//!
//! This module does not depend on filters or their sizes.

use super::words::{is, items};
use crate::Arguments;
use crate::number::integer;
use crate::refusal::{Refusal, SYNTAX};

/// Command of RedisBloom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BloomRequest<'a> {
    /// `BF.RESERVE`, which creates a filter.
    Reserve {
        /// Name of the filter.
        filter: &'a [u8],
        /// Options of the new filter. The error rate and the capacity are always set.
        options: BloomOptions,
    },
    /// `BF.ADD`, which records an item and replies whether it was new.
    Add {
        /// Name of the filter.
        filter: &'a [u8],
        /// Item to record.
        item: &'a [u8],
    },
    /// `BF.MADD`, which records several items and replies with an array.
    AddEach {
        /// Name of the filter.
        filter: &'a [u8],
        /// Items to record, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        items: Arguments<'a>,
    },
    /// `BF.INSERT`, which creates the filter if it does not exist, records items, and replies with an array.
    Insert {
        /// Name of the filter.
        filter: &'a [u8],
        /// Options that apply if the filter is created.
        options: BloomOptions,
        /// Whether the filter must already exist (`NOCREATE`).
        must_exist: bool,
        /// Items to record, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        items: Arguments<'a>,
    },
    /// `BF.EXISTS`, which replies whether an item was seen.
    Contains {
        /// Name of the filter.
        filter: &'a [u8],
        /// Item to look up.
        item: &'a [u8],
    },
    /// `BF.MEXISTS`, which replies with an array.
    ContainsEach {
        /// Name of the filter.
        filter: &'a [u8],
        /// Items to look up, at most [`ITEMS_MAX`](crate::ITEMS_MAX).
        items: Arguments<'a>,
    },
    /// `BF.CARD`, which replies with the number of items that were new.
    Count {
        /// Name of the filter.
        filter: &'a [u8],
    },
    /// `BF.INFO`, which describes a filter.
    Info {
        /// Name of the filter.
        filter: &'a [u8],
        /// Requested field. `None` means all fields.
        field: Option<BloomInfoField>,
    },
}

/// Options of a filter to create.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BloomOptions {
    /// Share of new items that may be called seen by mistake, above 0 and below 1.
    pub error_rate: Option<f64>,
    /// Number of items that the filter is sized for, from 1 to 2^30.
    pub capacity_items: Option<u32>,
    /// Growth of the filter when it is full.
    pub expansion: Expansion,
}

/// Growth of a filter that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expansion {
    /// The server's default.
    #[default]
    Default,
    /// The filter adds a part that is larger than the previous part by this factor, from 1 to 32,768.
    Factor(u16),
    /// The filter does not grow (`NONSCALING`, or `EXPANSION 0`).
    Never,
}

/// Field of the reply to `BF.INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BloomInfoField {
    /// Number of items that the filter is sized for.
    Capacity,
    /// Memory of the filter, in bytes.
    Size,
    /// Number of parts that the filter consists of.
    Filters,
    /// Number of items that were new.
    Items,
    /// Factor by which the filter grows.
    Expansion,
}

const CAPACITY_MAX: i64 = 1 << 30;
const EXPANSION_MAX: i64 = 1 << 15;

const NONSCALING_EXPANDS: Refusal<'static> = Refusal::BadArgument("Nonscaling filters cannot expand");
const NO_ITEMS: Refusal<'static> = Refusal::WrongArity { command: "bf.insert", subcommand: None };

/// Reason why a value is not valid: it cannot be parsed, or it is out of range.
enum Wrong {
    Unreadable,
    OutOfRange,
}

fn error_rate(text: &[u8]) -> Result<f64, Wrong> {
    let rate: Option<f64> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let rate = rate.filter(|rate| !rate.is_nan()).ok_or(Wrong::Unreadable)?;
    if rate > 0.0 && rate < 1.0 { Ok(rate) } else { Err(Wrong::OutOfRange) }
}

fn capacity_items(text: &[u8]) -> Result<u32, Wrong> {
    let capacity = integer(text).ok_or(Wrong::Unreadable)?;
    u32::try_from(capacity).ok().filter(|_| (1..=CAPACITY_MAX).contains(&capacity)).ok_or(Wrong::OutOfRange)
}

fn expansion(text: &[u8]) -> Result<Expansion, Wrong> {
    match integer(text).ok_or(Wrong::Unreadable)? {
        0 => Ok(Expansion::Never),
        factor @ 1..=EXPANSION_MAX => Ok(Expansion::Factor(factor as u16)),
        _ => Err(Wrong::OutOfRange),
    }
}

/// Returns one of the two texts, depending on what is wrong with the value.
fn text(wrong: Wrong, unreadable: &'static str, out_of_range: &'static str) -> Refusal<'static> {
    Refusal::BadArgument(match wrong {
        Wrong::Unreadable => unreadable,
        Wrong::OutOfRange => out_of_range,
    })
}

/// Parses `BF.RESERVE`. RedisBloom ignores unknown options. Here they are rejected, because the client meant to express
/// something with them.
pub(super) fn reserve(arguments: Arguments<'_>) -> Result<BloomRequest<'_>, Refusal<'_>> {
    let error_rate = error_rate(arguments.at(1)).map_err(|wrong| {
        text(wrong, "ERR bad error rate", "ERR error rate must be in the range (0.000000, 1.000000)")
    })?;
    let capacity_items = capacity_items(arguments.at(2))
        .map_err(|wrong| text(wrong, "ERR bad capacity", "ERR capacity must be in the range [1, 1073741824]"))?;
    let mut is_nonscaling = false;
    let mut given = Expansion::Default;
    let mut options = arguments.from(3).iter();
    while let Some(option) = options.next() {
        if is(option, "NONSCALING") {
            is_nonscaling = true;
        } else if is(option, "EXPANSION") {
            let value = options.next().ok_or(Refusal::BadArgument("ERR no expansion"))?;
            given = expansion(value)
                .map_err(|wrong| text(wrong, "ERR bad expansion", "ERR expansion must be in the range [0, 32768]"))?;
        } else {
            return Err(SYNTAX);
        }
    }
    let expansion = match (is_nonscaling, given) {
        (true, Expansion::Factor(_)) => return Err(NONSCALING_EXPANDS),
        (true, _) => Expansion::Never,
        (false, given) => given,
    };
    let options = BloomOptions { error_rate: Some(error_rate), capacity_items: Some(capacity_items), expansion };
    Ok(BloomRequest::Reserve { filter: arguments.at(0), options })
}

/// Parses `BF.INSERT` with the rules of RedisBloom. A value that cannot be parsed and a value out of range get the same
/// error text. If a command contains both `NONSCALING` and `EXPANSION`, the option `NONSCALING` takes precedence.
pub(super) fn insert(arguments: Arguments<'_>) -> Result<BloomRequest<'_>, Refusal<'_>> {
    let mut options = BloomOptions::default();
    let mut must_exist = false;
    let mut is_nonscaling = false;
    let mut place = 1;
    while let Some(option) = arguments.get(place) {
        let value = arguments.get(place + 1).ok_or(NO_ITEMS);
        let words = if is(option, "ITEMS") {
            if is_nonscaling {
                options.expansion = Expansion::Never;
            }
            let items = items(arguments.from(place + 1))?;
            let insert = BloomRequest::Insert { filter: arguments.at(0), options, must_exist, items };
            return if items.is_empty() { Err(NO_ITEMS) } else { Ok(insert) };
        } else if is(option, "CAPACITY") {
            let capacity = capacity_items(value?).map_err(|_| Refusal::BadArgument("Bad capacity"))?;
            options.capacity_items = Some(capacity);
            2
        } else if is(option, "ERROR") {
            options.error_rate = Some(error_rate(value?).map_err(|_| Refusal::BadArgument("Bad error rate"))?);
            2
        } else if is(option, "EXPANSION") {
            options.expansion = expansion(value?).map_err(|_| Refusal::BadArgument("Bad expansion"))?;
            2
        } else if is(option, "NOCREATE") {
            must_exist = true;
            1
        } else if is(option, "NONSCALING") {
            is_nonscaling = true;
            1
        } else {
            return Err(Refusal::BadArgument("Unknown argument received"));
        };
        place += words;
    }
    Err(NO_ITEMS)
}

pub(super) fn info(arguments: Arguments<'_>) -> Result<BloomRequest<'_>, Refusal<'_>> {
    let field = match arguments.get(1) {
        None => None,
        Some(field) if is(field, "CAPACITY") => Some(BloomInfoField::Capacity),
        Some(field) if is(field, "SIZE") => Some(BloomInfoField::Size),
        Some(field) if is(field, "FILTERS") => Some(BloomInfoField::Filters),
        Some(field) if is(field, "ITEMS") => Some(BloomInfoField::Items),
        Some(field) if is(field, "EXPANSION") => Some(BloomInfoField::Expansion),
        Some(_) => return Err(Refusal::BadArgument("Invalid information value")),
    };
    Ok(BloomRequest::Info { filter: arguments.at(0), field })
}
