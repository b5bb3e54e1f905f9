//! An authority and what it signs.
//!
//! Promises: a node's certificate serves both ends of a connection, a client's only the connecting one. Must not know:
//! files.

use anyhow::Context;
use jiff::civil::Date;
use jiff::{ToSpan, Zoned};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// The holder of a certificate.
pub(super) struct Role {
    common_name: String,
    names: Vec<String>,
    serves: bool,
}

impl Role {
    /// A node, which accepts connections and opens its own.
    pub(super) fn node(name: &str, names: impl Iterator<Item = String>) -> Self {
        let mut unique: Vec<String> = Vec::new();
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        Self { common_name: format!("node {name}"), names: unique, serves: true }
    }

    /// A client of the nodes; `names` say what it may do there.
    pub(super) fn client(name: &str, names: Vec<String>) -> Self {
        Self { common_name: format!("client {name}"), names, serves: false }
    }

    /// Every name that the certificate bears.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }
}

/// The authority that signs.
pub(super) struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    /// A new authority.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(Issuer::new(authority_params()?, KeyPair::generate()?)))
    }

    /// The authority that has this key, as PEM.
    pub(super) fn with_key(pem: &str) -> anyhow::Result<Self> {
        let key = KeyPair::from_pem(pem).context("ca.key holds no private key that can sign")?;
        Ok(Self(Issuer::new(authority_params()?, key)))
    }

    /// Its own certificate, as PEM.
    pub(super) fn certificate(&self, days: u32) -> anyhow::Result<String> {
        let mut params = authority_params()?;
        limit(&mut params, days)?;
        Ok(params.self_signed(self.0.key())?.pem())
    }

    /// The authority's key, as PEM.
    pub(super) fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// A certificate and its key, as PEM.
    pub(super) fn issue(&self, role: &Role, days: u32) -> anyhow::Result<(String, String)> {
        let mut params = CertificateParams::new(role.names.clone())?;
        params.distinguished_name = named(&role.common_name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role.serves {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        limit(&mut params, days)?;
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.0)?.pem(), key.serialize_pem()))
    }
}

/// The parameters are the same for every authority that this command makes, so the key is all that a user must keep to
/// sign more.
fn authority_params() -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named("firstseen test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// The certificate is valid from yesterday, as clocks may differ, until `days` from now.
fn limit(params: &mut CertificateParams, days: u32) -> anyhow::Result<()> {
    let today = Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC).date();
    let at = |date: Date| date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs());
    params.not_before = at(today.yesterday()?);
    params.not_after = at(today.checked_add(i64::from(days).days())?);
    Ok(())
}
