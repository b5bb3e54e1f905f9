//! Messages of a build without the feature `full` about the commands that it lacks.
//!
//! Promises: a user who asks for such a command reads how to get it. Must not know: what the commands do.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// How to get a build that has all commands.
pub(crate) const FULL_BUILD: &str = "`cargo build --release` makes one that has everything";

/// The text below `firstseen --help`.
#[cfg(not(feature = "full"))]
pub(crate) const HELP: &str =
    "This build leaves out clusters and the papers' figures: `cargo build --release` makes one that has everything.";
/// A full build leaves nothing out.
#[cfg(feature = "full")]
pub(crate) const HELP: &str = "";

/// The commands of a full build only.
const NAMES: [&str; 11] =
    ["up", "top", "node", "cluster", "filter", "access", "certs", "bench", "eval", "generate", "chaos"];

/// The message in place of `error`, where that is about a command which this build leaves out.
pub(crate) fn remedy(error: &clap::Error) -> Option<String> {
    if cfg!(feature = "full") { None } else { remedy_of_lean(error) }
}

fn remedy_of_lean(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let is_left_out = error.kind() == ErrorKind::InvalidSubcommand && NAMES.contains(&name.as_str());
    is_left_out.then(|| format!("this build of firstseen leaves `{name}` out: {FULL_BUILD}"))
}

#[cfg(all(test, feature = "full"))]
mod tests {
    use clap::{Command, Subcommand};

    use super::{NAMES, remedy_of_lean};
    use crate::full::FullCommand;

    #[test]
    fn every_command_of_the_full_build_is_named() {
        let commands = FullCommand::augment_subcommands(Command::new("firstseen"));
        assert_eq!(commands.get_subcommands().map(Command::get_name).collect::<Vec<_>>(), NAMES);
    }

    #[test]
    fn a_lean_build_that_is_asked_for_a_cluster_says_how_to_get_one() {
        let ask = |word| {
            let lean = Command::new("firstseen").subcommand(Command::new("dedup")).subcommand_required(true);
            remedy_of_lean(&lean.try_get_matches_from(["firstseen", word]).unwrap_err())
        };
        assert!(ask("up").unwrap().contains("cargo build --release"));
        assert_eq!(ask("upp"), None);
    }
}
