//! Draws a run from a seed: its flags, the window that they mean, and the records of each input.

use super::formats::Format;
use super::model::{ATHENS_FALLS_BACK_MS, Landmark, Late, Model, Period, Window, Zone};
use crate::run::Random;

const START_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: u64 = 365 * 24 * HOUR_MS;
/// Number of records at both ends of an input that have correct times. Few other records there could confirm or
/// contradict a time.
const QUIET_RECORDS: usize = 40;

#[derive(Debug)]
pub(super) struct Record {
    pub(super) text: String,
    /// Key and time of the record. `None` if the record cannot be parsed.
    pub(super) event: Option<(u64, u64)>,
}

/// Input of one start of the binary: records, file by file.
pub(super) type Inputs = Vec<Vec<Record>>;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) flags: String,
    pub(super) format: Format,
    pub(super) window: Window,
    pub(super) late: Late,
    /// Inputs of the starts. If there are several starts, a state connects them.
    pub(super) starts: Vec<Inputs>,
    /// Whether the first start is killed, and everything is read again.
    pub(super) is_killed: bool,
}

/// Kind and window as flags, and their meaning.
struct Filter {
    flags: String,
    window: Window,
    /// Mean time between two events, and the time of the first event.
    step_ms: u64,
    start_ms: u64,
    is_wall: bool,
}

pub(super) fn pick<T: Copy>(random: &mut Random, among: &[T]) -> T {
    among[random.below(among.len() as u64) as usize]
}

impl Plan {
    pub(super) fn draw(seed: u64) -> Self {
        let random = &mut Random(seed.wrapping_mul(0x9e37_79b9));
        let format = pick(random, &Format::ALL);
        let filter = Filter::draw(random, format);
        let is_killed = matches!(filter.window, Window::Unbounded) && !filter.is_wall && random.below(3) == 0;
        let (late, late_flag) = pick(
            random,
            &[(Late::PassedOn, "first-seen"), (Late::Dropped, "duplicate"), (Late::PassedOn, "undecided")],
        );
        let is_by_time = Model::is_by_time(filter.window);
        let is_timed = !filter.is_wall && format.time_flags().is_some() && (is_by_time || random.below(2) == 0);
        let time_flags = format.time_flags().filter(|_| is_timed).unwrap_or_default();
        let flags = format!("{} {time_flags} {} --late {late_flag} --seed {seed}", format.flags(), filter.flags);
        let mut stream = Stream::new(random, format, &filter, is_timed);
        let starts = if is_killed { 1 } else { 1 + random.below(3) };
        let starts = (0..starts).map(|_| (0..1 + random.below(3)).map(|_| stream.input(random)).collect()).collect();
        Self { flags, format, window: filter.window, late, starts, is_killed }
    }
}

impl Filter {
    fn draw(random: &mut Random, format: Format) -> Self {
        // If all records of a key are equal, the output cannot show which of them was passed on. The verdicts on them
        // must then not differ.
        let names: &[&str] = match format.time_flags() {
            None => &["unbounded", "wall", "landmark by count", "counting by count"],
            Some(_) => &[
                "unbounded",
                "wall",
                "stable",
                "timing",
                "timing by count",
                "generations",
                "generations by count",
                "counting",
                "counting by count",
                "landmark",
                "landmark by count",
                "calendar",
            ],
        };
        let name = pick(random, names);
        let (kind, by_time) = name.strip_suffix(" by count").map_or((name, true), |kind| (kind, false));
        let length = if by_time { 1000 + random.below(60_000) } else { 2 + random.below(400) };
        let drawn = match kind {
            "timing" | "generations" | "counting" => Self::sliding(random, kind, by_time, length),
            "landmark" => Self::landmark(by_time, length),
            "calendar" => Self::calendar(random),
            "stable" => Self::steady("--kind stable --memory 64KiB".to_owned(), Window::Fading),
            "wall" => {
                let flags = "--clock wall --window 24h --capacity 20000 --fpr 1e-8".to_owned();
                Self { is_wall: true, ..Self::steady(flags, Window::Unbounded) }
            }
            _ => {
                let room = pick(random, &["--capacity 20000", "", "--capacity 90 --growth geometric:2"]);
                Self::steady(format!("--window unbounded --fpr 1e-8 {room}"), Window::Unbounded)
            }
        };
        let step_ms = if drawn.step_ms == 0 { 1 + random.below(300) } else { drawn.step_ms };
        Self { step_ms, ..drawn }.cut(random, kind, by_time)
    }

    fn steady(flags: String, window: Window) -> Self {
        Self { flags, window, step_ms: 0, start_ms: START_MS, is_wall: false }
    }

    fn sliding(random: &mut Random, kind: &str, by_time: bool, length: u64) -> Self {
        let mut flags = format!("--kind {kind} --window {length}{}", if by_time { "ms" } else { "events" });
        let (mut lateness_ms, mut refresh) = (0, false);
        // A tick is at most a 128th of the window, and a jump a Qth of the window. Events are remembered for at most
        // two of them longer than the window.
        let parts = match kind {
            "timing" => {
                flags += pick(random, &["", " --cell-bits 16"]);
                refresh = random.below(2) == 0;
                flags += if refresh { " --rule refresh" } else { "" };
                lateness_ms = if by_time { length / 8 } else { 0 };
                if by_time && random.below(2) == 0 {
                    lateness_ms = random.below(length / 4);
                    flags += &format!(" --lateness {lateness_ms}ms");
                }
                128
            }
            "generations" => {
                let (cells, parts) = pick(random, &[("", 6), (" --cell-bits 16", 14), (" --sub-windows 3", 3)]);
                flags += cells;
                parts
            }
            _ if by_time => {
                let (cells, parts) = pick(random, &[("", 4), (" --sub-windows 2", 2), (" --sub-windows 7", 7)]);
                flags += cells;
                parts
            }
            // The queue of the last N arrivals is exact.
            _ => u64::MAX,
        };
        let slack = if parts == u64::MAX { 0 } else { 2 * length.div_ceil(parts) + 2 };
        flags += if parts == u64::MAX { " --fpr 1e-8" } else { " --capacity 20000 --fpr 1e-8" };
        Self::steady(flags, Window::Sliding { by_time, length, slack, lateness_ms, refresh })
    }

    fn landmark(by_time: bool, length: u64) -> Self {
        let (unit, landmark) =
            if by_time { ("ms", Landmark::Duration(length)) } else { ("events", Landmark::Events(length)) };
        let flags = format!("--window landmark:{length}{unit} --capacity 20000 --fpr 1e-8");
        Self::steady(flags, Window::Landmark(landmark))
    }

    fn calendar(random: &mut Random) -> Self {
        let (period_name, period, period_ms) = pick(
            random,
            &[
                ("hour", Period::Hour, HOUR_MS),
                ("day", Period::Day, 24 * HOUR_MS),
                ("week", Period::Week, 168 * HOUR_MS),
            ],
        );
        let mut zones = vec![
            ("UTC", Zone::Fixed { ahead_ms: 0 }),
            ("Asia/Kolkata", Zone::Fixed { ahead_ms: 19_800_000 }),
            ("Pacific/Honolulu", Zone::Fixed { ahead_ms: -36_000_000 }),
        ];
        // At the end of summer time an hour occurs twice, and the guarantee leaves open whether that counts as one
        // hour.
        if !matches!(period, Period::Hour) {
            zones.push(("Europe/Athens", Zone::Athens));
        }
        let (zone_name, zone) = pick(random, &zones);
        let flags = format!("--window landmark:{period_name}@{zone_name} --capacity 20000 --fpr 1e-8");
        let start_ms = ATHENS_FALLS_BACK_MS - random.below(4 * period_ms);
        let window = Window::Landmark(Landmark::Calendar(period, zone));
        Self { step_ms: period_ms / 120, start_ms, ..Self::steady(flags, window) }
    }

    /// Returns the same filter divided into slices, and with another layout if its kind allows that.
    fn cut(self, random: &mut Random, kind: &str, by_time: bool) -> Self {
        let slicings: &[&str] = match kind {
            _ if !by_time => &["none"],
            "counting" | "stable" => &["none", "horizontal:3"],
            _ => &["none", "horizontal:3", "vertical:4", "horizontal-vertical:2x3", "vertical-horizontal:3x2"],
        };
        let slicing = pick(random, slicings);
        let layouts: &[&str] = match slicing {
            "none" | "horizontal:3" if !matches!(kind, "counting" | "stable") => {
                &["", "--layout classic", "--layout partitioned"]
            }
            _ => &[""],
        };
        let layout = pick(random, layouts);
        Self { flags: format!("{} --slicing {slicing} {layout}", self.flags), ..self }
    }
}

/// Generator for the events of one random run, in the order of the input. The times of the events increase from record
/// to record, with exceptions: some events are slightly late, and some are far behind or ahead. The generator also
/// produces a few records that cannot be parsed.
struct Stream {
    format: Format,
    window: Window,
    is_timed: bool,
    keys: u64,
    step_ms: u64,
    now_ms: u64,
    number: usize,
}

impl Stream {
    fn new(random: &mut Random, format: Format, filter: &Filter, is_timed: bool) -> Self {
        let keys = 2 + random.below(500);
        let Filter { window, step_ms, start_ms, .. } = *filter;
        Self { format, window, is_timed, keys, step_ms, now_ms: start_ms, number: 0 }
    }

    fn input(&mut self, random: &mut Random) -> Vec<Record> {
        let records = 2 * QUIET_RECORDS + random.below(400) as usize;
        let mut input: Vec<Record> = (0..records)
            .map(|place| self.record(random, (QUIET_RECORDS..records - QUIET_RECORDS).contains(&place)))
            .collect();
        if random.below(4) == 0
            && let Some(last) = input.last_mut()
        {
            last.text.truncate(last.text.trim_end_matches(['\r', '\n']).len());
        }
        input
    }

    fn record(&mut self, random: &mut Random, may_be_odd: bool) -> Record {
        self.number += 1;
        self.now_ms += random.below(2 * self.step_ms);
        let odd = if may_be_odd { random.below(100) } else { 100 };
        if odd == 0
            && let Some(text) = self.format.unreadable(self.number, self.is_timed)
        {
            return Record { text, event: None };
        }
        let time_ms = match self.window {
            _ if odd == 1 => self.now_ms + 20 * YEAR_MS,
            Window::Sliding { by_time: true, length, slack, lateness_ms, .. } => match odd {
                2 => self.now_ms - length - lateness_ms - 3 * slack - random.below(length),
                3 => self.now_ms - random.below(2 * length),
                4 => {
                    self.now_ms += random.below(3 * length);
                    self.now_ms
                }
                _ => self.now_ms - random.below(1 + length / 16),
            },
            Window::Landmark(Landmark::Duration(length)) if odd == 2 => self.now_ms - random.below(2 * length),
            _ => self.now_ms,
        };
        let time_ms = time_ms - time_ms % self.format.time_step_ms();
        let key = random.below(self.keys);
        Record { text: self.format.record(self.number, key, time_ms), event: Some((key, time_ms)) }
    }
}
