//! Commands of RedisBloom, with its texts, of which some lack a code. Must not know: filters, and what sizes they have.

use super::words::{is, items};
use crate::Arguments;
use crate::number::integer;
use crate::refusal::{Refusal, SYNTAX};

/// A command of RedisBloom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BloomRequest<'a> {
    /// `BF.RESERVE`: creates a filter.
    Reserve {
        /// The filter.
        filter: &'a [u8],
        /// What it is like; its error rate and capacity are given.
        options: BloomOptions,
    },
    /// `BF.ADD`: records an item; the reply is whether it was new.
    Add {
        /// The filter.
        filter: &'a [u8],
        /// The event.
        item: &'a [u8],
    },
    /// `BF.MADD`: records items; the reply is an array.
    AddEach {
        /// The filter.
        filter: &'a [u8],
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        items: Arguments<'a>,
    },
    /// `BF.INSERT`: creates a filter if there is none, and records items; the reply is an array.
    Insert {
        /// The filter.
        filter: &'a [u8],
        /// What it is like if it is created.
        options: BloomOptions,
        /// Whether it must exist: `NOCREATE`.
        must_exist: bool,
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        items: Arguments<'a>,
    },
    /// `BF.EXISTS`: the reply is whether the item was seen.
    Contains {
        /// The filter.
        filter: &'a [u8],
        /// The event.
        item: &'a [u8],
    },
    /// `BF.MEXISTS`: the reply is an array.
    ContainsEach {
        /// The filter.
        filter: &'a [u8],
        /// The events, [`ITEMS_MAX`](crate::ITEMS_MAX) at most.
        items: Arguments<'a>,
    },
    /// `BF.CARD`: how many items were new.
    Count {
        /// The filter.
        filter: &'a [u8],
    },
    /// `BF.INFO`.
    Info {
        /// The filter.
        filter: &'a [u8],
        /// The one thing to tell; `None`: all.
        field: Option<BloomInfoField>,
    },
}

/// What a filter is like that is to be created.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BloomOptions {
    /// The share of new items that may be taken for seen: over 0 and below 1.
    pub error_rate: Option<f64>,
    /// How many items it has room for: from 1 to 2^30.
    pub capacity_items: Option<u32>,
    /// How it grows.
    pub expansion: Expansion,
}

/// How a filter grows that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expansion {
    /// As the server has it.
    #[default]
    Default,
    /// By a further part, so many times as large as the last: from 1 to 32,768.
    Factor(u16),
    /// Not at all: `NONSCALING`, or `EXPANSION 0`.
    Never,
}

/// What `BF.INFO` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BloomInfoField {
    /// For how many items there is room.
    Capacity,
    /// How many bytes of memory it has.
    Size,
    /// Of how many parts it consists.
    Filters,
    /// How many items were new.
    Items,
    /// By what factor it grows.
    Expansion,
}

const CAPACITY_MAX: i64 = 1 << 30;
const EXPANSION_MAX: i64 = 1 << 15;

const NONSCALING_EXPANDS: Refusal<'static> = Refusal::BadArgument("Nonscaling filters cannot expand");
const NO_ITEMS: Refusal<'static> = Refusal::WrongArity { command: "bf.insert", subcommand: None };

/// Why a value is none: it cannot be read, or it is out of range.
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

/// Of the two texts, that of what is wrong.
fn text(wrong: Wrong, unreadable: &'static str, out_of_range: &'static str) -> Refusal<'static> {
    Refusal::BadArgument(match wrong {
        Wrong::Unreadable => unreadable,
        Wrong::OutOfRange => out_of_range,
    })
}

/// RedisBloom ignores options that it does not know; here they are refused, as they were meant to say something.
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

/// RedisBloom has one text for values that cannot be read and for those out of range, and lets `NONSCALING` win over any
/// `EXPANSION`.
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
