//! Settings that are given on the command line (`--set KEY=VALUE`) and replace settings of the configuration file.
//! Several nodes can therefore share one file. If a setting is wrong, the error message shows the setting as the user
//! wrote it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A setting such as `name=a` or `limits.streams_max=16`.
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
    /// Inserts the setting into `table`. Error messages about the setting refer to `place`.
    ///
    /// # Errors
    /// Returns an error if a part of the key before its last part is a value and not a table.
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
        // The old entry is removed first, because an existing key would keep its position in the file.
        table.remove(last);
        table.insert(Spanned::new(place.clone(), Cow::Borrowed(last)), Spanned::new(place, self.value()));
        Ok(())
    }

    /// Returns the value. Numbers, `true` and `false` have their TOML type. Any other value is a string, written
    /// without quotes.
    fn value(&self) -> DeValue<'_> {
        match DeValue::parse(&self.value).map(Spanned::into_inner) {
            Ok(value @ (DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::String(_))) => value,
            _ => DeValue::String(Cow::Borrowed(&self.value)),
        }
    }
}
