//! The binary `firstseen-lab`: parses the command line, runs one command, and turns an error into an exit code.

use std::process::ExitCode;

use clap::Parser;
use firstseen_cli::exit::failure;
use firstseen_lab::args::Lab;

fn main() -> ExitCode {
    match firstseen_lab::run(Lab::parse()) {
        Ok(code) => code,
        Err(error) => failure("firstseen-lab", &error),
    }
}
