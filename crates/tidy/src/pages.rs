//! Reads the Markdown pages of the repository, and extracts their prose, headings and links. One function reads the
//! files. All other functions are pure.

use crate::{Source, collect, read, root};

/// Pages in the top folder of the repository.
const TOP: [&str; 5] = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];

/// Link from a page to another page, or to a heading of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Path of the target, relative to the top folder.
    pub path: String,
    /// Anchor of the heading that the link refers to.
    pub anchor: Option<String>,
}

/// Returns the pages in the top folder of the repository, and all pages below `docs`.
pub fn pages() -> Vec<Source> {
    let root = root();
    let mut pages: Vec<Source> = TOP.iter().map(|name| read(&root, &root.join(name))).collect();
    collect(&root, &root.join("docs"), "md", &mut pages);
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    pages
}

/// Returns the text of a page without its code blocks.
pub fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut is_code = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Returns the headings of one level. Level 1 is the title.
pub fn headings(text: &str, level: usize) -> Vec<String> {
    let mark = format!("{} ", "#".repeat(level));
    prose(text).lines().filter_map(|line| line.strip_prefix(&mark)).map(|heading| heading.trim().to_owned()).collect()
}

/// Returns the links of a page to files in this repository.
pub fn links(page: &Source) -> Vec<Link> {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let prose = prose(&page.text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut links = Vec::new();
    for target in targets.filter(|target| !target.contains("://")) {
        let (path, anchor) = match target.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor.to_owned())),
            None => (target, None),
        };
        let path = if path.is_empty() { page.path.clone() } else { resolved(folder, path) };
        links.push(Link { path, anchor });
    }
    links
}

/// Resolves `path`, which is relative to `folder`, to a path from the top folder.
fn resolved(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}
