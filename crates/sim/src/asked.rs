//! The command line of the simulation.
//!
//! Promises: arguments that are not understood are refused. Must not know: how runs are carried out.

use std::ops::Range;
use std::path::PathBuf;

use firstseen_routing::rules::{Rule, Rules};

use crate::altered_claims;
use crate::claims::with_claims;
use crate::doors;
use crate::kinds;
use crate::rights::with_rights;
use crate::scenario::Scenario;
use crate::standstills;
use crate::wrong_clocks;

/// The text about the arguments.
pub const USAGE: &str = "usage: firstseen-sim --seeds|--trees|--durable|--copies|--moves|--cut-offs|--hung-disks|\
                         --wrong-clocks|--lone-clocks|--standstills|--doors|--altered-claims|--broken-times|--storms FIRST..END [--kind cuckoo] [--claims] [--rights] [--trace] [--without RULE] \
                         [--results FILE]\n       \
                         firstseen-sim --scale [--nodes N,...] [--events-per-node N] [--json] [--picture FILE]";

/// A family: scenarios, each drawn from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The flag by which it is asked for.
    pub flag: &'static str,
    /// The scenario of a seed.
    pub scenario: fn(u64) -> Scenario,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 14] = [
        Self { flag: "--seeds", scenario: Scenario::new },
        Self { flag: "--trees", scenario: Scenario::of_tree },
        Self { flag: "--durable", scenario: Scenario::durable },
        Self { flag: "--copies", scenario: Scenario::copied },
        Self { flag: "--moves", scenario: Scenario::moving },
        Self { flag: "--cut-offs", scenario: Scenario::cut_off },
        Self { flag: "--storms", scenario: Scenario::storm },
        Self { flag: "--hung-disks", scenario: Scenario::hung },
        Self { flag: "--wrong-clocks", scenario: Scenario::wrong_clocks },
        Self { flag: "--lone-clocks", scenario: wrong_clocks::lone },
        Self { flag: "--standstills", scenario: standstills::scenario },
        Self { flag: "--doors", scenario: doors::scenario },
        Self { flag: "--altered-claims", scenario: altered_claims::scenario },
        Self { flag: "--broken-times", scenario: Scenario::of_broken_times },
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

/// The arguments.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The family.
    pub family: Family,
    /// The seeds.
    pub seeds: Range<u64>,
    /// The kind of filter, where that is not the one that the seed draws.
    pub kind: Option<&'static str>,
    /// Whether events are claimed.
    pub claims: bool,
    /// Whether producers need rights.
    pub rights: bool,
    /// Whether every delivery is printed.
    pub shows_trace: bool,
    /// A rule that nodes break.
    pub without: Option<Rule>,
    /// The file that gets a line for each seed; seeds with a line are not run again.
    pub results: Option<PathBuf>,
}

impl Asked {
    /// Parses arguments.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let family = Family::named(&args.next()?)?;
        let seeds = args.next()?;
        let (first, end) = seeds.split_once("..")?;
        let seeds = first.parse().ok()?..end.parse().ok()?;
        let mut asked = Self {
            family,
            seeds,
            kind: None,
            claims: false,
            rights: false,
            shows_trace: false,
            without: None,
            results: None,
        };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--kind" => asked.kind = Some(kinds::asked(&args.next()?)?),
                "--claims" => asked.claims = true,
                "--rights" => asked.rights = true,
                "--trace" => asked.shows_trace = true,
                "--without" => {
                    let name = args.next()?;
                    let others = Rule::OF_CLAIMS.into_iter().chain(Rule::OF_RIGHTS).chain(Rule::OF_DOORS);
                    let mut rules = Rule::ALL.into_iter().chain(others);
                    asked.without = Some(rules.find(|rule| format!("{rule:?}") == name)?);
                }
                "--results" => asked.results = Some(args.next()?.into()),
                _ => return None,
            }
        }
        // Scenarios with doors draw claims and rights themselves.
        let is_allowed = asked.family.flag != "--doors" || !(asked.claims || asked.rights);
        is_allowed.then_some(asked)
    }

    /// The scenario of `seed`.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let scenario = self.family.without(self.without, seed);
        let scenario = if self.claims { with_claims(scenario) } else { scenario };
        let scenario = if self.rights { with_rights(scenario) } else { scenario };
        match self.kind {
            Some(kind) => scenario.in_kind(kind),
            None => scenario,
        }
    }

    /// What was asked for, but for the seeds: results have that name.
    pub fn name(&self) -> String {
        let claims = if self.claims { ":claims" } else { "" };
        let rights = if self.rights { ":rights" } else { "" };
        match self.kind {
            Some(kind) => format!("{}:{kind}{claims}{rights}", self.family.flag),
            None => format!("{}{claims}{rights}", self.family.flag),
        }
    }

    /// The arguments that repeat a seed.
    pub fn again(&self, seed: u64) -> String {
        let kind = self.kind.map_or_else(String::new, |kind| format!(" --kind {kind}"));
        let claims = if self.claims { " --claims" } else { "" };
        let rights = if self.rights { " --rights" } else { "" };
        format!("{} {seed}..{}{kind}{claims}{rights}", self.family.flag, seed + 1)
    }
}
