//! Headless Chromium, which loads pages of the console. If the browser is not installed, tests print a notice and check
//! no page.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time until the page shows what it should. A busy machine is slow.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Browser, if it is installed.
pub(super) struct Browser {
    program: Option<PathBuf>,
}

impl Browser {
    /// Searches for the browser in `PATH`.
    pub(super) fn find() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path);
        let program =
            places.flat_map(|place| ["chromium", "chromium-browser", "google-chrome"].map(|name| place.join(name)));
        let program = program.into_iter().find(|program| program.is_file());
        if program.is_none() {
            eprintln!("skipped: no chromium in PATH; the page is looked at by no browser");
        }
        Self { program }
    }

    /// Returns the document of a page once it contains all of these words.
    pub(super) fn see(&self, address: &str, path: &str, words: &[&str]) -> Option<String> {
        let begun = Instant::now();
        loop {
            let document = self.document(address, path)?;
            let missing: Vec<&&str> = words.iter().filter(|word| !document.contains(**word)).collect();
            if missing.is_empty() {
                return Some(document);
            }
            assert!(begun.elapsed() < TIMEOUT, "{missing:?} are not in {document}");
        }
    }

    fn document(&self, address: &str, path: &str) -> Option<String> {
        let program = self.program.as_ref()?;
        let profile = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(program);
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        // Screenshots are saved for people, if this variable names a folder.
        if let Some(folder) = std::env::var_os("FIRSTSEEN_SCREENSHOTS") {
            let name = format!("{}.png", path.trim_matches('/').replace(['/', '?', '='], "-"));
            command.arg(format!("--screenshot={}", PathBuf::from(folder).join(name).display()));
            command.args(["--window-size=1280,2400", "--hide-scrollbars"]);
        }
        // The event stream never ends, so the page never becomes idle. The document is taken as soon as the page has
        // loaded.
        command.args(["--timeout=20000", "--dump-dom"]).arg(format!("http://{address}{path}"));
        let ran = command.stderr(Stdio::null()).output().expect("the browser");
        Some(String::from_utf8_lossy(&ran.stdout).into_owned())
    }
}
