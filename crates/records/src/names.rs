//! Resolves the name that a user gives a field to the position of the field, or to an error that helps the user.

use crate::{ConfigError, printable};

/// Maximum number of fields. Further fields are ignored, which bounds the memory of a header.
pub(crate) const FIELDS_MAX: usize = 65_536;

/// Maximum number of names that an error lists.
const NAMES_LISTED: usize = 40;

/// Returns the position of `field` among `names`. A name is tried first (the first of several equal names), then an
/// index that starts at 1.
pub(crate) fn place_of(field: &str, names: &[impl AsRef<str>]) -> Result<usize, ConfigError> {
    let by_name = names.iter().position(|name| name.as_ref() == field);
    let by_index =
        field.parse::<usize>().ok().and_then(|index| index.checked_sub(1)).filter(|&place| place < names.len());
    by_name.or(by_index).ok_or_else(|| ConfigError::UnknownField {
        field: field.into(),
        available: listed(names),
        suggestion: nearest_name(field, names.iter().map(AsRef::as_ref)).map(printable),
    })
}

/// Returns the position of `field` among the names of a header, which may contain a name twice.
pub(crate) fn place_in_header(field: &str, names: &[String]) -> Result<usize, ConfigError> {
    let mut places = names.iter().enumerate().filter(|(_, name)| *name == field).map(|(place, _)| place);
    if let (Some(first), Some(second)) = (places.next(), places.next()) {
        return Err(ConfigError::AmbiguousField { field: field.into(), first: first + 1, second: second + 1 });
    }
    place_of(field, names)
}

/// Returns the names in a comment line `#Fields: date time ...` (W3C, CloudFront) or `#fields<tab>ts<tab>uid ...`
/// (Zeek).
pub(crate) fn names_of_fields_line(line: &[u8]) -> Option<Vec<String>> {
    const WORD: &[u8] = b"#fields";
    let (word, names) = line.split_at_checked(WORD.len())?;
    if !word.eq_ignore_ascii_case(WORD) || !matches!(names.first(), Some(b':' | b'\t' | b' ')) {
        return None;
    }
    let names = names[1..].split(|byte| byte.is_ascii_whitespace()).filter(|name| !name.is_empty()).take(FIELDS_MAX);
    let names: Vec<String> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    (!names.is_empty()).then_some(names)
}

/// Returns the position for an index that starts at 1, for fields without names.
pub(crate) fn place_of_index(field: &str) -> Result<usize, ConfigError> {
    match field.parse::<usize>() {
        Ok(index) if (1..=FIELDS_MAX).contains(&index) => Ok(index - 1),
        _ => Err(ConfigError::NotAnIndex { field: field.into(), index_max: FIELDS_MAX }),
    }
}

/// Minimum similarity (Jaro-Winkler) of a name to a mistyped name for a suggestion.
const SUGGESTED_SIMILARITY_MIN: f64 = 0.8;

/// Returns the name that is most similar to a mistyped name, if it is similar enough to be the intended name. Upper and
/// lower case are not distinguished.
///
/// ```
/// let names = ["bloom", "timing"];
/// assert_eq!(firstseen_records::nearest_name("Blom", names.into_iter()), Some("bloom"));
/// assert_eq!(firstseen_records::nearest_name("clicks", names.into_iter()), None);
/// ```
pub fn nearest_name<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let near = names.map(|name| (strsim::jaro_winkler(&wanted, &name.to_lowercase()), name));
    let (similarity, name) = near.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (similarity > SUGGESTED_SIMILARITY_MIN).then_some(name)
}

/// Returns the names for an error message. A long list is shortened.
pub fn listed(names: &[impl AsRef<str>]) -> String {
    let mut list = names.iter().take(NAMES_LISTED).map(|name| printable(name.as_ref())).collect::<Vec<_>>().join(", ");
    if let Some(more) = names.len().checked_sub(NAMES_LISTED).filter(|&more| more > 0) {
        list.push_str(&format!(" and {more} more"));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_wins_over_an_index() {
        let names = ["3", "user", "time"];
        assert_eq!(place_of("3", &names), Ok(0));
        assert_eq!(place_of("2", &names), Ok(1));
        assert_eq!(place_of("time", &names), Ok(2));
    }

    #[test]
    fn a_name_of_two_columns_is_refused_and_their_numbers_are_not() {
        let names = ["id", "name", "id", "id"].map(str::to_owned);
        let error = place_in_header("id", &names).unwrap_err().to_string();
        assert_eq!(error, "two columns are called `id`: name one of them by its number, 1 or 3");
        assert_eq!(place_in_header("name", &names), Ok(1));
        assert_eq!(place_in_header("3", &names), Ok(2));
        assert!(place_in_header("5", &names).is_err());
    }

    #[test]
    fn names_in_an_error_have_no_control_characters() {
        let error = place_of("url", &["url\u{1b}[31m", "host"]).unwrap_err().to_string();
        let url = "url\\u{1b}[31m";
        assert_eq!(error, format!("there is no field `url` (did you mean `{url}`?); the fields are {url}, host"));
    }

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let error = place_of("usr", &["time", "user", "ad"]).unwrap_err().to_string();
        assert_eq!(error, "there is no field `usr` (did you mean `user`?); the fields are time, user, ad");
        let error = place_of("0", &["time", "user"]).unwrap_err().to_string();
        assert_eq!(error, "there is no field `0`; the fields are time, user");
        assert!(place_of_index("user").is_err());
        assert!(place_of_index("0").is_err());
        assert_eq!(place_of_index("4"), Ok(3));
    }
}
