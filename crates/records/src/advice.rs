//! Commands that convert other kinds of input into text. This module does not depend on how a kind is recognised.

use crate::byte_kind::ByteKind;
use crate::compression::Compression;

/// How a kind of input is converted into text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tool {
    /// Command for a file. The name of the file replaces `FILE`.
    from_file: Option<&'static str>,
    /// Command for standard input.
    from_pipe: Option<&'static str>,
    /// How the command for standard input receives a file, if there is no separate command for files.
    takes: Takes,
    /// Flags that `firstseen` needs for the output of the command.
    flags: Option<&'static str>,
    /// What the user can do if no such command exists.
    words: Option<&'static str>,
}

/// How a command that can read standard input receives a file: as an argument or by redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Argument,
    Redirection,
}

impl Tool {
    /// A tool without a command.
    const NONE: Self = Self { from_file: None, from_pipe: None, takes: Takes::Argument, flags: None, words: None };

    /// Returns a tool whose command reads a file that is named as an argument, or standard input.
    const fn stream(command: &'static str) -> Self {
        Self { from_pipe: Some(command), ..Self::NONE }
    }

    /// Returns a tool whose command reads only standard input.
    const fn redirected(command: &'static str) -> Self {
        Self { from_pipe: Some(command), takes: Takes::Redirection, ..Self::NONE }
    }

    /// Returns a tool whose command cannot read a pipe.
    const fn file(command: &'static str) -> Self {
        Self { from_file: Some(command), ..Self::NONE }
    }

    /// Returns a tool with different commands for a file and for standard input.
    const fn both(from_file: &'static str, from_pipe: &'static str) -> Self {
        Self { from_file: Some(from_file), from_pipe: Some(from_pipe), ..Self::NONE }
    }

    /// Adds flags for the program that reads the output.
    const fn then(self, flags: &'static str) -> Self {
        Self { flags: Some(flags), ..self }
    }

    /// Adds a text that says what to do if no command helps.
    const fn because(self, words: &'static str) -> Self {
        Self { words: Some(words), ..self }
    }

    /// Returns the command for the file `name`, which is already quoted for a shell.
    fn for_file(self, name: &str) -> Option<String> {
        match (self.from_file, self.from_pipe, self.takes) {
            (Some(command), _, _) => Some(command.replace("FILE", name)),
            (None, Some(command), Takes::Argument) => Some(format!("{command} {name}")),
            (None, Some(command), Takes::Redirection) => Some(format!("{command} < {name}")),
            (None, None, _) => None,
        }
    }
}

impl ByteKind {
    /// Returns the shell command that converts an input of this kind into records, in backquotes. `file` is the name of
    /// the input file, and `-` means standard input. If no command can convert this kind, the result says in words what
    /// to do.
    pub fn advice(&self, file: &str) -> String {
        advice(*self, file, None)
    }
}

/// Returns how `kind` is converted into text.
fn tool_of(kind: ByteKind) -> Tool {
    match kind {
        // This program removes one layer of compression on its own. The command therefore only has to remove the other
        // layer.
        ByteKind::Gzip => Tool::stream("gzip -dc"),
        ByteKind::Bzip2 => Tool::stream("bzip2 -dc"),
        ByteKind::Xz | ByteKind::XzDictionary | ByteKind::XzUnsupported | ByteKind::Lzma => Tool::stream("xz -dc"),
        ByteKind::Zstd => Tool::stream("zstd -dc"),
        ByteKind::ZstdWindow { .. } => Tool::stream("zstd -d --long=31 -c"),
        ByteKind::ZstdDictionary { .. } => Tool::stream("zstd -d -D DICTIONARY -c"),
        ByteKind::Lzip => Tool::stream("lzip -dc"),
        ByteKind::Lz4 => Tool::stream("lz4 -dc"),
        ByteKind::Lzop => Tool::stream("lzop -dc"),
        ByteKind::OldCompress => Tool::stream("gzip -dc"),
        ByteKind::Snappy => Tool::stream("snzip -dc"),
        ByteKind::Zlib => Tool::redirected("zlib-flate -uncompress"),
        ByteKind::Zip => Tool::file("unzip -p FILE"),
        ByteKind::SevenZip => Tool::file("7z x -so FILE"),
        ByteKind::Rar => Tool::file("unrar p -inul FILE"),
        ByteKind::Tar => Tool::both("tar -xOf FILE", "tar -xOf -"),
        ByteKind::Cpio => Tool::redirected("cpio -i --to-stdout --quiet"),
        ByteKind::Parquet => Tool::file("duckdb -csv -c \"FROM 'FILE'\"").then("--format csv"),
        ByteKind::Orc => Tool::file("orc-tools data FILE").then("--format jsonl"),
        ByteKind::Avro => Tool::file("avro-tools tojson FILE").then("--format jsonl"),
        ByteKind::Sqlite => Tool::file("sqlite3 -csv -header FILE 'SELECT * FROM TABLE'").then("--format csv"),
        ByteKind::RedisDump => Tool::file("rdb --command json FILE"),
        ByteKind::Journal => Tool::file("journalctl --file FILE -o json").then("--format jsonl"),
        ByteKind::WindowsEvents => Tool::file("evtx_dump -o jsonl FILE").then("--format jsonl"),
        ByteKind::Packets => Tool::file("tshark -r FILE"),
        ByteKind::Pdf => Tool::both("pdftotext -layout FILE -", "pdftotext -layout - -"),
        ByteKind::Encrypted => Tool::NONE.because("decrypt it first"),
        ByteKind::Arrow | ByteKind::Feather | ByteKind::Hdf5 => Tool::NONE.because("export it as CSV or JSON lines"),
        ByteKind::OldOffice => Tool::NONE.because("save it as CSV"),
        ByteKind::DuckDb => Tool::file("duckdb -csv FILE 'FROM TABLE'").then("--format csv"),
        ByteKind::Ar => Tool::file("ar p FILE MEMBER"),
        ByteKind::Image | ByteKind::Program | ByteKind::Pickle | ByteKind::Binary => {
            Tool::NONE.because("name a file of text, such as a log, CSV or JSON lines")
        }
        ByteKind::Utf16 => Tool::stream("iconv -f UTF-16 -t UTF-8"),
        ByteKind::Utf16LittleEndian => Tool::stream("iconv -f UTF-16LE -t UTF-8"),
        ByteKind::Utf16BigEndian => Tool::stream("iconv -f UTF-16BE -t UTF-8"),
        ByteKind::Utf32 => Tool::stream("iconv -f UTF-32 -t UTF-8"),
        ByteKind::Utf32LittleEndian => Tool::stream("iconv -f UTF-32LE -t UTF-8"),
        ByteKind::Utf32BigEndian => Tool::stream("iconv -f UTF-32BE -t UTF-8"),
        ByteKind::CarriageReturns => Tool::redirected("tr '\\r' '\\n'"),
        ByteKind::NulTerminated => Tool::NONE.because("add `-z` (--null-data), for the formats lines and jsonl"),
    }
}

/// Returns the command that converts an input of `kind` into records, or says in words what to do. `file` is the name
/// of the input file, and `-` means standard input. If the input is compressed, `compression` is its compression
/// format, and the command decompresses the input first.
pub(crate) fn advice(kind: ByteKind, file: &str, compression: Option<Compression>) -> String {
    let tool = tool_of(kind);
    if let Some(words) = tool.words {
        return words.to_owned();
    }
    let is_pipe = file == "-";
    let name = if is_pipe { "FILE".to_owned() } else { quoted(file) };
    let unpack = compression.and_then(Compression::command);
    let command = match (unpack, tool.from_pipe) {
        // The command removes the first of two layers, and this program removes the second.
        (Some(unpack), _) if is_compression(kind) => Some(at_input(unpack, &name, is_pipe)),
        // tar detects the compression of a file without a flag.
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

/// Returns the name with the quotes that a shell needs.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|letter| letter.is_alphanumeric() || "/._-+:@%=,~".contains(letter));
    if is_plain && !name.is_empty() && !name.starts_with(['-', '~']) {
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
