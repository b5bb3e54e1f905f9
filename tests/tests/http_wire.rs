//! Helpers that speak HTTP/1.1 on a plain connection, and start a node with an HTTP endpoint.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::run::Folder;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Node with an HTTP endpoint, which forms a cluster of its own.
pub(crate) struct HttpNode {
    pub(crate) node: OwnNode,
    pub(crate) port: u16,
    /// Port on which the node serves metrics.
    metrics_port: u16,
}

impl HttpNode {
    /// Starts a node whose endpoint has these settings. `others` contains further sections of its configuration.
    pub(crate) fn open_in(folder: Folder, settings: &str, others: &str) -> Self {
        let (port, metrics_port) = (free_ports(1), free_ports(1));
        let endpoint = format!(
            "http_listen = \"127.0.0.1:{metrics_port}\"\n{others}\n[http_api]\nlisten = \"127.0.0.1:{port}\"\nverdict_timeout_ms = 30000\n{settings}"
        );
        Self { node: OwnNode::start_in(folder, "a", &endpoint), port, metrics_port }
    }

    /// Starts a node with a filter `clicks`, whose window is an hour.
    pub(crate) fn start(settings: &str) -> Self {
        let endpoint = Self::open_in(Folder::new(), settings, "");
        endpoint.form("");
        endpoint.run("filter create clicks --capacity 100k --fpr 1e-8 --clock wall --window 1h");
        endpoint.opened();
        endpoint
    }

    pub(crate) fn form(&self, flags: &str) {
        let form = format!("cluster init --addr {} {flags}", self.node.address);
        eventually("a cluster", || self.node.folder.run(&form).code == Some(0));
    }

    pub(crate) fn run(&self, arguments: &str) -> String {
        self.node.folder.run(&format!("{arguments} --cluster {}", self.node.address)).ok().out
    }

    /// Waits until the endpoint replies.
    pub(crate) fn opened(&self) {
        opened(self.port);
    }

    /// Returns the value of a metric of the endpoint.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = HttpWire::at(self.metrics_port).ask("GET", "/metrics", &[], b"").text();
        let name = format!("firstseen_http_api_{name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&name));
        value.map_or(0, |value| value.parse::<f64>().expect("a number") as u64)
    }

    pub(crate) fn wire(&self) -> HttpWire {
        HttpWire::at(self.port)
    }

    /// Sends a request on a connection of its own, and returns the reply.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpReply {
        self.wire().ask(method, path, headers, body)
    }

    /// Sends a `POST` request with a JSON body, and returns the reply.
    pub(crate) fn post(&self, path: &str, body: &Value) -> HttpReply {
        self.ask("POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }
}

/// Waits until the endpoint at a port replies.
pub(crate) fn opened(port: u16) {
    eventually("an endpoint", || {
        HttpWire::to(port).is_some_and(|mut wire| wire.try_ask("GET", "/v1/filters").is_some())
    });
}

/// Connection to an HTTP endpoint.
pub(crate) struct HttpWire(BufReader<TcpStream>);

/// Reply to a request.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    /// Headers and trailers, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body is complete.
    pub(crate) is_whole: bool,
}

impl HttpReply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the kind of problem, if the reply is a problem document.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        let document = self.json();
        assert_eq!(document["status"], self.status, "{document}");
        let kind = document["type"].as_str().expect("a type");
        kind.strip_prefix("urn:firstseen:problem:").expect("a type of ours").to_owned()
    }
}

impl HttpWire {
    pub(crate) fn at(port: u16) -> Self {
        Self::to(port).expect("a connection")
    }

    pub(crate) fn to(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
        Some(Self(BufReader::new(stream)))
    }

    /// Returns the same connection, for a thread that writes.
    pub(crate) fn stream(&self) -> TcpStream {
        self.0.get_ref().try_clone().expect("a connection")
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.try_write(bytes).expect("it listens");
    }

    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.extend_from_slice(body);
        self.write(&bytes);
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpReply {
        self.send(method, path, headers, body);
        self.reply().expect("a reply")
    }

    /// Sends a request without a body and returns the reply, or `None` if the connection ends.
    pub(crate) fn try_ask(&mut self, method: &str, path: &str) -> Option<HttpReply> {
        self.try_write(format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).ok()?;
        self.reply()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Some(line.trim_end().to_owned()),
            _ => None,
        }
    }

    /// Returns the head of the next reply.
    pub(crate) fn head(&mut self) -> Option<HttpReply> {
        let status = self.line()?;
        let status = status.split(' ').nth(1)?.parse().unwrap_or_else(|_| panic!("no status line: {status}"));
        let mut reply = HttpReply { status, headers: Vec::new(), body: Vec::new(), is_whole: false };
        self.fields(&mut reply.headers)?;
        Some(reply)
    }

    fn fields(&mut self, fields: &mut Vec<(String, String)>) -> Option<()> {
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some(());
            }
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line}"));
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Returns the next chunk of a body, which is empty at the end of the body. Returns `None` if the connection ends.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.line()?;
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("no size: {size}"));
        let mut chunk = vec![0; size];
        self.0.read_exact(&mut chunk).ok()?;
        if size > 0 {
            self.line()?;
        }
        Some(chunk)
    }

    /// Returns the next reply, or `None` if the connection ends before the head of the reply is complete.
    pub(crate) fn reply(&mut self) -> Option<HttpReply> {
        let mut reply = self.head()?;
        if reply.header("transfer-encoding") == Some("chunked") {
            self.rest(&mut reply);
            return Some(reply);
        }
        let length = reply.header("content-length").map_or(0, |length| length.parse().expect("a length"));
        reply.body = vec![0; length];
        reply.is_whole = self.0.read_exact(&mut reply.body).is_ok();
        Some(reply)
    }

    /// Reads the rest of a reply whose body is sent in chunks.
    pub(crate) fn rest(&mut self, reply: &mut HttpReply) {
        while let Some(chunk) = self.chunk() {
            if chunk.is_empty() {
                reply.is_whole = self.fields(&mut reply.headers).is_some();
                return;
            }
            reply.body.extend_from_slice(&chunk);
        }
    }
}
