//! Flags that select a family of simulated scenarios and its seeds. There is one flag for each family.

use std::ops::Range;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use firstseen_sim::family::Family;

/// Group of flags of which exactly one must be given: the flags of the families, and `--scale`.
pub(super) const GROUP: &str = "asked";
/// Flag of the family whose scenarios draw claims and rights on their own.
const DRAWS_ALL: &str = "--endpoints";

/// Seeds of a family.
#[derive(Clone, Debug)]
pub(super) struct Seeds {
    pub(super) family: Family,
    pub(super) range: Range<u64>,
}

/// Flags of the families.
#[derive(Clone, Debug)]
pub(super) struct FamilyArgs {
    /// Requested family. `None` means `--scale`.
    pub(super) asked: Option<Seeds>,
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    range.ok_or_else(|| "write FIRST..END, such as 0..100".to_owned())
}

/// Returns the name of a family's flag, without hyphens.
fn name(family: Family) -> &'static str {
    family.flag.trim_start_matches('-')
}

impl Args for FamilyArgs {
    fn augment_args(command: Command) -> Command {
        command.args(Family::ALL.map(|family| {
            let flag = Arg::new(name(family)).long(name(family)).value_name("FIRST..END").help(family.about);
            let flag = flag.value_parser(parse_seeds).group(GROUP);
            if family.flag == DRAWS_ALL { flag.conflicts_with_all(["claims", "rights"]) } else { flag }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FamilyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let asked = Family::ALL.into_iter().find_map(|family| {
            let range = matches.get_one::<Range<u64>>(name(family))?;
            Some(Seeds { family, range: range.clone() })
        });
        Ok(Self { asked })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
