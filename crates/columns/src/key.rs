//! Hashes the keys of rows, by the same rules for missing values as for records of text.

use std::borrow::Cow;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use firstseen_filter::{Digest, FilterSecret, append_part};
use firstseen_records::{ConfigError, EmptyKey, KeyNormalization, ParserConfig, normalize_url};

use crate::column::{Column, Values};
use crate::error::ColumnError;
use crate::path::ColumnPath;
use crate::text::Text;

/// The columns of the key, and how their values are hashed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    columns: Vec<ColumnPath>,
    /// Whether the key is the whole row, or all of it except some columns.
    is_whole: bool,
    normalization: KeyNormalization,
    empty_key: EmptyKey,
}

/// The key of a row.
pub(crate) enum RowKey {
    /// Digest of the key.
    Digest(Digest),
    /// The row has no key, because this column of the key has no value.
    Missing(usize),
}

impl Key {
    /// Finds the columns of the key in a schema.
    pub(crate) fn new(config: &ParserConfig, schema: &Schema) -> Result<Self, ColumnError> {
        let is_whole = config.key.is_empty();
        if !is_whole && !config.ignore.is_empty() {
            return Err(ConfigError::IgnoredWithKey.into());
        }
        let columns = if is_whole {
            whole_row(&config.ignore, schema)?
        } else {
            let columns = config.key.iter().map(|name| ColumnPath::find(name, schema));
            columns.collect::<Result<Vec<_>, _>>()?
        };
        if let Some(column) = columns.iter().find(|column| !Column::accepts(column.data_type())) {
            let data_type = column.data_type().clone();
            return Err(ColumnError::KeyType { column: column.name().to_owned(), data_type });
        }
        Ok(Self { columns, is_whole, normalization: config.normalization, empty_key: config.empty_key })
    }

    /// Returns the names of the key's columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(ColumnPath::name)
    }

    /// Returns whether the key is the whole row, or all of it except some columns.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns whether a row without a key ends the input.
    pub(crate) fn ends_input(&self) -> bool {
        self.empty_key == EmptyKey::Fail
    }

    /// Reads the columns of the key from a batch.
    pub(crate) fn columns(&self, batch: &RecordBatch) -> Result<Vec<Column>, ArrowError> {
        let columns = self.columns.iter().map(|path| {
            let column = Column::new(&path.column(batch)?)?;
            column.ok_or_else(|| ArrowError::SchemaError(format!("the type of column `{}` has changed", path.name())))
        });
        columns.collect()
    }

    /// Returns the values of the key of row `row` as text for users.
    pub(crate) fn parts(&self, columns: &[Column], row: usize) -> Vec<String> {
        let mut text = Text::default();
        let values = columns.iter().map(|column| {
            let value = column.values().get(row, &mut text).unwrap_or_default();
            String::from_utf8_lossy(&self.normalized(value)).into_owned()
        });
        values.collect()
    }

    fn normalized<'v>(&self, value: &'v [u8]) -> Cow<'v, [u8]> {
        match self.normalization {
            KeyNormalization::None => Cow::Borrowed(value),
            KeyNormalization::Url => normalize_url(value),
        }
    }
}

/// Returns all columns except the ignored ones.
fn whole_row(ignored: &[String], schema: &Schema) -> Result<Vec<ColumnPath>, ColumnError> {
    let ignored = ignored.iter().map(|name| ColumnPath::find(name, schema)).collect::<Result<Vec<_>, _>>()?;
    // A member of a struct cannot be left out, because the key has the column that contains it.
    if let Some(member) = ignored.iter().find(|path| path.place().is_none()) {
        return Err(ColumnError::IgnoredMember { column: member.name().to_owned() });
    }
    if schema.fields().is_empty() {
        return Err(ColumnError::NoColumns);
    }
    let places = 0..schema.fields().len();
    let columns: Vec<ColumnPath> = places
        .filter(|place| !ignored.iter().any(|path| path.place() == Some(*place)))
        .map(|place| ColumnPath::of_place(place, schema))
        .collect();
    if columns.is_empty() {
        return Err(ConfigError::NothingLeft { columns: schema.fields().len() }.into());
    }
    Ok(columns)
}

/// Memory for hashing, which is used again for the next row.
#[derive(Clone, Default)]
pub(crate) struct KeyHasher {
    text: Text,
    /// Parts of the key that were joined so far.
    joined: Vec<u8>,
    missing: String,
}

impl KeyHasher {
    /// Hashes the key of row `row`, whose values are in `values`.
    #[inline]
    pub(crate) fn hash(&mut self, key: &Key, values: &[Values<'_>], row: usize, secret: &FilterSecret) -> RowKey {
        match values {
            [column] if !key.is_whole => match column.get(row, &mut self.text) {
                Some(value) if has_value(value) || key.empty_key == EmptyKey::Value => {
                    RowKey::Digest(secret.digest(&key.normalized(value)))
                }
                None if key.empty_key == EmptyKey::Value => RowKey::Digest(secret.digest(b"")),
                _ => RowKey::Missing(0),
            },
            _ if key.is_whole => self.hash_whole(key, values, row, secret),
            _ => self.hash_parts(key, values, row, secret),
        }
    }

    fn hash_parts(&mut self, key: &Key, values: &[Values<'_>], row: usize, secret: &FilterSecret) -> RowKey {
        self.joined.clear();
        for (column, values) in values.iter().enumerate() {
            let value = values.get(row, &mut self.text).unwrap_or_default();
            if !has_value(value) && key.empty_key != EmptyKey::Value {
                return RowKey::Missing(column);
            }
            append_part(&key.normalized(value), &mut self.joined);
        }
        RowKey::Digest(secret.digest(&self.joined))
    }

    /// Hashes a whole row. Its last part lists the columns whose values are missing, so that a missing value differs
    /// from an empty one.
    fn hash_whole(&mut self, key: &Key, values: &[Values<'_>], row: usize, secret: &FilterSecret) -> RowKey {
        self.joined.clear();
        self.missing.clear();
        let mut is_empty = true;
        for (column, values) in values.iter().enumerate() {
            match values.get(row, &mut self.text) {
                Some(value) => {
                    is_empty &= !has_value(value);
                    append_part(&key.normalized(value), &mut self.joined);
                }
                None => {
                    let comma = if self.missing.is_empty() { "" } else { "," };
                    self.missing += &format!("{comma}{}", column + 1);
                    append_part(b"", &mut self.joined);
                }
            }
        }
        if is_empty && key.empty_key != EmptyKey::Value {
            return RowKey::Missing(0);
        }
        append_part(self.missing.as_bytes(), &mut self.joined);
        RowKey::Digest(secret.digest(&self.joined))
    }
}

/// Returns whether a value is more than blanks.
#[inline]
fn has_value(value: &[u8]) -> bool {
    match value.first() {
        None => false,
        Some(first) if !first.is_ascii_whitespace() => true,
        Some(_) => !value.trim_ascii().is_empty(),
    }
}
