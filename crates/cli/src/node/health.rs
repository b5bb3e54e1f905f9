//! Asks a node over plain TCP whether it is ready. Containers without a shell or other tools can use this as a health
//! check.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};

use super::HealthArgs;
use super::config_file::NodeFile;
use crate::exit::{FAILED, UsageError};

/// Time limit for each step of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of an answer in bytes: a status line, some headers and a sentence.
pub const ANSWER_BYTES_MAX: u64 = 16 << 10;

/// Runs `firstseen node health`.
pub(super) fn run(args: &HealthArgs) -> anyhow::Result<ExitCode> {
    let address = match &args.config {
        None => args.addr.clone(),
        Some(path) => match NodeFile::read(path, &[])?.node.http_listen {
            Some(address) => address.to_string(),
            None => bail!(UsageError(format!("{} has no http_listen: nothing to ask", path.display()))),
        },
    };
    match not_ready(&address)? {
        None => Ok(ExitCode::SUCCESS),
        Some(reason) => {
            notice!("firstseen: the node at {address} is not ready: {reason}");
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// Returns why the node at this address is not ready, or `None` if it is ready.
///
/// # Errors
/// Returns an error if the node does not answer.
pub fn not_ready(address: &str) -> anyhow::Result<Option<String>> {
    let answer = get(address, "/readyz", ANSWER_BYTES_MAX).with_context(|| format!("no answer from {address}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let is_ready = head.split(' ').nth(1) == Some("200");
    // Control characters in an answer could change the state of the terminal.
    let reason: String = body.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    Ok((!is_ready).then_some(reason))
}

/// Returns the answer to a request for `path`, limited to `bytes_max` bytes.
pub fn get(address: &str, path: &str, bytes_max: u64) -> anyhow::Result<String> {
    let mut addresses = address.to_socket_addrs()?;
    let Some(found) = addresses.next() else { bail!("`{address}` names no address") };
    let mut stream = TcpStream::connect_timeout(&found, REQUEST_TIMEOUT)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(bytes_max).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answered(answer: &'static str) -> ExitCode {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.extend(byte);
            }
            assert!(asked.starts_with(b"GET /readyz "));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let code = run(&HealthArgs { addr, config: None }).unwrap();
        serving.join().unwrap();
        code
    }

    #[test]
    fn only_200_is_ready() {
        assert_eq!(answered("HTTP/1.1 200 OK\r\n\r\nready"), ExitCode::SUCCESS);
        assert_eq!(answered("HTTP/1.1 503 Service Unavailable\r\n\r\nno leader"), ExitCode::from(FAILED));
        assert_eq!(answered("nonsense"), ExitCode::from(FAILED));
    }
}
