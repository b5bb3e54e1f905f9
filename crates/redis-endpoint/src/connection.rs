//! Reads the commands of one connection, and sends the replies.
//!
//! - While replies are being sent, the endpoint reads no further commands. A client that does not read its replies is
//!   disconnected.
//! - A connection that sends without a pause does not block other connections.
//! - An incomplete command uses memory that all connections share, and must be complete within a time limit.
//!
//! This module does not depend on what commands do.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use firstseen_backend::ROOM_BYTES;
use firstseen_resp::{Limits, Parser};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::outbox::SendError;
use crate::session::TURN_COMMANDS;
use crate::session::{Next, Session};

/// Maximum number of bytes of a read.
const READ_BYTES: usize = 64 << 10;
/// Memory that a connection may use without taking it from the budget that all connections share, in bytes.
const FREE_BYTES: usize = 2 * READ_BYTES;
/// Size of the commands of one connection that are processed before other connections get their turn, in bytes.
const TURN_BYTES: usize = READ_BYTES / 4;
/// Size of replies at which they are sent before further commands are processed, in bytes.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Maximum time between the first and the last byte of a command.
const COMMAND_READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for a client to authenticate.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time for closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that a `SETNX` at the end of a read waits for its `EXPIRE`, if the connection has sent such pairs before.
const PAIR_WAIT: Duration = Duration::from_millis(5);

/// Reason why a connection ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client closed the connection, or sent `QUIT`.
    Left,
    /// The client violated the protocol.
    Protocol,
    /// The client exceeded a time limit.
    Late,
    /// The memory budget cannot hold what the client sends.
    NoRoom,
}

impl From<SendError> for Ended {
    fn from(unsent: SendError) -> Self {
        match unsent {
            SendError::Gone => Self::Left,
            SendError::Late => Self::Late,
        }
    }
}

/// Serves a connection until it ends or `stop` is cancelled. Commands that have arrived by then still get their
/// replies.
pub(crate) async fn serve(
    mut reader: impl AsyncRead + Unpin,
    mut session: Session,
    room: Arc<Semaphore>,
    stop: &CancellationToken,
) -> Ended {
    let ended = serve_commands(&mut reader, &mut session, room, stop).await;
    let closing = async {
        // A clean shutdown tells the client that no reply was cut off.
        session.outbox().close().await?;
        // The operating system resets a connection that has unread bytes, and then replies that are still in transit
        // may be lost.
        let mut rest = vec![0; 4096];
        while matches!(ended, Ended::Protocol | Ended::NoRoom) && reader.read(&mut rest).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    let _ = timeout(CLOSE_TIMEOUT, closing).await;
    ended
}

async fn serve_commands(
    reader: &mut (impl AsyncRead + Unpin),
    session: &mut Session,
    room: Arc<Semaphore>,
    stop: &CancellationToken,
) -> Ended {
    let mut input = Input { bytes: BytesMut::new(), taken: None, room };
    let mut parser = Parser::new(limits(session));
    // Time since which the client has not been authenticated.
    let mut stranger_since = Instant::now();
    // Time at which the first byte of the incomplete command arrived.
    let mut begun: Option<Instant> = None;
    loop {
        let before = input.bytes.len();
        let taken = take_all(&mut parser, &mut input, session).await;
        let sent = session.outbox().send().await;
        match (taken, sent) {
            (Ok(Next::Go), Ok(())) => {}
            (Ok(Next::Close), Ok(())) => return Ended::Left,
            (Err(ended), _) => return ended,
            (_, Err(unsent)) => return unsent.into(),
        }
        if input.bytes.is_empty() {
            begun = None;
            input.release_memory();
            if parser.held_bytes() > READ_BYTES {
                parser.release_memory();
            }
            session.release_memory();
        } else if begun.is_none() || input.bytes.len() < before {
            begun = Some(Instant::now());
        }
        if !input.make_room() {
            session.finish().await;
            let what = "ERR the node has no room for a command as large as this one now: send less at once";
            session.outbox().replies().error(what);
            return session.outbox().send().await.map_or_else(Ended::from, |()| Ended::NoRoom);
        }
        if session.is_known() {
            // The client may have to authenticate again later, for example after RESET.
            stranger_since = Instant::now();
        }
        let until = match (session.is_known(), session.is_in_transaction(), begun) {
            (false, ..) => Some(stranger_since + AUTH_TIMEOUT),
            (true, _, Some(begun)) => Some(begun + COMMAND_READ_TIMEOUT),
            (true, true, None) => Some(Instant::now() + COMMAND_READ_TIMEOUT),
            // Idle connections have no time limit, because clients keep connections open for later use.
            (true, false, None) => None,
        };
        if session.holds_back() && input.bytes.is_empty() {
            match stop.run_until_cancelled(timeout(PAIR_WAIT, reader.read_buf(&mut input.bytes))).await {
                Some(Ok(Ok(bytes))) if bytes > 0 => continue,
                // No further command has arrived, or the client has closed its side.
                _ => session.finish().await,
            }
            if let Err(unsent) = session.outbox().send().await {
                return unsent.into();
            }
        }
        let reading = stop.run_until_cancelled(reader.read_buf(&mut input.bytes));
        let read = match until {
            None => reading.await,
            Some(until) => match timeout_at(until, reading).await {
                Ok(read) => read,
                Err(_) => {
                    session.finish().await;
                    // A client that finds its connection closed can still read the reason.
                    let what = timeout_error(session.is_known(), begun.is_some());
                    session.outbox().replies().error(what);
                    let _ = session.outbox().send().await;
                    return Ended::Late;
                }
            },
        };
        if !matches!(read, Some(Ok(bytes)) if bytes > 0) {
            session.finish().await;
            let _ = session.outbox().send().await;
            return Ended::Left;
        }
    }
}

/// Returns the error for a client that exceeded a time limit.
fn timeout_error(is_known: bool, has_begun: bool) -> &'static str {
    match (is_known, has_begun) {
        (false, _) => {
            "NOAUTH the connection is closed: a client must authenticate within 10 seconds of connecting (AUTH NAME TOKEN)"
        }
        (true, true) => "ERR the connection is closed: a command was not complete within 60 seconds",
        (true, false) => {
            "ERR the connection is closed: no command has arrived for 60 seconds after MULTI, and the queued \
             commands use memory. None of them was executed"
        }
    }
}

fn limits(session: &Session) -> Limits {
    if session.is_known() { Limits::default() } else { Limits::before_auth() }
}

/// Processes all complete commands in the buffer.
async fn take_all(parser: &mut Parser, input: &mut Input, session: &mut Session) -> Result<Next, Ended> {
    session.begin();
    let mut rest = &input.bytes[..];
    let mut next = Next::Go;
    let mut was_known = session.is_known();
    let mut commands = 0;
    while next == Next::Go {
        match parser.next(&mut rest) {
            Ok(None) => break,
            Ok(Some(command)) => next = session.take(command).await,
            Err(error) => {
                session.finish().await;
                session.outbox().replies().error(error);
                return Err(Ended::Protocol);
            }
        }
        if session.is_known() != was_known {
            was_known = !was_known;
            parser.set_limits(limits(session));
        }
        if session.outbox().replies().len() > REPLY_BYTES_MAX {
            session.outbox().send().await?;
        }
        commands += 1;
        if commands % TURN_COMMANDS == 0 {
            // Commands that never wait would otherwise block the other connections for as long as more commands arrive.
            yield_now().await;
        }
    }
    session.finish_read(!rest.is_empty()).await;
    let consumed_bytes = input.bytes.len() - rest.len();
    input.bytes.advance(consumed_bytes);
    if consumed_bytes >= TURN_BYTES {
        yield_now().await;
    }
    Ok(next)
}

/// Bytes that were read and have not been processed yet.
struct Input {
    bytes: BytesMut,
    /// Share of the common memory budget that this connection uses.
    taken: Option<OwnedSemaphorePermit>,
    room: Arc<Semaphore>,
}

impl Input {
    /// Reserves memory for another read. Returns `false` if other connections use the whole budget.
    fn make_room(&mut self) -> bool {
        let len = self.bytes.len();
        let capacity = self.bytes.capacity();
        let has_room = capacity - len >= READ_BYTES / 2;
        // The buffer doubles each time. Otherwise a long command would be copied for every read.
        let wanted = if has_room { capacity } else { (2 * len).max(len + READ_BYTES) };
        // The free allowance of a connection does not count. Otherwise long commands of other connections could prevent
        // even a short command.
        let permits = wanted.saturating_sub(FREE_BYTES).div_ceil(ROOM_BYTES);
        let have = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if permits > have {
            let more = u32::try_from(permits - have).unwrap_or(u32::MAX);
            match (self.room.clone().try_acquire_many_owned(more), &mut self.taken) {
                (Ok(more), Some(taken)) => taken.merge(more),
                (Ok(more), taken @ None) => *taken = Some(more),
                (Err(_), _) => return false,
            }
        }
        if !has_room {
            // A new buffer has exactly the requested capacity, whereas reserving in the old one may allocate more.
            let mut larger = BytesMut::with_capacity(wanted);
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        }
        true
    }

    /// Returns memory to the budget after all bytes have been processed.
    fn release_memory(&mut self) {
        self.taken = None;
        if self.bytes.capacity() > READ_BYTES {
            self.bytes = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use firstseen_backend::room;

    use super::*;

    #[test]
    fn what_is_taken_of_the_room_is_what_is_held() {
        let room = room(8 << 20);
        let all = room.available_permits();
        let mut input = Input { bytes: BytesMut::new(), taken: None, room: room.clone() };
        let mut moved = 0;
        while input.bytes.len() < 4 << 20 {
            let before = input.bytes.capacity();
            assert!(input.make_room());
            let held = (all - room.available_permits()) * ROOM_BYTES;
            let capacity = input.bytes.capacity();
            assert!(held + FREE_BYTES >= capacity && held < capacity.max(1), "{held} of {capacity}");
            moved += usize::from(capacity != before) * input.bytes.len();
            let read = (capacity - input.bytes.len()).min(READ_BYTES);
            assert!(read >= READ_BYTES / 2);
            input.bytes.extend_from_slice(&vec![0; read]);
        }
        assert!(moved < 12 << 20, "{moved} bytes were moved");
        // Other connections use the rest of the budget.
        let rest = room.clone().try_acquire_many_owned(room.available_permits() as u32).expect("the rest");
        input.bytes.extend_from_slice(&vec![0; input.bytes.capacity() - input.bytes.len()]);
        assert!(!input.make_room());
        drop(rest);
        input.bytes.clear();
        input.release_memory();
        assert_eq!(room.available_permits(), all);
        let mut short = Input { bytes: BytesMut::new(), taken: None, room: firstseen_backend::room(0) };
        short.bytes.extend_from_slice(&vec![0; READ_BYTES]);
        assert!(short.make_room() && short.taken.is_none(), "a short command needs none of it");
    }

    #[test]
    fn who_is_late_reads_why() {
        for (is_known, has_begun, why) in
            [(false, true, "authenticate within"), (true, true, "not complete"), (true, false, "MULTI")]
        {
            assert!(timeout_error(is_known, has_begun).contains(why));
        }
    }
}
