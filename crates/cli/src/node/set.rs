//! Settings of the command line in the place of those in a node's file, so that nodes can share a file: `--set KEY=VALUE`.
//!
//! Promises: an error about such a setting names it. Must not know: what settings there are.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A setting: `name=a`, `limits.streams_max=16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    key: String,
    value: String,
}

impl FromStr for Set {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = text.split_once('=').ok_or("give KEY=VALUE, as name=a or tls.ca=ca.pem")?;
        if key.split('.').any(str::is_empty) {
            return Err("the key has an empty part");
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--set {}={}", self.key, self.value)
    }
}

impl Set {
    /// Puts the setting into `table`; messages about it are about `place`.
    ///
    /// # Errors
    /// A part of the key before the last one is a value.
    pub(super) fn put<'a>(&'a self, table: &mut DeTable<'a>, place: Range<usize>) -> Result<(), String> {
        let (parts, last) =
            self.key.rsplit_once('.').map_or((None, self.key.as_str()), |(parts, last)| (Some(parts), last));
        let mut table = table;
        for part in parts.into_iter().flat_map(|parts| parts.split('.')) {
            let name = Spanned::new(place.clone(), Cow::Borrowed(part));
            let below =
                table.entry(name).or_insert_with(|| Spanned::new(place.clone(), DeValue::Table(DeTable::new())));
            let DeValue::Table(below) = below.get_mut() else {
                return Err(format!("{self}: {part} has no keys below it"));
            };
            table = below;
        }
        // A key that stays keeps its place in the file.
        table.remove(last);
        table.insert(Spanned::new(place.clone(), Cow::Borrowed(last)), Spanned::new(place, self.value()));
        Ok(())
    }

    /// Numbers, `true` and `false` are what they are in TOML; everything else is a text, without quotes.
    fn value(&self) -> DeValue<'_> {
        match DeValue::parse(&self.value).map(Spanned::into_inner) {
            Ok(value @ (DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::String(_))) => value,
            _ => DeValue::String(Cow::Borrowed(&self.value)),
        }
    }
}
