//! Connections to Redis, of which each has one call in flight: what a pool of a user's client does.
//!
//! Promises: a call that finds every connection busy waits for its turn. Must not know: when calls are made.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::bail;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::redis::{EXPIRE_S, write_set};

/// Connections that are not busy.
pub(super) struct RedisPool {
    idle: Mutex<Vec<BufStream<TcpStream>>>,
    /// One for each connection that is not busy.
    permits: Semaphore,
}

impl RedisPool {
    pub(super) async fn connect(address: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let mut idle = Vec::with_capacity(connections);
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            idle.push(BufStream::new(stream));
        }
        Ok(Self { idle: Mutex::new(idle), permits: Semaphore::new(connections) })
    }

    /// Sets a key if it is not there.
    pub(super) async fn set_new(&self, key: [u8; 16]) -> anyhow::Result<()> {
        let _permit = self.permits.acquire().await?;
        let Some(mut connection) = self.idle().pop() else { bail!("an earlier call to redis has failed") };
        let mut request = Vec::new();
        let mut answer = String::new();
        write_set(&mut request, &key, EXPIRE_S)?;
        connection.write_all(&request).await?;
        connection.flush().await?;
        connection.read_line(&mut answer).await?;
        if answer != "+OK\r\n" && answer != "$-1\r\n" {
            bail!("redis answered {answer:?}");
        }
        self.idle().push(connection);
        Ok(())
    }

    fn idle(&self) -> MutexGuard<'_, Vec<BufStream<TcpStream>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
