//! Runs the nodes of a scenario in the containers of `docker-compose.yml`, in a compose project of its own. When the
//! program ends, it removes the containers that it has started, together with their volumes.

use firstseen_cli::notice;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

use super::scenario::Action;
use super::stage::Stage;
use firstseen_cli::exit::UsageError;
use firstseen_cli::text::size::ByteSize;

const PROJECT: &str = "firstseen-chaos";
/// Paths of the programs in the image.
const FIRSTSEEN: &str = "/firstseen";
const FIRSTSEEN_LAB: &str = "/firstseen-lab";
/// File that fills the disk of a node.
const BALLAST: &str = "/data/ballast";
/// Flags that select the operator's certificates in a container.
const ADMIN_TLS: [&str; 6] =
    ["--tls-ca", "/certs/ca.pem", "--tls-cert", "/certs/admin.pem", "--tls-key", "/certs/admin.key"];
/// Flags that select the producer's certificates in a container.
const PRODUCER_TLS: [&str; 6] = [
    "--tls-ca",
    "/certs/ca.pem",
    "--tls-cert",
    "/certs/producer.client.pem",
    "--tls-key",
    "/certs/producer.client.key",
];

/// Cluster whose nodes run in containers.
pub(super) struct Containers {
    /// Words of the compose command, which is `docker compose` or the older `docker-compose`.
    compose: Vec<String>,
}

impl Containers {
    /// Starts the nodes, and forms a cluster of them.
    pub(super) fn start(further_file: Option<&str>) -> anyhow::Result<Self> {
        if !succeeds("docker", &["info"]) {
            return Err(
                UsageError("no container engine answers (docker info): leave --containers out".to_owned()).into()
            );
        }
        let words: &[&str] =
            if succeeds("docker", &["compose", "version"]) { &["docker", "compose"] } else { &["docker-compose"] };
        let mut compose: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        compose.extend(["-p", PROJECT, "-f", "docker-compose.yml"].map(str::to_owned));
        compose.extend(further_file.iter().flat_map(|file| ["-f".to_owned(), (*file).to_owned()]));
        let containers = Self { compose };
        containers.compose(&["up", "--detach", "--build", "certs", "node-1", "node-2", "node-3"])?;
        finish(
            containers
                .in_container(FIRSTSEEN)
                .args(["cluster", "form", "node-1:7400", "node-2:7400", "node-3:7400"])
                .args(ADMIN_TLS),
        )?;
        Ok(containers)
    }

    fn compose(&self, args: &[&str]) -> anyhow::Result<()> {
        finish(Command::new(&self.compose[0]).args(&self.compose[1..]).args(args))
    }

    /// Returns a command that runs the program `program` of the image in a new container, in the same network as the
    /// nodes. The caller adds the arguments of the program. The container is removed when the program ends.
    fn in_container(&self, program: &str) -> Command {
        let mut command = Command::new(&self.compose[0]);
        command.args(&self.compose[1..]).args(["run", "--rm", "-T", "--no-deps", "--entrypoint", program, "form"]);
        command
    }

    /// Returns the addresses of all nodes except `besides`.
    fn addresses(besides: Option<usize>) -> Vec<String> {
        let nodes = (1..=super::local::NODES).filter(|node| Some(*node) != besides);
        nodes.map(|node| format!("node-{node}:7400")).collect()
    }

    fn container(node: usize) -> anyhow::Result<String> {
        let of = format!("label=com.docker.compose.service=node-{node}");
        let project = format!("label=com.docker.compose.project={PROJECT}");
        let listed =
            Command::new("docker").args(["ps", "--all", "--quiet", "--filter", &project, "--filter", &of]).output()?;
        let ids = String::from_utf8_lossy(&listed.stdout);
        ids.lines().next().map(str::to_owned).with_context(|| format!("there is no container of node {node}"))
    }
}

impl Stage for Containers {
    fn command(&self, args: &[&str], besides: Option<usize>) -> Command {
        let addresses = Self::addresses(besides);
        let mut command = self.in_container(FIRSTSEEN);
        command.args(args);
        match args.first() {
            Some(&"cluster") => command.args(["--addr", addresses.first().map_or("", String::as_str)]),
            _ => command.args(["--cluster", &addresses.join(",")]),
        };
        command.args(ADMIN_TLS);
        command
    }

    fn producer(&self, args: &[&str]) -> anyhow::Result<Command> {
        let mut command = self.in_container(FIRSTSEEN_LAB);
        command.args(args).args(["--cluster", &Self::addresses(None).join(",")]).args(PRODUCER_TLS);
        Ok(command)
    }

    fn act(&mut self, action: Action, node: usize) -> anyhow::Result<()> {
        let container = Self::container(node)?;
        let network = format!("{PROJECT}_private");
        let alias = format!("node-{node}");
        let args: Vec<&str> = match action {
            Action::Kill => vec!["kill", &container],
            Action::Start => vec!["start", &container],
            Action::Restart => vec!["restart", "--time", "15", &container],
            Action::Pause => vec!["pause", &container],
            Action::Resume => vec!["unpause", &container],
            Action::Disconnect => vec!["network", "disconnect", &network, &container],
            Action::Connect => vec!["network", "connect", "--alias", &alias, &network, &container],
            Action::Fill => vec!["exec", &container, FIRSTSEEN_LAB, "chaos", "ballast", BALLAST, "1GiB"],
            Action::Free => vec!["exec", &container, FIRSTSEEN_LAB, "chaos", "ballast", BALLAST],
            Action::Slow => return finish(Command::new("cluster/delay.sh").args(["100", PROJECT])),
            Action::RestartWhenReady => bail!("RestartWhenReady is not an action of a container"),
            Action::Drain | Action::Finalize => bail!("{action:?} is an action of the cluster"),
            Action::Upgrade | Action::Downgrade => {
                bail!("{action:?} is only supported for processes: run it without --containers")
            }
        };
        finish(Command::new("docker").args(args))
    }

    fn not_ready(&self, node: usize) -> Option<String> {
        let asked = Self::container(node).and_then(|container| {
            let asks = ["exec", &container, FIRSTSEEN, "node", "health", "--addr", "127.0.0.1:7401"];
            finish(Command::new("docker").args(asks))
        });
        asked.err().map(|error| format!("{error:#}"))
    }

    fn name_of(&self, node: usize) -> String {
        format!("node-{node}")
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        if let Err(error) = self.compose(&["down", "--volumes", "--remove-orphans"]) {
            notice!("firstseen-lab: {error:#}");
        }
    }
}

/// Returns whether a command can be run and exits with code 0.
fn succeeds(program: &str, args: &[&str]) -> bool {
    let run = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// Runs the command and waits for its end.
pub(super) fn finish(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}", said.lines().rev().take(5).collect::<Vec<_>>().join(" / "));
    }
    // Lines of `NO ...` on standard output report actions that were not possible.
    let notices = String::from_utf8_lossy(&output.stdout);
    notices.lines().filter(|line| line.starts_with("NO ")).for_each(|line| notice!("firstseen-lab: {line}"));
    Ok(())
}

/// Writes zeros to the file until the file has the given number of bytes or the disk is full. Without a number, removes
/// the file.
pub(super) fn ballast(path: &Path, bytes: Option<ByteSize>) -> anyhow::Result<ExitCode> {
    let Some(ByteSize(bytes)) = bytes else {
        std::fs::remove_file(path)?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut file = std::fs::File::create(path)?;
    let zeros = vec![0; 64 << 10];
    for _ in 0..bytes.div_ceil(zeros.len() as u64) {
        match file.write_all(&zeros) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ExitCode::SUCCESS)
}
