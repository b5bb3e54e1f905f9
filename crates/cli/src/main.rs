//! The binary `firstseen`: parses the command line, runs one command, and turns an error into an exit code.

use std::process::ExitCode;

use firstseen_cli::args::Cli;
use firstseen_cli::exit::failure;

fn main() -> ExitCode {
    match firstseen_cli::run(Cli::of_process()) {
        Ok(code) => code,
        Err(error) => failure("firstseen", &error),
    }
}
