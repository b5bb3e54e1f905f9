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

/// No limit is greater, so that places in a command fit into 32 bits.
const GREATEST: usize = 1 << 30;

/// How much of a request is accepted before its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    arguments: usize,
    argument_bytes: usize,
    command_bytes: usize,
    line_bytes: usize,
    before_auth: bool,
}

impl Default for Limits {
    /// 8,192 items a command and 16 words before them, 64 KiB an argument, 4 MiB a command, 64 KiB a line.
    fn default() -> Self {
        Self {
            arguments: ARGUMENTS,
            argument_bytes: ARGUMENT_BYTES,
            command_bytes: COMMAND_BYTES,
            line_bytes: LINE_BYTES,
            before_auth: false,
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
            before_auth: true,
        }
    }

    /// With this many arguments at most, the command's name among them.
    #[must_use]
    pub fn with_arguments(self, arguments: usize) -> Self {
        Self { arguments: arguments.min(GREATEST), ..self }
    }

    /// With this many bytes an argument at most.
    #[must_use]
    pub fn with_argument_bytes(self, argument_bytes: usize) -> Self {
        Self { argument_bytes: argument_bytes.min(GREATEST), ..self }
    }

    /// With this many bytes a command at most, its lengths and ends of lines among them.
    #[must_use]
    pub fn with_command_bytes(self, command_bytes: usize) -> Self {
        Self { command_bytes: command_bytes.min(GREATEST), ..self }
    }

    /// With this many bytes a line at most, be it an inline command, a count or a length.
    #[must_use]
    pub fn with_line_bytes(self, line_bytes: usize) -> Self {
        Self { line_bytes: line_bytes.min(GREATEST), ..self }
    }

    /// The most arguments of a command, its name among them.
    pub fn arguments(&self) -> usize {
        self.arguments
    }

    /// The most bytes of an argument.
    pub fn argument_bytes(&self) -> usize {
        self.argument_bytes
    }

    /// The most bytes of a command.
    pub fn command_bytes(&self) -> usize {
        self.command_bytes
    }

    /// The most bytes of a line.
    pub fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// Whether they are for a client that has to say who it is first.
    pub fn are_before_auth(&self) -> bool {
        self.before_auth
    }
}
