//! Forms of input, and a simple model that reads the key and the time of a record that is clearly undamaged.

const START_S: u64 = 1_728_500_000;

/// Form of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Lines,
    Csv,
    CsvWithoutHeader,
    Tsv,
    Json,
    Log,
    Index,
}

impl Shape {
    pub(super) const ALL: [Self; 7] =
        [Self::Lines, Self::Csv, Self::CsvWithoutHeader, Self::Tsv, Self::Json, Self::Log, Self::Index];

    pub(super) fn flags(self) -> &'static str {
        match self {
            Self::Lines => "--format lines",
            Self::Csv => "--format csv --key k",
            Self::CsvWithoutHeader => "--format csv --no-header --key 2",
            Self::Tsv => "--format tsv --key k",
            Self::Json => "--format jsonl --key u.k",
            Self::Log => "--format clf",
            Self::Index => "--format cdxj",
        }
    }

    pub(super) fn time_flags(self) -> &'static str {
        match self {
            Self::Csv | Self::Tsv => "--time t",
            Self::CsvWithoutHeader => "--time 1",
            Self::Json => "--time t",
            Self::Lines | Self::Log | Self::Index => "",
        }
    }

    pub(super) fn has_times(self) -> bool {
        self != Self::Lines
    }

    pub(super) fn header(self) -> &'static str {
        match self {
            Self::Csv => "t,k,n\n",
            Self::Tsv => "t\tk\tn\n",
            _ => "",
        }
    }

    /// Returns a record of this form, including its newline. `time_s` is the time of the record in seconds after the
    /// beginning of the input. `serial` is a number that occurs only once, so records with the same key still differ.
    /// The form `Lines` contains only the key and does not use the other numbers.
    pub(super) fn record(self, key: u64, time_s: u64, serial: u64) -> String {
        let time_s = START_S + time_s;
        match self {
            Self::Lines => format!("line {key}\n"),
            Self::Csv | Self::CsvWithoutHeader if serial.is_multiple_of(5) => {
                format!("{time_s},\"key {key}\",\"n, {serial}\"\n")
            }
            Self::Csv | Self::CsvWithoutHeader => format!("{time_s},key {key},{serial}\n"),
            Self::Tsv => format!("{time_s}\tkey {key}\t{serial}\n"),
            Self::Json => format!("{{\"t\":{time_s},\"u\":{{\"k\":\"key {key}\"}},\"n\":{serial}}}\n"),
            Self::Log => {
                let (day, second) = (10 + time_s / 86_400 % 15, time_s % 86_400);
                let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
                format!(
                    "host{key} - - [{day:02}/Oct/2024:{hour:02}:{minute:02}:{second:02} +0000] \"GET /{key} HTTP/1.1\" 200 {serial}\n"
                )
            }
            Self::Index => {
                let (day, second) = (10 + time_s / 86_400 % 15, time_s % 86_400);
                let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
                format!("com,key{key})/ 202410{day:02}{hour:02}{minute:02}{second:02} {{\"n\": \"{serial}\"}}\n")
            }
        }
    }

    /// Returns whether quotes may join lines in this form.
    pub(super) fn has_quotes(self) -> bool {
        matches!(self, Self::Csv | Self::CsvWithoutHeader)
    }

    /// Reads a line that has the form of [`Self::record`], and returns its key and its time in seconds. Any numbers are
    /// accepted in the line. Returns `None` for a line of any other form, such as a damaged one.
    pub(super) fn read(self, line: &[u8]) -> Option<(u64, u64)> {
        let line = std::str::from_utf8(line).ok()?;
        let line = line.strip_suffix('\r').unwrap_or(line);
        let sound = [1, 5].map(|serial| form(self.record(1, 1, serial).trim_end()));
        if !sound.contains(&form(line)) {
            return None;
        }
        let numbers: Vec<u64> =
            line.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect();
        match (self, numbers.as_slice()) {
            (Self::Lines, [key]) => Some((*key, 0)),
            (Self::Csv | Self::CsvWithoutHeader | Self::Tsv | Self::Json, [time_s, key, _]) => Some((*key, *time_s)),
            (Self::Log, [key, day, 2024, hour, minute, second, 0, path, ..]) if key == path => {
                Some((*key, ((day * 24 + hour) * 60 + minute) * 60 + second))
            }
            (Self::Index, [key, time, _]) if time / 100_000_000 == 202_410 => {
                let [day, hour, minute, second] = [1_000_000, 10_000, 100, 1].map(|unit| time / unit % 100);
                Some((*key, ((day * 24 + hour) * 60 + minute) * 60 + second))
            }
            _ => None,
        }
    }

    /// Returns whether a damaged record may still have this key.
    pub(super) fn may_have(self, line: &[u8], key: u64) -> bool {
        String::from_utf8_lossy(line)
            .split(|letter: char| !letter.is_ascii_digit())
            .any(|digits| digits == key.to_string())
    }
}

/// Returns the line with each number replaced by one letter.
fn form(line: &str) -> String {
    let mut form = String::new();
    for letter in line.chars() {
        match letter {
            '0'..='9' if form.ends_with('#') => {}
            '0'..='9' => form.push('#'),
            letter => form.push(letter),
        }
    }
    form
}
