//! Tests the nginx recipe of docs/reference/http.md, in which nginx asks the HTTP endpoint before it passes a request
//! on.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::http_clients::shown;
use crate::http_wire::{HttpNode, HttpWire};
use crate::local_cluster::eventually;
use crate::ports::free_ports;

/// Process of nginx, which ends with the test.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a backend that counts the requests passed on to it.
fn backend(port: u16) -> Arc<AtomicUsize> {
    let passed = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
    let counted = passed.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = reply(stream);
        }
    });
    passed
}

fn reply(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? > 0 {
        head.push(byte[0]);
    }
    stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\npassed\n")
}

#[test]
fn nginx_passes_on_what_is_seen_first() {
    if Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_err() {
        println!("NOT CHECKED: the recipe of docs/reference/http.md for nginx, as there is no nginx here");
        return;
    }
    let mut endpoint = HttpNode::start("");
    let (port, behind) = (free_ports(1), free_ports(1));
    let passed = backend(behind);
    let recipe = shown("http_nginx.rs", endpoint.port).replace("7431", &behind.to_string());
    let logs = "error_log stderr;\npid nginx.pid;\ndaemon off;\nmaster_process off;\nevents {}\n";
    let temporary =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {name};\n"));
    let temporary = temporary.concat();
    let config =
        format!("{logs}http {{\naccess_log off;\n{temporary}server {{\nlisten 127.0.0.1:{port};\n{recipe}}}\n}}\n");
    endpoint.node.folder.write("nginx.conf", config);
    let folder = endpoint.node.folder.path("");
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf"));
    let _nginx = Nginx(command.spawn().expect("nginx"));
    eventually("nginx", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let post = |event: &str| HttpWire::at(port).ask("POST", "/hooks/order", &[("X-Event-Id", event)], b"{}");
    let first = post("event-1");
    assert_eq!((first.status, first.text()), (200, "passed\n".to_owned()));
    let second = post("event-1");
    assert_eq!((second.status, second.text()), (200, "duplicate\n".to_owned()));
    assert_eq!(post("event-2").text(), "passed\n");
    assert_eq!(passed.load(Ordering::Relaxed), 2);
    // Without the endpoint no request is passed on, and the sender retries.
    endpoint.node.stop();
    assert_eq!((post("event-3").status, passed.load(Ordering::Relaxed)), (503, 2));
}
