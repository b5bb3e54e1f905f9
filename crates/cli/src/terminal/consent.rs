//! Asks the user for confirmation before a change that cannot be undone.

use std::io::{self, IsTerminal, Write};

use crate::exit::UsageError;

/// Asks the user at the terminal, and returns whether the user agrees.
///
/// # Errors
/// Returns [`UsageError`] if there is no terminal. The user must then pass `--yes`.
pub(crate) fn confirms(what: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(UsageError(format!("{what}: say --yes")).into());
    }
    write!(io::stderr(), "{what}. Go on? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}
