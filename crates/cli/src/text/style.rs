//! Draws bars, colours and bold text for users at a terminal. Text that goes to a file or a pipe has no colours and no
//! bars. Colours are also left out if `NO_COLOR` is set (no-color.org) or if the terminal does not support them
//! (`TERM=dumb`).

use std::env;
use std::io::IsTerminal;

/// Block characters from one eighth to seven eighths of a character's width.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// How text is drawn: with or without bars, and with or without colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    has_bars: bool,
    has_colours: bool,
}

/// The colour of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Green,
    Yellow,
    Blue,
}

impl Colour {
    /// Returns the number of the colour in its escape sequence (ECMA-48, SGR).
    fn number(self) -> u8 {
        match self {
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Blue => 34,
        }
    }
}

impl Look {
    /// The style for files and pipes, without bars and colours.
    pub(crate) const PLAIN: Self = Self { has_bars: false, has_colours: false };

    /// Returns the style for text that is written to `stream`.
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let is_plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        let has_bars = stream.is_terminal() && !is_dumb;
        Self { has_bars, has_colours: has_bars && !is_plain }
    }

    /// Returns a bar whose length shows the ratio of `part` to `whole`. The bar is padded with blanks to `letters`
    /// characters, which is the length of the bar for `whole`. If the text goes to a file or a pipe, the result is
    /// empty.
    pub(crate) fn bar(self, part: u64, whole: u64, letters: usize, colour: Colour) -> String {
        if !self.has_bars {
            return String::new();
        }
        let bar = drawn(part, whole, letters);
        let blanks = letters - bar.chars().count();
        format!("{}{:blanks$}", self.coloured(&bar, colour.number()), "")
    }

    /// Returns `words` in bold, so that users see them first.
    pub(crate) fn strong(self, words: &str) -> String {
        self.coloured(words, 1)
    }

    fn coloured(self, text: &str, number: u8) -> String {
        if self.has_colours && !text.is_empty() { format!("\x1b[{number}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Returns the characters of a bar. A part that is not zero is drawn with at least one eighth of a character.
fn drawn(part: u64, whole: u64, letters: usize) -> String {
    let eighths = u128::from(part.min(whole)) * letters as u128 * 8 / u128::from(whole.max(1));
    let eighths = (eighths as usize).max(usize::from(part > 0 && letters > 0));
    let rest = eighths.checked_rem(8).and_then(|rest| EIGHTHS.get(rest.checked_sub(1)?));
    "█".repeat(eighths / 8).chars().chain(rest.copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_part() {
        let bars = [(0, 8), (1, 8), (4, 8), (8, 8), (9, 8), (0, 0)].map(|(part, whole)| drawn(part, whole, 4));
        assert_eq!(bars, ["", "▌", "██", "████", "████", ""]);
        assert_eq!([drawn(1, 1_000_000, 4), drawn(3, 32, 1)], ["▏", "▏"], "what is there is seen");
        assert_eq!(drawn(u64::MAX, u64::MAX, 3), "███");
    }

    #[test]
    fn files_have_none_and_terminals_may_have_no_colours() {
        assert_eq!(
            (Look::PLAIN.bar(1, 2, 4, Colour::Yellow), Look::PLAIN.strong("a")),
            (String::new(), "a".to_owned())
        );
        let bars = Look { has_bars: true, has_colours: false };
        assert_eq!(bars.bar(1, 2, 4, Colour::Yellow), "██  ");
        let colours = Look { has_bars: true, has_colours: true };
        assert_eq!(colours.bar(1, 2, 4, Colour::Yellow), "\x1b[33m██\x1b[0m  ");
        assert_eq!(colours.bar(0, 2, 4, Colour::Yellow), "    ");
    }
}
