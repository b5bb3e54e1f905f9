//! Fetches Apache Kafka and compiles the Java programs in `tests/clients/kafka`, once for all tests.
//!
//! The result is stored in the target folder, under a name that depends on the sources, so that later runs need neither
//! the registry nor the compiler. If Java or Maven is not installed, or if the registry cannot be reached, the tests
//! print a notice and are skipped.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::python::said;

/// Java programs with a `main` method. The compiler finds the other classes that they use.
const PROGRAMS: [&str; 2] = ["src/clients/Broker.java", "src/clients/KafkaClient.java"];

/// Returns the class path of the Java programs. Prints a notice and returns `None` if it cannot be had on this machine.
///
/// # Panics
/// Panics if the programs do not compile, or if the registry does not have what the pom names.
pub(super) fn class_path() -> Option<&'static str> {
    static CLASS_PATH: OnceLock<Option<String>> = OnceLock::new();
    CLASS_PATH.get_or_init(stored_class_path).as_deref()
}

fn stored_class_path() -> Option<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/kafka");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kafka-{:016x}", fingerprint(&sources)));
    if !folder.exists() {
        // Another test process may build the same programs. The first one to finish stores the folder.
        let unfinished = folder.with_extension(std::process::id().to_string());
        build(&sources, &unfinished)?;
        if fs::rename(&unfinished, &folder).is_err() {
            fs::remove_dir_all(&unfinished).expect("a folder of this process");
        }
    }
    let folder = folder.to_str().expect("a path in UTF-8");
    Some(format!("{folder}/classes:{folder}/dependency/*"))
}

/// Returns a number that changes with each of the sources.
fn fingerprint(sources: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let programs = fs::read_dir(sources.join("src/clients")).expect("the sources of the Java programs");
    let mut paths: Vec<PathBuf> = programs.map(|entry| entry.expect("an entry").path()).collect();
    paths.push(sources.join("pom.xml"));
    paths.sort();
    for path in paths {
        fs::read(path).expect("a source").hash(&mut hasher);
    }
    hasher.finish()
}

/// Fetches the dependencies and compiles the programs into `folder`.
fn build(sources: &Path, folder: &Path) -> Option<()> {
    let absolute = |name: &str| folder.join(name).to_str().expect("a path in UTF-8").to_owned();
    let dependencies = absolute("dependency");
    let fetch = ["-q", "-B", "dependency:copy-dependencies", &format!("-DoutputDirectory={dependencies}")];
    let (is_fetched, text) = run(sources, "mvn", &fetch)?;
    if !is_fetched {
        assert!(!text.contains("Could not find artifact"), "tests/clients/kafka/pom.xml: {text}");
        println!("{text}\nNOT CHECKED: `mvn` could not fetch Kafka");
        return None;
    }
    let libraries = format!("{dependencies}/*");
    let classes = absolute("classes");
    let compile = ["-Xlint:all,-classfile", "-proc:none", "-Werror", "-cp", &libraries, "-d", &classes];
    let (is_compiled, text) = run(sources, "javac", &[&compile[..], &["-sourcepath", "src"], &PROGRAMS].concat())?;
    assert!(is_compiled, "javac: {text}");
    Some(())
}

/// Runs a program, and returns whether it succeeded and what it printed. Prints a notice and returns `None` if the
/// program is not installed.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let output = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).output();
    match output {
        Ok(output) => Some(said(output)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("NOT CHECKED: {program} is not installed, which the tests with Kafka need");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Creates a command that runs a Java program with at most `memory_mib` for its objects. Its libraries write their
/// temporary files into `folder`.
pub(super) fn java(class_path: &str, memory_mib: u32, folder: &Path, program: &str) -> Command {
    let mut command = Command::new("java");
    // These programs run for seconds, so the time until they are fast matters more than how fast they get.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]);
    command.arg(format!("-Djava.io.tmpdir={}", folder.display())).arg(format!("-Xmx{memory_mib}m"));
    command.args(["-cp", class_path, program]);
    command
}
