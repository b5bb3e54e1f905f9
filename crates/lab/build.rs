//! Passes the version of the compiler to the program. `firstseen-lab figures` stores it together with the measurements.

use std::env;
use std::process::Command;

fn main() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    println!("cargo:rustc-env=FIRSTSEEN_RUSTC={}", String::from_utf8_lossy(&version).trim());
    println!("cargo:rerun-if-changed=build.rs");
}
