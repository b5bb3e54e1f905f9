//! Splits and joins lists of field names in the value of a flag, such as `--key user,item`. A comma that belongs to a
//! name can be escaped, so every field name can be written in a list.

/// Splits a list of names at its commas. A comma that belongs to a name is written `\,`. Any other backslash is part of
/// its name.
pub(crate) fn split_names(list: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut letters = list.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, names.last_mut()) {
            (',', _) => names.push(String::new()),
            ('\\', Some(name)) if letters.next_if_eq(&',').is_some() => name.push(','),
            (_, Some(name)) => name.push(letter),
            (_, None) => {}
        }
    }
    names
}

/// Joins `names` into one list. The inverse of [`split_names`].
pub(crate) fn joined_names(names: &[String]) -> String {
    names.iter().map(|name| name.replace(',', "\\,")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_may_belong_to_a_name() {
        for (list, names) in [
            ("a", &["a"][..]),
            ("a,b", &["a", "b"]),
            (r"a\,b,c", &["a,b", "c"]),
            (r"\,", &[","]),
            (r"a\,", &["a,"]),
            (r"a\,\,b", &["a,,b"]),
            (r"user\.id,a\b", &[r"user\.id", r"a\b"]),
            (r"a\", &[r"a\"]),
            ("", &[""]),
            ("a,", &["a", ""]),
            (",a", &["", "a"]),
            ("Straße,время", &["Straße", "время"]),
        ] {
            assert_eq!(split_names(list), names, "{list}");
            assert_eq!(joined_names(&split_names(list)), list);
        }
    }
}
