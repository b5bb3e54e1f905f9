//! The pages that people read: what stands in them beside code, and what they link to.
//!
//! Promises: text in, words out. Must not know: what pages are about.

use crate::{Source, collect, read, root};

/// Pages at the top of the repository.
const TOP: [&str; 4] = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"];

/// A link of a page to another, or to a place in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The path of its target from the top folder.
    pub path: String,
    /// The heading that it names, as links write it.
    pub anchor: Option<String>,
}

/// Those at the top of the repository, and all below `docs`.
pub fn pages() -> Vec<Source> {
    let root = root();
    let mut pages: Vec<Source> = TOP.iter().map(|name| read(&root, &root.join(name))).collect();
    collect(&root, &root.join("docs"), "md", &mut pages);
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    pages
}

/// A page without its blocks of code.
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

/// The headings of one level, 1 for a title.
pub fn headings(text: &str, level: usize) -> Vec<String> {
    let mark = format!("{} ", "#".repeat(level));
    prose(text).lines().filter_map(|line| line.strip_prefix(&mark)).map(|heading| heading.trim().to_owned()).collect()
}

/// What a page links to in this repository.
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

/// `path` as `folder` has it, from the top folder.
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
