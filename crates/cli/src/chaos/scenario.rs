//! Scenarios as files: a filter, what goes wrong when, and what must hold.
//!
//! Promises: what is not known in a file is refused. Must not know: how anything is carried out.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::exit::UsageError;

/// What happens in a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// In a sentence.
    pub(super) about: String,
    /// Flags of `firstseen filter create`.
    pub(super) filter: String,
    /// How long producers ask.
    pub(super) seconds: u64,
    /// It needs the network or the disk of a container.
    #[serde(default)]
    pub(super) needs_containers: bool,
    /// A further compose file.
    #[serde(default)]
    pub(super) compose: Option<String>,
    /// What must hold beside the laws.
    pub(super) promises: Promises,
    /// In the order of their times.
    pub(super) steps: Vec<Step>,
}

/// What must hold beside the laws.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Promises {
    /// In so many seconds at most an event is undecided.
    pub(super) undecided_seconds_max: u64,
    /// So long after the end all slices are complete.
    pub(super) complete_within_s: u64,
    /// What slices have lost may be first-seen again; otherwise nothing is ever forgotten.
    #[serde(default)]
    pub(super) may_forget: bool,
}

/// Something that goes wrong, or right again.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// Seconds after the start.
    pub(super) at_s: u64,
    /// What is done.
    #[serde(rename = "do")]
    pub(super) action: Action,
    /// To these nodes, from 1.
    pub(super) nodes: Vec<usize>,
}

/// What is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// Its process ends without notice.
    Kill,
    /// It is started again.
    Start,
    /// It ends in order, and is started again.
    Restart,
    /// The same, and then it is waited for until it says that it is ready.
    RestartWhenReady,
    /// It stands still.
    Pause,
    /// It goes on.
    Resume,
    /// Its slices go to the others, and it leaves the cluster.
    Drain,
    /// The network takes nothing to it, nor from it.
    Disconnect,
    /// It does again.
    Connect,
    /// Its disk is full.
    Fill,
    /// There is room again.
    Free,
    /// What comes from the others takes long.
    Slow,
}

/// The files of `cluster/scenarios`, so that they are wherever the binary is.
const BUILT_IN: [(&str, &str); 9] = [
    ("disconnect", include_str!("../../../../cluster/scenarios/disconnect.toml")),
    ("disk-full", include_str!("../../../../cluster/scenarios/disk-full.toml")),
    ("kill", include_str!("../../../../cluster/scenarios/kill.toml")),
    ("lost-for-good", include_str!("../../../../cluster/scenarios/lost-for-good.toml")),
    ("pause", include_str!("../../../../cluster/scenarios/pause.toml")),
    ("power-cut", include_str!("../../../../cluster/scenarios/power-cut.toml")),
    ("restart-when-ready", include_str!("../../../../cluster/scenarios/restart-when-ready.toml")),
    ("rolling-restart", include_str!("../../../../cluster/scenarios/rolling-restart.toml")),
    ("slow-link", include_str!("../../../../cluster/scenarios/slow-link.toml")),
];

impl Scenario {
    /// The scenario of this name, in `folder` or among those of the binary.
    ///
    /// # Errors
    /// That there is none; what is wrong with it.
    pub(super) fn read(folder: Option<&Path>, name: &str) -> anyhow::Result<Self> {
        let found = match folder {
            Some(folder) => read_file(&folder.join(format!("{name}.toml")))?,
            None => BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map(|(_, text)| (*text).to_owned()),
        };
        let Some(text) = found else {
            let names = names(folder)?.join(", ");
            return Err(UsageError(format!("no scenario `{name}`: there are {names}")).into());
        };
        let scenario: Self = toml::from_str(&text).map_err(|error| UsageError(format!("scenario {name}: {error}")))?;
        match scenario.steps.is_sorted_by_key(|step| step.at_s) {
            true => Ok(scenario),
            false => Err(UsageError(format!("scenario {name}: steps are not in the order of their times")).into()),
        }
    }
}

/// What is in a file; none where it is not there.
fn read_file(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The names of all scenarios, in `folder` or in the binary.
pub(super) fn names(folder: Option<&Path>) -> anyhow::Result<Vec<String>> {
    let Some(folder) = folder else { return Ok(BUILT_IN.map(|(name, _)| name.to_owned()).to_vec()) };
    let files = std::fs::read_dir(folder).with_context(|| {
        format!("cannot read the scenarios in {}: name their folder with --scenarios", folder.display())
    })?;
    let name = |path: std::path::PathBuf| {
        (path.extension()? == "toml").then(|| path.file_stem()?.to_str().map(str::to_owned)).flatten()
    };
    let mut names: Vec<String> = files.filter_map(|file| name(file.ok()?.path())).collect();
    names.sort();
    Ok(names)
}

/// Prints what there is.
pub(super) fn list(folder: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    for name in names(folder)? {
        let scenario = Scenario::read(folder, &name)?;
        let needs = if scenario.needs_containers { " (--containers)" } else { "" };
        writeln!(out, "{name}{needs}: {}", scenario.about)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_refused() {
        let text = "about = \"a\"\nfilter = \"\"\nseconds = 1\nsteps = []\nsurprise = 1\n[promises]\n\
                    undecided_seconds_max = 1\ncomplete_within_s = 1\n";
        assert!(toml::from_str::<Scenario>(text).unwrap_err().to_string().contains("surprise"));
        assert!(toml::from_str::<Scenario>(&text.replace("surprise = 1\n", "")).is_ok());
    }

    #[test]
    fn every_scenario_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cluster/scenarios");
        assert_eq!(names(Some(&folder)).unwrap(), names(None).unwrap(), "the binary has all that are there");
        for name in names(None).unwrap() {
            let scenario = Scenario::read(None, &name).unwrap();
            assert_eq!(Scenario::read(Some(&folder), &name).unwrap(), scenario);
            assert!(scenario.steps.iter().all(|step| step.at_s < scenario.seconds), "{name}");
            let needs = [Action::Disconnect, Action::Fill, Action::Slow];
            let is_hard = scenario.steps.iter().any(|step| needs.contains(&step.action));
            assert!(!is_hard || scenario.needs_containers, "{name}");
        }
    }
}
