//! Events as lines of text, for programs that read logs.
//!
//! Each event is one line. Equal events have equal lines, and no field needs quotes.
//!
//! This module does not depend on where the lines go.

use std::fmt::Write;

use super::Event;

/// Text format of an event. Keys are written as 16 hexadecimal digits, because many JSON readers would round them if
/// they were numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Comma-separated values, after a header line.
    Csv,
    /// One JSON object per line.
    JsonLines,
}

impl TextFormat {
    /// Returns the line before all events, including its line break.
    pub fn header(self) -> Option<&'static str> {
        match self {
            Self::Csv => Some("time_ms,key,site\n"),
            Self::JsonLines => None,
        }
    }

    /// Appends the line of `event`, including its line break.
    ///
    /// ```
    /// use firstseen_eval::stream::{Event, TextFormat};
    /// let event = Event { time_ms: 1_000_000, key: 0xfeed, site: 3 };
    /// let line = |format: TextFormat| {
    ///     let mut text = String::new();
    ///     format.push_line(event, &mut text);
    ///     text
    /// };
    /// assert_eq!(line(TextFormat::Csv), "1000000,000000000000feed,3\n");
    /// assert_eq!(line(TextFormat::JsonLines), "{\"time_ms\":1000000,\"key\":\"000000000000feed\",\"site\":3}\n");
    /// ```
    pub fn push_line(self, event: Event, text: &mut String) {
        let Event { time_ms, key, site } = event;
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Csv => writeln!(text, "{time_ms},{key:016x},{site}"),
            Self::JsonLines => writeln!(text, r#"{{"time_ms":{time_ms},"key":"{key:016x}","site":{site}}}"#),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Keys, StreamSpec};
    use super::*;

    fn lines(format: TextFormat, events: &[Event]) -> String {
        let mut text = format.header().unwrap_or_default().to_owned();
        events.iter().for_each(|event| format.push_line(*event, &mut text));
        text
    }

    /// Returns the events of a stream, and an event with the greatest possible values.
    fn events() -> Vec<Event> {
        let spec = StreamSpec { sites: 5, home_share: 0.5, ..StreamSpec::new(100, Keys::Uniform { keys: 30 }) };
        let greatest = Event { time_ms: u64::MAX, key: u64::MAX, site: u32::MAX };
        spec.events(1).unwrap().chain([greatest, Event { time_ms: 0, key: 0, site: 0 }]).collect()
    }

    #[test]
    fn csv_is_read_back_as_it_was() {
        let text = lines(TextFormat::Csv, &events());
        let (header, rows) = text.split_once('\n').unwrap();
        assert_eq!(header, "time_ms,key,site");
        let read = rows.lines().map(|row| {
            let fields: Vec<&str> = row.split(',').collect();
            assert_eq!((fields.len(), fields[1].len()), (3, 16), "{row}");
            let key = u64::from_str_radix(fields[1], 16).unwrap();
            Event { time_ms: fields[0].parse().unwrap(), key, site: fields[2].parse().unwrap() }
        });
        assert!(read.eq(events()));
    }

    #[test]
    fn json_lines_are_read_back_as_they_were() {
        let text = lines(TextFormat::JsonLines, &events());
        let read = text.lines().map(|line| {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            let key = u64::from_str_radix(object["key"].as_str().unwrap(), 16).unwrap();
            let site = object["site"].as_u64().unwrap() as u32;
            Event { time_ms: object["time_ms"].as_u64().unwrap(), key, site }
        });
        assert!(read.eq(events()));
    }
}
