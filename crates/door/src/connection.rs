//! Reads the commands of one connection, and sends the replies.
//!
//! Promises: the door reads nothing more while replies are being sent, and closes the connection of a client that does not read them;
//! other connections have their turn, however much one sends; an incomplete command takes room that all connections share, and has to
//! be complete in time. This module must not depend on what commands do.

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

use crate::outbox::Unsent;
use crate::session::TURN_COMMANDS;
use crate::session::{Next, Session};

/// Greatest number of bytes of a read.
const READ_BYTES: usize = 64 << 10;
/// Bytes that a connection may hold without taking them from the room that all connections share.
const FREE_BYTES: usize = 2 * READ_BYTES;
/// Bytes of commands of one connection that are taken up before others have their turn.
const TURN_BYTES: usize = READ_BYTES / 4;
/// Bytes of replies after which they are sent before more commands are taken up.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// How long a client may take to send the rest of a command.
const REST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client may take to authenticate.
const STRANGER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long closing a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a `SETNX` at the end of a read waits for its `EXPIRE`, if the connection has sent such pairs before.
const PAIR_WAIT: Duration = Duration::from_millis(5);

/// Why a connection ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client has closed the connection, or sent `QUIT`.
    Left,
    /// The client has violated the protocol.
    Protocol,
    /// The client took too long.
    Late,
    /// There is no room for what the client sends.
    NoRoom,
}

impl From<Unsent> for Ended {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::Gone => Self::Left,
            Unsent::Late => Self::Late,
        }
    }
}

/// Serves a connection until it ends or `stop` is cancelled. Commands that have come by then are replied to.
pub(crate) async fn serve(
    mut reader: impl AsyncRead + Unpin,
    mut session: Session,
    room: Arc<Semaphore>,
    stop: &CancellationToken,
) -> Ended {
    let ended = talk(&mut reader, &mut session, room, stop).await;
    let closing = async {
        // So that the other end knows that nothing was cut off.
        session.outbox().close().await?;
        // A connection with bytes that nobody has read is reset, and then what the client was told may be lost on the way.
        let mut rest = vec![0; 4096];
        while matches!(ended, Ended::Protocol | Ended::NoRoom) && reader.read(&mut rest).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    let _ = timeout(CLOSE_TIMEOUT, closing).await;
    ended
}

async fn talk(
    reader: &mut (impl AsyncRead + Unpin),
    session: &mut Session,
    room: Arc<Semaphore>,
    stop: &CancellationToken,
) -> Ended {
    let mut input = Input { bytes: BytesMut::new(), taken: None, room };
    let mut parser = Parser::new(limits(session));
    // Since when it is not known who it is.
    let mut stranger_since = Instant::now();
    // When the command began that has not come whole.
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
            input.shed();
            if parser.held_bytes() > READ_BYTES {
                parser.shed();
            }
            session.shed();
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
        if session.holds_back() && input.bytes.is_empty() {
            match stop.run_until_cancelled(timeout(PAIR_WAIT, reader.read_buf(&mut input.bytes))).await {
                Some(Ok(Ok(bytes))) if bytes > 0 => continue,
                // Nothing more has come, or nothing more will.
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
                    // Whoever finds the connection closed reads why.
                    let what = too_late(session.is_known(), begun.is_some());
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

/// The error for a client that took too long.
fn too_late(is_known: bool, has_begun: bool) -> &'static str {
    match (is_known, has_begun) {
        (false, _) => {
            "NOAUTH the connection is closed: a client has to say within 10 seconds who it is (AUTH NAME TOKEN)"
        }
        (true, true) => "ERR the connection is closed: a command has not come whole within 60 seconds",
        (true, false) => {
            "ERR the connection is closed: no command has come for 60 seconds behind MULTI, and what waits for EXEC takes room. \
             Nothing of it was carried out"
        }
    }
}

fn limits(session: &Session) -> Limits {
    if session.is_known() { Limits::default() } else { Limits::before_auth() }
}

/// Takes up all complete commands.
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
            // Commands that wait for nothing would keep the others waiting for as long as more come.
            yield_now().await;
        }
    }
    session.finish_read(!rest.is_empty()).await;
    let taken_bytes = input.bytes.len() - rest.len();
    input.bytes.advance(taken_bytes);
    if taken_bytes >= TURN_BYTES {
        yield_now().await;
    }
    Ok(next)
}

/// Bytes that were read and not taken up yet.
struct Input {
    bytes: BytesMut,
    /// The part of the room of all connections that this one has taken.
    taken: Option<OwnedSemaphorePermit>,
    room: Arc<Semaphore>,
}

impl Input {
    /// Makes room for another read. Returns false if other connections have taken the room.
    fn make_room(&mut self) -> bool {
        let len = self.bytes.len();
        let capacity = self.bytes.capacity();
        let has_room = capacity - len >= READ_BYTES / 2;
        // Twice as much each time, or a long command would be moved for every read.
        let wanted = if has_room { capacity } else { (2 * len).max(len + READ_BYTES) };
        // What every connection may hold is not counted, or a short command would be refused for the long ones of others.
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
            // As large as was asked for: to reserve may take more.
            let mut larger = BytesMut::with_capacity(wanted);
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        }
        true
    }

    /// Gives the room back, once all bytes are taken up.
    fn shed(&mut self) {
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
        // Others have taken the rest.
        let rest = room.clone().try_acquire_many_owned(room.available_permits() as u32).expect("the rest");
        input.bytes.extend_from_slice(&vec![0; input.bytes.capacity() - input.bytes.len()]);
        assert!(!input.make_room());
        drop(rest);
        input.bytes.clear();
        input.shed();
        assert_eq!(room.available_permits(), all);
        let mut short = Input { bytes: BytesMut::new(), taken: None, room: firstseen_backend::room(0) };
        short.bytes.extend_from_slice(&vec![0; READ_BYTES]);
        assert!(short.make_room() && short.taken.is_none(), "a short command needs none of it");
    }

    #[test]
    fn who_is_late_reads_why() {
        for (is_known, has_begun, why) in
            [(false, true, "who it is"), (true, true, "come whole"), (true, false, "MULTI")]
        {
            assert!(too_late(is_known, has_begun).contains(why));
        }
    }
}
