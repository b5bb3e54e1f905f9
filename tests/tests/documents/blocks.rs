//! The fenced blocks of a page, and the invisible comments about them.
//!
//! Promises: text in, blocks out. Must not know: how a block is run.

/// A block: commands, a file that commands read, or their output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of its fence, from 1.
    pub(crate) line: usize,
    /// The word behind the fence: `sh`, `toml`, `text`.
    pub(crate) language: String,
    pub(crate) text: String,
    pub(crate) marks: Vec<Mark>,
    /// The number of headings before it.
    pub(crate) section: usize,
}

/// A comment before a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// `<!-- not run: REASON -->`
    NotRun { reason: String },
    /// ``<!-- not run `WORDS`: REASON -->``: its commands that begin with these words.
    NotRunLine { begins: String, reason: String },
    /// `<!-- long: REASON -->`: it is run only in the long run.
    Long { reason: String },
    /// `<!-- before: COMMANDS -->`: what a reader has typed before; variables that are set there replace words of the
    /// block.
    Before { commands: String },
    /// `<!-- as FILE: COMMANDS -->`: the block is a file, which these commands read.
    As { file: String, commands: String },
}

impl Mark {
    /// The meaning of a comment; none where it is not about a block.
    fn parse(comment: &str) -> Option<Self> {
        let (kind, rest) = comment.split_once(':')?;
        let rest = rest.trim().to_owned();
        match kind.trim() {
            "not run" => Some(Self::NotRun { reason: rest }),
            "long" => Some(Self::Long { reason: rest }),
            "before" => Some(Self::Before { commands: rest }),
            kind => match (kind.strip_prefix("not run `"), kind.strip_prefix("as ")) {
                (Some(begins), _) => {
                    Some(Self::NotRunLine { begins: begins.strip_suffix('`')?.to_owned(), reason: rest })
                }
                (None, Some(file)) => Some(Self::As { file: file.trim().to_owned(), commands: rest }),
                (None, None) => None,
            },
        }
    }
}

impl Block {
    /// Whether it has commands.
    pub(crate) fn is_run(&self) -> bool {
        let is_named = |mark: &Mark| matches!(mark, Mark::As { .. });
        matches!(self.language.as_str(), "sh" | "console" | "bash" | "shell") || self.marks.iter().any(is_named)
    }

    /// Why it is left out.
    pub(crate) fn not_run(&self) -> Option<&str> {
        self.marks.iter().find_map(|mark| match mark {
            Mark::NotRun { reason } => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Whether it belongs to the long run.
    pub(crate) fn is_long(&self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::Long { .. }))
    }

    /// How many of its comments keep a part of it from being run.
    pub(crate) fn left_out(&self) -> usize {
        let leaves_out = |mark: &&Mark| matches!(mark, Mark::NotRun { .. } | Mark::NotRunLine { .. });
        self.marks.iter().filter(leaves_out).count()
    }
}

/// All blocks of `page`.
///
/// # Panics
/// At a fence or a comment without an end, and a comment about a block that gives no reason.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut marks, mut section) = (Vec::new(), Vec::new(), 0);
    let mut lines = (1..).zip(page.lines());
    while let Some((number, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```"));
            let text = body.map(|line| format!("{line}\n")).collect();
            let language = language.trim().to_owned();
            blocks.push(Block { line: number, language, text, marks: std::mem::take(&mut marks), section });
        } else if let Some(begun) = line.strip_prefix("<!--") {
            let mut comment = begun.to_owned();
            while !comment.contains("-->") {
                let (_, next) = lines.next().unwrap_or_else(|| panic!("line {number}: a comment without an end"));
                comment = format!("{comment}\n{next}");
            }
            let said = comment.split("-->").next().unwrap_or_default().trim().to_owned();
            marks.extend(Mark::parse(&said));
        } else if !line.trim().is_empty() {
            marks.clear();
            section += usize::from(line.starts_with('#'));
        }
    }
    for block in &blocks {
        let is_empty = |mark: &Mark| match mark {
            Mark::NotRun { reason } | Mark::NotRunLine { reason, .. } | Mark::Long { reason } => reason.is_empty(),
            Mark::Before { commands } | Mark::As { commands, .. } => commands.is_empty(),
        };
        assert!(!block.marks.iter().any(is_empty), "line {}: a comment that says nothing", block.line);
    }
    blocks
}

#[test]
fn a_block_has_the_comments_before_it() {
    let page = "# One\n<!-- not run: needs docker -->\n```sh\ndocker up\n```\nText.\n<!-- before: firstseen up\nA=1 -->\n\
                <!-- not run `cargo test`: it runs this -->\n\n```sh\ncargo test\nfirstseen plan\n```\n## Two\n```text\nshown\n```\n\
                <!-- as a.toml: cat a.toml -->\n```toml\nname = \"a\"\n```\n<!-- long: a minute -->\nText.\n```rust\n```\n";
    let found = blocks(page);
    let summary: Vec<_> =
        found.iter().map(|block| (block.line, block.language.as_str(), block.is_run(), block.section)).collect();
    assert_eq!(
        summary,
        [
            (3, "sh", true, 1),
            (11, "sh", true, 1),
            (16, "text", false, 2),
            (20, "toml", true, 2),
            (25, "rust", false, 2)
        ]
    );
    assert_eq!((found[0].not_run(), found[0].left_out(), found[1].not_run()), (Some("needs docker"), 1, None));
    let before = Mark::Before { commands: "firstseen up\nA=1".to_owned() };
    let line = Mark::NotRunLine { begins: "cargo test".to_owned(), reason: "it runs this".to_owned() };
    assert_eq!(found[1].marks, [before, line]);
    assert!(!found[4].is_long(), "text between a comment and a block parts them");
}
