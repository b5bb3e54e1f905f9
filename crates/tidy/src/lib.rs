//! Reads the sources and pages of this repository, for the checks in `tests/`. The functions return every Rust file of
//! every workspace member, and every Markdown page.

pub mod modules;
mod pages;

use std::fs;
use std::path::{Path, PathBuf};

pub use pages::{Link, headings, links, pages, prose};

/// Returns the top folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_owned).unwrap_or_default()
}

/// Text file.
pub struct Source {
    /// Path of the file, relative to the top folder.
    pub path: String,
    /// Contents of the file.
    pub text: String,
}

/// Returns every handwritten Rust file below `crates`, `tests` and `fuzz`. Generated files are left out.
pub fn sources() -> Vec<Source> {
    let root = root();
    let mut sources = Vec::new();
    for folder in ["crates", "tests", "fuzz"] {
        collect(&root, &root.join(folder), "rs", &mut sources);
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(sources.len() > 50, "the walk found only {} files", sources.len());
    sources
}

/// Adds the files below `folder` whose names end in `extension`.
fn collect(root: &Path, folder: &Path, extension: &str, sources: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !["target", "corpus", "artifacts", "generated"].contains(&name) {
            collect(root, &path, extension, sources);
        } else if path.extension().is_some_and(|of| of == extension) {
            sources.push(read(root, &path));
        }
    }
}

fn read(root: &Path, path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap_or_default();
    let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    Source { path, text }
}

/// Returns whether an item with these attributes is compiled only for tests.
pub fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let names = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        names.split(|it: char| !it.is_alphanumeric()).any(|word| word == "test")
    })
}
