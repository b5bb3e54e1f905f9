//! Pool of connections to Redis, as clients of applications use it. Each connection has at most one call in flight. If
//! all connections are in use, a call waits until a connection is free.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::bail;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::redis::{EXPIRE_S, write_set};

/// Connections that are not in use.
pub(super) struct RedisPool {
    idle: Mutex<Vec<BufStream<TcpStream>>>,
    /// Permits, one for each connection that is not in use.
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

    /// Sets a key if it does not exist.
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
