//! Scenarios as files: a filter, failures with their times, and what must hold.
//!
//! Promises: a key that is not known in a file is refused. Must not know: how a step is carried out.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use firstseen_cli::exit::UsageError;
use firstseen_cli::flags::filter::parse_duration_ms;
use firstseen_cli::text::lines::folded;

/// One scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// What it is about, in a sentence.
    pub(super) about: String,
    /// Flags of `firstseen filter create`.
    pub(super) filter: String,
    /// How long producers send events.
    pub(super) seconds: u64,
    /// Whether it needs the network or the disk of a container.
    #[serde(default)]
    pub(super) needs_containers: bool,
    /// Whether its nodes begin with an earlier version.
    #[serde(default)]
    pub(super) needs_older: bool,
    /// A further compose file.
    #[serde(default)]
    pub(super) compose: Option<String>,
    /// Callers whose clocks are off by so much, beside the others: `+1h`, `-3d`. Callers then stamp events.
    #[serde(default)]
    pub(super) broken_clocks: Vec<ClockOffset>,
    /// What must hold beside the laws.
    pub(super) promises: Promises,
    /// The steps, in the order of their times.
    pub(super) steps: Vec<Step>,
}

/// What must hold beside the laws.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Promises {
    /// Events are undecided in so many seconds at most.
    pub(super) undecided_seconds_max: u64,
    /// So long after the end all slices are complete.
    pub(super) complete_within_s: u64,
    /// Whether events that lost slices knew may be first-seen again; otherwise none may.
    #[serde(default)]
    pub(super) may_forget: bool,
}

/// How much a clock is off: `+1h` is ahead, `-3d` is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct ClockOffset {
    /// Milliseconds; below zero where it is behind.
    pub(super) ahead_ms: i64,
}

impl FromStr for ClockOffset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = format!("`{text}` is not how much a clock is off: say +1h, or -3d");
        let (sign, duration) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(ahead), _) => (1, ahead),
            (_, Some(behind)) => (-1, behind),
            _ => return Err(wrong),
        };
        let off_ms = i64::try_from(parse_duration_ms(duration)?).map_err(|_| wrong)?;
        Ok(Self { ahead_ms: off_ms * sign })
    }
}

impl TryFrom<String> for ClockOffset {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ClockOffset> for String {
    fn from(offset: ClockOffset) -> Self {
        format!("{:+}ms", offset.ahead_ms)
    }
}

/// A failure, or its end.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// Seconds after the start.
    pub(super) at_s: u64,
    /// The action.
    #[serde(rename = "do")]
    pub(super) action: Action,
    /// The numbers of the nodes, from 1.
    pub(super) nodes: Vec<usize>,
}

/// An action on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// Its process ends without notice.
    Kill,
    /// Its process is started again.
    Start,
    /// Its process is ended by SIGTERM, and is started again.
    Restart,
    /// The same as `Restart`, and then the run waits until the node says that it is ready.
    RestartWhenReady,
    /// The same as `Restart`, by this version from then on.
    Upgrade,
    /// The same as `Restart`, by the earlier version from then on.
    Downgrade,
    /// The cluster writes the newest format from now on: the earlier version has no part in it any more.
    Finalize,
    /// Its process stands still (SIGSTOP).
    Pause,
    /// Its process goes on (SIGCONT).
    Resume,
    /// Its slices move to the other nodes, and it leaves the cluster.
    Drain,
    /// The network carries nothing to it, nor from it.
    Disconnect,
    /// The network carries its messages again.
    Connect,
    /// Its disk is full.
    Fill,
    /// Its disk has room again.
    Free,
    /// Messages of the others reach it late.
    Slow,
}

/// The files of `cluster/scenarios`, built into the binary.
const BUILT_IN: [(&str, &str); 11] = [
    ("broken-clock", include_str!("../../../../cluster/scenarios/broken-clock.toml")),
    ("disconnect", include_str!("../../../../cluster/scenarios/disconnect.toml")),
    ("disk-full", include_str!("../../../../cluster/scenarios/disk-full.toml")),
    ("kill", include_str!("../../../../cluster/scenarios/kill.toml")),
    ("lost-for-good", include_str!("../../../../cluster/scenarios/lost-for-good.toml")),
    ("pause", include_str!("../../../../cluster/scenarios/pause.toml")),
    ("power-cut", include_str!("../../../../cluster/scenarios/power-cut.toml")),
    ("restart-when-ready", include_str!("../../../../cluster/scenarios/restart-when-ready.toml")),
    ("rolling-restart", include_str!("../../../../cluster/scenarios/rolling-restart.toml")),
    ("slow-link", include_str!("../../../../cluster/scenarios/slow-link.toml")),
    ("upgrade", include_str!("../../../../cluster/scenarios/upgrade.toml")),
];

impl Scenario {
    /// The wrong clocks as a flag has them.
    pub(super) fn broken_clocks(&self) -> String {
        let clocks = self.broken_clocks.iter().map(|clock| String::from(*clock));
        clocks.collect::<Vec<_>>().join(",")
    }

    /// The scenario of this name, in `folder` or among those of the binary.
    ///
    /// # Errors
    /// Where there is none, or the file is wrong.
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
        if scenario.steps.is_sorted_by_key(|step| step.at_s) {
            Ok(scenario)
        } else {
            Err(UsageError(format!("scenario {name}: steps are not in the order of their times")).into())
        }
    }
}

/// The text of a file; none where there is no such file.
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
    let mut names = Vec::new();
    for path in files.flatten().map(|file| file.path()) {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(name) = stem.filter(|_| path.extension().is_some_and(|extension| extension == "toml")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Prints the list of scenarios.
pub(super) fn list(folder: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    for name in names(folder)? {
        let scenario = Scenario::read(folder, &name)?;
        let needs = match (scenario.needs_containers, scenario.needs_older) {
            (true, _) => " (--containers)",
            (_, true) => " (--older)",
            _ => "",
        };
        writeln!(out, "{}", folded(&format!("{name}{needs}: {}", scenario.about), 4))?;
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
    fn clocks_are_off_by_what_a_file_says() {
        let offset = |text: &str| text.parse::<ClockOffset>();
        assert_eq!(offset("+1h").map(|clock| clock.ahead_ms), Ok(3_600_000));
        assert_eq!(offset("-3d").map(|clock| clock.ahead_ms), Ok(-3 * 86_400_000));
        let there_and_back = offset("-3d").map(|clock| offset(&String::from(clock)));
        assert_eq!(there_and_back, Ok(offset("-3d")));
        for wrong in ["1h", "+", "-soon", ""] {
            assert!(offset(wrong).is_err(), "{wrong}");
        }
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
