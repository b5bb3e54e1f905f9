//! Connects the body of a request, which arrives asynchronously, with a thread that reads its bytes.
//!
//! At most [`FRAMES_MAX`] frames of a request body wait for the thread that reads them, so memory stays bounded.
//!
//! A request body can end with an error, for example if it ends too early or pauses for too long. The thread receives
//! such an error last, after all bytes that arrived before it.
//!
//! This module does not depend on records.

use std::io::{Error, ErrorKind, Read, Result};

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::limits::PAUSE_TIMEOUT;

/// Maximum number of frames that wait for the thread. No frame is longer than the buffer of hyper.
const FRAMES_MAX: usize = 4;

/// Reading end of the pipe, which a thread uses.
pub(crate) struct BodyReader {
    frames: Receiver<Result<Bytes>>,
    first: Bytes,
    is_at_end: bool,
}

/// Writing end of the pipe, which receives the body.
pub(crate) struct BodyWriter(Sender<Result<Bytes>>);

/// Creates a pipe for a body.
pub(crate) fn pipe() -> (BodyWriter, BodyReader) {
    let (sender, frames) = channel(FRAMES_MAX);
    (BodyWriter(sender), BodyReader { frames, first: Bytes::new(), is_at_end: false })
}

impl BodyWriter {
    /// Writes the body into the pipe until the body ends, the reader is dropped, or `stop` is cancelled.
    pub(crate) async fn pass_on(self, mut body: axum::body::Body, stop: CancellationToken) {
        loop {
            let frame = match stop.run_until_cancelled(timeout(PAUSE_TIMEOUT, body.frame())).await {
                None => Err(Error::new(ErrorKind::Interrupted, STOPPED)),
                Some(Err(_)) => Err(Error::new(
                    ErrorKind::TimedOut,
                    format!("no bytes of the body have come for {} s", PAUSE_TIMEOUT.as_secs()),
                )),
                // An empty frame marks the end of the body. A pipe that closes without this mark was not written
                // completely.
                Some(Ok(None)) => Ok(Bytes::new()),
                Some(Ok(Some(Err(error)))) => Err(Error::other(format!("the body breaks off: {error}"))),
                Some(Ok(Some(Ok(frame)))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => Ok(data),
                    _ => continue,
                },
            };
            // Other error kinds are replaced, because a reader would retry after `Interrupted`.
            let frame = frame.map_err(|error| Error::other(error.to_string()));
            let is_last = frame.as_ref().map_or(true, Bytes::is_empty);
            if self.0.send(frame).await.is_err() || is_last {
                return;
            }
        }
    }
}

/// Error text of a stream that ends because the endpoint stops.
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
