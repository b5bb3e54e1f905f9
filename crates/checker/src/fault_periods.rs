//! Periods of a history in which faults lasted. The laws excuse some verdicts in these periods, and require others.

/// Time in microseconds within which a node notices that its machine was suspended: other nodes ping it four times a
/// second, and a ping takes some milliseconds.
const STANDSTILL_NOTICED_US: u64 = 275_000;

/// Periods in which faults lasted, each with its begin and end in simulated microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPeriods {
    /// Periods in which some node may not have been reachable.
    pub unreachable: Vec<(u64, u64)>,
    /// Periods during which the disk of a node hung and no other fault happened. A law requires verdicts in these
    /// periods, so the list contains a hang only if every slice has a complete copy on another node.
    pub hangs: Vec<(u64, u64)>,
    /// Periods in which the clock of a node was wrong.
    pub wrong_clocks: Vec<(u64, u64)>,
    /// Periods in which a machine was suspended with all its clocks.
    pub standstills: Vec<(u64, u64)>,
}

impl FaultPeriods {
    /// Returns how long a machine was suspended whose node may have answered in the given period, in microseconds,
    /// before the node knew of it. The result is the longest such time, or 0.
    pub fn suspended_us(&self, began_us: u64, ended_us: u64) -> u64 {
        let unnoticed = self.standstills.iter().filter(|(from_us, until_us)| {
            began_us <= until_us.saturating_add(STANDSTILL_NOTICED_US) && ended_us >= *from_us
        });
        unnoticed.map(|(from_us, until_us)| until_us.saturating_sub(*from_us)).max().unwrap_or(0)
    }
}
