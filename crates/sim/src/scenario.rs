//! The scenario of a run: everything in it is drawn from the seed.
//!
//! Promises: the same seed gives the same scenario. Must not know: how it is carried out.

use std::fmt;

use firstseen_routing::{ClockSource, CutOff, Durability, OwnerLimits, WhenLost};

use crate::alteration::{Alteration, STORM_SLICINGS};
use crate::clock::CLOCK_SKEW_MS_MAX;
use crate::dice::Dice;
use crate::door_use::DoorUse;
use crate::faults::Fault;
use crate::tree::Tree;

/// Every form, and most often the one in which all events share all slices.
const SLICINGS: [&str; 6] =
    ["vertical:7", "vertical:7", "vertical:7", "horizontal:5", "horizontal-vertical:2x4", "vertical-horizontal:3x2"];
/// Calls must go on until a node that was lost is back, which takes an election if it was the leader.
const RESTART_PAUSE_MAX_MS: u64 = 400;
/// Calls must go on before, during and after a partition.
const PARTITION_PAUSE_MAX_MS: u64 = 2_200;
/// In a tree, an event passes more nodes.
const TREE_CALLS: u32 = 40;
/// The latency is higher then, as the steps of the simulation are longer.
const PARTITION_LATENCY_MS: u64 = 20;
const PARTITION_DEADLINE_MS: u64 = 3_000;
/// The dice of trees fall independently of the other dice of a seed; so do the ones below.
const OF_TREES: u64 = 0x7_2EE5 << 32;
/// The dice of verdicts for lost slices.
const OF_LOSSES: u64 = 0x1055 << 32;
/// The dice of copies.
const OF_COPIES: u64 = 0xC_0B1E << 32;
/// The dice of moves.
const OF_MOVES: u64 = 0x30_0E5 << 32;
/// A slice that moves waits for a retry horizon, so that is short.
const MOVES_HORIZON_MS: u32 = 4_000;
/// Slices must have the time to arrive.
const MOVES_CALLS: u32 = 100;
/// The dice of storms.
const OF_STORMS: u64 = 0x5_7013 << 32;
const STORM_MS: u64 = 20_000;
/// How often copies are compared in a storm.
const STORM_RESCAN_MS: u64 = 3_000;
/// In a storm, submissions are tried again until they would be too late.
const STORM_HORIZON_MS: u32 = 8_000;
/// The dice of disks.
const OF_DISKS: u64 = 0xD_15C5 << 32;
/// The dice of cut-offs.
const OF_CUT_OFFS: u64 = 0xC_070F << 32;
/// How late an event may come and still be judged exactly: longer than a message takes.
const LATENESS_MS: u64 = 5_000;
/// The least of that.
const LATENESS_MS_MIN: u64 = 200;
/// How long a node records without a message from a majority: longer than an election takes.
const LEASE_MS: u64 = 2_000;
/// The dice of broken times.
const OF_BROKEN_TIMES: u64 = 0xB40_4E7;
/// The dice of disks that hang.
const OF_HANGS: u64 = 0x8A_9C5 << 32;
/// Calls of a producer while disks hang, and most milliseconds between two of them.
const HANG_CALLS: u32 = 120;
const HANG_PAUSE_MAX_MS: u64 = 2_000;

/// The faults while producers submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nemesis {
    /// Delays only, which reorder messages of different connections.
    Delay,
    /// Connections are reset again and again: requests and replies in flight are lost.
    Reset,
    /// A node's links to the others are held and released.
    Hold,
    /// A node's process ends without notice, with everything in its memory, and is started again.
    Restart,
    /// A site, with its node and its producers, is cut off from the others for ten seconds.
    Partition,
    /// A node loses its power: its process ends, and data that it has not synced is lost, or a part of it.
    PowerCut,
    /// All nodes lose their power at once.
    Blackout,
    /// The disk of a node's journal is full for a while.
    DiskFull,
    /// As a restart, but the others go on without the node meanwhile.
    Outage,
    /// A node cannot reach the others until they have gone on without it; producers reach it.
    Isolate,
    /// The disk of a node's journal hangs in a sync, for a second or a minute.
    DiskHang,
    /// The clock of a node is set by far more than clocks may differ, for some seconds, or is that wrong when its
    /// process starts.
    WrongClock,
    /// A machine stands still with its clocks until the others have gone on without its node, and goes on as if no time had passed.
    Standstill,
    /// A node is stopped as an operator stops it, and started again.
    Stop,
    /// All faults, two at a time, and then none any more.
    Storm,
    /// A node answers alone, and is cut off with a producer beside it while the others go on without it, for windows on end.
    CutOff,
}

impl Nemesis {
    /// Those for a filter in no tree.
    pub const ALL: [Self; 4] = [Self::Delay, Self::Reset, Self::Hold, Self::Restart];
    /// Those for a durable filter.
    pub const OF_DISKS: [Self; 5] = [Self::Restart, Self::PowerCut, Self::PowerCut, Self::Blackout, Self::DiskFull];
    /// Those for a filter whose slices have copies.
    pub const OF_COPIES: [Self; 5] = [Self::Restart, Self::Outage, Self::Outage, Self::Isolate, Self::Reset];
    /// Those for a filter whose slices move.
    pub const OF_MOVES: [Self; 5] = [Self::Delay, Self::Reset, Self::Hold, Self::Restart, Self::PowerCut];
    /// Those for a tree over several sites.
    pub const OF_TREES: [Self; 5] = [Self::Delay, Self::Reset, Self::Hold, Self::Restart, Self::Partition];
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The seed of everything, also of the simulated network.
    pub seed: u64,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// The tree that the filter is the root of. Every node is a site then, and producers are at sites.
    pub tree: Option<Tree>,
    /// The clock by which events are stamped.
    pub clock: ClockSource,
    /// How the filter is cut.
    pub slicing: &'static str,
    /// The filter's kind and window.
    pub kind: &'static str,
    /// The window, in milliseconds: longer than the run, or short.
    pub window_ms: u64,
    /// How late an event may come and still be judged exactly, in milliseconds.
    pub lateness_ms: u64,
    /// How long a node records without a message from a majority, in milliseconds.
    pub lease_ms: u64,
    /// Slices are asked one after the other, or all at once.
    pub parallel: bool,
    /// Whether first-seen is the reply only when all slices have acknowledged.
    pub safe: bool,
    /// Producers that run at once.
    pub producers: u32,
    /// Different events.
    pub events: u64,
    /// Calls of each producer.
    pub calls: u32,
    /// Most milliseconds that a message takes.
    pub latency_max_ms: u64,
    /// Milliseconds that every message between two sites takes; messages within a site arrive at the next step then.
    pub between_sites_ms: Option<u64>,
    /// Most milliseconds between two calls of one caller.
    pub pause_max_ms: u64,
    /// How long a call waits for its answer, in milliseconds.
    pub deadline_ms: u64,
    /// The faults.
    pub nemesis: Nemesis,
    /// How long a storm lasts, in milliseconds.
    pub storm_ms: u64,
    /// The verdict on events for which too few slices are left.
    pub when_lost: WhenLost,
    /// What survives the end of a process.
    pub durability: Durability,
    /// Copies of each slice beside the first.
    pub copies: u32,
    /// For how long an event may be held at most, in milliseconds; none where events cannot be claimed.
    pub lease_max_ms: Option<u32>,
    /// What Redis clients do at the doors of nodes. `None` means that no node has a door, and that producers ask instead.
    pub doors: Option<DoorUse>,
    /// Whether producers need rights, which are taken away and granted again.
    pub rights: bool,
    /// Whether slices move from node to node all the while.
    pub moves: bool,
    /// The filter that follows while producers go on.
    pub alteration: Option<Alteration>,
    /// How long a submission may be tried again.
    pub retry_horizon_ms: u32,
    /// Milliseconds that a disk takes to sync.
    pub sync_ms: u64,
    /// Whether submissions have names, so that a restarted producer sends those again that ended unknown.
    pub named: bool,
    /// Beside each producer another one sends times that are wrong: by a window, and more, ahead and behind.
    pub has_broken_times: bool,
    /// The rules that owners keep: a test that breaks one must break a law.
    pub owner_limits: OwnerLimits,
}

impl Scenario {
    /// The scenario of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let nemesis = dice.pick(&Nemesis::ALL);
        let latency_max_ms = dice.pick(&[2, 20, 60]);
        Self {
            seed,
            nodes: 3,
            tree: None,
            clock: ClockSource::Event,
            slicing: dice.pick(&SLICINGS),
            kind: dice.pick(&["timing", "generations", "bloom"]),
            window_ms: dice.pick(&[3_600_000, 3_600_000, 2_000]),
            lateness_ms: LATENESS_MS,
            lease_ms: LEASE_MS,
            parallel: dice.below(3) == 0,
            safe: dice.below(3) == 0,
            producers: 2 + dice.below(4) as u32,
            events: 10 + dice.below(30),
            calls: 60,
            latency_max_ms,
            between_sites_ms: None,
            pause_max_ms: if nemesis == Nemesis::Restart { RESTART_PAUSE_MAX_MS } else { 2 * latency_max_ms },
            deadline_ms: dice.pick(&[3_000, 3_000, 3_000, 10 + latency_max_ms]),
            nemesis,
            storm_ms: 0,
            when_lost: Dice::new(seed ^ OF_LOSSES).pick(&[WhenLost::Undecided, WhenLost::FirstSeen]),
            durability: Durability::Memory,
            copies: 0,
            lease_max_ms: None,
            doors: None,
            rights: false,
            moves: false,
            alteration: None,
            retry_horizon_ms: 60_000,
            sync_ms: 0,
            named: dice.below(3) == 0,
            has_broken_times: false,
            owner_limits: OwnerLimits::default(),
        }
    }

    /// The scenario of `seed` with a tree: slicing and faults differ from those of [`Self::new`].
    pub fn of_tree(seed: u64) -> Self {
        let plain = Self::new(seed);
        let mut dice = Dice::new(seed ^ OF_TREES);
        let nemesis = dice.pick(&Nemesis::OF_TREES);
        let (tree, slicing) = Tree::draw(&mut dice, plain.nodes);
        let pause_max_ms = match nemesis {
            Nemesis::Restart => RESTART_PAUSE_MAX_MS,
            Nemesis::Partition => PARTITION_PAUSE_MAX_MS,
            _ => 2 * plain.latency_max_ms,
        };
        let (latency_max_ms, deadline_ms) = match nemesis {
            Nemesis::Partition => (PARTITION_LATENCY_MS, PARTITION_DEADLINE_MS),
            _ => (plain.latency_max_ms, plain.deadline_ms),
        };
        Self {
            tree: Some(tree),
            slicing,
            nemesis,
            pause_max_ms,
            latency_max_ms,
            deadline_ms,
            calls: TREE_CALLS,
            ..plain
        }
    }

    /// The scenario of `seed` with a durable filter: slicing and faults differ from those of [`Self::new`].
    pub fn durable(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ OF_DISKS);
        let nemesis = dice.pick(&Nemesis::OF_DISKS);
        let slicing = dice.pick(&["none", "horizontal:5", "vertical:7", "horizontal-vertical:2x4", "vertical:3"]);
        Self {
            nemesis,
            slicing,
            durability: Durability::Durable,
            owner_limits: OwnerLimits { checkpoint_after_bytes: Some(4 << dice.below(12)), ..OwnerLimits::default() },
            sync_ms: dice.pick(&[1, 10, 40]),
            pause_max_ms: RESTART_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            ..Self::new(seed)
        }
    }

    /// The scenario of `seed` whose slices have copies, and whose nodes are away for long: slicing and faults differ.
    pub fn copied(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ OF_COPIES);
        let nemesis = dice.pick(&Nemesis::OF_COPIES);
        let slicing = dice.pick(&["none", "horizontal:5", "vertical:7", "horizontal-vertical:2x4", "vertical:3"]);
        Self {
            nemesis,
            slicing,
            copies: dice.pick(&[0, 1, 1, 2]),
            durability: if dice.below(4) == 0 { Durability::Durable } else { Durability::Memory },
            when_lost: WhenLost::Undecided,
            // With early replies, both sides of a break may reply first-seen.
            safe: true,
            owner_limits: OwnerLimits { copied_at_once_bytes: 1024 << dice.below(6), ..OwnerLimits::default() },
            pause_max_ms: RESTART_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            ..Self::new(seed)
        }
    }

    /// The scenario of `seed` whose slices move: slicing and faults differ. Where nodes end, their slices are on disk.
    pub fn moving(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ OF_MOVES);
        let nemesis = dice.pick(&Nemesis::OF_MOVES);
        let slicing = dice.pick(&["none", "horizontal:5", "vertical:7", "horizontal-vertical:2x4", "vertical:3"]);
        let ends = matches!(nemesis, Nemesis::Restart | Nemesis::PowerCut);
        Self {
            nemesis,
            slicing,
            nodes: 4,
            moves: true,
            retry_horizon_ms: MOVES_HORIZON_MS,
            copies: dice.pick(&[0, 0, 1, 2]),
            durability: if ends || dice.below(4) == 0 { Durability::Durable } else { Durability::Memory },
            sync_ms: dice.pick(&[1, 10]),
            when_lost: WhenLost::Undecided,
            calls: MOVES_CALLS,
            owner_limits: OwnerLimits { copied_at_once_bytes: 1024 << dice.below(6), ..OwnerLimits::default() },
            pause_max_ms: RESTART_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            ..Self::new(seed)
        }
    }

    /// The scenario of `seed` with producers of wrong times. The window differs too: it is so long that a difference of
    /// clocks is a small part of it.
    pub fn of_broken_times(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ OF_BROKEN_TIMES);
        Self {
            kind: dice.pick(&["timing", "generations"]),
            window_ms: 16_000,
            // An owner that follows a time which is a window and a sixteenth ahead forgets events older than a fifth of
            // a second.
            lateness_ms: 1_200,
            calls: 160,
            pause_max_ms: 100,
            deadline_ms: 3_000,
            has_broken_times: true,
            ..Self::new(seed)
        }
    }

    /// The scenario of `seed` in which disks hang, and every slice of a durable filter has copies.
    pub fn hung(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ OF_HANGS);
        Self {
            nemesis: Nemesis::DiskHang,
            slicing: dice.pick(&["none", "horizontal:5", "vertical:7", "vertical:3"]),
            copies: dice.pick(&[1, 1, 2]),
            durability: Durability::Durable,
            when_lost: WhenLost::Undecided,
            window_ms: 3_600_000,
            safe: true,
            sync_ms: dice.pick(&[1, 10]),
            calls: HANG_CALLS,
            pause_max_ms: HANG_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            named: false,
            ..Self::new(seed)
        }
    }

    /// The scenario of `seed` with all faults. A filter whose cells are on no disk has a short window there, so that a
    /// loss ends.
    pub fn storm(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ OF_STORMS);
        let slicing = dice.pick(&STORM_SLICINGS);
        let durability = dice.pick(&[Durability::Durable, Durability::Durable, Durability::Memory]);
        let kinds = ["timing", "generations", "bloom"];
        let (kinds, windows_ms) = match durability {
            Durability::Memory => (&kinds[..2], &[2_000, 4_000][..]),
            _ => (&kinds[..], &[2_000, 4_000, 3_600_000][..]),
        };
        let kind = dice.pick(kinds);
        Self {
            nemesis: Nemesis::Storm,
            storm_ms: STORM_MS,
            nodes: 4,
            moves: true,
            // A filter without a window never expires, and so cannot be altered.
            alteration: if kind == "bloom" { None } else { Alteration::draw(seed) },
            slicing,
            durability,
            kind,
            window_ms: dice.pick(windows_ms),
            clock: dice.pick(&[ClockSource::Event, ClockSource::Event, ClockSource::Wall]),
            copies: dice.pick(&[0, 1, 1, 2]),
            producers: 3,
            retry_horizon_ms: STORM_HORIZON_MS,
            sync_ms: dice.pick(&[1, 10, 40]),
            when_lost: WhenLost::Undecided,
            // With early replies, both sides of a break may reply first-seen.
            safe: true,
            owner_limits: OwnerLimits {
                copied_at_once_bytes: 1024 << dice.below(6),
                checkpoint_after_bytes: Some(4 << dice.below(12)),
                // Where copies are compared, they do not differ for long.
                rescan_every_ms: Some(if seed.is_multiple_of(2) { STORM_RESCAN_MS } else { u64::MAX }),
                clock_skew_max_ms: CLOCK_SKEW_MS_MAX,
                ..OwnerLimits::default()
            },
            pause_max_ms: RESTART_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            ..Self::new(seed)
        }
    }

    /// The scenario of `seed` in which nodes are cut off that answer alone; the slicing differs. Windows and lateness
    /// are short, so that what others lack has expired before a node is back.
    pub fn cut_off(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ OF_CUT_OFFS);
        Self {
            nemesis: Nemesis::CutOff,
            slicing: dice.pick(&["none", "horizontal:5", "vertical:3", "horizontal-vertical:2x4"]),
            kind: dice.pick(&["timing", "generations"]),
            window_ms: dice.pick(&[1_000, 2_000]),
            lateness_ms: LATENESS_MS_MIN + dice.below(800),
            // Longer than a window, too: a node that does not wait for the end of a lease meets it.
            lease_ms: dice.pick(&[LEASE_MS, 2 * LEASE_MS]),
            clock: dice.pick(&[ClockSource::Event, ClockSource::Event, ClockSource::Wall]),
            copies: dice.pick(&[0, 1, 1]),
            durability: if dice.below(3) == 0 { Durability::Durable } else { Durability::Memory },
            sync_ms: 1,
            when_lost: WhenLost::Undecided,
            // With early replies, both sides of a break may reply first-seen.
            safe: true,
            producers: 3,
            pause_max_ms: 100,
            deadline_ms: 1_000,
            retry_horizon_ms: STORM_HORIZON_MS,
            ..Self::new(seed)
        }
    }

    /// Whether producers go on until the operator ends them, and ask about events that others ask about at that moment.
    pub fn is_staged(&self) -> bool {
        matches!(self.nemesis, Nemesis::Storm | Nemesis::CutOff)
    }

    /// Whether a fault has an effect in a storm, and one that ends.
    pub fn allows(&self, fault: Fault) -> bool {
        let is_on_disk = self.durability != Durability::Memory;
        match fault {
            // What power cuts are to disks, the loss of all nodes' memory at once is to filters in memory.
            Fault::PowerCut | Fault::TornWrite | Fault::DiskFull | Fault::DiskStaysFull | Fault::DiskHang => is_on_disk,
            // An event that no other copy has is missing until its window is over.
            Fault::BitRot => is_on_disk && self.is_short(),
            Fault::Blackout => is_on_disk || self.is_short(),
            _ => true,
        }
    }

    /// Whether what was lost in a storm expires soon after it.
    pub fn is_short(&self) -> bool {
        self.kind != "bloom" && self.window_ms < self.storm_ms
    }

    /// Whether leaves answer alone when they cannot reach the levels above.
    pub fn leaves_answer_alone(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.cut_off == CutOff::Local)
    }

    /// Whether what a level of its tree finds is checked in the levels below.
    pub fn has_top_down_checks(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.top_down > 0)
    }

    /// The site of a producer, where there are sites.
    pub fn site(&self, producer: u32) -> Option<usize> {
        self.tree.as_ref().map(|_| producer as usize % self.nodes)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, slicing, kind, producers, events, latency_max_ms, deadline_ms, nemesis, .. } = self;
        write!(f, "seed {seed}: {kind} {slicing}")?;
        if let Some(tree) = &self.tree {
            write!(f, "{tree}")?;
        }
        for (is_set, name) in [(self.parallel, "parallel"), (self.safe, "safe"), (self.named, "named")] {
            if is_set {
                write!(f, " {name}")?;
            }
        }
        if self.copies > 0 {
            write!(f, " copies {}", self.copies)?;
        }
        if let Some(lease_max_ms) = self.lease_max_ms {
            write!(f, " claims {lease_max_ms} ms")?;
        }
        if self.rights {
            write!(f, " rights")?;
        }
        if let Some(door_use) = self.doors {
            write!(f, ", {door_use}")?;
        }
        if self.moves {
            write!(f, " moving")?;
        }
        if let Some(alteration) = self.alteration {
            write!(f, " {alteration}")?;
        }
        if self.is_staged() {
            write!(f, " {:?} {:?} {} ms", self.durability, self.clock, self.window_ms)?;
        }
        write!(f, ", {producers} producers, {events} events, {latency_max_ms} of {deadline_ms} ms, {nemesis:?}")
    }
}
