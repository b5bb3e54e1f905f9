//! Chooses the ports of the nodes of a local cluster. This module does not know what the nodes use them for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;

use anyhow::ensure;

use crate::exit::UsageError;

/// Range in which free ports are searched if no flag names a port.
const FREE: Range<u16> = 24_000..32_000;

/// Returns `count` consecutive ports, of which `first` is the first.
///
/// # Errors
/// Returns an error if fewer ports follow.
pub(super) fn following(first: u16, count: usize) -> Result<Vec<u16>, UsageError> {
    let ports: Vec<u16> = (first..=u16::MAX).take(count).collect();
    if ports.len() < count {
        let highest = usize::from(u16::MAX) + 1 - count;
        return Err(UsageError(format!(
            "port {first} is too high: the nodes use {count} ports from the port of --port on, which can be {highest} \
             at most"
        )));
    }
    Ok(ports)
}

/// Returns whether no program listens on this port of the loopback address.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Returns `count` ports that are free at present. The ports are below the range from which the operating system
/// assigns ports to outgoing connections. An outgoing connection can therefore not occupy the port of a node while the
/// node is restarted.
///
/// The search starts at a different port for each folder, so that clusters that are created at the same time get
/// different ports.
pub(super) fn free(folder: &Path, count: usize) -> anyhow::Result<Vec<u16>> {
    let mut hash = DefaultHasher::new();
    folder.canonicalize()?.hash(&mut hash);
    let begin = usize::try_from(hash.finish() % FREE.len() as u64)?;
    let ports = FREE.skip(begin).chain(FREE.take(begin));
    let ports: Vec<u16> = ports.filter(|port| is_free(*port)).take(count).collect();
    ensure!(ports.len() == count, "fewer than {count} free ports from {} on: name the first with --port", FREE.start);
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_the_first_or_are_free() {
        assert_eq!(following(7400, 3).unwrap(), [7400, 7401, 7402]);
        assert_eq!(following(65_530, 6).unwrap().last(), Some(&65_535));
        let said = following(65_531, 6).unwrap_err().to_string();
        assert!(said.contains("port 65531 is too high") && said.contains("can be 65530 at most"), "{said}");
        let mut ports = free(Path::new("."), 20).unwrap();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
