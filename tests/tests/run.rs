//! Runs the binary in a folder of its own, and collects its output.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Creates a `firstseen dedup` command with `flags`, which are separated by spaces.
pub(crate) fn dedup(flags: &str) -> Command {
    let mut command = firstseen();
    command.arg("dedup").args(flags.split_whitespace());
    command
}

/// Path of the binary that cargo builds for these tests. This file belongs to two packages, each with its own binary.
const BUILT: Option<&str> = match option_env!("CARGO_BIN_EXE_firstseen-under-test") {
    Some(path) => Some(path),
    None => option_env!("CARGO_BIN_EXE_firstseen"),
};

/// Path of the binary `firstseen-lab` that cargo builds for these tests.
const BUILT_LAB: Option<&str> = option_env!("CARGO_BIN_EXE_firstseen-lab-under-test");

/// Creates a command for the binary, without a subcommand. `FIRSTSEEN_BINARY` selects a different binary.
pub(crate) fn firstseen() -> Command {
    let built = || BUILT.expect("cargo builds the binary before the tests").into();
    let mut command = Command::new(std::env::var_os("FIRSTSEEN_BINARY").unwrap_or_else(built));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Creates a command for the binary `firstseen-lab`, which finds the binary of [`firstseen`] on its own. The variable
/// `FIRSTSEEN_LAB_BINARY` selects another binary of `firstseen-lab`.
pub(crate) fn firstseen_lab() -> Command {
    let built = || BUILT_LAB.expect("cargo builds the binary before the tests").into();
    let mut command = Command::new(std::env::var_os("FIRSTSEEN_LAB_BINARY").unwrap_or_else(built));
    command.env("FIRSTSEEN_BINARY", firstseen().get_program());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the path of a real log in `examples/data`.
pub(crate) fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data").join(name);
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// Returns the text of a real log in `examples/data`.
pub(crate) fn example_text(name: &str) -> String {
    let mut text = String::new();
    let file = fs::File::open(example(name)).expect("an example");
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).expect("an example in UTF-8");
    text
}

/// Folder in which the binary runs, with its input.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// Creates an empty folder.
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    /// Creates a folder with one file, which is named `input`.
    pub(crate) fn with(input: impl AsRef<[u8]>) -> Self {
        let folder = Self::new();
        folder.write("input", input);
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("a file in a temporary folder");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).expect("a file that was written")).into_owned()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Returns the names of all files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }

    /// Runs `firstseen dedup` with `flags` in this folder.
    pub(crate) fn dedup(&self, flags: &str) -> Ran {
        Ran::of(dedup(flags).current_dir(self.0.path()).output().expect("the binary"))
    }

    /// Runs `firstseen` with `arguments`, which are separated by spaces, in this folder.
    pub(crate) fn run(&self, arguments: &str) -> Ran {
        let mut command = firstseen();
        command.args(arguments.split_whitespace()).current_dir(self.0.path());
        Ran::of(command.output().expect("the binary"))
    }

    /// Runs `firstseen-lab` with `arguments`, which are separated by spaces, in this folder.
    pub(crate) fn run_lab(&self, arguments: &str) -> Ran {
        let mut command = firstseen_lab();
        command.args(arguments.split_whitespace()).current_dir(self.0.path());
        Ran::of(command.output().expect("the binary"))
    }

    /// Runs the shell script `script` in this folder. In the script, `firstseen` is the tested binary.
    pub(crate) fn shell(&self, script: &str) -> Ran {
        let script = format!("firstseen() {{ \"$FIRSTSEEN_UNDER_TEST\" \"$@\"; }}\n{script}");
        let mut shell = Command::new("sh");
        shell.arg("-euc").arg(script).env("FIRSTSEEN_UNDER_TEST", firstseen().get_program());
        Ran::of(shell.current_dir(self.0.path()).stdin(Stdio::null()).output().expect("a shell"))
    }

    /// Runs the shell script `script` in this folder. In the script, `firstseen` and `firstseen-lab` are the tested
    /// binaries.
    pub(crate) fn shell_with_lab(&self, script: &str) -> Ran {
        // A shell function cannot have a hyphen in its name, so aliases are used.
        let script =
            format!("alias firstseen-lab='\"$LAB_UNDER_TEST\"'\nalias firstseen='\"$FIRSTSEEN_BINARY\"'\n{script}");
        let mut shell = Command::new("sh");
        shell.arg("-euc").arg(script).env("LAB_UNDER_TEST", firstseen_lab().get_program());
        shell.env("FIRSTSEEN_BINARY", firstseen().get_program());
        Ran::of(shell.current_dir(self.0.path()).stdin(Stdio::null()).output().expect("a shell"))
    }

    /// Runs `firstseen dedup` with `flags`, and with `input` as its standard input.
    pub(crate) fn dedup_from(&self, flags: &str, input: &[u8]) -> Ran {
        let mut child = self.start(flags);
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_vec();
        let writing = std::thread::spawn(move || _ = stdin.write_all(&input));
        let output = child.wait_with_output().expect("the binary");
        writing.join().expect("a thread that writes");
        Ran::of(output)
    }

    /// Starts `firstseen dedup`, to which the test then writes input.
    pub(crate) fn start(&self, flags: &str) -> Child {
        dedup(flags).current_dir(self.0.path()).stdin(Stdio::piped()).spawn().expect("the binary")
    }
}

/// Timer that ends a run without output, so that a test which waits for the run fails and does not hang.
pub(crate) struct Watchdog {
    _done: Sender<()>,
}

impl Watchdog {
    /// Lets `child` run for at most five minutes, unless this value is dropped before.
    pub(crate) fn of(child: &Child) -> Self {
        Self::within(child, Duration::from_secs(300))
    }

    /// Lets `child` run for at most `patience`, unless this value is dropped before.
    pub(crate) fn within(child: &Child, patience: Duration) -> Self {
        let id = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        let (done, waiting) = channel();
        std::thread::spawn(move || {
            if waiting.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                let _ = kill(id, Signal::SIGKILL);
            }
        });
        Self { _done: done }
    }
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let ran = Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    /// Checks that the run succeeded.
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self
    }

    /// Checks that the run ended with `code`, and printed each of `words`.
    pub(crate) fn fails(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{words:?}: {}", self.err);
        for word in words {
            assert!(self.err.contains(word), "`{word}` is not in: {}", self.err);
        }
        self
    }

    /// Returns the report that `--report json` has written to the error output.
    pub(crate) fn report(&self) -> Value {
        let line = self.err.lines().find(|line| line.starts_with('{'));
        serde_json::from_str(line.unwrap_or_else(|| panic!("no report in: {}", self.err))).expect("one JSON object")
    }
}

/// Returns a number of a report.
pub(crate) fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("no number `{name}` in {report}"))
}

/// Random numbers from a fixed seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
