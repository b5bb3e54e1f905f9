//! TLS on one side only, or the wrong port: the error comes at once, with the flags to change.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::run::Folder;

/// A server that sends `answer` to every connection and ends it; its address.
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

/// The alert of a server that speaks TLS for a client that does not: it cannot decode the message.
const TLS_ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 50];
const HTTP1_ERROR: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
/// The settings of a server that speaks HTTP/2.
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
        // A command that waits for an answer that cannot come ends with another code.
        folder.run(&format!("cluster status --addr {address} {flags}")).fails(2, &words);
        folder.dedup(&format!("--cluster {address} --filter x {flags} input")).fails(2, &words);
    }
}
