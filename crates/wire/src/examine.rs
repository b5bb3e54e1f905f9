//! What answers at an address where no connection comes about.
//!
//! Promises: an answer rests on connections made for this question alone, which a peer has no reason to break off
//! before its answer is read; an answer that these do not show is left open. Must not know: who asks, how often the
//! address was tried before.

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

/// The beginning of an HTTP/2 connection, with settings that change nothing. A peer that speaks HTTP/2 answers with its
/// own settings, one that speaks HTTP/1 with an error, and one that speaks TLS with an alert.
const HTTP2_BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Bytes of an answer by which it differs from others.
const HEAD_BYTES: usize = 5;
const HTTP1_HEAD: [u8; HEAD_BYTES] = *b"HTTP/";
const TLS_ALERT: u8 = 21;
const TLS_MAJOR_VERSION: u8 = 3;
const HTTP2_SETTINGS: u8 = 4;

/// Why no connection to an address can be made, however long one waits: the settings of one of the two ends are wrong.
/// Each says what was seen at the address, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Mismatch {
    /// The peer speaks TLS, this end does not.
    #[error("speaks TLS: give the certificate of its authority, and one of your own or a token")]
    SpeaksTls,
    /// This end speaks TLS, the peer does not.
    #[error("does not speak TLS: leave the certificates out, or give them to the node too")]
    SpeaksPlain,
    /// The peer speaks HTTP/1 only.
    #[error("answers HTTP/1: is this a node's port for health and metrics?")]
    SpeaksHttp1,
    /// The peer speaks HTTP/2, and does not have the service.
    #[error("answers, but not as a node: is this a node's port for health and metrics, or another program's?")]
    OtherService,
    /// Another authority has signed the peer's certificate.
    #[error("shows a certificate of another authority: give the one of its cluster")]
    UnknownAuthority,
    /// The peer's certificate is someone else's.
    #[error("shows a certificate without the name `{expected}`: is it the node that is meant?")]
    OtherName {
        /// The name that it must have.
        expected: String,
    },
    /// The peer's certificate has expired, or the like.
    #[error("shows a certificate that cannot be accepted ({reason}): give the node another, and compare the clocks")]
    Unacceptable {
        /// What the TLS library says.
        reason: String,
    },
    /// This end shows none.
    #[error("asks for a certificate, and takes no token in its place (its [tls] has no tokens = true): give one")]
    NeedsCertificate,
    /// The peer answers, and refuses whatever this end may ask for.
    #[error("refuses: {reason}")]
    Refuses {
        /// What it says.
        reason: String,
    },
    /// The peer does not accept the certificate of this end.
    #[error("does not accept the certificate that it is shown ({reason}): give one that its authority has signed")]
    NotAccepted {
        /// The alert that it sends.
        reason: String,
    },
}

impl Mismatch {
    /// Whether certificates are to be given, changed or left out.
    pub fn concerns_certificates(&self) -> bool {
        !matches!(self, Self::SpeaksHttp1 | Self::OtherService | Self::Refuses { .. })
    }
}

/// The protocol that a peer speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speech {
    Tls,
    Http1,
    Http2,
}

/// Why no connection to `address` can be made, where that can be found out.
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
        // A peer judges the certificate of this end when this end has done its part already.
        Ok(mut stream) => stream.read_u8().await.err()?,
        Err(error) => error,
    };
    match tls_error(&error) {
        Some(TlsError::InvalidCertificate(reason)) => Some(match reason {
            // `BadSignature` is that of an authority of the same name, as another cluster's may have.
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

/// The error of the TLS library that an error of a stream holds.
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

/// The protocol that the peer at `address` speaks if the connection does not begin with TLS.
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
