//! Where the key and the time of a message come from, as users write it.

use std::fmt;
use std::str::FromStr;

/// One part of the key of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `@key`: the key of the message.
    MessageKey,
    /// `@value`: the whole value of the message.
    Value,
    /// `@header:NAME`: the value of a header.
    Header(String),
    /// `json:a.b,c`: fields of the value, which is a JSON object.
    Json(Vec<String>),
}

impl FromStr for KeySource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(fields) = text.strip_prefix("json:") {
            let fields: Vec<String> = fields.split(',').map(str::to_owned).collect();
            return if fields.iter().any(String::is_empty) {
                Err("name the fields after `json:`, such as json:user or json:user.id,ad".to_owned())
            } else {
                Ok(Self::Json(fields))
            };
        }
        match text.strip_prefix("@header:") {
            Some("") => Err("name the header after `@header:`, such as @header:id".to_owned()),
            Some(name) => Ok(Self::Header(name.to_owned())),
            None if text == "@key" => Ok(Self::MessageKey),
            None if text == "@value" => Ok(Self::Value),
            None => Err("choose @key, @value, @header:NAME or json:FIELD[,FIELD]".to_owned()),
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MessageKey => f.write_str("@key"),
            Self::Value => f.write_str("@value"),
            Self::Header(name) => write!(f, "@header:{name}"),
            Self::Json(fields) => write!(f, "json:{}", fields.join(",")),
        }
    }
}

/// All parts of the key of an event.
///
/// A key of one part is hashed as the bytes of that part, and a key that consists only of JSON fields is hashed as
/// `firstseen dedup --format jsonl --key` hashes these fields. Any other key is hashed with
/// [`FilterSecret::digest_parts`](firstseen_filter::FilterSecret::digest_parts): first the parts that are not JSON, in
/// the order of the command line, and then the digest of all JSON fields as the last part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySources {
    /// Parts that are not fields of JSON.
    pub(crate) raw: Vec<KeySource>,
    /// Fields of JSON.
    pub(crate) json: Vec<String>,
}

impl KeySources {
    /// Collects the parts of a key.
    pub fn new(sources: impl IntoIterator<Item = KeySource>) -> Self {
        let mut all = Self { raw: Vec::new(), json: Vec::new() };
        for source in sources {
            match source {
                KeySource::Json(fields) => all.json.extend(fields),
                source => all.raw.push(source),
            }
        }
        all
    }

    /// Returns whether the key depends on the value of a message.
    pub(crate) fn needs_value(&self) -> bool {
        !self.json.is_empty() || self.raw.contains(&KeySource::Value)
    }
}

impl fmt::Display for KeySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.raw.iter().map(ToString::to_string).collect();
        if !self.json.is_empty() {
            parts.push(KeySource::Json(self.json.clone()).to_string());
        }
        f.write_str(&parts.join(" "))
    }
}

/// Where the time of an event comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeSource {
    /// `@timestamp`: the time that the log keeps with the message.
    #[default]
    Timestamp,
    /// `json:FIELD`: a field of the value, which is a JSON object.
    Json(String),
}

impl FromStr for TimeSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("json:") {
            Some("") => Err("name the field after `json:`, such as json:time".to_owned()),
            Some(field) => Ok(Self::Json(field.to_owned())),
            None if text == "@timestamp" => Ok(Self::Timestamp),
            None => Err("choose @timestamp or json:FIELD".to_owned()),
        }
    }
}

impl fmt::Display for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timestamp => f.write_str("@timestamp"),
            Self::Json(field) => write!(f, "json:{field}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_times_are_written_as_they_are_read() {
        for text in ["@key", "@value", "@header:id", "json:user.id,ad"] {
            assert_eq!(text.parse::<KeySource>().unwrap().to_string(), text);
        }
        for text in ["key", "@header:", "json:", "json:a,,b", ""] {
            assert!(text.parse::<KeySource>().is_err(), "{text}");
        }
        assert_eq!("json:at".parse::<TimeSource>().unwrap().to_string(), "json:at");
        assert!("@key".parse::<TimeSource>().is_err());
    }

    #[test]
    fn fields_of_several_flags_are_one_list() {
        let sources = ["json:a", "@key", "json:b"].map(|text| text.parse().unwrap());
        assert_eq!(KeySources::new(sources).to_string(), "@key json:a,b");
    }
}
