//! Detects that every record of an input lacks the same wanted field, or has no value in it. In that case the user has
//! probably mistyped the name of the field, so the run must report an error.
//!
//! The error can be reported only at the end of the input, because a later record may still have the field. There is no
//! error if at least one record could be read completely, because that record has all wanted fields.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::names::{listed, nearest_name};
use crate::{ConfigError, ParsedBlock, RecordFormat, RejectReason, printable};

/// Result so far.
#[derive(Clone, Debug, Default)]
pub(crate) enum Lacking {
    /// No record was examined yet.
    #[default]
    Unknown,
    /// All readable records lack this field. `names` has the fields of the first record.
    All { field: Arc<str>, names: Vec<String> },
    /// All readable records have no value in this field.
    Empty { field: Arc<str> },
    /// A record has the field, or records lack different fields, so there is nothing to report.
    Nothing,
}

impl Lacking {
    /// Examines a block of records in `format`.
    pub(crate) fn note(&mut self, format: RecordFormat, bytes: &[u8], parsed: &ParsedBlock) {
        if !parsed.is_empty() {
            *self = Self::Nothing;
        }
        if matches!(self, Self::Nothing) {
            return;
        }
        for rejection in &parsed.rejections {
            let (field, is_empty) = match &rejection.reason {
                RejectReason::MissingField { field } => (field, false),
                RejectReason::NoKey { field } => (field, true),
                _ => continue,
            };
            match self {
                Self::Unknown if is_empty => *self = Self::Empty { field: Arc::clone(field) },
                Self::Unknown => {
                    let names = names(format, &bytes[rejection.span.range()]);
                    *self = Self::All { field: Arc::clone(field), names };
                }
                Self::All { field: first, .. } if first == field && !is_empty => {}
                Self::Empty { field: first } if first == field && is_empty => {}
                _ => *self = Self::Nothing,
            }
        }
    }

    /// Returns the error to report at the end of the input.
    pub(crate) fn error(&self) -> Option<ConfigError> {
        if let Self::Empty { field } = self {
            return Some(ConfigError::NoRecordHasValue { field: field.to_string() });
        }
        let Self::All { field, names } = self else { return None };
        let suggestion = names.iter().find(|name| name.rsplit('.').next() == Some(field)).cloned();
        let suggestion =
            suggestion.or_else(|| nearest_name(field, names.iter().map(String::as_str)).map(str::to_owned));
        Some(ConfigError::NoRecordHas {
            field: field.to_string(),
            available: (!names.is_empty()).then(|| listed(names)),
            suggestion: suggestion.map(|name| printable(&name)),
        })
    }
}

/// Returns the names of the fields in a record, in the form in which a user writes them in a flag. The function is used
/// for suggestions, and only for formats whose records contain the names. Fields whose value is null are left out.
fn names(format: RecordFormat, record: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    if let (RecordFormat::Jsonl | RecordFormat::Cdxj, Some(start)) = (format, memchr::memchr(b'{', record))
        && let Ok(members) = serde_json::from_slice(&record[start..])
    {
        collect("", &members, &mut names);
    }
    names
}

fn collect(path: &str, members: &Map<String, Value>, names: &mut Vec<String>) {
    for (name, value) in members {
        let step = name.replace('.', "\\.");
        let name = if path.is_empty() { step } else { format!("{path}.{step}") };
        match value {
            Value::Null => {}
            Value::Object(members) if !members.is_empty() => collect(&name, members, names),
            _ => names.push(name),
        }
    }
}
