//! The scenario of a run. Everything in it is drawn from the seed, so the same seed gives the same scenario.

use std::fmt;

use firstseen_routing::{ClockSource, CutOff, Durability, OwnerLimits, WhenLost};

use crate::alteration::{Alteration, STORM_SLICINGS};
use crate::clock::CLOCK_SKEW_MS_MAX;
use crate::endpoint_use::EndpointUse;
use crate::faults::Fault;
use crate::seeded_rng::SeededRng;
use crate::tree::Tree;

/// Every form of slicing. The slicing in which all events share all slices occurs most often.
const SLICINGS: [&str; 6] =
    ["vertical:7", "vertical:7", "vertical:7", "horizontal:5", "horizontal-vertical:2x4", "vertical-horizontal:3x2"];
/// Maximum pause in milliseconds between calls. Calls must continue until a lost node is back, which takes an election
/// if it was the leader.
const RESTART_PAUSE_MAX_MS: u64 = 400;
/// Maximum pause in milliseconds between calls, which must continue before, during and after a partition.
const PARTITION_PAUSE_MAX_MS: u64 = 2_200;
/// Seed of the random numbers for durable trees.
const OF_LASTING_TREES: u64 = 0x1A57 << 32;
/// Number of calls in a filter tree, where an event passes more nodes.
const TREE_CALLS: u32 = 40;
/// Latency and deadline during a partition. The latency is higher because the steps of the simulation are longer.
const PARTITION_LATENCY_MS: u64 = 20;
const PARTITION_DEADLINE_MS: u64 = 3_000;
/// Seed of the random numbers for trees. They are independent of the other random numbers of a run, like those of the
/// seeds below.
const OF_TREES: u64 = 0x7_2EE5 << 32;
/// Seed of the random numbers for verdicts about lost slices.
const OF_LOSSES: u64 = 0x1055 << 32;
/// Seed of the random numbers for copies.
const OF_COPIES: u64 = 0xC_0B1E << 32;
/// Seed of the random numbers for moves.
const OF_MOVES: u64 = 0x30_0E5 << 32;
/// Retry horizon in milliseconds. It is short because a moving slice waits for one retry horizon.
const MOVES_HORIZON_MS: u32 = 4_000;
/// Number of calls, which gives slices the time to arrive.
const MOVES_CALLS: u32 = 100;
/// Seed of the random numbers for storms.
const OF_STORMS: u64 = 0x5_7013 << 32;
const STORM_MS: u64 = 20_000;
/// Interval in milliseconds at which copies are compared in a storm.
const STORM_RESCAN_MS: u64 = 3_000;
/// Retry horizon of a storm in milliseconds. Submissions are retried until they would be too late.
const STORM_HORIZON_MS: u32 = 8_000;
/// Seed of the random numbers for disks.
const OF_DISKS: u64 = 0xD_15C5 << 32;
/// Seed of the random numbers for cut-offs.
const OF_CUT_OFFS: u64 = 0xC_070F << 32;
/// Lateness in milliseconds: how late an event may arrive and still be judged exactly. It is longer than a message
/// takes.
const LATENESS_MS: u64 = 5_000;
/// Minimum lateness in milliseconds.
const LATENESS_MS_MIN: u64 = 200;
/// Lease in milliseconds: how long a node records without a message from a majority. It is longer than an election
/// takes.
const LEASE_MS: u64 = 2_000;
/// Seed of the random numbers for broken times.
const OF_BROKEN_TIMES: u64 = 0xB40_4E7;
/// Seed of the random numbers for disks that hang.
const OF_HANGS: u64 = 0x8A_9C5 << 32;
/// Number of calls of a producer while disks hang, and maximum pause in milliseconds between two of them.
const HANG_CALLS: u32 = 120;
const HANG_PAUSE_MAX_MS: u64 = 2_000;

/// The faults while producers submit events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nemesis {
    /// Messages are only delayed, which reorders messages of different connections.
    Delay,
    /// Connections are reset repeatedly, so that requests and replies in flight are lost.
    Reset,
    /// A node's links to the other nodes are held and released.
    Hold,
    /// A node's process ends without notice, loses everything in its memory, and is started again.
    Restart,
    /// A site with its node and its producers is cut off from the other sites for ten seconds.
    Partition,
    /// A node loses its power. Its process ends, and some or all data that it has not synced is lost.
    PowerCut,
    /// All nodes lose their power at once.
    Blackout,
    /// The disk of a node's journal is full for a while.
    DiskFull,
    /// A node's process ends and is started again, after the other nodes have continued without it.
    Outage,
    /// A node cannot reach the other nodes until they have continued without it. Producers can still reach it.
    Isolate,
    /// The disk of a node's journal hangs in a sync, for a second up to a minute.
    DiskHang,
    /// The clock of a node is set by far more than clocks may differ for some seconds, or is wrong by that much when
    /// its process starts.
    WrongClock,
    /// A machine is suspended with its clocks until the other nodes have continued without its node. Then it continues
    /// as if no time had passed.
    Standstill,
    /// A node is stopped as an operator stops it, and started again.
    Stop,
    /// All faults happen, two at a time, and then stop.
    Storm,
    /// A node answers alone. It is cut off together with a producer for several windows, while the other nodes continue
    /// without it.
    CutOff,
}

impl Nemesis {
    /// Faults for a filter that belongs to no tree.
    pub const ALL: [Self; 4] = [Self::Delay, Self::Reset, Self::Hold, Self::Restart];
    /// Faults for a durable filter.
    pub const OF_DISKS: [Self; 5] = [Self::Restart, Self::PowerCut, Self::PowerCut, Self::Blackout, Self::DiskFull];
    /// Faults for a filter whose slices have copies.
    pub const OF_COPIES: [Self; 5] = [Self::Restart, Self::Outage, Self::Outage, Self::Isolate, Self::Reset];
    /// Faults for a filter whose slices move.
    pub const OF_MOVES: [Self; 5] = [Self::Delay, Self::Reset, Self::Hold, Self::Restart, Self::PowerCut];
    /// Faults for a tree over several sites.
    pub const OF_TREES: [Self; 5] = [Self::Delay, Self::Reset, Self::Hold, Self::Restart, Self::Partition];
    /// Faults for a durable tree over several sites. Half of the sites that are cut off lose their node meanwhile.
    pub const OF_LASTING_TREES: [Self; 7] = [
        Self::Restart,
        Self::PowerCut,
        Self::Blackout,
        Self::DiskFull,
        Self::Partition,
        Self::Partition,
        Self::Partition,
    ];
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The seed of everything, including the simulated network.
    pub seed: u64,
    /// Number of nodes in the cluster.
    pub nodes: usize,
    /// The tree whose root is the filter. With a tree, every node is a site, and producers are at sites.
    pub tree: Option<Tree>,
    /// The clock by which events are stamped.
    pub clock: ClockSource,
    /// The slicing of the filter.
    pub slicing: &'static str,
    /// The filter's kind and window.
    pub kind: &'static str,
    /// The window in milliseconds, which is either longer than the run or short.
    pub window_ms: u64,
    /// Lateness in milliseconds: how late an event may arrive and still be judged exactly.
    pub lateness_ms: u64,
    /// Lease in milliseconds: how long a node records without a message from a majority.
    pub lease_ms: u64,
    /// Whether slices are asked all at once instead of one after the other.
    pub parallel: bool,
    /// Whether first-seen is replied only when all slices have acknowledged.
    pub safe: bool,
    /// Number of concurrent producers.
    pub producers: u32,
    /// Number of different events.
    pub events: u64,
    /// Number of calls of each producer.
    pub calls: u32,
    /// Maximum time in milliseconds that a message takes.
    pub latency_max_ms: u64,
    /// Time in milliseconds that every message between two sites takes. Messages within a site then arrive at the next
    /// step.
    pub between_sites_ms: Option<u64>,
    /// Maximum pause in milliseconds between two calls of one caller.
    pub pause_max_ms: u64,
    /// Time in milliseconds that a call waits for its reply.
    pub deadline_ms: u64,
    /// The faults.
    pub nemesis: Nemesis,
    /// Duration of a storm in milliseconds.
    pub storm_ms: u64,
    /// The verdict on events for which too few slices are left.
    pub when_lost: WhenLost,
    /// What survives the end of a process.
    pub durability: Durability,
    /// Number of copies of each slice in addition to the first.
    pub copies: u32,
    /// Maximum time in milliseconds for which an event may be held. `None` if events cannot be claimed.
    pub lease_max_ms: Option<u32>,
    /// The commands that Redis clients send to the Redis endpoints of nodes. If the value is `None`, no node has a
    /// Redis endpoint, and producers submit the events instead.
    pub endpoints: Option<EndpointUse>,
    /// Whether producers need access rights, which are revoked and restored.
    pub rights: bool,
    /// Whether slices move from node to node during the whole run.
    pub moves: bool,
    /// The filter that replaces the first one while producers continue.
    pub alteration: Option<Alteration>,
    /// Retry horizon in milliseconds: how long a submission may be retried.
    pub retry_horizon_ms: u32,
    /// Time in milliseconds that a disk takes to sync.
    pub sync_ms: u64,
    /// Whether submissions have idempotency keys, so that a restarted producer sends submissions again that ended
    /// unknown.
    pub named: bool,
    /// Whether there is an additional producer for each producer that sends wrong times. They are wrong by a window and
    /// more, ahead and behind.
    pub has_broken_times: bool,
    /// The limits and rules of owners. If a test breaks a rule, a law must be broken.
    pub owner_limits: OwnerLimits,
}

impl Scenario {
    /// Returns the scenario of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let nemesis = rng.pick(&Nemesis::ALL);
        let latency_max_ms = rng.pick(&[2, 20, 60]);
        Self {
            seed,
            nodes: 3,
            tree: None,
            clock: ClockSource::Event,
            slicing: rng.pick(&SLICINGS),
            kind: rng.pick(&["timing", "generations", "bloom"]),
            window_ms: rng.pick(&[3_600_000, 3_600_000, 2_000]),
            lateness_ms: LATENESS_MS,
            lease_ms: LEASE_MS,
            parallel: rng.below(3) == 0,
            safe: rng.below(3) == 0,
            producers: 2 + rng.below(4) as u32,
            events: 10 + rng.below(30),
            calls: 60,
            latency_max_ms,
            between_sites_ms: None,
            pause_max_ms: if nemesis == Nemesis::Restart { RESTART_PAUSE_MAX_MS } else { 2 * latency_max_ms },
            deadline_ms: rng.pick(&[3_000, 3_000, 3_000, 10 + latency_max_ms]),
            nemesis,
            storm_ms: 0,
            when_lost: SeededRng::new(seed ^ OF_LOSSES).pick(&[WhenLost::Undecided, WhenLost::FirstSeen]),
            durability: Durability::Memory,
            copies: 0,
            lease_max_ms: None,
            endpoints: None,
            rights: false,
            moves: false,
            alteration: None,
            retry_horizon_ms: 60_000,
            sync_ms: 0,
            named: rng.below(3) == 0,
            has_broken_times: false,
            owner_limits: OwnerLimits::default(),
        }
    }

    /// Returns the scenario of `seed` with a tree. Slicing and faults differ from those of [`Self::new`].
    pub fn of_tree(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_TREES);
        let nemesis = rng.pick(&Nemesis::OF_TREES);
        Self::of_tree_under(seed, nemesis, &mut rng)
    }

    /// Returns the scenario of `seed` with a durable tree, whose root may have copies. Slicing and faults differ from
    /// those of [`Self::new`].
    pub fn lasting_tree(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_LASTING_TREES);
        let nemesis = rng.pick(&Nemesis::OF_LASTING_TREES);
        let scenario = Self::of_tree_under(seed, nemesis, &mut rng);
        let is_root_at_one_site = scenario.tree.as_ref().is_some_and(|tree| tree.root_at.is_some());
        Self {
            durability: Durability::Durable,
            copies: if is_root_at_one_site { 0 } else { rng.pick(&[0, 0, 1]) },
            owner_limits: OwnerLimits { checkpoint_after_bytes: Some(4 << rng.below(12)), ..OwnerLimits::default() },
            sync_ms: rng.pick(&[1, 10, 40]),
            when_lost: WhenLost::Undecided,
            safe: true,
            deadline_ms: 3_000,
            ..scenario
        }
    }

    fn of_tree_under(seed: u64, nemesis: Nemesis, rng: &mut SeededRng) -> Self {
        let plain = Self::new(seed);
        let (tree, slicing) = Tree::draw(rng, plain.nodes);
        let pause_max_ms = match nemesis {
            Nemesis::Restart | Nemesis::PowerCut | Nemesis::Blackout | Nemesis::DiskFull => RESTART_PAUSE_MAX_MS,
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

    /// Returns the scenario of `seed` with a durable filter. Slicing and faults differ from those of [`Self::new`].
    pub fn durable(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_DISKS);
        let nemesis = rng.pick(&Nemesis::OF_DISKS);
        let slicing = rng.pick(&["none", "horizontal:5", "vertical:7", "horizontal-vertical:2x4", "vertical:3"]);
        Self {
            nemesis,
            slicing,
            durability: Durability::Durable,
            owner_limits: OwnerLimits { checkpoint_after_bytes: Some(4 << rng.below(12)), ..OwnerLimits::default() },
            sync_ms: rng.pick(&[1, 10, 40]),
            pause_max_ms: RESTART_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            ..Self::new(seed)
        }
    }

    /// Returns the scenario of `seed` in which slices have copies and nodes are away for a long time. Some properties,
    /// such as the slicing and the faults, are chosen for this purpose. All other properties are those that
    /// [`Self::new`] returns for the same seed.
    pub fn copied(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_COPIES);
        let nemesis = rng.pick(&Nemesis::OF_COPIES);
        let slicing = rng.pick(&["none", "horizontal:5", "vertical:7", "horizontal-vertical:2x4", "vertical:3"]);
        Self {
            nemesis,
            slicing,
            copies: rng.pick(&[0, 1, 1, 2]),
            durability: if rng.below(4) == 0 { Durability::Durable } else { Durability::Memory },
            when_lost: WhenLost::Undecided,
            // With early replies, both sides of a partition may reply first-seen.
            safe: true,
            owner_limits: OwnerLimits { copied_at_once_bytes: 1024 << rng.below(6), ..OwnerLimits::default() },
            pause_max_ms: RESTART_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            ..Self::new(seed)
        }
    }

    /// Returns the scenario of `seed` in which slices move between nodes. Some properties, such as the slicing and the
    /// faults, are chosen for this purpose. All other properties are those that [`Self::new`] returns for the same
    /// seed. If the faults end processes, the slices are stored on disk.
    pub fn moving(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_MOVES);
        let nemesis = rng.pick(&Nemesis::OF_MOVES);
        let slicing = rng.pick(&["none", "horizontal:5", "vertical:7", "horizontal-vertical:2x4", "vertical:3"]);
        let ends = matches!(nemesis, Nemesis::Restart | Nemesis::PowerCut);
        Self {
            nemesis,
            slicing,
            nodes: 4,
            moves: true,
            retry_horizon_ms: MOVES_HORIZON_MS,
            copies: rng.pick(&[0, 0, 1, 2]),
            durability: if ends || rng.below(4) == 0 { Durability::Durable } else { Durability::Memory },
            sync_ms: rng.pick(&[1, 10]),
            when_lost: WhenLost::Undecided,
            calls: MOVES_CALLS,
            owner_limits: OwnerLimits { copied_at_once_bytes: 1024 << rng.below(6), ..OwnerLimits::default() },
            pause_max_ms: RESTART_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            ..Self::new(seed)
        }
    }

    /// Returns the scenario of `seed` in which some producers send wrong event times. The window is so long that the
    /// allowed difference between clocks is only a small part of it, so it differs from the window of the scenario that
    /// [`Self::new`] returns for the same seed.
    pub fn of_broken_times(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_BROKEN_TIMES);
        Self {
            kind: rng.pick(&["timing", "generations"]),
            window_ms: 16_000,
            // An owner that accepts a time which is a window and a sixteenth ahead forgets events older than a fifth of
            // a second.
            lateness_ms: 1_200,
            calls: 160,
            pause_max_ms: 100,
            deadline_ms: 3_000,
            has_broken_times: true,
            ..Self::new(seed)
        }
    }

    /// Returns the scenario of `seed` in which disks hang. Every slice of its durable filter has copies.
    pub fn hung(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_HANGS);
        Self {
            nemesis: Nemesis::DiskHang,
            slicing: rng.pick(&["none", "horizontal:5", "vertical:7", "vertical:3"]),
            copies: rng.pick(&[1, 1, 2]),
            durability: Durability::Durable,
            when_lost: WhenLost::Undecided,
            window_ms: 3_600_000,
            safe: true,
            sync_ms: rng.pick(&[1, 10]),
            calls: HANG_CALLS,
            pause_max_ms: HANG_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            named: false,
            ..Self::new(seed)
        }
    }

    /// Returns the scenario of `seed` with all faults. A filter that is not stored on disk has a short window, so that
    /// a loss ends.
    pub fn storm(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_STORMS);
        let slicing = rng.pick(&STORM_SLICINGS);
        let durability = rng.pick(&[Durability::Durable, Durability::Durable, Durability::Memory]);
        let kinds = ["timing", "generations", "bloom"];
        let (kinds, windows_ms) = match durability {
            Durability::Memory => (&kinds[..2], &[2_000, 4_000][..]),
            _ => (&kinds[..], &[2_000, 4_000, 3_600_000][..]),
        };
        let kind = rng.pick(kinds);
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
            window_ms: rng.pick(windows_ms),
            clock: rng.pick(&[ClockSource::Event, ClockSource::Event, ClockSource::Wall]),
            copies: rng.pick(&[0, 1, 1, 2]),
            producers: 3,
            retry_horizon_ms: STORM_HORIZON_MS,
            sync_ms: rng.pick(&[1, 10, 40]),
            when_lost: WhenLost::Undecided,
            // With early replies, both sides of a partition may reply first-seen.
            safe: true,
            owner_limits: OwnerLimits {
                copied_at_once_bytes: 1024 << rng.below(6),
                checkpoint_after_bytes: Some(4 << rng.below(12)),
                // If copies are compared, they do not differ for long.
                rescan_every_ms: Some(if seed.is_multiple_of(2) { STORM_RESCAN_MS } else { u64::MAX }),
                clock_skew_max_ms: CLOCK_SKEW_MS_MAX,
                ..OwnerLimits::default()
            },
            pause_max_ms: RESTART_PAUSE_MAX_MS,
            deadline_ms: 3_000,
            ..Self::new(seed)
        }
    }

    /// Returns the scenario of `seed` in which a node is cut off that is the only one to answer for a slice. The window
    /// and the lateness are short, so that the events that the other nodes lack expire before the node is back. The
    /// slicing differs from that of [`Self::new`] for the same seed.
    pub fn cut_off(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_CUT_OFFS);
        Self {
            nemesis: Nemesis::CutOff,
            slicing: rng.pick(&["none", "horizontal:5", "vertical:3", "horizontal-vertical:2x4"]),
            kind: rng.pick(&["timing", "generations"]),
            window_ms: rng.pick(&[1_000, 2_000]),
            lateness_ms: LATENESS_MS_MIN + rng.below(800),
            // The lease may also be longer than a window. A node that does not wait for the end of a lease then meets
            // it.
            lease_ms: rng.pick(&[LEASE_MS, 2 * LEASE_MS]),
            clock: rng.pick(&[ClockSource::Event, ClockSource::Event, ClockSource::Wall]),
            copies: rng.pick(&[0, 1, 1]),
            durability: if rng.below(3) == 0 { Durability::Durable } else { Durability::Memory },
            sync_ms: 1,
            when_lost: WhenLost::Undecided,
            // With early replies, both sides of a partition may reply first-seen.
            safe: true,
            producers: 3,
            pause_max_ms: 100,
            deadline_ms: 1_000,
            retry_horizon_ms: STORM_HORIZON_MS,
            ..Self::new(seed)
        }
    }

    /// Returns whether producers continue until the operator ends them, and submit events that other producers submit
    /// at the same moment.
    pub fn is_staged(&self) -> bool {
        matches!(self.nemesis, Nemesis::Storm | Nemesis::CutOff)
    }

    /// Returns whether a fault has an effect in a storm, and an effect that ends.
    pub fn allows(&self, fault: Fault) -> bool {
        let is_on_disk = self.durability != Durability::Memory;
        match fault {
            // For filters in memory, the loss of all nodes' memory at once has the same effect as power cuts have for
            // filters on disk.
            Fault::PowerCut | Fault::TornWrite | Fault::DiskFull | Fault::DiskStaysFull | Fault::DiskHang => is_on_disk,
            // An event that no other copy has is missing until its window ends.
            Fault::BitRot => is_on_disk && self.is_short(),
            Fault::Blackout => is_on_disk || self.is_short(),
            _ => true,
        }
    }

    /// Returns whether events that were lost in a storm expire soon after it.
    pub fn is_short(&self) -> bool {
        self.kind != "bloom" && self.window_ms < self.storm_ms
    }

    /// Returns whether the filter is a tree whose root keeps a journal.
    pub fn is_lasting_tree(&self) -> bool {
        self.tree.is_some() && self.durability != Durability::Memory
    }

    /// Returns whether leaves answer alone when they cannot reach the levels above.
    pub fn leaves_answer_alone(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.cut_off == CutOff::Local)
    }

    /// Returns whether finds at a level of its tree are checked at the lower levels.
    pub fn has_top_down_checks(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.top_down > 0)
    }

    /// Returns the site of a producer, if there are sites.
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
        if let Some(endpoint_use) = self.endpoints {
            write!(f, ", {endpoint_use}")?;
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
