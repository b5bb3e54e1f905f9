//! Families of scenarios, and what can be varied in all scenarios of a family.
//!
//! Promises: a family, a variation and a seed decide a scenario. Must not know: how runs are carried out.

use firstseen_routing::rules::{Rule, Rules};

use crate::altered_claims;
use crate::claims::with_claims;
use crate::doors;
use crate::kind_name::CUCKOO;
use crate::rights::with_rights;
use crate::scenario::Scenario;
use crate::standstills;
use crate::wrong_clocks;

/// A family: scenarios, each drawn from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The flag by which it is asked for.
    pub flag: &'static str,
    /// What goes wrong in it: the help of the flag.
    pub about: &'static str,
    /// The scenario of a seed.
    pub scenario: fn(u64) -> Scenario,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 14] = [
        Self {
            flag: "--seeds",
            about: "Clusters with delays, resets and held links, with all slicings and kinds",
            scenario: Scenario::new,
        },
        Self { flag: "--trees", about: "Filters in trees over three sites", scenario: Scenario::of_tree },
        Self {
            flag: "--durable",
            about: "Durable filters: kills, power cuts, full disks",
            scenario: Scenario::durable,
        },
        Self {
            flag: "--copies",
            about: "Slices with copies, whose nodes are down for long",
            scenario: Scenario::copied,
        },
        Self { flag: "--moves", about: "Slices that move from node to node", scenario: Scenario::moving },
        Self {
            flag: "--cut-offs",
            about: "Nodes that are cut off together with producers",
            scenario: Scenario::cut_off,
        },
        Self { flag: "--storms", about: "All failures at once, and then none", scenario: Scenario::storm },
        Self { flag: "--hung-disks", about: "Syncs that hang for 1 to 60 s", scenario: Scenario::hung },
        Self {
            flag: "--wrong-clocks",
            about: "Clocks of nodes that are set by seconds to a day",
            scenario: Scenario::wrong_clocks,
        },
        Self {
            flag: "--lone-clocks",
            about: "The same for a node that has no other node to ask",
            scenario: wrong_clocks::lone,
        },
        Self {
            flag: "--standstills",
            about: "Machines that are paused with all their clocks",
            scenario: standstills::scenario,
        },
        Self { flag: "--doors", about: "Redis clients at the doors of nodes", scenario: doors::scenario },
        Self {
            flag: "--altered-claims",
            about: "Filters that are altered while consumers hold events",
            scenario: altered_claims::scenario,
        },
        Self {
            flag: "--broken-times",
            about: "Producers whose times are wrong by a window and more",
            scenario: Scenario::of_broken_times,
        },
    ];

    /// The family of a flag.
    pub fn named(flag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.flag == flag)
    }

    /// The scenario of `seed` in which nodes break `rule`.
    pub fn without(&self, rule: Option<Rule>, seed: u64) -> Scenario {
        let mut scenario = (self.scenario)(seed);
        scenario.owner_limits.rules = rule.map_or_else(Rules::default, Rules::without);
        scenario
    }
}

/// A family whose scenarios are varied.
#[derive(Clone, Copy, Debug)]
pub struct Variation {
    /// The family.
    pub family: Family,
    /// The kind of filter, where that is not the one that the seed draws: one of [`Self::KINDS`].
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

    /// The scenarios of `family` as the seeds draw them.
    pub fn none(family: Family) -> Self {
        Self { family, kind: None, claims: false, rights: false, without: None }
    }

    /// Returns all rules that nodes can break.
    pub fn rules() -> impl Iterator<Item = Rule> {
        Rule::ALL.into_iter().chain(Rule::OF_CLAIMS).chain(Rule::OF_RIGHTS).chain(Rule::OF_DOORS)
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

    /// Returns the name under which results are kept: all but the seeds and the broken rule.
    pub fn name(&self) -> String {
        let kind = self.kind.map_or_else(String::new, |kind| format!(":{kind}"));
        let claims = if self.claims { ":claims" } else { "" };
        let rights = if self.rights { ":rights" } else { "" };
        format!("{}{kind}{claims}{rights}", self.family.flag)
    }

    /// Returns the line that says how a seed is run again.
    pub fn again(&self, seed: u64) -> String {
        let kind = self.kind.map_or_else(String::new, |kind| format!(" --kind {kind}"));
        let claims = if self.claims { " --claims" } else { "" };
        let rights = if self.rights { " --rights" } else { "" };
        let Family { flag, .. } = self.family;
        format!("again: cargo run -p firstseen-lab -- simulate {flag} {seed}..{}{kind}{claims}{rights}", seed + 1)
    }
}
