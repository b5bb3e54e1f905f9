//! The bytes of one connection: read, parsed, and replied to.
//!
//! Promises: while replies are on their way nothing more is read, so a client that reads nothing is heard no further and then closed;
//! a command that has not come whole takes room that all connections share, and has to come whole in time. Must not know: commands.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use firstseen_resp::{Limits, Parser};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::room::ROOM_BYTES;
use crate::session::{Next, Session};

/// Bytes that one read takes at most, and that each connection may hold without asking.
const READ_BYTES: usize = 64 << 10;
/// Bytes of replies that are sent before more commands are taken up.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// How long a client may take to read its replies, of which there are a few MiB at most.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the rest of a command may take.
const REST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long somebody may say nothing who has not said who it is.
const STRANGER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

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

/// Serves a connection until it ends, or `stop`: then what has come is replied to, and nothing more is read.
pub(crate) async fn serve<T>(mut io: T, session: Session, room: Arc<Semaphore>, stop: &CancellationToken) -> Ended
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let ended = talk(&mut io, session, room, stop).await;
    let closing = async {
        // So that the other end knows that nothing was cut off.
        io.shutdown().await?;
        // A connection with bytes that nobody has read is reset, and then what the client was told may be lost on the way.
        let mut rest = vec![0; 4096];
        while matches!(ended, Ended::Protocol | Ended::NoRoom) && io.read(&mut rest).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    let _ = timeout(CLOSE_TIMEOUT, closing).await;
    ended
}

async fn talk<T>(io: &mut T, mut session: Session, room: Arc<Semaphore>, stop: &CancellationToken) -> Ended
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut input = Input { bytes: BytesMut::new(), taken: None, room };
    let mut parser = Parser::new(limits(&session));
    // Since when it is not known who it is.
    let mut stranger_since = Instant::now();
    // When the command began that has not come whole.
    let mut begun: Option<Instant> = None;
    loop {
        let before = input.bytes.len();
        let taken = take_all(io, &mut parser, &mut input, &mut session).await;
        let sent = send(io, &mut session).await;
        match (taken, sent) {
            (Ok(Next::Go), Ok(())) => {}
            (Ok(Next::Close), Ok(())) => return Ended::Left,
            (Err(ended), _) | (_, Err(ended)) => return ended,
        }
        if input.bytes.is_empty() {
            begun = None;
            input.shed();
            if parser.held_bytes() > READ_BYTES {
                parser.shed();
            }
            session.shed();
        } else if begun.is_none() || input.bytes.len() < before {
            begun = Some(Instant::now());
        }
        if !input.make_room() {
            let what = "ERR the node has no room for a command as large as this one now: send less at once";
            session.replies().error(what);
            return send(io, &mut session).await.err().unwrap_or(Ended::NoRoom);
        }
        if session.is_known() {
            // It may be asked again later: after RESET, say.
            stranger_since = Instant::now();
        }
        let until = match (session.is_known(), session.is_in_transaction(), begun) {
            (false, ..) => Some(stranger_since + STRANGER_TIMEOUT),
            (true, _, Some(begun)) => Some(begun + REST_TIMEOUT),
            (true, true, None) => Some(Instant::now() + REST_TIMEOUT),
            // Clients keep connections open for later.
            (true, false, None) => None,
        };
        let reading = stop.run_until_cancelled(io.read_buf(&mut input.bytes));
        let read = match until {
            None => reading.await,
            Some(until) => match timeout_at(until, reading).await {
                Ok(read) => read,
                Err(_) => return Ended::Late,
            },
        };
        if !matches!(read, Some(Ok(bytes)) if bytes > 0) {
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
    let sending = async {
        io.write_all(&replies).await?;
        io.flush().await
    };
    match timeout(WRITE_TIMEOUT, sending).await {
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
        // What is moved to a larger place is touched, and so takes memory, however little is in it.
        if self.bytes.capacity() - self.bytes.len() < READ_BYTES / 2 {
            self.bytes.reserve(READ_BYTES);
        }
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
