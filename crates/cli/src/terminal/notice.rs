//! Messages for people, on stderr.
//!
//! Promises: a reader of stderr that has gone, or a full disk behind it, ends no command. Must not know: what the
//! messages say.

/// Writes a line to stderr. Unlike `eprintln!` it does not panic where it cannot.
#[macro_export]
macro_rules! notice {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}
