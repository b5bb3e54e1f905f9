//! Checks the validity dates of certificates.
//!
//! The module applies the same rules to validity dates as a TLS handshake does. If a certificate passes the check for a
//! given time, then a handshake at that time does not refuse the certificate because of its dates.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use crate::tls_error::TlsError;
use crate::tls_files::TlsFiles;

/// Certificate that is not valid, or will soon expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Path of the certificate's file.
    pub path: PathBuf,
    /// Whether the certificate belongs to the authority. A handshake does not check the dates of an authority.
    pub is_authority: bool,
    /// Problem with the validity dates.
    pub validity: Validity,
}

/// Problem with the validity dates of a certificate. Times are in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// The certificate becomes valid at this time.
    NotYet(u64),
    /// The certificate expired at this time.
    Over(u64),
    /// The certificate will expire at this time, which is near.
    EndsSoon(u64),
}

impl TlsFiles {
    /// Returns the certificates that are invalid at the time `now` because of their validity dates, and the
    /// certificates that expire within the period `soon` after that time. `now` is the time that has passed since 1970.
    ///
    /// # Errors
    /// Returns a [`TlsError`] that says which file cannot be used.
    pub fn doubts(&self, now: Duration, soon: Duration) -> Result<Vec<Doubt>, TlsError> {
        let mut doubts = Vec::new();
        for (path, is_authority) in [(&self.cert, false), (&self.ca, true)] {
            let certificates = certificates(path, is_authority)?;
            let found = certificates.iter().filter_map(|certificate| validity(certificate, now, soon));
            doubts.extend(found.map(|validity| Doubt { path: path.clone(), is_authority, validity }));
        }
        Ok(doubts)
    }

    /// Returns the earliest time at which a certificate in a file expires, in seconds since 1970. If `is_authority` is
    /// set, this is the file of the authority, and otherwise the file of the node. Returns `None` if the file contains
    /// no certificate.
    ///
    /// # Errors
    /// Returns a [`TlsError`] that says which file cannot be used.
    pub fn end_s(&self, is_authority: bool) -> Result<Option<u64>, TlsError> {
        let path = if is_authority { &self.ca } else { &self.cert };
        let ends_s =
            certificates(path, is_authority)?.into_iter().filter_map(|certificate| match refusal(&certificate, FAR) {
                Some(Validity::Over(end_s)) => Some(end_s),
                _ => None,
            });
        Ok(ends_s.min())
    }
}

/// Time since 1970 at which every certificate has expired, because years in certificates have four digits.
const FAR: Duration = Duration::from_secs(1 << 40);

/// Reads the certificates of a file.
fn certificates(path: &Path, is_authority: bool) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let what = if is_authority { "certificate authority" } else { "certificate" };
    let bytes = std::fs::read(path).map_err(|source| TlsError::Read { what, path: path.to_owned(), source })?;
    Ok(CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok).collect())
}

/// Returns the problem with the dates of a certificate, or `None` if it is valid.
fn validity(certificate: &CertificateDer<'_>, now: Duration, soon: Duration) -> Option<Validity> {
    match refusal(certificate, now) {
        None => match refusal(certificate, now + soon) {
            Some(Validity::Over(end_s)) => Some(Validity::EndsSoon(end_s)),
            _ => None,
        },
        refused => refused,
    }
}

/// Returns why a handshake at `time` would refuse the certificate because of its validity dates, or `None` if the dates
/// are valid. Other defects of the certificate do not affect the result, because a handshake checks the dates first.
pub(crate) fn refusal(certificate: &CertificateDer<'_>, time: Duration) -> Option<Validity> {
    let time = UnixTime::since_unix_epoch(time);
    let verified = EndEntityCert::try_from(certificate).map(|certificate| {
        certificate.verify_for_usage(&[], &[], &[], time, KeyUsage::client_auth(), None, None).err()
    });
    match verified.ok()?? {
        webpki::Error::CertExpired { not_after, .. } => Some(Validity::Over(not_after.as_secs())),
        webpki::Error::CertNotValidYet { not_before, .. } => Some(Validity::NotYet(not_before.as_secs())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    const DAY_S: u64 = 86_400;
    /// The first of January of 2030 and of 2031.
    const BEGIN_S: u64 = 1_893_456_000;
    const END_S: u64 = BEGIN_S + 365 * DAY_S;

    fn pem(is_authority: bool) -> String {
        let mut params = CertificateParams::new(vec!["node.firstseen".to_owned()]).expect("names");
        (params.not_before, params.not_after) = (date_time_ymd(2030, 1, 1), date_time_ymd(2031, 1, 1));
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").pem()
    }

    #[test]
    fn dates_are_those_of_the_certificate_and_of_the_authority() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = TlsFiles {
            ca: folder.path().join("ca.pem"),
            cert: folder.path().join("cert.pem"),
            key: folder.path().join("cert.key"),
        };
        std::fs::write(&files.ca, pem(true)).expect("a file");
        std::fs::write(&files.cert, pem(false)).expect("a file");
        let at = |time_s: u64| {
            let doubts = files.doubts(Duration::from_secs(time_s), Duration::from_secs(30 * DAY_S)).expect("files");
            assert!(doubts.len() != 1 && doubts.windows(2).all(|two| two[0].validity == two[1].validity), "{doubts:?}");
            assert!(doubts.is_empty() || (doubts[0].path == files.cert && doubts[1].is_authority));
            doubts.first().map(|doubt| doubt.validity)
        };
        assert_eq!(at(BEGIN_S - 1), Some(Validity::NotYet(BEGIN_S)));
        assert_eq!(at(BEGIN_S), None);
        assert_eq!(at(END_S - 30 * DAY_S), None);
        assert_eq!(at(END_S - 30 * DAY_S + 1), Some(Validity::EndsSoon(END_S)));
        assert_eq!(at(END_S), Some(Validity::EndsSoon(END_S)));
        assert_eq!(at(END_S + 1), Some(Validity::Over(END_S)));
        assert!(
            [false, true].iter().all(|is_authority| files.end_s(*is_authority).is_ok_and(|end_s| end_s == Some(END_S)))
        );
        std::fs::remove_file(&files.ca).expect("a file");
        assert!(files.doubts(Duration::ZERO, Duration::ZERO).is_err_and(|error| error.to_string().contains("ca.pem")));
    }
}
