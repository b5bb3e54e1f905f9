//! Finds out which times confirm or contradict the times of the last records of an input file.
//!
//! A record whose time is far ahead of the other times is plausible only if later records have similar times. For the
//! last records of a file, these later records are usually at the beginning of the next file.
//!
//! However, the next file may begin long before the present file ended. This happens if rotated logs are named in the
//! wrong order, or if the files are logs of different hosts. The records of the next file then say nothing about the
//! end of the present file. In that case, the last records of the present file are compared with its earlier records.
//!
//! All functions of this module are pure. They determine how far a file has advanced from the times of several records
//! that agree. A single record with a wrong time therefore does not mislead them.

use firstseen_filter::AHEAD_EVENTS_MAX;

/// Number of records at the end of a file from which its progress in time is computed.
const LAST_EVENTS: usize = 16;

/// A gap between times is wide if it is this many times as long as the usual gap.
const WIDE: u64 = 16;

/// Result of comparing the end of a file with the beginning of the next file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Times that may confirm the last records of this file.
    pub(crate) ahead_ms: Vec<u64>,
    /// Whether the next file begins before this one ended. The last records of this file may then be right although no
    /// time confirms them.
    pub(crate) is_older: bool,
}

/// Compares the end of a file with the beginning of the next file, to find the times that can confirm the last records
/// of the first file.
///
/// `last_ms` contains the times of the last records of the first file, and `next_ms` contains the times of the first
/// records of the next file. A time that is at most `step_ms` ahead of the other times needs no confirmation.
pub(crate) fn behind(last_ms: &[u64], next_ms: Vec<u64>, step_ms: u64, present_ms: u64) -> Behind {
    let before_burst_ms = before_burst_ms(&last_ms[last_ms.len().saturating_sub(AHEAD_EVENTS_MAX)..], step_ms);
    let last_ms = &last_ms[last_ms.len().saturating_sub(LAST_EVENTS)..];
    let reached_ms = reached_ms(last_ms, step_ms, present_ms);
    let mut sorted_ms = next_ms.clone();
    sorted_ms.sort_unstable();
    let middle_ms = sorted_ms.get(sorted_ms.len() / 2).copied().unwrap_or(u64::MAX);
    match reached_ms {
        // The next file continues at the point that this file had reached before its times went wrong.
        _ if before_burst_ms.is_some_and(|before_ms| before_ms <= middle_ms) => {
            Behind { ahead_ms: next_ms, is_older: false }
        }
        Some(reached_ms) if middle_ms < reached_ms => {
            Behind { ahead_ms: vec![reached_ms; AHEAD_EVENTS_MAX], is_older: true }
        }
        Some(_) => Behind { ahead_ms: next_ms, is_older: false },
        // The next file has only one record.
        None => Behind { is_older: last_ms.last().is_some_and(|last_ms| middle_ms < *last_ms), ahead_ms: next_ms },
    }
}

/// Returns the time that the last records of a file have reached, which is the greatest of their times that can be
/// trusted.
///
/// The time of a record is trusted only if at least half of the records after it have about the same time or a later
/// time. A single wrong time is therefore ignored. Times in the future are never trusted, because a wrong clock may
/// have written all of the last records.
fn reached_ms(last_ms: &[u64], step_ms: u64, present_ms: u64) -> Option<u64> {
    let confirmed_ms = last_ms.iter().enumerate().filter(|(index, time_ms)| {
        let rest_ms = &last_ms[index + 1..];
        let agree = rest_ms.iter().filter(|other_ms| other_ms.saturating_add(step_ms) >= **time_ms).count();
        !rest_ms.is_empty() && 2 * agree >= rest_ms.len() && **time_ms <= present_ms.saturating_add(step_ms)
    });
    confirmed_ms.map(|(_, time_ms)| *time_ms).max()
}

/// Finds out whether some of the last records of a file have times that are far ahead of the other times. The function
/// sorts the times, and looks for a wide gap in the later half of them. A gap is wide if it is much longer than the
/// usual gap between two times. The times after a wide gap are considered wrong.
///
/// Returns the last time before the gap, or `None` if there is no wide gap.
fn before_burst_ms(last_ms: &[u64], step_ms: u64) -> Option<u64> {
    let mut sorted_ms = last_ms.to_vec();
    sorted_ms.sort_unstable();
    let mut gaps_ms: Vec<u64> = sorted_ms.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let middle = gaps_ms.len() / 2;
    let upper_ms = gaps_ms.get(middle..)?.to_vec();
    gaps_ms.sort_unstable();
    let wide_ms = step_ms.max(gaps_ms.get(middle)?.saturating_mul(WIDE));
    let place = middle + upper_ms.iter().position(|gap_ms| *gap_ms > wide_ms)?;
    sorted_ms.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_MS: u64 = 60;
    const NOW_MS: u64 = 1_000_000;
    const FAR_MS: u64 = 500_000;

    fn behind_of(last_ms: &[u64], next_ms: &[u64]) -> Behind {
        behind(last_ms, next_ms.to_vec(), STEP_MS, NOW_MS)
    }

    fn older(reached_ms: u64) -> Behind {
        Behind { ahead_ms: vec![reached_ms; AHEAD_EVENTS_MAX], is_older: true }
    }

    #[test]
    fn a_next_file_that_goes_on_bears_out_or_contradicts() {
        for next_ms in [&[500, 600, 700][..], &[300, 400, 500], &[FAR_MS; 4], &[]] {
            assert_eq!(
                behind_of(&[100, 200, 300, 400], next_ms),
                Behind { ahead_ms: next_ms.to_vec(), is_older: false }
            );
        }
        assert!(!behind_of(&[100, 200, FAR_MS], &[201, 202]).is_older, "the broken end of a file is contradicted");
        assert!(!behind_of(&[], &[7]).is_older);
    }

    #[test]
    fn an_older_file_says_nothing_against_the_end_of_a_newer_one() {
        assert_eq!(behind_of(&[100, 200, 300, 400], &[1, 2, 3]), older(300));
        assert_eq!(behind_of(&[300, 400, 390], &[1, 2, 3, FAR_MS]), older(400));
        assert_eq!(behind_of(&[400], &[1]), Behind { ahead_ms: vec![1], is_older: true });
    }

    #[test]
    fn a_burst_of_broken_times_is_contradicted_by_a_file_that_goes_on() {
        let right_ms: Vec<u64> = (1..=200).map(|event| 100 * event).collect();
        let next_ms: Vec<u64> = (201..=300).map(|event| 100 * event).collect();
        for burst in [2, 20, 127] {
            let broken_ms: Vec<u64> = (0..burst).map(|event| FAR_MS + event * 40_000).collect();
            let last_ms = [&right_ms[..], &broken_ms].concat();
            assert_eq!(behind_of(&last_ms, &next_ms), Behind { ahead_ms: next_ms.clone(), is_older: false }, "{burst}");
        }
        assert!(behind_of(&right_ms, &[1, 2, 3]).is_older && !behind_of(&right_ms, &next_ms).is_older);
    }

    #[test]
    fn a_broken_time_is_never_how_far_a_file_has_come() {
        let right_ms: Vec<u64> = (1..=40).map(|event| 1000 * event).collect();
        for place in 0..right_ms.len() {
            for broken_ms in [FAR_MS, 2 * NOW_MS, u64::MAX] {
                let mut last_ms = right_ms.clone();
                last_ms[place] = broken_ms;
                let Behind { ahead_ms, is_older } = behind_of(&last_ms, &[1, 2, 3]);
                assert!(is_older && (38_000..=40_000).contains(&ahead_ms[0]), "{place}: {ahead_ms:?}");
            }
        }
        // Times in the future are ignored, no matter how many there are.
        assert_eq!(behind_of(&[100, 150, 2 * NOW_MS, 2 * NOW_MS, 2 * NOW_MS], &[1]), older(150));
    }
}
