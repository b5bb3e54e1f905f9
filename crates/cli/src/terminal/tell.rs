//! Words for people, on stderr.
//!
//! Promises: a reader of them that has gone, or a full disk behind them, ends nothing: what a command does does not hang on
//! who watches it. Must not know: what is told.

/// Writes a line to stderr, as `eprintln!` would, which panics where it cannot.
macro_rules! tell {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}
