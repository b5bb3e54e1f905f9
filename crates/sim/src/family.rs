//! Families of scenarios, and the variations that apply to all scenarios of a family. A family, a variation and a seed
//! determine a scenario.

use firstseen_routing::rules::{Rule, Rules};

use crate::altered_claims;
use crate::claims::with_claims;
use crate::endpoints;
use crate::kind_name::CUCKOO;
use crate::rights::with_rights;
use crate::scenario::Scenario;
use crate::standstills;
use crate::wrong_clocks;

/// A family of scenarios, each of which is drawn from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The command line flag that selects the family.
    pub flag: &'static str,
    /// The failures in the family, which is the help text of the flag.
    pub about: &'static str,
    /// Returns the scenario of a seed.
    pub scenario: fn(u64) -> Scenario,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 15] = [
        Self {
            flag: "--seeds",
            about: "Delays, resets and held links, with all slicings and kinds of filters",
            scenario: Scenario::new,
        },
        Self { flag: "--trees", about: "Filter trees over three sites", scenario: Scenario::of_tree },
        Self {
            flag: "--lasting-trees",
            about: "Durable filter trees whose sites are cut off, killed and lose their power",
            scenario: Scenario::lasting_tree,
        },
        Self {
            flag: "--durable",
            about: "Durable filters with killed processes, power cuts and full disks",
            scenario: Scenario::durable,
        },
        Self {
            flag: "--copies",
            about: "Slices with copies, whose nodes are down for a long time",
            scenario: Scenario::copied,
        },
        Self { flag: "--moves", about: "Slices that move from node to node", scenario: Scenario::moving },
        Self {
            flag: "--cut-offs",
            about: "Nodes that are cut off from the cluster together with producers",
            scenario: Scenario::cut_off,
        },
        Self {
            flag: "--storms",
            about: "All faults, two at a time, until everything must recover",
            scenario: Scenario::storm,
        },
        Self { flag: "--hung-disks", about: "Disk syncs that hang for 1 to 60 s", scenario: Scenario::hung },
        Self {
            flag: "--wrong-clocks",
            about: "Clocks of nodes that are set wrong by seconds up to a day",
            scenario: Scenario::wrong_clocks,
        },
        Self {
            flag: "--lone-clocks",
            about: "Wrong clocks in a cluster of a single node",
            scenario: wrong_clocks::lone,
        },
        Self {
            flag: "--standstills",
            about: "Machines that are suspended together with all their clocks",
            scenario: standstills::scenario,
        },
        Self {
            flag: "--endpoints",
            about: "Redis clients at the Redis endpoints of nodes",
            scenario: endpoints::scenario,
        },
        Self {
            flag: "--altered-claims",
            about: "Filters that are altered while consumers hold events",
            scenario: altered_claims::scenario,
        },
        Self {
            flag: "--broken-times",
            about: "Producers that send times which are wrong by a window and more",
            scenario: Scenario::of_broken_times,
        },
    ];

    /// Returns the family of a flag.
    pub fn named(flag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.flag == flag)
    }

    /// Returns the scenario of `seed` in which nodes break `rule`.
    pub fn without(&self, rule: Option<Rule>, seed: u64) -> Scenario {
        let mut scenario = (self.scenario)(seed);
        scenario.owner_limits.rules = rule.map_or_else(Rules::default, Rules::without);
        scenario
    }
}

/// A family with a variation of its scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Variation {
    /// The family.
    pub family: Family,
    /// The kind of filter, one of [`Self::KINDS`]. `None` means the kind that the seed draws.
    pub kind: Option<&'static str>,
    /// Whether events are claimed.
    pub claims: bool,
    /// Whether producers need rights.
    pub rights: bool,
    /// A rule that nodes break.
    pub without: Option<Rule>,
}

impl Variation {
    /// The kinds that scenarios can be given.
    pub const KINDS: [&str; 1] = [CUCKOO];

    /// Returns the scenarios of `family` without any variation.
    pub fn none(family: Family) -> Self {
        Self { family, kind: None, claims: false, rights: false, without: None }
    }

    /// Returns all rules that nodes can break.
    pub fn rules() -> impl Iterator<Item = Rule> {
        let others = Rule::OF_CLAIMS.into_iter().chain(Rule::OF_RIGHTS).chain(Rule::OF_ENDPOINTS);
        Rule::ALL.into_iter().chain(others).chain(Rule::OF_TREES)
    }

    /// Returns the scenario of `seed`.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = self.family.without(self.without, seed);
        if self.claims {
            scenario = with_claims(scenario);
        }
        if self.rights {
            scenario = with_rights(scenario);
        }
        match self.kind {
            Some(kind) => scenario.in_kind(kind),
            None => scenario,
        }
    }

    /// Returns the name under which results are stored. It does not contain the seeds and the broken rule.
    pub fn name(&self) -> String {
        let kind = self.kind.map_or_else(String::new, |kind| format!(":{kind}"));
        let claims = if self.claims { ":claims" } else { "" };
        let rights = if self.rights { ":rights" } else { "" };
        format!("{}{kind}{claims}{rights}", self.family.flag)
    }

    /// Returns the command line that runs a seed again.
    pub fn again(&self, seed: u64) -> String {
        let kind = self.kind.map_or_else(String::new, |kind| format!(" --kind {kind}"));
        let claims = if self.claims { " --claims" } else { "" };
        let rights = if self.rights { " --rights" } else { "" };
        let Family { flag, .. } = self.family;
        format!("again: cargo run -p firstseen-lab -- simulate {flag} {seed}..{}{kind}{claims}{rights}", seed + 1)
    }
}
