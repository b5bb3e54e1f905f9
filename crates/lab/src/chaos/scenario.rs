//! Reads the scenarios of `firstseen-lab chaos` from files. A scenario describes a filter, the failures that are
//! injected and their times, and the promises that must hold in spite of the failures. A file with an unknown key is
//! rejected, so that a misspelled key is not ignored.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use firstseen_cli::exit::UsageError;
use firstseen_cli::flags::filter::parse_duration_ms;
use firstseen_cli::text::lines::folded;

/// Scenario of `firstseen-lab chaos`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// Description in one sentence.
    pub(super) about: String,
    /// Flags of `firstseen filter create`.
    pub(super) filter: String,
    /// Time during which producers send events, in seconds.
    pub(super) seconds: u64,
    /// Whether the scenario needs the network or the disk of a container.
    #[serde(default)]
    pub(super) needs_containers: bool,
    /// Whether the nodes start with an earlier version.
    #[serde(default)]
    pub(super) needs_older: bool,
    /// Additional compose file.
    #[serde(default)]
    pub(super) compose: Option<String>,
    /// Offsets of wrong clocks, such as `+1h` or `-3d`, with an additional caller for each. If there are any, callers
    /// stamp events.
    #[serde(default)]
    pub(super) broken_clocks: Vec<ClockOffset>,
    /// Promises that must hold in addition to the general rules.
    pub(super) promises: Promises,
    /// Steps, in the order of their times.
    pub(super) steps: Vec<Step>,
}

/// Promises that must hold in addition to the general rules.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Promises {
    /// Maximum number of seconds in which events are undecided.
    pub(super) undecided_seconds_max: u64,
    /// Maximum time from the end of the run until all slices are complete, in seconds.
    pub(super) complete_within_s: u64,
    /// Whether events may be first-seen again because the slices that knew them were lost.
    #[serde(default)]
    pub(super) may_forget: bool,
}

/// Offset of a wrong clock: `+1h` is ahead, `-3d` is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct ClockOffset {
    /// Offset in milliseconds, negative if the clock is behind.
    pub(super) ahead_ms: i64,
}

impl FromStr for ClockOffset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = format!("`{text}` is not the offset of a clock: write +1h, or -3d");
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

/// Failure, or the end of a failure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// Seconds after the start.
    pub(super) at_s: u64,
    /// Action of the step.
    #[serde(rename = "do")]
    pub(super) action: Action,
    /// Numbers of the nodes, starting with 1.
    pub(super) nodes: Vec<usize>,
}

/// Action on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// Kills the process without warning.
    Kill,
    /// Starts the process again.
    Start,
    /// Ends the process with SIGTERM, and starts it again.
    Restart,
    /// Restarts the process as `Restart` does, and waits until the node is ready.
    RestartWhenReady,
    /// Restarts the process with the current version.
    Upgrade,
    /// Restarts the process with the earlier version.
    Downgrade,
    /// Lets the cluster write the newest format. Nodes of the earlier version cannot participate any more.
    Finalize,
    /// Suspends the process (SIGSTOP).
    Pause,
    /// Resumes the process (SIGCONT).
    Resume,
    /// Moves the slices of the node to the other nodes, and removes the node from the cluster.
    Drain,
    /// Disconnects the node from the network.
    Disconnect,
    /// Connects the node to the network again.
    Connect,
    /// Fills the disk of the node.
    Fill,
    /// Frees the disk of the node.
    Free,
    /// Delays the messages of the other nodes to this node.
    Slow,
}

/// Files of `cluster/scenarios`, which are built into the binary.
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
    /// Returns the offsets of wrong clocks in the form of a flag.
    pub(super) fn broken_clocks(&self) -> String {
        let clocks = self.broken_clocks.iter().map(|clock| String::from(*clock));
        clocks.collect::<Vec<_>>().join(",")
    }

    /// Reads the scenario with this name, from `folder` or from the built-in scenarios.
    ///
    /// # Errors
    /// Returns an error if the scenario does not exist, or if its file is invalid.
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
            Err(UsageError(format!("scenario {name}: the steps are not in the order of their times")).into())
        }
    }
}

/// Returns the contents of a file, or `None` if the file does not exist.
fn read_file(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Returns the names of all scenarios in `folder`, or of the built-in scenarios.
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
