//! Finds out why no connection to an address can be made, by opening connections for this purpose alone.
//!
//! This module opens additional connections to the address. On each of them, it sends a few bytes and waits for the
//! answer, so the peer has no reason to close the connection before the answer has been read. If the answers do not
//! show a clear cause, the module reports no cause.

use std::io;

use rustls_pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as TlsError};

use crate::limits::CONNECT_TIMEOUT;
use crate::names::peer_name;
use crate::tls::ClientTls;

/// First bytes of an HTTP/2 connection, followed by an empty settings frame. The reaction of the peer shows which
/// protocol the peer speaks: an HTTP/2 peer answers with its own settings, an HTTP/1 peer with an error, and a TLS peer
/// with an alert.
const HTTP2_BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Number of bytes of an answer that are enough to tell the protocols apart.
const HEAD_BYTES: usize = 5;
const HTTP1_HEAD: [u8; HEAD_BYTES] = *b"HTTP/";
const TLS_ALERT: u8 = 21;
const TLS_MAJOR_VERSION: u8 = 3;
const HTTP2_SETTINGS: u8 = 4;

/// Permanent reason why no connection to an address can be made: the settings of the client or of the node are wrong,
/// so waiting does not help. Each variant says what was found at the address, and its message says how to correct the
/// settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Mismatch {
    /// The peer speaks TLS, but this side does not.
    #[error("speaks TLS: give the certificate of its authority, and one of your own or a token")]
    SpeaksTls,
    /// This side speaks TLS, but the peer does not.
    #[error("does not speak TLS: leave the certificates out, or give them to the node too")]
    SpeaksPlain,
    /// The peer speaks only HTTP/1.
    #[error("answers HTTP/1: is this a node's port for health and metrics?")]
    SpeaksHttp1,
    /// The peer speaks HTTP/2, but does not offer the service.
    #[error("answers, but not as a node: is this a node's port for health and metrics, or another program's?")]
    OtherService,
    /// Another authority has signed the peer's certificate.
    #[error("shows a certificate of another authority: give the one of its cluster")]
    UnknownAuthority,
    /// The peer's certificate is for another name.
    #[error("shows a certificate without the name `{expected}`: is it the node that is meant?")]
    OtherName {
        /// Name that the certificate must contain.
        expected: String,
    },
    /// The peer's certificate is not acceptable, for example because it has expired.
    #[error("shows a certificate that cannot be accepted ({reason}): give the node another, and compare the clocks")]
    Unacceptable {
        /// Error text of the TLS library.
        reason: String,
    },
    /// The peer requires a certificate, but this side presents none.
    #[error(
        "requires a certificate, and accepts no token in its place (its [tls] has no tokens = true): give a certificate"
    )]
    NeedsCertificate,
    /// The peer answers, but denies every request of this client.
    #[error("refuses: {reason}")]
    Refuses {
        /// Reason that the peer gave.
        reason: String,
    },
    /// The peer does not accept the certificate of this side.
    #[error("does not accept the certificate that it is shown ({reason}): give one that its authority has signed")]
    NotAccepted {
        /// TLS alert that the peer sent.
        reason: String,
    },
}

impl Mismatch {
    /// Returns whether the mismatch can be fixed by adding, changing or removing certificates.
    pub fn concerns_certificates(&self) -> bool {
        !matches!(self, Self::SpeaksHttp1 | Self::OtherService | Self::Refuses { .. })
    }
}

/// Protocol that a peer speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speech {
    Tls,
    Http1,
    Http2,
}

/// Returns why no connection to `address` can be made, or `None` if the reason cannot be determined.
pub(crate) async fn examine(address: &str, tls: Option<&ClientTls>, node_name: Option<&str>) -> Option<Mismatch> {
    let examining = async {
        match tls {
            Some(tls) => examine_tls(address, tls, &peer_name(node_name)).await,
            None => match speech(address).await? {
                Speech::Tls => Some(Mismatch::SpeaksTls),
                Speech::Http1 => Some(Mismatch::SpeaksHttp1),
                Speech::Http2 => None,
            },
        }
    };
    timeout(CONNECT_TIMEOUT, examining).await.ok().flatten()
}

async fn examine_tls(address: &str, tls: &ClientTls, expected: &str) -> Option<Mismatch> {
    let connector = tls.connector();
    let name = ServerName::try_from(expected.to_owned()).ok()?;
    let stream = TcpStream::connect(address).await.ok()?;
    let error = match connector.connect(name, stream).await {
        // The peer checks this side's certificate only after this side has completed its part of the handshake, so the
        // error shows when the first byte is read.
        Ok(mut stream) => stream.read_u8().await.err()?,
        Err(error) => error,
    };
    match tls_error(&error) {
        Some(TlsError::InvalidCertificate(reason)) => Some(match reason {
            // A bad signature means that the certificate was signed by a different authority with the same name, for
            // example the one of another cluster.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Mismatch::UnknownAuthority,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Mismatch::OtherName { expected: expected.to_owned() }
            }
            reason => Mismatch::Unacceptable { reason: reason.to_string() },
        }),
        Some(TlsError::AlertReceived(AlertDescription::CertificateRequired)) => Some(Mismatch::NeedsCertificate),
        Some(TlsError::AlertReceived(alert)) if concerns_certificate(*alert) => {
            Some(Mismatch::NotAccepted { reason: format!("{alert:?}") })
        }
        _ => match speech(address).await? {
            Speech::Http2 => Some(Mismatch::SpeaksPlain),
            Speech::Http1 => Some(Mismatch::SpeaksHttp1),
            Speech::Tls => None,
        },
    }
}

/// Returns the error of the TLS library that the error of a stream contains.
fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

fn concerns_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied
    )
}

/// Returns the protocol that the peer at `address` speaks on a connection that does not begin with TLS.
async fn speech(address: &str) -> Option<Speech> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(HTTP2_BEGINNING).await.ok()?;
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).await.ok()?;
    match head {
        HTTP1_HEAD => Some(Speech::Http1),
        [TLS_ALERT, TLS_MAJOR_VERSION, ..] => Some(Speech::Tls),
        [_, _, _, HTTP2_SETTINGS, _] => Some(Speech::Http2),
        _ => None,
    }
}
