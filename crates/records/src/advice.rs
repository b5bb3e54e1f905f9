//! Commands that turn other kinds of input into text. It does not know how a kind is recognised.

use crate::{ByteKind, Compression};

/// How a kind of input becomes text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    /// The command for a file, whose name takes the place of `FILE`.
    from_file: Option<&'static str>,
    /// The command for standard input.
    from_pipe: Option<&'static str>,
    /// Whether `from_file` is empty as `from_pipe` takes the file's name as its last argument (`Argument`), or by a
    /// redirection.
    takes: Takes,
    /// Flags that the output of the command asks for.
    flags: Option<&'static str>,
    /// What to do where there is no such command.
    words: Option<&'static str>,
}

/// How a command that also reads standard input is given a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Argument,
    Redirection,
}

impl Tool {
    /// No command.
    pub(crate) const NONE: Self =
        Self { from_file: None, from_pipe: None, takes: Takes::Argument, flags: None, words: None };

    /// A command that reads the file that it is given, or standard input.
    pub(crate) const fn stream(command: &'static str) -> Self {
        Self { from_pipe: Some(command), ..Self::NONE }
    }

    /// A command that reads standard input only.
    pub(crate) const fn redirected(command: &'static str) -> Self {
        Self { from_pipe: Some(command), takes: Takes::Redirection, ..Self::NONE }
    }

    /// A command that cannot read a pipe.
    pub(crate) const fn file(command: &'static str) -> Self {
        Self { from_file: Some(command), ..Self::NONE }
    }

    /// A command with different arguments for a file and for standard input.
    pub(crate) const fn both(from_file: &'static str, from_pipe: &'static str) -> Self {
        Self { from_file: Some(from_file), from_pipe: Some(from_pipe), ..Self::NONE }
    }

    /// Adds flags for the program that reads the output.
    pub(crate) const fn then(self, flags: &'static str) -> Self {
        Self { flags: Some(flags), ..self }
    }

    /// Says what to do instead of running a command.
    pub(crate) const fn because(self, words: &'static str) -> Self {
        Self { words: Some(words), ..self }
    }

    /// The command for the file `name`, which is quoted already.
    fn for_file(self, name: &str) -> Option<String> {
        match (self.from_file, self.from_pipe, self.takes) {
            (Some(command), _, _) => Some(command.replace("FILE", name)),
            (None, Some(command), Takes::Argument) => Some(format!("{command} {name}")),
            (None, Some(command), Takes::Redirection) => Some(format!("{command} < {name}")),
            (None, None, _) => None,
        }
    }
}

/// What to do with input of `kind` in `file` (`-` is standard input), where it was found behind `compression`.
pub(crate) fn advice(kind: ByteKind, file: &str, compression: Option<Compression>) -> String {
    let tool = kind.tool();
    if let Some(words) = tool.words {
        return words.to_owned();
    }
    let is_pipe = file == "-";
    let name = if is_pipe { "FILE".to_owned() } else { quoted(file) };
    let unpack = compression.and_then(Compression::command);
    let command = match (unpack, tool.from_pipe) {
        // The first of two layers is removed by the command, the second one by this program.
        (Some(unpack), _) if is_compression(kind) => Some(at_input(unpack, &name, is_pipe)),
        // tar finds the compression of a file by itself.
        (Some(_), _) if kind == ByteKind::Tar && !is_pipe => tool.for_file(&name),
        (Some(unpack), Some(command)) => Some(format!("{} | {command}", at_input(unpack, &name, is_pipe))),
        (Some(unpack), None) => {
            let plain = tool.for_file("UNPACKED").unwrap_or_default();
            Some(format!("{} > UNPACKED && {plain}", at_input(unpack, &name, is_pipe)))
        }
        (None, Some(command)) if is_pipe => Some(command.to_owned()),
        (None, _) => tool.for_file(&name),
    };
    let flags = tool.flags.map_or(String::new(), |flags| format!("{flags} "));
    command.map_or_else(String::new, |command| format!("`{command} | firstseen dedup {flags}...`"))
}

fn at_input(command: &str, name: &str, is_pipe: bool) -> String {
    if is_pipe { command.to_owned() } else { format!("{command} {name}") }
}

fn is_compression(kind: ByteKind) -> bool {
    matches!(kind, ByteKind::Gzip | ByteKind::Bzip2 | ByteKind::Xz | ByteKind::Zstd)
}

/// The name as a shell reads it.
fn quoted(name: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:@%=,~".contains(letter);
    if !name.is_empty() && !name.starts_with(['-', '~']) && name.chars().all(is_plain) {
        return name.to_owned();
    }
    let name = if name.starts_with('-') { format!("./{name}") } else { name.to_owned() };
    format!("'{}'", name.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_fits_where_the_bytes_come_from() {
        for (kind, file, compression, expected) in [
            (ByteKind::Lz4, "a.lz4", None, "`lz4 -dc a.lz4 | firstseen dedup ...`"),
            (ByteKind::Lz4, "-", None, "`lz4 -dc | firstseen dedup ...`"),
            (ByteKind::Utf16, "my file", None, "`iconv -f UTF-16 -t UTF-8 'my file' | firstseen dedup ...`"),
            (ByteKind::CarriageReturns, "a", None, "`tr '\\r' '\\n' < a | firstseen dedup ...`"),
            (ByteKind::Tar, "a.tgz", Some(Compression::Gzip), "`tar -xOf a.tgz | firstseen dedup ...`"),
            (ByteKind::Tar, "-", Some(Compression::Xz), "`xz -dc | tar -xOf - | firstseen dedup ...`"),
            (ByteKind::Gzip, "a.gz", Some(Compression::Gzip), "`gzip -dc a.gz | firstseen dedup ...`"),
            (
                ByteKind::Utf16,
                "a.bz2",
                Some(Compression::Bzip2),
                "`bzip2 -dc a.bz2 | iconv -f UTF-16 -t UTF-8 | firstseen dedup ...`",
            ),
            (
                ByteKind::Zip,
                "a",
                Some(Compression::Zstd),
                "`zstd -dc a > UNPACKED && unzip -p UNPACKED | firstseen dedup ...`",
            ),
            (ByteKind::Avro, "it's", None, "`avro-tools tojson 'it'\\''s' | firstseen dedup --format jsonl ...`"),
            (ByteKind::Zip, "-", None, "`unzip -p FILE | firstseen dedup ...`"),
            (ByteKind::Image, "a.png", None, "name a file of text, such as a log, CSV or JSON lines"),
        ] {
            assert_eq!(advice(kind, file, compression), expected);
        }
    }

    #[test]
    fn a_name_is_quoted_for_a_shell() {
        assert_eq!(quoted("-a"), "'./-a'");
        assert_eq!(quoted("$(a)"), "'$(a)'");
        assert_eq!(quoted("logs/access.log-20240101"), "logs/access.log-20240101");
    }
}
