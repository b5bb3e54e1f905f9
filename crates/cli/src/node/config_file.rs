//! Reads the configuration of a node from a TOML file. Every error message names the file, the line and the key, and
//! says what to do. Relative paths in the file are relative to the folder of the file, so a service can be started from
//! any folder.

use std::fs;
use std::ops::Range;
use std::path::Path;

use firstseen_node::AuditFile;
use firstseen_node::NodeConfig;
use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, de};

use super::log::LogConfig;
use super::set::Set;
use super::traces::TracesConfig;
use crate::exit::UsageError;

/// Maximum size of a configuration file in bytes. This is about a thousand times the size of a realistic configuration.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Configuration of a node, as read from a file.
#[derive(Clone, Debug)]
pub struct NodeFile {
    /// Settings of the node.
    pub node: NodeConfig,
    /// Settings of the node's log.
    pub log: LogConfig,
    /// Settings that say where the node sends its traces.
    pub(super) traces: TracesConfig,
}

impl NodeFile {
    /// Reads and checks the file at `path`, including its certificates. `sets` take precedence over the settings in the
    /// file.
    ///
    /// # Errors
    /// Returns a [`UsageError`] that names the file, and the line and the key if they are known.
    pub fn read(path: &Path, sets: &[Set]) -> anyhow::Result<Self> {
        let unreadable =
            |reason: &str| UsageError(format!("cannot read the configuration {}: {reason}", path.display()));
        let metadata = fs::metadata(path).map_err(|error| unreadable(&error.to_string()))?;
        if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
            return Err(unreadable("it is no file of at most 1 MiB").into());
        }
        let text = fs::read_to_string(path).map_err(|error| unreadable(&error.to_string()))?;
        let mut file = Self::parse(path, &text, sets)?;
        file.resolve(path.parent().unwrap_or(Path::new("")));
        file.check_tls(path)?;
        file.check_audit(path)?;
        Ok(file)
    }

    /// Parses `text`, which is the content of the file at `path`. `sets` take precedence over the settings in the text.
    ///
    /// # Errors
    /// Returns a [`UsageError`] that names the file, and the line and the key if they are known.
    pub fn parse(path: &Path, text: &str, sets: &[Set]) -> anyhow::Result<Self> {
        let place = Place { path, text, sets };
        let mut table = DeTable::parse(text).map_err(|error| place.toml(&error))?;
        for (set, at) in sets.iter().zip(text.len() + 1..) {
            set.put(table.get_mut(), at..at).map_err(UsageError)?;
        }
        let keys = table.get_ref().clone();
        let log: LogConfig = section(&mut table, "log").map_err(|error| place.toml(&error))?;
        let traces: TracesConfig = section(&mut table, "traces").map_err(|error| place.toml(&error))?;
        let node = NodeConfig::deserialize(de::Deserializer::from(table)).map_err(|error| place.toml(&error))?;
        if let Err(error) = node.check() {
            return Err(place.at(place_of(&keys, &error.key()), &error.to_string()).into());
        }
        if let Err(error) = super::log::filter(&log.level) {
            let message = format!("log.level = \"{}\": {error}; give error, warn, info, debug or trace", log.level);
            return Err(place.at(place_of(&keys, "log.level"), &message).into());
        }
        if let Err(message) = traces.check() {
            return Err(place.at(place_of(&keys, "traces.otlp"), &message).into());
        }
        Ok(Self { node, log, traces })
    }

    /// Resolves the paths in the configuration, which are relative to the folder of its file.
    fn resolve(&mut self, folder: &Path) {
        let mut paths = vec![&mut self.node.data_dir];
        paths.extend(self.node.audit.as_mut().map(|audit| &mut audit.file));
        if let Some(tls) = &mut self.node.tls {
            paths.extend([&mut tls.ca, &mut tls.cert, &mut tls.key]);
            paths.extend(&mut tls.crl);
        }
        for path in paths {
            *path = folder.join(&path);
        }
    }

    fn check_audit(&self, path: &Path) -> Result<(), UsageError> {
        let Some(audit) = &self.node.audit else { return Ok(()) };
        AuditFile::check(&audit.file).map_err(|error| UsageError(format!("{}: {error}", path.display())))
    }

    fn check_tls(&self, path: &Path) -> Result<(), UsageError> {
        let Some(tls) = &self.node.tls else { return Ok(()) };
        let tried = tls.files().client().and_then(|_| tls.server_files(&self.node.name).server());
        tried.map(|_| ()).map_err(|error| UsageError(format!("{}, [tls]: {error}", path.display())))
    }
}

/// Removes a section that is not part of [`NodeConfig`] from the table, and returns its content.
fn section<'text, T: Default + Deserialize<'text>>(
    table: &mut Spanned<DeTable<'text>>,
    name: &str,
) -> Result<T, de::Error> {
    let section = table.get_mut().remove(name);
    section.map(|section| T::deserialize(ValueDeserializer::from(section))).transpose().map(Option::unwrap_or_default)
}

/// Names the place of a mistake in the configuration, for an error message. The mistake is either in the configuration
/// file or in a setting of the command line (`--set`).
///
/// The parser reports the place as a number. A number up to the length of the file is a byte position in the file. Each
/// greater number stands for one setting of the command line.
struct Place<'a> {
    path: &'a Path,
    text: &'a str,
    sets: &'a [Set],
}

impl Place<'_> {
    fn at(&self, span: Option<Range<usize>>, message: &str) -> UsageError {
        let path = self.path.display();
        let set = span.as_ref().and_then(|span| self.sets.get(span.start.checked_sub(self.text.len() + 1)?));
        if let Some(set) = set {
            return UsageError(format!("{set}: {message}"));
        }
        match span {
            Some(span) => UsageError(format!("{path}, line {}: {message}", self.line(span.start))),
            None => UsageError(format!("{path}: {message}")),
        }
    }

    fn line(&self, byte: usize) -> usize {
        self.text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
    }

    fn toml(&self, error: &de::Error) -> UsageError {
        let missing = error.message().starts_with("missing field");
        // A missing key has no line. The message names the key instead.
        let span = error.span().filter(|_| !missing);
        let key = span.clone().and_then(|span| self.key_at(span.start)).unwrap_or_default();
        let remedy = if missing { "; every key stands in docs/reference/configuration.md" } else { "" };
        let message = error.message().trim_end().replace('\n', ", ");
        let message = with_suggestion(&message).unwrap_or(message);
        self.at(span, &format!("{key}{message}{remedy}"))
    }

    /// Returns `key: ` if `byte` lies in the value of a key.
    fn key_at(&self, byte: usize) -> Option<String> {
        let before = self.text.get(..byte)?;
        let line = before.rsplit('\n').next()?;
        let (key, _) = line.split_once('=')?;
        Some(format!("{}: ", key.trim()))
    }
}

/// Returns the parser's message about an unknown name with the most similar name that it expects there, instead of all
/// names. Returns `None` if the message is about something else, or if no name is similar.
fn with_suggestion(message: &str) -> Option<String> {
    if !message.starts_with("unknown field `") && !message.starts_with("unknown variant `") {
        return None;
    }
    // The message quotes the unknown name first, and then each expected name.
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next()?;
    let nearest = firstseen_records::nearest_name(unknown, names)?;
    let (what, _) = message.split_once(',')?;
    Some(format!("{what}: did you mean `{nearest}`?"))
}

/// Returns the place of a key such as `limits.streams_max` or `listen`. Returns `None` if the table does not have the
/// key.
fn place_of(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let mut found = None;
    let mut level = Some(table);
    for part in key.split('.') {
        let (name, value): (_, &Spanned<DeValue<'_>>) = level?.iter().find(|(name, _)| name.get_ref() == part)?;
        found = Some(name.span());
        level = value.get_ref().as_table();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::log::LogFormat;
    use super::*;

    const GOOD: &str = "name = \"a\"\nlisten = \"127.0.0.1:7400\"\ndata_dir = \"data\"\nmemory_max_bytes = 67108864\n";

    fn parsed(text: &str) -> Result<NodeFile, String> {
        with(text, &[])
    }

    fn with(text: &str, sets: &[&str]) -> Result<NodeFile, String> {
        let sets: Vec<Set> = sets.iter().map(|set| set.parse().unwrap()).collect();
        NodeFile::parse(Path::new("node.toml"), text, &sets).map_err(|error| error.to_string())
    }

    #[test]
    fn a_small_file_is_enough() {
        let file = parsed(GOOD).unwrap();
        assert_eq!((file.node.name.as_str(), file.log), ("a", LogConfig::default()));
        let file = parsed(&format!("{GOOD}[log]\nformat = \"json\"\nlevel = \"debug\"\n")).unwrap();
        assert_eq!(file.log, LogConfig { format: LogFormat::Json, level: "debug".to_owned() });
    }

    #[test]
    fn an_error_names_the_place_of_the_mistake() {
        for (more, said) in [
            ("colour = 1\n", "node.toml, line 5: unknown field `colour`, expected one of `"),
            (
                "memory_max_byte = 1\n",
                "node.toml, line 5: unknown field `memory_max_byte`: did you mean `memory_max_bytes`?",
            ),
            ("[log]\nformat = \"jsn\"\n", "node.toml, line 6: format: unknown variant `jsn`: did you mean `json`?"),
            ("[limits]\nstreams_max = \"many\"\n", "node.toml, line 6: streams_max: invalid type: string \"many\""),
            ("[limits]\nstreams_max = 0\n", "node.toml, line 6: limits.streams_max = 0: give 1 to"),
            ("[http]\nconsole = true\n", "node.toml, line 6: console in [http]: the node does not serve HTTP"),
            (
                "[redis]\nlisten = \"127.0.0.1:6379\"\nthreads = 0\n",
                "node.toml, line 7: redis.threads has to be above 0",
            ),
            ("[log]\nlevel = \"loud\"\n", "node.toml, line 6: log.level = \"loud\""),
            ("[log]\nformat = \"xml\"\n", "node.toml, line 6: format: unknown variant `xml`"),
            ("name = \"b\"\n", "node.toml, line 5: "),
            ("what is this\n", "node.toml, line 5: "),
            ("\u{0}\n", "node.toml, line 5: "),
        ] {
            let error = parsed(&format!("{GOOD}{more}")).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn missing_keys_and_an_address_open_to_all_are_named() {
        let error = parsed("name = \"a\"\n").unwrap_err();
        assert!(
            error.contains("missing field `listen`") && error.contains("docs/reference/configuration.md"),
            "{error}"
        );
        let open = GOOD.replace("127.0.0.1", "10.0.0.1");
        let error = parsed(&open).unwrap_err();
        assert!(error.starts_with("node.toml, line 2: listen 10.0.0.1:7400 is open"), "{error}");
    }

    #[test]
    fn settings_of_the_command_line_come_before_the_file() {
        let sets =
            ["name=b", "log.level=debug", "limits.streams_max=16", "http.open=true", "site=\"1\"", "data_dir=a=b"];
        let file = with(GOOD, &sets).unwrap();
        let NodeConfig { name, site, limits, http, data_dir, .. } = &file.node;
        assert_eq!((name.as_str(), site.as_str(), limits.streams_max, http.open), ("b", "1", 16, true));
        assert_eq!((data_dir.to_str(), file.log.level.as_str()), (Some("a=b"), "debug"));
        for (set, said) in [
            ("colour=1", "--set colour=1: unknown field `colour`"),
            ("name=1", "--set name=1: invalid type: integer `1`"),
            ("limits.streams_max=many", "--set limits.streams_max=many: invalid type: string \"many\""),
            ("limits.streams_max=0", "--set limits.streams_max=0: limits.streams_max = 0: give 1 to"),
            ("listen=0.0.0.0:7400", "--set listen=0.0.0.0:7400: listen 0.0.0.0:7400 is open"),
            ("name.first=a", "--set name.first=a: name has no keys below it"),
            ("log.level=loud", "--set log.level=loud: log.level = \"loud\""),
        ] {
            let error = with(GOOD, &["site=x", set]).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        assert!(["name", "=a", "tls.=a", ".ca=a"].iter().all(|set| set.parse::<Set>().is_err()));
    }
}
