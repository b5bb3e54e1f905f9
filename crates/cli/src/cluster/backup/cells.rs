//! Reads and writes the cells of one slice in a file of a backup. The file has the form of a snapshot
//! (`docs/reference/snapshot-format.md`). Its body contains the cells as a sequence of messages, in the same encoding
//! in which nodes send cells to each other. The reader returns a part of the file only after it has verified the
//! checksum of that part.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use firstseen_filter::snapshot::{self, UnverifiedSnapshot};
use firstseen_wire::cells;
use firstseen_wire::limits::MESSAGE_BYTES_MAX;
use firstseen_wire::proto::peer::Cells;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Maximum number of pieces that wait between the network and the disk.
const PIECES_WAITING_MAX: usize = 4;

/// Identifies the slice whose cells a file contains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    /// Number of the filter.
    pub(super) filter: u64,
    /// Name of the filter.
    pub(super) name: String,
    /// Number of the slice.
    pub(super) slice: u32,
}

/// Writes pieces until the queue ends.
pub(super) fn write(sink: &mut dyn Write, header: &Header, pieces: &mut mpsc::Receiver<Cells>) -> anyhow::Result<()> {
    let written = snapshot::write(sink, header, |body| {
        while let Some(piece) = pieces.blocking_recv() {
            let bytes = cells::to_bytes(&piece);
            body.write_all(&(bytes.len() as u32).to_le_bytes())?;
            body.write_all(&bytes)?;
        }
        Ok(())
    });
    Ok(written?)
}

/// Creates a queue of pieces.
pub(super) fn queue() -> (mpsc::Sender<Cells>, mpsc::Receiver<Cells>) {
    mpsc::channel(PIECES_WAITING_MAX)
}

/// Passes all pieces to `take`, and returns the slice that they belong to.
///
/// # Errors
/// Returns an error if the file is damaged, or the error of `take`.
pub(super) fn read(source: impl Read, mut take: impl FnMut(Cells) -> io::Result<()>) -> anyhow::Result<Header> {
    let snapshot = UnverifiedSnapshot::<_, Header>::open(source)?;
    let header = snapshot.header().clone();
    snapshot.verify(|body| {
        let mut bytes = Vec::new();
        while let Some(length) = length(body)? {
            bytes.resize(length, 0);
            body.read_exact(&mut bytes)?;
            take(cells::from_bytes(&bytes).map_err(|error| invalid(&error.to_string()))?)?;
        }
        Ok(())
    })?;
    Ok(header)
}

/// Returns the length of the next piece in bytes, or `None` at the end.
fn length(body: &mut dyn Read) -> io::Result<Option<usize>> {
    let mut number = [0; 4];
    if body.read(&mut number[..1])? == 0 {
        return Ok(None);
    }
    body.read_exact(&mut number[1..])?;
    let length = u32::from_le_bytes(number) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(invalid("a piece that is longer than any"));
    }
    Ok(Some(length))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Returns the pieces of the file at `path`, which a separate thread reads ahead, and the result of that thread.
pub(crate) fn pieces(path: PathBuf) -> (mpsc::Receiver<Cells>, JoinHandle<anyhow::Result<()>>) {
    let (sender, pieces) = queue();
    let reading = tokio::task::spawn_blocking(move || {
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        read(BufReader::with_capacity(1 << 18, file), |piece| {
            sender.blocking_send(piece).map_err(|_| io::Error::other("nobody takes them any more"))
        })
        .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(())
    });
    (pieces, reading)
}
