//! Errors of a schema that does not fit the configuration.

use std::sync::Arc;

use arrow_schema::DataType;
use firstseen_records::ConfigError;

/// Why the columns of a schema cannot be read as the configuration asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// The configuration is wrong for records of any form, or names a column that does not exist.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Values of this type cannot be hashed.
    #[error(
        "the column `{column}` has values of type {data_type}, which cannot be part of a key: name other columns with \
         --key, or leave this one out with --ignore"
    )]
    KeyType {
        /// Name of the column.
        column: String,
        /// Type of its values.
        data_type: DataType,
    },
    /// Values of this type are not times.
    #[error(
        "the column `{column}` has values of type {data_type}, which are not times: name another column with --time"
    )]
    TimeType {
        /// Name of the column.
        column: String,
        /// Type of its values.
        data_type: DataType,
    },
    /// The form of times was given for a column that does not contain texts or numbers.
    #[error(
        "--time-format describes times that are written as text or as numbers, and the column `{column}` has values of \
         type {data_type}: leave it out"
    )]
    TimeFormat {
        /// Name of the column.
        column: String,
        /// Type of its values.
        data_type: DataType,
    },
    /// Several columns were named for the time.
    #[error("--time names {columns} columns, and the time of a row is in one column")]
    SeveralTimes {
        /// Number of columns that were named.
        columns: usize,
    },
    /// A row has no key, and the configuration asks to end the input in this case.
    #[error("row {row}: its key column `{column}` has no value, and --empty-key fail ends the run there")]
    EmptyKey {
        /// Number of the row in its file, starting at 1.
        row: u64,
        /// Name of the column.
        column: Arc<str>,
    },
    /// A member of a struct cannot be left out of the key.
    #[error("--ignore `{column}` names a member of a column, and only whole columns can be left out: name the column")]
    IgnoredMember {
        /// Name of the member.
        column: String,
    },
    /// The table has no columns.
    #[error("the table has no columns, so its rows have no key")]
    NoColumns,
    /// The columns of a further file differ from those of the first file.
    #[error("its columns differ from those of the first file: {difference}; give files of one shape")]
    OtherColumns {
        /// The first difference.
        difference: String,
    },
}
