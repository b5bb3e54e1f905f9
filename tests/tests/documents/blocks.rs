//! Parses the fenced code blocks of a page, and the HTML comments about them.
//!
//! The module converts text to blocks, and does not depend on how a block is run.

/// Code block: commands, a file that commands read, or output of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Line number of the opening fence, from 1.
    pub(crate) line: usize,
    /// Language of the block, such as `sh`, `toml` or `text`.
    pub(crate) language: String,
    pub(crate) text: String,
    pub(crate) marks: Vec<Mark>,
    /// Number of headings before the block.
    pub(crate) section: usize,
}

/// HTML comment before a block, which says how the block is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// `<!-- not run: REASON -->`
    NotRun { reason: String },
    /// ``<!-- not run `WORDS`: REASON -->``: the commands of the block that begin with these words are not run.
    NotRunLine { begins: String, reason: String },
    /// `<!-- long: REASON -->`: the block is run only in the long run.
    Long { reason: String },
    /// `<!-- before: COMMANDS -->`: commands that a reader has typed before. Variables that are set in them replace
    /// words of the block.
    Before { commands: String },
    /// `<!-- as FILE: COMMANDS -->`: the block is a file, which these commands read.
    As { file: String, commands: String },
}

impl Mark {
    /// Parses a comment. Returns `None` if the comment is not about a block.
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
    /// Returns whether the block contains commands.
    pub(crate) fn is_run(&self) -> bool {
        let is_named = |mark: &Mark| matches!(mark, Mark::As { .. });
        matches!(self.language.as_str(), "sh" | "console" | "bash" | "shell") || self.marks.iter().any(is_named)
    }

    /// Returns the reason why the block is not run, if there is one.
    pub(crate) fn not_run(&self) -> Option<&str> {
        self.marks.iter().find_map(|mark| match mark {
            Mark::NotRun { reason } => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Returns whether the block belongs to the long run.
    pub(crate) fn is_long(&self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::Long { .. }))
    }

    /// Returns the number of comments that exclude the block, or a part of it, from being run.
    pub(crate) fn left_out(&self) -> usize {
        let leaves_out = |mark: &&Mark| matches!(mark, Mark::NotRun { .. } | Mark::NotRunLine { .. });
        self.marks.iter().filter(leaves_out).count()
    }
}

/// Returns all blocks of `page`.
///
/// # Panics
/// Panics if a fence or a comment has no end, and if a comment about a block gives no reason.
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
