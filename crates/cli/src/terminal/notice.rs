//! Prints messages for users on stderr. An error while printing is ignored, so a command continues if the reader of
//! stderr has ended or if the disk is full.

/// Writes a line to stderr. Unlike `eprintln!`, this macro does not panic if the write fails.
#[macro_export]
macro_rules! notice {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}
