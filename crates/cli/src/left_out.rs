//! Error messages for commands that this binary does not contain. Some commands need a build with the feature `full` or
//! `pipe`, and others belong to the binary `firstseen-lab`. If a user calls such a command, the message says how to get it.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Sentence that tells how to get a build with all commands.
pub(crate) const FULL_BUILD: &str = "`cargo build --release` makes one that has everything";

/// Text below the output of `firstseen --help`.
#[cfg(not(feature = "full"))]
pub(crate) const HELP: &str = "This build leaves out clusters: `cargo build --release` makes one that has everything.";
/// Text below the output of `firstseen --help`, which is empty because a full build leaves nothing out.
#[cfg(feature = "full")]
pub(crate) const HELP: &str = "";

/// Commands that only a build with the feature `full` has.
const FULL: [&str; 7] = ["up", "top", "node", "cluster", "filter", "access", "certs"];
/// Commands that only a build with the feature `pipe` has.
const PIPE: [&str; 1] = ["pipe"];
/// Sentence that tells how to get a build with the command `pipe`.
const PIPE_BUILD: &str = "`cargo build --release --features pipe` makes one that has it";
/// Commands of `firstseen-lab` that `firstseen` had in version 0.1. Remove this list with version 0.3.
const MOVED: [&str; 4] = ["bench", "chaos", "eval", "generate"];

/// Returns the message to print instead of `error` if the error is about a command that another build or another binary
/// has, or that users of similar programs expect.
pub(crate) fn remedy(error: &clap::Error) -> Option<String> {
    if cfg!(feature = "full")
        && let Some(remedy) = end_of_a_cluster(error)
    {
        return Some(remedy);
    }
    if !cfg!(feature = "pipe")
        && let Some(name) = unknown_command(error)
        && PIPE.contains(&name)
    {
        return Some(format!("this build of firstseen leaves `{name}` out: {PIPE_BUILD}"));
    }
    remedy_of(error, if cfg!(feature = "full") { &[] } else { &FULL })
}

/// Returns the name of the command that does not exist, if the error is about one.
fn unknown_command(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if error.kind() == ErrorKind::InvalidSubcommand => Some(name),
        _ => None,
    }
}

/// Returns the message about a command or flag by which a user wants to end a local cluster, such as `firstseen down`
/// or `firstseen up --stop`.
fn end_of_a_cluster(error: &clap::Error) -> Option<String> {
    let (kind, names): (_, &[&str]) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, &["down", "stop"]),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, &["--stop", "--down"]),
        _ => return None,
    };
    let Some(ContextValue::String(name)) = error.get(kind) else { return None };
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let is_about_up = kind == ContextKind::InvalidSubcommand || usage.split_whitespace().nth(2) == Some("up");
    if !is_about_up || !names.contains(&name.as_str()) {
        return None;
    }
    Some(format!(
        "there is no `{name}`: `firstseen up --end` ends the cluster of a folder (--data DIR names the folder)"
    ))
}

fn remedy_of(error: &clap::Error, left_out: &[&str]) -> Option<String> {
    let name = unknown_command(error)?;
    if MOVED.contains(&name) {
        return Some(format!("`{name}` has moved to the binary `firstseen-lab`: type `firstseen-lab {name}`"));
    }
    left_out.contains(&name).then(|| format!("this build of firstseen leaves `{name}` out: {FULL_BUILD}"))
}

#[cfg(all(test, feature = "full"))]
mod tests {
    use clap::{Command, Subcommand};

    use super::{FULL, MOVED, remedy, remedy_of};
    use crate::full::FullCommand;

    fn asked_of_lean(word: &str) -> Option<String> {
        let lean = Command::new("firstseen").subcommand(Command::new("dedup")).subcommand_required(true);
        remedy_of(&lean.try_get_matches_from(["firstseen", word, "cluster"]).unwrap_err(), &FULL)
    }

    #[test]
    fn every_command_of_the_full_build_is_named() {
        let commands = FullCommand::augment_subcommands(Command::new("firstseen"));
        assert_eq!(commands.get_subcommands().map(Command::get_name).collect::<Vec<_>>(), FULL);
    }

    #[test]
    fn a_lean_build_that_is_asked_for_a_cluster_says_how_to_get_one() {
        assert!(asked_of_lean("up").unwrap().contains("cargo build --release"));
        assert_eq!(asked_of_lean("upp"), None);
    }

    /// Regression test. `firstseen up --stop` and `firstseen down` were unknown, and nothing led to `up --end`.
    #[test]
    fn who_wants_to_end_a_cluster_is_told_how() {
        for line in ["firstseen down", "firstseen stop", "firstseen up --stop", "firstseen up --stop --data it"] {
            let commands = FullCommand::augment_subcommands(Command::new("firstseen")).subcommand_required(true);
            let error = commands.try_get_matches_from(line.split(' ')).unwrap_err();
            let said = remedy(&error).unwrap_or_else(|| panic!("{line}"));
            assert!(said.contains("`firstseen up --end`"), "{line}: {said}");
        }
        for line in ["firstseen up --stopp", "firstseen downn", "firstseen filter list --stop"] {
            let commands = FullCommand::augment_subcommands(Command::new("firstseen")).subcommand_required(true);
            let error = commands.try_get_matches_from(line.split(' ')).unwrap_err();
            assert_eq!(remedy(&error), None, "{line}");
        }
    }

    #[test]
    fn commands_that_have_moved_are_found_again() {
        for name in MOVED {
            assert!(asked_of_lean(name).unwrap().ends_with(&format!("type `firstseen-lab {name}`")));
        }
    }
}
