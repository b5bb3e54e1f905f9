//! Server with the page of a real node, and with an overview that a test has prepared.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::http::get;

/// Script that adds what the browser has measured on the page to the document.
const PROBE: &str = "setInterval(() => { const root = document.documentElement; \
    root.dataset.wide = innerWidth; root.dataset.over = root.scrollWidth - innerWidth; \
    root.dataset.images = document.images.length; }, 200);";

/// Path of a script that is delivered late. The browser takes the document after all scripts have loaded.
const SLOW: &str = "/slow.js";

/// Server that runs for as long as the test process.
pub(super) struct Stub {
    pub(super) address: String,
}

impl Stub {
    /// Serves the page of the node at `real`, with this overview.
    pub(super) fn start(real: &str, overview: &Value) -> Self {
        let kept =
            ["/ui", "/ui/console.css", "/ui/console.js", "/ui/panes.js", "/ui/draw.js", "/ui/words.js", "/ui/icon.svg"];
        let mut policy = String::new();
        let mut files: BTreeMap<String, (String, String)> = BTreeMap::new();
        for path in kept {
            let answer = get(real, path);
            let kind = answer.header("content-type").expect("a type").to_owned();
            if path == "/ui" {
                policy =
                    answer.header("content-security-policy").expect("a policy").replace("frame-ancestors 'none'", "");
            }
            files.insert(path.to_owned(), (kind, answer.body));
        }
        // The page has the permissions that the node gives it, and may also be shown in a frame.
        let policy = format!("Content-Security-Policy: {policy}\r\n");
        let (_, page) = files.get_mut("/ui").expect("the page");
        *page = page.replace(
            "</head>",
            "<script src=\"/probe.js\" defer></script><script src=\"/slow.js\" async></script></head>",
        );
        files.insert("/probe.js".to_owned(), ("text/javascript".to_owned(), PROBE.to_owned()));
        for (path, width) in [("/phone", 390), ("/narrow", 320)] {
            // A window cannot be as narrow as a phone, but a frame can.
            let frame =
                format!("<!doctype html><iframe src=\"/ui\" width=\"{width}\" height=\"2300\" id=\"page\"></iframe>");
            let copied = "<script src=\"/copy.js\"></script>";
            files.insert(path.to_owned(), ("text/html".to_owned(), frame + copied));
        }
        let copy = "setInterval(() => { const inner = document.getElementById('page').contentDocument.documentElement; \
            Object.assign(document.documentElement.dataset, inner.dataset); }, 200);";
        files.insert("/copy.js".to_owned(), ("text/javascript".to_owned(), copy.to_owned()));
        files.insert("/api/v1/overview".to_owned(), ("application/json".to_owned(), overview.to_string()));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (files, event) = (Arc::new(files), Arc::new(format!("event: overview\ndata: {overview}\n\n")));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (files, event, policy) = (files.clone(), event.clone(), policy.clone());
                thread::spawn(move || serve(stream, &files, (&event, &policy)));
            }
        });
        Self { address }
    }
}

fn serve(mut stream: TcpStream, files: &BTreeMap<String, (String, String)>, (event, policy): (&str, &str)) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let (mut line, mut path) = (String::new(), String::new());
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some(asked) = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()) {
            path = asked.to_owned();
        }
        line.clear();
    }
    let closes = "Connection: close\r\nCache-Control: no-store";
    let answer = match files.get(&path) {
        _ if path == "/events" => {
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{closes}\r\n\r\n{event}")
        }
        Some((kind, body)) => {
            let policy = if path == "/ui" { policy } else { "" };
            let length = body.len();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{policy}{closes}\r\n\r\n{body}"
            )
        }
        None => format!("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n{closes}\r\n\r\n"),
    };
    if path == SLOW {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(3)));
        let _ = reader.read_to_end(&mut Vec::new());
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
        return;
    }
    // Writing fails if the browser has closed the connection, which is not an error.
    let _ = stream.write_all(answer.as_bytes());
    if path == "/events" {
        // The stream stays open until the browser closes it.
        let _ = reader.read_to_end(&mut Vec::new());
    }
}
