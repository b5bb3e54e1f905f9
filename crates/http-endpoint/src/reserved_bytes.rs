//! Reserves memory for the bodies of requests and for replies. Each connection has a small free allowance, which is
//! sufficient for small buffers. For a larger buffer, the connection reserves memory from a budget that all connections
//! share.
//!
//! The shared budget bounds the memory for the bodies and replies of all connections together. When a buffer is
//! dropped, its memory returns to the budget.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use firstseen_backend::ROOM_BYTES;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::limits::{BODY_TIMEOUT, FREE_BYTES};
use crate::problem::{Problem, ProblemKind};

/// Share of the common memory budget that a buffer uses.
pub(crate) struct ReservedBytes {
    room: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ReservedBytes {
    pub(crate) fn new(room: Arc<Semaphore>) -> Self {
        Self { room, permit: None }
    }

    /// Reserves memory for a buffer of `bytes` bytes. The first [`FREE_BYTES`] do not count.
    ///
    /// # Errors
    /// Returns a problem if other connections use the whole budget at present.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<(), Problem> {
        let wanted = bytes.saturating_sub(FREE_BYTES).div_ceil(ROOM_BYTES);
        let have = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted <= have {
            return Ok(());
        }
        let more = u32::try_from(wanted - have).unwrap_or(u32::MAX);
        let more = self.room.clone().try_acquire_many_owned(more).map_err(|_| no_room())?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

/// Creates the problem of a request for which there is no memory.
pub(crate) fn no_room() -> Problem {
    let detail = "the node holds as many bytes of bodies and replies as buffered_bytes_max of [http_api] allows, and nothing was recorded: \
                  send the request again later, or in smaller parts";
    Problem::new(ProblemKind::NoRoom, detail).retry_after(std::time::Duration::from_secs(1))
}

/// Reads a body as a whole.
///
/// # Errors
/// Returns a problem if the body is larger than `bytes_max`, arrives too slowly, or breaks off, or if there is no
/// memory for it.
pub(crate) async fn whole(
    body: axum::body::Body,
    bytes_max: usize,
    taken: &mut ReservedBytes,
) -> Result<Bytes, Problem> {
    match timeout(BODY_TIMEOUT, read(body, bytes_max, taken)).await {
        Ok(read) => read,
        Err(_) => Err(Problem::new(
            ProblemKind::BodyTooSlow,
            format_args!("the body did not arrive within {} s: send less at once", BODY_TIMEOUT.as_secs()),
        )),
    }
}

async fn read(mut body: axum::body::Body, bytes_max: usize, taken: &mut ReservedBytes) -> Result<Bytes, Problem> {
    let announced = http_body::Body::size_hint(&body).lower();
    if announced > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::malformed(format_args!("the body breaks off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let bytes = first.len() + rest.len() + data.len();
        if bytes > bytes_max {
            return Err(too_large(bytes_max));
        }
        // Twice the size is reserved, because a buffer is copied when it grows.
        taken.make_room(2 * bytes)?;
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(
        ProblemKind::BodyTooLarge,
        format_args!(
            "the body has more than {bytes_max} bytes: send it in several calls, stream it to dedup, or raise body_bytes_max in [http_api]"
        ),
    )
}

/// Bytes of a reply, which hold their reserved memory until they have been sent.
struct HeldReply {
    bytes: Vec<u8>,
    _taken: ReservedBytes,
}

impl AsRef<[u8]> for HeldReply {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Creates the bytes of a reply. A long reply holds `taken` until it has been sent.
pub(crate) fn reply(bytes: Vec<u8>, taken: ReservedBytes) -> Bytes {
    if taken.permit.is_none() { Bytes::from(bytes) } else { Bytes::from_owner(HeldReply { bytes, _taken: taken }) }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use firstseen_backend::room;

    use super::*;

    #[tokio::test]
    async fn a_body_takes_room_until_its_reply_is_sent() {
        let all = room(1 << 20);
        let permits = all.available_permits();
        let mut taken = ReservedBytes::new(all.clone());
        let body = whole(Body::from(vec![b'a'; 200 << 10]), 1 << 20, &mut taken).await.unwrap();
        assert_eq!(body.len(), 200 << 10);
        assert!(all.available_permits() < permits);
        let sent = reply(vec![0; 5], taken);
        drop(body);
        assert!(all.available_permits() < permits, "the reply is on its way");
        drop(sent);
        assert_eq!(all.available_permits(), permits);
        let mut taken = ReservedBytes::new(all.clone());
        let kind = whole(Body::from(vec![b'a'; 1 << 20]), 2 << 20, &mut taken).await.unwrap_err().kind();
        assert_eq!(kind, ProblemKind::NoRoom);
        let kind = whole(Body::from(vec![b'a'; 101]), 100, &mut taken).await.unwrap_err().kind();
        assert_eq!(kind, ProblemKind::BodyTooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        let pending = http_body_util::StreamBody::new(nothing_comes());
        let mut taken = ReservedBytes::new(room(1 << 20));
        let problem = whole(Body::new(pending), 100, &mut taken).await.unwrap_err();
        assert_eq!(problem.kind(), ProblemKind::BodyTooSlow);
    }

    /// Returns a body that never delivers a byte.
    fn nothing_comes() -> impl futures_util::Stream<Item = Result<http_body::Frame<Bytes>, std::io::Error>> {
        futures_util::stream::pending()
    }
}
