//! Minimal client for HTTP/1.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Maximum time for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Answer to a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    fn head(reader: &mut impl BufRead) -> Self {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in `{line}`"));
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line).expect("a line");
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Self { status, headers, body: String::new() }
    }
}

/// Sends a request that closes its connection, and returns the answer.
pub(super) fn ask(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a limit");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut reader = BufReader::new(stream);
    let mut answer = Answer::head(&mut reader);
    reader.read_to_string(&mut answer.body).expect("text");
    answer
}

/// Sends a `GET` request.
pub(super) fn get(address: &str, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

/// Stream of overviews.
#[derive(Debug)]
pub(super) struct Events(BufReader<TcpStream>);

impl Events {
    /// Opens the stream of a node. Returns the node's answer as an error if the node refuses.
    pub(super) fn of(address: &str) -> Result<Self, Answer> {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a limit");
        write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
        let mut reader = BufReader::new(stream);
        let mut answer = Answer::head(&mut reader);
        if answer.status == 200 {
            assert_eq!(answer.header("content-type"), Some("text/event-stream"));
            return Ok(Self(reader));
        }
        let length = answer.header("content-length").and_then(|length| length.parse().ok()).expect("a length");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        answer.body = String::from_utf8(body).expect("text");
        Err(answer)
    }

    /// Returns the next overview.
    pub(super) fn next(&mut self) -> Value {
        // Events are sent in chunks, whose lengths are on lines of their own.
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).expect("a line in time") > 0, "the stream has ended");
            if let Some(json) = line.strip_prefix("data: ") {
                return serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
            }
        }
    }
}
