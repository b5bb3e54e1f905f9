//! Reserves memory for bodies and replies: a first part of each connection is free, the rest comes from a limit for all connections.
//!
//! Promises: the bytes that are buffered for all connections together are bounded, and released when the buffer is dropped. This module must
//! not depend on their contents.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use firstseen_backend::ROOM_BYTES;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::limits::{BODY_TIMEOUT, FREE_BYTES};
use crate::problem::{Problem, ProblemKind};

/// What is taken of the room that all connections share.
pub(crate) struct ReservedBytes {
    room: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ReservedBytes {
    pub(crate) fn new(room: Arc<Semaphore>) -> Self {
        Self { room, permit: None }
    }

    /// Reserves memory for a buffer of `bytes`. The first [`FREE_BYTES`] of it do not count.
    ///
    /// # Errors
    /// Other connections hold the room at present.
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

/// The problem of a request for which there is no room.
pub(crate) fn no_room() -> Problem {
    let detail = "the node holds as many bytes of bodies and replies as buffered_bytes_max of [http_api] allows, and nothing was recorded: \
                  send the request again later, or in smaller parts";
    Problem::new(ProblemKind::NoRoom, detail).retry_after(std::time::Duration::from_secs(1))
}

/// Reads a body as a whole.
///
/// # Errors
/// It is larger than `bytes_max`, comes too slowly, or breaks off; or there is no room for it.
pub(crate) async fn whole(
    body: axum::body::Body,
    bytes_max: usize,
    taken: &mut ReservedBytes,
) -> Result<Bytes, Problem> {
    match timeout(BODY_TIMEOUT, read(body, bytes_max, taken)).await {
        Ok(read) => read,
        Err(_) => Err(Problem::new(
            ProblemKind::BodyTooSlow,
            format_args!("the body has not come within {} s: send less at once", BODY_TIMEOUT.as_secs()),
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
        // Room for twice the bytes, as a body that is put together is copied when it grows.
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

/// The bytes of a reply, which hold the room that they take for as long as they are on their way.
struct HeldReply {
    bytes: Vec<u8>,
    _taken: ReservedBytes,
}

impl AsRef<[u8]> for HeldReply {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes of a reply; those of a long one hold `taken` until they are sent.
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

    /// A body of which nothing comes.
    fn nothing_comes() -> impl futures_util::Stream<Item = Result<http_body::Frame<Bytes>, std::io::Error>> {
        futures_util::stream::pending()
    }
}
