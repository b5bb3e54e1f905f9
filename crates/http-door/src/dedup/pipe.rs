//! A body as bytes that a thread reads.
//!
//! Promises: at most [`FRAMES_MAX`] frames of a body wait for the thread; a body that breaks off or pauses for too long is an error
//! after all bytes that came before. This module must not depend on records.

use std::io::{Error, ErrorKind, Read, Result};

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::limits::PAUSE_TIMEOUT;

/// Frames of a body that wait for the thread; hyper makes none longer than its buffer.
const FRAMES_MAX: usize = 4;

/// The end of a pipe that a thread reads.
pub(crate) struct BodyReader {
    frames: Receiver<Result<Bytes>>,
    first: Bytes,
    is_at_end: bool,
}

/// The end of a pipe into which a body is written.
pub(crate) struct BodyWriter(Sender<Result<Bytes>>);

/// A pipe for a body.
pub(crate) fn pipe() -> (BodyWriter, BodyReader) {
    let (sender, frames) = channel(FRAMES_MAX);
    (BodyWriter(sender), BodyReader { frames, first: Bytes::new(), is_at_end: false })
}

impl BodyWriter {
    /// Passes the body on until it ends, or nobody reads it, or `stop` is cancelled.
    pub(crate) async fn pass_on(self, mut body: axum::body::Body, stop: CancellationToken) {
        loop {
            let frame = match stop.run_until_cancelled(timeout(PAUSE_TIMEOUT, body.frame())).await {
                None => Err(Error::new(ErrorKind::Interrupted, STOPPED)),
                Some(Err(_)) => Err(Error::new(
                    ErrorKind::TimedOut,
                    format!("no bytes of the body have come for {} s", PAUSE_TIMEOUT.as_secs()),
                )),
                // An empty frame is the end: a pipe that only closes was not written to its end.
                Some(Ok(None)) => Ok(Bytes::new()),
                Some(Ok(Some(Err(error)))) => Err(Error::other(format!("the body breaks off: {error}"))),
                Some(Ok(Some(Ok(frame)))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => Ok(data),
                    _ => continue,
                },
            };
            // `Interrupted` would be read again.
            let frame = frame.map_err(|error| Error::other(error.to_string()));
            let is_last = frame.as_ref().map_or(true, Bytes::is_empty);
            if self.0.send(frame).await.is_err() || is_last {
                return;
            }
        }
    }
}

/// Why a stream ends when the door closes.
const STOPPED: &str = "the node stops: send the rest of the records to another node";

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.first.is_empty() && !self.is_at_end {
            self.first = self.frames.blocking_recv().unwrap_or_else(|| Err(Error::other(STOPPED)))?;
            self.is_at_end = self.first.is_empty();
        }
        let bytes = self.first.len().min(buffer.len());
        self.first.copy_to_slice(&mut buffer[..bytes]);
        Ok(bytes)
    }
}
