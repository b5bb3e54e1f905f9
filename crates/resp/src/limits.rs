//! Limits on the size of requests.

/// Maximum number of arguments of a command: 8,192 items, and the words before them.
const ARGUMENTS: usize = 8_192 + 16;
const ARGUMENT_BYTES: usize = 64 << 10;
const COMMAND_BYTES: usize = 4 << 20;
const LINE_BYTES: usize = 64 << 10;

/// Limits for a client that has not authenticated. Redis has the same limits.
const ARGUMENTS_BEFORE_AUTH: usize = 10;
const ARGUMENT_BYTES_BEFORE_AUTH: usize = 16 << 10;
const COMMAND_BYTES_BEFORE_AUTH: usize = 256 << 10;

/// Limits on the size of a request. If a request exceeds a limit, the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of arguments of a command, including its name.
    pub arguments: usize,
    /// Maximum size of an argument, in bytes.
    pub argument_bytes: usize,
    /// Maximum size of a command, in bytes, including lengths and line ends. The value must be below 2^32.
    pub command_bytes: usize,
    /// Maximum size of a line, in bytes. A line is an inline command, a count or a length.
    pub line_bytes: usize,
    /// Whether the client must authenticate first. The error texts of Redis then differ.
    pub is_before_auth: bool,
}

impl Default for Limits {
    /// Returns the default limits: 8,192 items and 16 more words in a command, 64 KiB for an argument, 4 MiB for a
    /// command, and 64 KiB for a line.
    fn default() -> Self {
        Self {
            arguments: ARGUMENTS,
            argument_bytes: ARGUMENT_BYTES,
            command_bytes: COMMAND_BYTES,
            line_bytes: LINE_BYTES,
            is_before_auth: false,
        }
    }
}

impl Limits {
    /// Returns the limits for a client that has not authenticated yet: 10 arguments of at most 16 KiB each. If a
    /// request exceeds these limits, the error has the text that Redis uses for unauthenticated clients.
    pub fn before_auth() -> Self {
        Self {
            arguments: ARGUMENTS_BEFORE_AUTH,
            argument_bytes: ARGUMENT_BYTES_BEFORE_AUTH,
            command_bytes: COMMAND_BYTES_BEFORE_AUTH,
            line_bytes: LINE_BYTES,
            is_before_auth: true,
        }
    }
}
