//! Scrapes metrics as Prometheus does.
//!
//! Each text is parsed by the strict parser of its format.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::exposition::{Format, Samples, read};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the headers and the body of `/metrics` at `address`, or `None` if the node does not answer.
pub(crate) fn get(address: &str, accept: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let accept = if accept.is_empty() { String::new() } else { format!("Accept: {accept}\r\n") };
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n{accept}Connection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 "), "{text}");
    Some((head.to_ascii_lowercase(), body.to_owned()))
}

/// Returns the samples at `address`, or `None` if the node does not answer.
pub(crate) fn scrape(address: &str) -> Option<Samples> {
    let (head, body) = get(address, "text/plain; version=0.0.4")?;
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    Some(read(&body, Format::Prometheus).unwrap_or_else(|error| panic!("{error}\n{body}")))
}
