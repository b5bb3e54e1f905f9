//! Periods of a history in which faults lasted. The laws excuse some verdicts in these periods, and require others.

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
