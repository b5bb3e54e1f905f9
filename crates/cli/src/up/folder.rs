//! The folder of a local cluster. It describes the nodes with their sites and ports, and has a folder for each node.
//!
//! # Guarantees
//!
//! - A folder that contains other files is not changed.
//! - Two commands never run the same folder.
//! - Existing configurations are not overwritten, so users can edit them.
//!
//! This module does not depend on processes.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::asked::{Asked, MEMORY, default_site};
use super::http_endpoint::LocalHttpEndpoint;
use super::ports::{following, free, is_free};
use super::redis_endpoint::{CLICKS, LocalRedisEndpoint};
use crate::certs::{self, CertsArgs};
use crate::exit::UsageError;
use crate::flags::tls::TlsArgs;
use crate::node;
use crate::node::config_file::NodeFile;
use crate::text::size::ByteSize;

/// File that marks a folder as a folder of this command, and describes the cluster.
const DESCRIPTION: &str = "up.json";
/// File with the id of the process that runs the cluster. It exists while the cluster runs.
const PROCESS: &str = "up.pid";
/// Configuration of a node, in the node's folder.
const CONFIG: &str = "node.toml";
/// Name in the certificate for producers.
const PRODUCER: &str = "local";
const CERTIFICATE_DAYS: u16 = 365;

/// A folder that is locked, so that no other process uses it.
pub struct Folder {
    path: PathBuf,
    description: Description,
    /// Lock that is held until this value is dropped.
    _lock: File,
}

/// Content of the file that describes the folder.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    version: u32,
    /// Whether nodes require certificates. The certificates are stored in the folder too.
    tls: bool,
    /// Port of the Redis endpoint of the first node. `None` means that the node has no Redis endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redis: Option<u16>,
    /// Port of the HTTP endpoint of the first node. `None` means that the node has no HTTP endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    http_api: Option<u16>,
    nodes: Vec<LocalNode>,
}

/// A node of a local cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalNode {
    /// Name of the node and of its folder.
    pub name: String,
    /// Site of the node.
    #[serde(default = "default_site")]
    pub site: String,
    port: u16,
    http_port: u16,
}

impl LocalNode {
    /// Returns the address on which the node listens for producers and other nodes.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the address on which the node serves health and metrics.
    pub fn http_address(&self) -> String {
        format!("127.0.0.1:{}", self.http_port)
    }
}

impl Folder {
    /// Creates a folder, or opens the existing folder.
    ///
    /// # Errors
    /// Returns a [`UsageError`] if the folder contains other files, has another number of nodes or other ports, or is
    /// in use.
    pub fn open(path: &Path, asked: Asked) -> anyhow::Result<Self> {
        let shown = path.display();
        asked.check()?;
        check_usable(path)?;
        if !path.join(DESCRIPTION).exists() {
            asked.check_free()?;
        }
        fs::create_dir_all(path).with_context(|| format!("cannot make the folder {shown}"))?;
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(path.join(DESCRIPTION));
        let lock = opened.with_context(|| format!("cannot write in {shown}"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(UsageError(format!(
                "the cluster in {shown} is running: end that one first, or choose another folder with --data"
            ))),
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("cannot lock {shown}")),
        }
        let description = match fs::read_to_string(path.join(DESCRIPTION))? {
            text if text.is_empty() => {
                let description = Description::new(path, &asked)?;
                fs::write(path.join(DESCRIPTION), serde_json::to_string_pretty(&description)? + "\n")?;
                description
            }
            text => {
                let description: Description = serde_json::from_str(&text)
                    .map_err(|error| UsageError(format!("{shown}/{DESCRIPTION} cannot be used: {error}")))?;
                description.check(path, &asked)?;
                description.check_memory(path, asked.memory)?;
                description.check_free(path)?;
                description
            }
        };
        fs::write(path.join(PROCESS), format!("{}\n", std::process::id()))?;
        let folder = Self { path: path.to_owned(), description, _lock: lock };
        folder.make_certificates()?;
        folder.nodes().iter().try_for_each(|node| folder.make_node(node, asked.memory.unwrap_or(MEMORY)))?;
        Ok(folder)
    }

    /// Returns the Redis endpoint, if the configuration of the first node still has one.
    pub(crate) fn endpoint(&self) -> Option<LocalRedisEndpoint> {
        LocalRedisEndpoint::of(&self.config(self.nodes().first()?))
    }

    /// Returns the HTTP endpoint, if the configuration of the first node still has one.
    pub(crate) fn http_endpoint(&self) -> Option<LocalHttpEndpoint> {
        LocalHttpEndpoint::of(&self.config(self.nodes().first()?))
    }

    /// Returns the TLS flags for the client called `name`, such as an operator or a producer. They are empty if nodes
    /// do not require certificates.
    pub fn tls(&self, name: &str) -> TlsArgs {
        let [tls_ca, tls_cert, tls_key] = ["ca.pem", &format!("{name}.pem"), &format!("{name}.key")]
            .map(|file| self.description.tls.then(|| self.certificates().join(file)));
        TlsArgs { tls_ca, tls_cert, tls_key, token_file: None }
    }

    fn certificates(&self) -> PathBuf {
        self.path.join("certs")
    }

    fn make_certificates(&self) -> anyhow::Result<()> {
        if !self.description.tls {
            return Ok(());
        }
        let args = CertsArgs {
            out: self.certificates(),
            nodes: self.nodes().iter().map(|node| node.name.clone()).collect(),
            clients: vec![PRODUCER.to_owned()],
            admin: true,
            revoke: Vec::new(),
            hosts: Vec::new(),
            if_absent: true,
            days: CERTIFICATE_DAYS,
        };
        certs::run(&args, &mut std::io::sink())
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the nodes of the cluster.
    pub fn nodes(&self) -> &[LocalNode] {
        &self.description.nodes
    }

    /// Returns whether the nodes belong to more than one site.
    pub(crate) fn has_sites(&self) -> bool {
        self.nodes().windows(2).any(|nodes| nodes[0].site != nodes[1].site)
    }

    /// Returns the URL of the console, if the configuration of the first node still has one.
    pub(crate) fn console(&self) -> Option<String> {
        let first = self.nodes().first()?;
        let file = NodeFile::read(&self.config(first), &[]).ok()?;
        file.node.http.console.then(|| format!("http://{}/ui", first.http_address()))
    }

    /// Returns the path of a node's configuration.
    pub(crate) fn config(&self, node: &LocalNode) -> PathBuf {
        self.path.join(&node.name).join(CONFIG)
    }

    /// Returns the address for health checks that the configuration of a node has now, because users can edit it.
    /// Returns `None` if the node serves no health checks.
    pub(crate) fn health_address(&self, node: &LocalNode) -> Option<String> {
        let file = NodeFile::read(&self.config(node), &[]).ok()?;
        file.node.http_listen.map(|address| address.to_string())
    }

    /// Checks that each node can start with its configuration, which the user may have edited.
    ///
    /// # Errors
    /// Returns an error that names the file, and the line and the key if they are known.
    pub(crate) fn check_nodes(&self) -> anyhow::Result<()> {
        self.nodes().iter().try_for_each(|node| node::check_config(&self.config(node)))
    }

    /// Returns the path of a node's log.
    pub(crate) fn log(&self, node: &LocalNode) -> PathBuf {
        self.path.join(&node.name).join("log")
    }

    fn make_node(&self, node: &LocalNode, memory: ByteSize) -> anyhow::Result<()> {
        let config = self.config(node);
        let data = self.path.join(&node.name).join("data");
        fs::create_dir_all(&data).with_context(|| format!("cannot make the folder {}", data.display()))?;
        let LocalNode { name, site, .. } = node;
        let listen = node.address();
        let http = node.http_address();
        let memory = memory.0;
        let mut text = format!(
            "name = \"{name}\"\nsite = \"{site}\"\nlisten = \"{listen}\"\nhttp_listen = \"{http}\"\n\
             data_dir = \"data\"\nmemory_max_bytes = {memory}\n\n[http]\nconsole = true\n"
        );
        if config.exists() {
            return Ok(());
        }
        let is_first = self.description.nodes.first().is_some_and(|first| first.name == *name);
        if let Some(port) = self.description.redis.filter(|_| is_first) {
            // The configuration lets clients create filters by using them, so that users can try something at once.
            // Filters with a window are created with `firstseen filter create`.
            text += &format!(
                "\n[redis]\nlisten = \"127.0.0.1:{port}\"\nsandbox = true\n\n[[redis.prefix]]\nmatch = \"{CLICKS}:\"\n\
                 filter = \"{CLICKS}\"\n"
            );
        }
        if let Some(port) = self.description.http_api.filter(|_| is_first) {
            text += &format!("\n[http_api]\nlisten = \"127.0.0.1:{port}\"\n");
        }
        if self.description.tls {
            text += &format!(
                "\n[tls]\nca = \"../certs/ca.pem\"\ncert = \"../certs/{name}.node.pem\"\n\
                 key = \"../certs/{name}.node.key\"\ntokens = true\n"
            );
        }
        fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))
    }
}

impl Description {
    fn new(folder: &Path, asked: &Asked) -> anyhow::Result<Self> {
        let sites = asked.sites();
        let ports = match asked.port {
            Some(first) => following(first, 2 * sites.len())?,
            None => free(folder, 2 * sites.len())?,
        };
        let (ports, http_ports) = ports.split_at(sites.len());
        let nodes = (1..).zip(sites).zip(ports.iter().zip(http_ports));
        let nodes = nodes.map(|((number, site), (port, http_port))| LocalNode {
            name: format!("node-{number}"),
            site,
            port: *port,
            http_port: *http_port,
        });
        Ok(Self { version: 1, tls: asked.tls, redis: asked.redis, http_api: asked.http_api, nodes: nodes.collect() })
    }

    fn check(&self, path: &Path, asked: &Asked) -> Result<(), UsageError> {
        let shown = path.display();
        let there = self.nodes.len();
        if self.version != 1 {
            return Err(UsageError(format!("{shown} was made by a newer firstseen: use that one")));
        }
        if asked.nodes.is_some_and(|nodes| nodes != there) {
            return Err(UsageError(format!(
                "{shown} has a cluster of {there} nodes: leave --nodes out, or choose another folder with --data"
            )));
        }
        if !asked.sites.is_empty() && !self.nodes.iter().map(|node| &node.site).eq(&asked.sites) {
            let sites: Vec<&str> = self.nodes.iter().map(|node| node.site.as_str()).collect();
            return Err(UsageError(format!(
                "{shown} has a cluster with nodes at the sites {}: leave --sites and --nodes-per-site out, or choose \
                 another folder with --data",
                sites.join(", ")
            )));
        }
        if asked.tls && !self.tls {
            return Err(UsageError(format!(
                "{shown} has a cluster without TLS: leave --tls out, or choose another folder with --data"
            )));
        }
        if asked.http_api.is_some() && asked.http_api != self.http_api {
            let has = self.http_api.map_or("no endpoint".to_owned(), |port| format!("its endpoint on port {port}"));
            return Err(UsageError(format!(
                "{shown} has a cluster with {has} for HTTP clients: leave --http-api out, or choose another folder with --data"
            )));
        }
        if asked.redis.is_some() && asked.redis != self.redis {
            let has = self.redis.map_or("no endpoint".to_owned(), |port| format!("its endpoint on port {port}"));
            return Err(UsageError(format!(
                "{shown} has a cluster with {has} for Redis clients: leave --redis out, or choose another folder with --data"
            )));
        }
        match (asked.port, self.nodes.first()) {
            (Some(port), Some(first)) if port != first.port => Err(UsageError(format!(
                "{shown} has a cluster on port {} and following: leave --port out, or choose another folder with --data",
                first.port
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the nodes have the memory that a flag asks for. The configurations that are there count, because
    /// users can edit them. A configuration that cannot be read is reported when the nodes are started.
    fn check_memory(&self, path: &Path, asked: Option<ByteSize>) -> Result<(), UsageError> {
        let Some(asked) = asked else { return Ok(()) };
        for node in &self.nodes {
            let config = path.join(&node.name).join(CONFIG);
            let Ok(file) = NodeFile::read(&config, &[]) else { continue };
            let there = ByteSize(file.node.memory_max_bytes);
            if there != asked {
                return Err(UsageError(format!(
                    "{} has a cluster whose nodes have {there} of memory for cells: leave --memory out and edit \
                     memory_max_bytes in {} and the other nodes' files, or choose another folder with --data",
                    path.display(),
                    config.display()
                )));
            }
        }
        Ok(())
    }

    /// Checks that no other program listens on the addresses of the nodes. Otherwise commands would reach another
    /// cluster.
    fn check_free(&self, path: &Path) -> Result<(), UsageError> {
        for node in &self.nodes {
            if let Some(port) = [node.port, node.http_port].into_iter().find(|port| !is_free(*port)) {
                return Err(UsageError(format!(
                    "port {port} of {} in {} is in use by another program, perhaps another cluster: end that one, or choose \
                     another folder with --data",
                    node.name,
                    path.display()
                )));
            }
        }
        for (port, clients) in [(self.redis, "Redis"), (self.http_api, "HTTP")] {
            if let Some(port) = port.filter(|port| !is_free(*port)) {
                return Err(UsageError(format!(
                    "port {port} of the endpoint for {clients} clients in {} is in use by another program: end that \
                     one, or choose another folder with --data",
                    path.display()
                )));
            }
        }
        Ok(())
    }
}

/// Returns the id of the process that runs the cluster in the folder at `path`. `None` means that the cluster does not
/// run.
///
/// # Errors
/// Returns a [`UsageError`] if the folder has no cluster.
pub(super) fn running(path: &Path) -> anyhow::Result<Option<i32>> {
    let shown = path.display();
    let lock = match File::open(path.join(DESCRIPTION)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(UsageError(format!(
            "there is no cluster in {shown}: name the folder in which `firstseen up` created it with --data DIR"
        ))),
        Err(error) => bail!(UsageError(format!("cannot use the cluster in {shown}: {error}"))),
    };
    match lock.try_lock() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let text =
                fs::read_to_string(path.join(PROCESS)).with_context(|| format!("cannot read {shown}/{PROCESS}"))?;
            let process = text.trim().parse().ok().filter(|process| *process > 1);
            Ok(Some(process.with_context(|| format!("{shown}/{PROCESS} holds no number of a process"))?))
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {shown}")),
    }
}

/// Returns the address at which the first node of a local cluster serves health checks and metrics. `path` is the
/// folder of the cluster. `None` means that the folder contains no cluster.
pub(crate) fn first_http(path: &Path) -> Option<String> {
    let description = fs::read_to_string(path.join(DESCRIPTION)).ok()?;
    let description: Description = serde_json::from_str(&description).ok()?;
    description.nodes.first().map(LocalNode::http_address)
}

/// Checks that a folder is missing, is empty, or was created by this command.
fn check_usable(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let mut entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(UsageError(format!("cannot use the folder {shown}: {error}")).into()),
    };
    match entries.next() {
        Some(first) if !path.join(DESCRIPTION).exists() => Err(UsageError(format!(
            "{shown} contains other files ({}): choose another folder with --data",
            first?.file_name().display()
        ))
        .into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(nodes: Option<usize>, port: Option<u16>) -> Asked {
        Asked {
            nodes,
            sites: Vec::new(),
            port,
            tls: false,
            redis: None,
            http_api: None,
            memory: Some(ByteSize(1 << 26)),
        }
    }

    fn at(sites: &[&str]) -> Asked {
        Asked { sites: sites.iter().map(|site| (*site).to_owned()).collect(), ..asked(None, None) }
    }

    fn refused(path: &Path, asked: Asked) -> String {
        Folder::open(path, asked).err().expect("it must be refused").to_string()
    }

    fn refusal(path: &Path, nodes: Option<usize>, port: Option<u16>) -> String {
        refused(path, asked(nodes, port))
    }

    #[test]
    fn a_folder_is_made_once_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let made = Folder::open(&path, asked(Some(2), None)).unwrap();
        let nodes = made.nodes().to_vec();
        assert!(refusal(&path, None, None).contains("is running"));
        drop(made);
        let config = path.join("node-1/node.toml");
        fs::write(&config, "edited").unwrap();
        assert_eq!(Folder::open(&path, asked(None, None)).unwrap().nodes(), nodes);
        assert_eq!(fs::read_to_string(config).unwrap(), "edited");
        assert!(refusal(&path, Some(3), None).contains("a cluster of 2 nodes: leave --nodes out"));
        assert!(refusal(&path, None, Some(1)).contains("leave --port out"));
    }

    /// Regression test. `firstseen up --memory 2GiB` on an existing folder started the nodes with their old memory, and
    /// said nothing about it.
    #[test]
    fn another_memory_than_that_of_an_existing_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        drop(Folder::open(&path, asked(Some(2), None)).unwrap());
        drop(Folder::open(&path, asked(None, None)).unwrap());
        drop(Folder::open(&path, Asked { memory: None, ..asked(None, None) }).unwrap());
        let said = refused(&path, Asked { memory: Some(ByteSize(2 << 30)), ..asked(None, None) });
        assert!(said.contains("whose nodes have 64 MiB of memory for cells: leave --memory out"), "{said}");
        assert!(said.contains("data/node-1/node.toml"), "{said}");
    }

    #[test]
    fn nodes_stay_at_their_sites() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let sites = ["athens", "athens", "oslo"];
        drop(Folder::open(&path, at(&sites)).unwrap());
        let again = Folder::open(&path, asked(None, None)).unwrap();
        for (node, site) in again.nodes().iter().zip(sites) {
            let file = NodeFile::read(&again.config(node), &[]).unwrap();
            assert_eq!((node.site.as_str(), file.node.site.as_str()), (site, site));
        }
        drop(again);
        drop(Folder::open(&path, at(&sites)).unwrap());
        assert!(refused(&path, at(&["athens", "oslo"])).contains("at the sites athens, athens, oslo"));
        assert!(refused(&folder.path().join("other"), at(&["athens", "the moon"])).contains("site `the moon`"));
        // Descriptions that were written before sites existed have no site.
        let old: LocalNode = serde_json::from_str(r#"{"name": "node-1", "port": 1, "http_port": 2}"#).unwrap();
        assert_eq!(old.site, "default");
    }

    #[test]
    fn other_folders_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        assert!(refusal(folder.path(), None, None).contains("contains other files (thesis.tex)"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn configurations_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let made = Folder::open(folder.path(), Asked { tls: true, ..asked(Some(1), None) }).unwrap();
        assert!(made.tls("admin").connector().unwrap().tls.is_some() && made.tls("local.client").connector().is_ok());
        let file = NodeFile::read(&made.config(&made.nodes()[0]), &[]).unwrap();
        assert_eq!((file.node.name.as_str(), file.node.memory_max_bytes), ("node-1", 1 << 26));
        assert!(file.node.data_dir.is_dir());
        let console = format!("http://{}/ui", made.nodes()[0].http_address());
        assert_eq!(made.console(), Some(console));
        assert_eq!(first_http(folder.path()), Some(made.nodes()[0].http_address()));
        assert_eq!(first_http(Path::new("nowhere")), None);
        let config = made.config(&made.nodes()[0]);
        let without = fs::read_to_string(&config).unwrap().replace("console = true", "console = false");
        fs::write(config, without).unwrap();
        assert_eq!(made.console(), None, "what somebody has edited counts");
    }
}
