//! Runs a program whose clock is ahead of the machine's clock. A test cannot set the clock of the machine, so it loads
//! a small library into the program before the system's library. This library changes the time that the program reads.

use std::path::PathBuf;
use std::process::Command;

use crate::run::Folder;

/// Source code of the library, which adds `AHEAD_MS` to the system's clock.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*system)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = system(clock, now);
    if (!failed && clock == CLOCK_REALTIME) {
        long long ns = now->tv_nsec + atoll(getenv("AHEAD_MS")) * 1000000;
        now->tv_sec += ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return failed;
}
"#;

/// Library that is loaded before the system's library.
pub(crate) struct AheadClock(PathBuf);

impl AheadClock {
    /// Builds the library in this folder. Prints a notice and returns `None` if there is no C compiler.
    pub(crate) fn build(folder: &Folder) -> Option<Self> {
        folder.write("clock.c", CLOCK);
        let library = folder.path("clock.so");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(folder.path("clock.c")).status();
        if built.is_ok_and(|status| status.success()) {
            return Some(Self(library));
        }
        println!("NOT CHECKED: nodes whose clocks are ahead, as there is no C compiler");
        None
    }

    /// Returns the environment of a process whose clock is ahead by this many milliseconds.
    pub(crate) fn environment(&self, ahead_ms: u64) -> Vec<(&'static str, String)> {
        vec![("LD_PRELOAD", self.0.display().to_string()), ("AHEAD_MS", ahead_ms.to_string())]
    }
}
