//! Paths of files that a program replaces as a whole.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum length of a chain of symbolic links that is followed, as in operating systems.
const LINKS_MAX: usize = 40;

/// Returns the path of the file to which `path` leads. The function follows symbolic links, and the folder of the
/// result is a canonical path. The file itself need not exist. If the path cannot be followed to an existing folder,
/// the function returns `path` itself.
pub fn place(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(file_name) = place.file_name() else { break };
        let Ok(folder) = folder(&place).canonicalize() else { break };
        place = folder.join(file_name);
        match fs::read_link(&place) {
            Ok(target) => place = folder.join(target),
            Err(_) => return place,
        }
    }
    path.to_owned()
}

/// Returns the folder that contains `path`.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
