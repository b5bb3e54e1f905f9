//! The bytes of one connection: read, parsed, and replied to.
//!
//! Promises: while replies are on their way nothing more is read, so a client that reads nothing is heard no further and then closed;
//! a command that has not come whole takes room that all connections share, and is waited for so long. Must not know: commands.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use firstseen_resp::{Limits, Parser};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::session::{Next, Session};

/// Bytes that one read takes at most, and that each connection may hold without asking.
const READ_BYTES: usize = 64 << 10;
/// Bytes of replies that are sent before more commands are taken up.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// How long a client may take nothing of its replies.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the rest of a command may take.
const REST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long somebody may say nothing who has not said who it is.
const STRANGER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of room that are taken from the others at once.
const ROOM_BYTES: usize = 64 << 10;

/// Why a connection ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client has gone, or has said so.
    Left,
    /// Its bytes are no commands.
    Protocol,
    /// It took too long.
    Late,
    /// There is no room for what it sends.
    NoRoom,
}

/// Serves a connection until it ends.
pub(crate) async fn serve<T>(mut io: T, mut session: Session, room: Arc<Semaphore>) -> Ended
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut input = Input { bytes: BytesMut::new(), taken: None, room };
    let mut parser = Parser::new(limits(&session));
    loop {
        let taken = take_all(&mut io, &mut parser, &mut input, &mut session).await;
        let sent = send(&mut io, &mut session).await;
        match (taken, sent) {
            (Ok(Next::Go), Ok(())) => {}
            (Ok(Next::Close), Ok(())) => return Ended::Left,
            (Err(ended), _) | (_, Err(ended)) => return ended,
        }
        if input.bytes.is_empty() {
            input.shed();
            parser.shed();
            session.shed();
        }
        if !input.make_room() {
            let what = "ERR the node has no room for a command as large as this one now: send less at once";
            session.replies().error(what);
            return send(&mut io, &mut session).await.err().unwrap_or(Ended::NoRoom);
        }
        let patience = match (session.is_known(), input.bytes.is_empty()) {
            (false, _) => Some(STRANGER_TIMEOUT),
            (true, false) => Some(REST_TIMEOUT),
            // Clients keep connections open for later.
            (true, true) => None,
        };
        let reading = io.read_buf(&mut input.bytes);
        let read = match patience {
            None => reading.await,
            Some(patience) => match timeout(patience, reading).await {
                Ok(read) => read,
                Err(_) => return Ended::Late,
            },
        };
        if !matches!(read, Ok(bytes) if bytes > 0) {
            return Ended::Left;
        }
    }
}

fn limits(session: &Session) -> Limits {
    if session.is_known() { Limits::default() } else { Limits::before_auth() }
}

/// Takes up all commands that have come whole.
async fn take_all<T>(io: &mut T, parser: &mut Parser, input: &mut Input, session: &mut Session) -> Result<Next, Ended>
where
    T: AsyncWrite + Unpin,
{
    let mut rest = &input.bytes[..];
    let mut next = Next::Go;
    let mut was_known = session.is_known();
    while next == Next::Go {
        match parser.next(&mut rest) {
            Ok(None) => break,
            Ok(Some(command)) => next = session.take(command).await,
            Err(error) => {
                session.finish().await;
                session.replies().error(error);
                return Err(Ended::Protocol);
            }
        }
        if session.is_known() != was_known {
            was_known = !was_known;
            parser.set_limits(limits(session));
        }
        if session.replies().len() > REPLY_BYTES_MAX {
            send(io, session).await?;
        }
    }
    session.finish().await;
    let taken_bytes = input.bytes.len() - rest.len();
    input.bytes.advance(taken_bytes);
    Ok(next)
}

/// Sends all replies.
async fn send<T: AsyncWrite + Unpin>(io: &mut T, session: &mut Session) -> Result<(), Ended> {
    let replies = session.replies().take();
    if replies.is_empty() {
        return Ok(());
    }
    let mut rest = &replies[..];
    while !rest.is_empty() {
        match timeout(WRITE_TIMEOUT, io.write(rest)).await {
            Ok(Ok(0)) | Ok(Err(_)) => return Err(Ended::Left),
            Ok(Ok(sent)) => rest = rest.get(sent..).unwrap_or_default(),
            Err(_) => return Err(Ended::Late),
        }
    }
    match timeout(WRITE_TIMEOUT, io.flush()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Ended::Left),
        Err(_) => Err(Ended::Late),
    }
}

/// What has come and is not taken up.
struct Input {
    bytes: BytesMut,
    /// What was taken of the room of all.
    taken: Option<OwnedSemaphorePermit>,
    room: Arc<Semaphore>,
}

impl Input {
    /// Makes room for another read; false where others have taken it.
    fn make_room(&mut self) -> bool {
        // What every connection may hold is not counted, or a short command would be refused for the long ones of others.
        let wanted = self.bytes.len().saturating_sub(READ_BYTES).div_ceil(ROOM_BYTES);
        let have = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted > have {
            let more = u32::try_from(wanted - have).unwrap_or(u32::MAX);
            match (self.room.clone().try_acquire_many_owned(more), &mut self.taken) {
                (Ok(more), Some(taken)) => taken.merge(more),
                (Ok(more), taken @ None) => *taken = Some(more),
                (Err(_), _) => return false,
            }
        }
        self.bytes.reserve(READ_BYTES);
        true
    }

    /// Gives room back: nothing waits.
    fn shed(&mut self) {
        self.taken = None;
        if self.bytes.capacity() > READ_BYTES {
            self.bytes = BytesMut::new();
        }
    }
}

/// The room that all connections share, for so many bytes.
pub(crate) fn room(bytes_max: u64) -> Arc<Semaphore> {
    let permits = usize::try_from(bytes_max).unwrap_or(usize::MAX).div_ceil(ROOM_BYTES);
    Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
}
