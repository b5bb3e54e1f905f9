//! How much of a request is accepted. Must not know: how requests are parsed.

/// Arguments of the longest command: 8,192 items, and the words before them.
const ARGUMENTS: usize = 8_192 + 16;
const ARGUMENT_BYTES: usize = 64 << 10;
const COMMAND_BYTES: usize = 4 << 20;
const LINE_BYTES: usize = 64 << 10;

/// As Redis has it for who has not yet said a password.
const ARGUMENTS_BEFORE_AUTH: usize = 10;
const ARGUMENT_BYTES_BEFORE_AUTH: usize = 16 << 10;
const COMMAND_BYTES_BEFORE_AUTH: usize = 256 << 10;

/// How much of a request is accepted before its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Greatest number of arguments of a command, with its name.
    pub arguments: usize,
    /// Greatest number of bytes of an argument.
    pub argument_bytes: usize,
    /// Greatest number of bytes of a command, with its lengths and ends of lines. Below 2^32.
    pub command_bytes: usize,
    /// Greatest number of bytes of a line: an inline command, a count or a length.
    pub line_bytes: usize,
    /// Whether the client has to authenticate first, which Redis' errors then say.
    pub is_before_auth: bool,
}

impl Default for Limits {
    /// 8,192 items a command and 16 words before them, 64 KiB an argument, 4 MiB a command, 64 KiB a line.
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
    /// For a client that has to say who it is first: 10 arguments of 16 KiB. What exceeds these is told in Redis' words
    /// for such clients.
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
