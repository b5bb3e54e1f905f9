//! Checks connections with TLS on only one side, or to a wrong port. The error must come at once, and name the flags to
//! change.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::run::Folder;

/// Starts a server that sends `answer` to every connection and closes it. Returns the address of the server.
fn answering(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer);
        }
    });
    address
}

/// Alert that a TLS server sends to a client without TLS. It says that the server cannot decode the message.
const TLS_ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 50];
const HTTP1_ERROR: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
/// Settings frame of a server that speaks HTTP/2.
const HTTP2_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

const TLS: &str = "--tls-ca certs/ca.pem --tls-cert certs/admin.pem --tls-key certs/admin.key";

#[test]
fn mistaken_settings_are_errors_with_the_flags_to_change() {
    let folder = Folder::with("a\n");
    folder.run("certs --out certs --nodes a --clients app --admin").ok();
    let (tls, http1, plain) = (answering(TLS_ALERT), answering(HTTP1_ERROR), answering(HTTP2_SETTINGS));
    for (address, flags, words) in [
        (&tls, "", &["speaks TLS", "--tls-ca", "--tls-cert", "--tls-key"][..]),
        (&http1, "", &["answers HTTP/1", "port for health and metrics"]),
        (&http1, TLS, &["answers HTTP/1", "port for health and metrics"]),
        (&plain, TLS, &["does not speak TLS", "--tls-ca"]),
    ] {
        let words = [&[address.as_str()], words].concat();
        // A command that waits in vain for an answer ends with a different exit code.
        folder.run(&format!("cluster status --addr {address} {flags}")).fails(2, &words);
        folder.dedup(&format!("--cluster {address} --filter x {flags} input")).fails(2, &words);
    }
}
